"""The workbench over each database: all steps, and nothing of few rows in all that it tells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbanon.extensions.workbench.state import Workbench
from tests.doors.workbench.client import STEPS, Client, text_of, workbench
from tests.doors.workbench.people import (
    COLUMNS,
    PLANTED,
    RANDOM,
    ROLES,
    decide_roles,
    rows,
    swept,
    trees,
)
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES


@pytest.fixture
def loaded(database: Database) -> Database:
    database.load("people", {name: database.types[kind] for name, kind in COLUMNS.items()}, rows())
    return database


@pytest.fixture
def client(loaded: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBANON_URL", loaded.url)
    with workbench(loaded.url, "people", tmp_path, key=("id",)) as client_of_bench:
        yield client_of_bench


def all_steps(client: Client, kinds: tuple[str, ...]) -> Workbench:
    """From columns to a release and its report, then every page once more."""
    bench = client.routes.bench
    assert "others may know it" in text_of(client.page("columns"))
    decide_roles(client, **ROLES)
    grown = trees(client, born="dates", code="mask", area="suggest", pay="intervals")
    index = list(bench.roles).index("pay")
    page = text_of(client.done("trees", grown | {f"intervals-{index}": "100, 500"}))
    assert "1950s" in page
    assert "A1*" in page
    assert "north" in page
    assert "[1000, 1500)" in page
    page = text_of(swept(client))
    assert "Releases that were tried" in page
    client.sent("choose", {"point": "gaa_cp/4", "next": "compare"})
    page = client.page("job")
    offered = re.findall(r'<option value="(view|table)"', page)
    assert offered == list(kinds)
    page = client.done("job", client.form(page, "job") | {"report": "yes"})
    assert client.routes.bench.tasks.current.error is None
    page = text_of(client.done("plan", {}))
    assert "row-wise k-anonymity" in page
    page = text_of(client.done("run", {}))
    assert bench.published_release is not None
    assert f"Released: {bench.published_release.output}" in page
    both = f"compare?a=t%2Fgaa_cp%2F4&b=r%2F{bench.published_release.output}"
    page = text_of(client.page(both))
    assert "k counted" in page
    assert "Each bin is empty or contains many rows" in page
    report = client.page("report")
    assert "Loss against risk" in report
    assert "this release" in report
    for step in STEPS:
        client.page(step)
    return bench


def test_all_steps_and_nothing_of_few_rows(client: Client, loaded: Database) -> None:
    """A search of every answer, those on the way included."""
    # MariaDB releases no views.
    bench = all_steps(client, ("table",) if loaded.name == "mariadb" else ("view", "table"))
    assert bench.published_release is not None
    texts = [RANDOM.sub("", f"{answer.headers} {answer.body}") for answer in client.answers]
    assert len(texts) > 20
    for planted in PLANTED:
        # Planted where it can be found: the source has it.
        assert not [text for text in texts if planted.lower() in text.lower()], planted
    [(classes, fewest)] = loaded.rows(
        "SELECT count(*), min(size) FROM (SELECT count(*) AS size FROM"
        f" {loaded.relation('release.people')} GROUP BY born, code, area, pay) AS c"
    )
    assert classes > 1
    assert fewest >= 4
    # The steps of a monthly run.
    assert {path.name for path in Path().glob("people*")} == {"people.tree-4.csv", "people.yaml"}
    assert oct(os.stat("people.yaml").st_mode)[-3:] == "600"


@pytest.mark.in_turn
def test_persons_are_counted_where_they_have_several_rows(
    database: Database, tmp_path: Path
) -> None:
    """A value of one person's many rows is the value of one."""
    kinds = {"patient_id": "integer", "area": "text", "age": "integer"}
    table_rows = [[i // 2, ("north", "south")[i // 2 % 2], 20 + i // 2 % 30] for i in range(200)]
    table_rows += [[1000, "zyxomma", 40]] * 30
    database.load(
        "people", {name: database.types[kind] for name, kind in kinds.items()}, table_rows
    )
    with workbench(database.url, "people", tmp_path) as client:
        assert client.routes.bench.entity == "patient_id"
        client.done("trees", trees(client, area="suggest"))
        page = client.page("trees")
        assert "Persons below each label" in page
        assert "north" in page
        assert "zyxomma" not in page
        assert [
            (row.bar.label, row.bar.rows)
            for row in client.routes.bench.trees["area"].counts.root.children
        ] == [("north", 50), ("south", 50)]
