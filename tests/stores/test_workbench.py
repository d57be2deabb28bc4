"""The workbench over each database: all steps, and nothing of few rows in anything that it tells."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dbanon.doors.workbench.state import Workbench
from tests.doors.workbench.client import STEPS, Client, said, workbench
from tests.stores.databases import Database

# What one row has, or fewer than k have, in any spelling that a page could give it.
PLANTED = ("zyxomma", "98765", "98,765", "1899-07", "July 1899", "QX77")
# Keys and digests of random digits.
_RANDOM = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,}|[\w-]{22,}")
COLUMNS = {"id": "integer", "born": "date", "code": "text", "area": "text", "pay": "integer",
           "illness": "text", "note": "text"}  # fmt: skip


def rows(n: int = 400) -> list[list[Any]]:
    """Invented persons; four of them have what nobody else has."""
    found: list[list[Any]] = [
        [
            i + 10_000_000,
            f"{1950 + i * 7 % 40}-{1 + i * 5 % 12:02d}-{1 + i * 3 % 28:02d}",
            ("A10", "A12", "B20", "B25")[i * 3 % 4],
            ("north", "south", "east")[i % 3],
            1000 + i * 37 % 900,
            ("flu", "asthma", "gout")[i * 5 % 3],
            f"note {i % 50}",
        ]
        for i in range(n)
    ]
    for i in range(4):
        found[i * 50][1:] = ["1899-07-03", "QX77", "zyxomma", 98765, "zyxomma petiolatum",
                             "zyxomma"]  # fmt: skip
    return found


@pytest.fixture
def loaded(database: Database) -> Database:
    database.load("people", {name: database.types[kind] for name, kind in COLUMNS.items()}, rows())
    return database


@pytest.fixture
def client(
    loaded: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBANON_URL", loaded.url)
    with workbench(loaded.url, "people", tmp_path, key=("id",)) as found:
        yield found


def decided(client: Client, **roles: str) -> str:
    """Decide on roles, by name; of other columns as they stand."""
    names = list(client.routes.bench.roles)
    fields = client.form(client.page("columns"), "columns")
    fields |= {f"role-{names.index(name)}": role for name, role in roles.items()}
    fields |= {f"reason-{names.index(n)}": "of no person" for n, r in roles.items() if r == "keep"}
    return client.sent("columns", fields)


ROLES = {
    "id": "identifier", "born": "quasi_identifier", "code": "quasi_identifier", "note": "drop",
    "area": "quasi_identifier", "pay": "quasi_identifier", "illness": "sensitive",
}  # fmt: skip


def swept(client: Client, **more: Any) -> str:
    fields = {"from": 3, "to": 5, "sample": 2000, "seed": 0, "limit": 60, "method": ["gaa_cp"]}
    return client.done("sweep", fields | more)


def trees(client: Client, **kinds: str) -> dict[str, str]:
    names = list(client.routes.bench.roles)
    return {f"tree-{names.index(name)}": kind for name, kind in kinds.items()}


def all_steps(client: Client) -> Workbench:
    """From columns to a release and its report, and every page once more."""
    bench = client.routes.bench
    assert "others may know it" in said(client.page("columns"))
    decided(client, **ROLES)
    grown = trees(client, born="dates", code="mask", area="suggest", pay="intervals")
    place = list(bench.roles).index("pay")
    page = said(client.done("trees", grown | {f"intervals-{place}": "100, 500"}))
    assert "1950s" in page
    assert "A1*" in page
    assert "north" in page
    assert "[1000, 1500)" in page
    page = said(swept(client))
    assert "Releases that were tried" in page
    client.sent("choose", {"point": "gaa_cp/4", "next": "compare"})
    page = client.done("job", client.form(client.page("job"), "job") | {"report": "yes"})
    assert client.routes.bench.tasks.current.error is None
    page = said(client.done("plan", {}))
    assert "row-wise k-anonymity" in page
    page = said(client.done("run", {}))
    assert bench.made is not None
    assert f"Released: {bench.made.output}" in page
    both = f"compare?a=t%2Fgaa_cp%2F4&b=r%2F{bench.made.output}"
    client.get(both)
    page = said(client.page(both))
    assert "k counted" in page
    assert "Each bin holds no row or many" in page
    report = client.page("report")
    assert "Loss against risk" in report
    assert "this release" in report
    for step in STEPS:
        client.page(step)
    return bench


def test_all_steps_and_nothing_of_few_rows(client: Client, loaded: Database) -> None:
    """A search of every answer, those on the way included."""
    bench = all_steps(client)
    assert bench.made is not None
    told = [_RANDOM.sub("", f"{one.headers} {one.body}") for one in client.answers]
    assert len(told) > 20
    for planted in PLANTED:
        # Planted where it can be found: the source has it.
        assert not [text for text in told if planted.lower() in text.lower()], planted
    [(classes, fewest)] = loaded.rows(
        "SELECT count(*), min(size) FROM (SELECT count(*) AS size FROM"
        f" {loaded.relation('release.people')} GROUP BY born, code, area, pay) AS c"
    )
    assert classes > 1
    assert fewest >= 4
    # What a monthly run does.
    assert {path.name for path in Path().glob("people*")} == {"people-4.csv", "people.yaml"}
    assert oct(os.stat("people.yaml").st_mode)[-3:] == "600"


@pytest.mark.in_turn
def test_values_are_planted_where_they_could_be_seen(client: Client) -> None:
    """The same pages tell what enough rows have."""
    bench = client.routes.bench
    decided(client, **ROLES)
    client.done("trees", trees(client, area="suggest", born="dates"))
    tree = bench.trees["area"].tree
    assert "zyxomma" in tree.labels
    page = client.page("trees")
    assert "zyxomma" not in page
    assert "south" in page
    assert "under 5" in page


@pytest.mark.in_turn
def test_persons_are_counted_where_they_have_several_rows(
    database: Database, tmp_path: Path
) -> None:
    """A value of one person's many rows is the value of one."""
    kinds = {"patient_id": "integer", "area": "text", "age": "integer"}
    given = [[i // 2, ("north", "south")[i // 2 % 2], 20 + i // 2 % 30] for i in range(200)]
    given += [[1000, "zyxomma", 40]] * 30
    database.load("people", {name: database.types[kind] for name, kind in kinds.items()}, given)
    with workbench(database.url, "people", tmp_path) as client:
        assert client.routes.bench.entity == "patient_id"
        client.done("trees", trees(client, area="suggest"))
        page = client.page("trees")
        assert "Persons below each label" in page
        assert "north" in page
        assert "zyxomma" not in page
        assert [
            (one.bar.label, one.bar.rows)
            for one in client.routes.bench.trees["area"].counts.root.below
        ] == [("north", 50), ("south", 50)]


@pytest.mark.in_turn
def test_what_is_known_is_not_tried_again(client: Client) -> None:
    bench = client.routes.bench
    decided(client, **ROLES)
    swept(client)
    first = bench.tasks.current
    client.sent("choose", {"point": "gaa_cp/3"})
    swept(client)
    assert bench.tasks.current is first
    swept(client, to=4)
    second = bench.tasks.current
    assert second is not first
    swept(client)
    assert bench.tasks.current is second
    assert {point.k for point in bench.swept.points} == {3, 4, 5}
    swept(client, again="yes")
    assert bench.tasks.current is not second
    # Other roles are another sweep.
    decided(client, pay="drop")
    assert bench.swept is None
    assert bench.chosen is None


@pytest.mark.in_turn
@pytest.mark.parametrize(
    "name",
    ["../people.yaml", "/tmp/people.yaml", "a/b.yaml", "..yaml", ".people.yaml", "people.sh",
     "people.yaml\n", "p eople.yaml", "$(id).yaml", "a\x00.yaml", "é.yaml", "a..yaml", "a" * 99 + ".yaml", ""],
)  # fmt: skip
def test_a_job_file_goes_nowhere_else(client: Client, tmp_path: Path, name: str) -> None:
    decided(client, **ROLES)
    before = sorted(tmp_path.iterdir())
    form = client.form(client.page("job"), "job")
    if name.strip() != "people.yaml":
        assert client.post("job", form | {"file": name}).status == 422
        assert client.post("job", form | {"place": name}).status in (303, 422)
    client.wait()
    assert {path.name for path in tmp_path.iterdir()} <= {p.name for p in before} | {"people.yaml"}
    assert not Path("/tmp/people.yaml").exists()


@pytest.mark.in_turn
def test_a_file_that_it_did_not_write_stays(client: Client, tmp_path: Path) -> None:
    decided(client, **ROLES)
    mine, elsewhere = tmp_path / "people.yaml", tmp_path / "elsewhere"
    form = client.form(client.page("job"), "job")
    for make in (lambda: mine.write_text("mine"), lambda: mine.symlink_to(elsewhere)):
        elsewhere.write_text("mine")
        make()
        page = client.sent("job", form)
        assert "which this workbench did not write" in page
        assert mine.read_text() == "mine"
        mine.unlink()
    client.done("job", form)
    # Its own is written again, unless somebody changed it.
    client.done("job", form)
    assert client.routes.bench.tasks.current.error is None
    mine.write_text(mine.read_text() + "# mine\n")
    assert "changed since" in client.sent("job", form)
    assert "# mine" in mine.read_text()
    client.done("job", form | {"replace": "yes"})
    assert "# mine" not in mine.read_text()
    # A link is replaced, and what it leads to stays.
    mine.unlink()
    mine.symlink_to(elsewhere)
    client.done("job", form | {"replace": "yes"})
    assert not mine.is_symlink()
    assert elsewhere.read_text() == "mine"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".dbanon")]


@pytest.mark.in_turn
@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("columns", {"role-0": "by"}, "one of the roles"),
        ("columns", {"role-0": "keep"}, "has no reason"),
        ("columns", {f"role-{i}": "drop" for i in range(7)}, "No column is a quasi-identifier"),
        ("trees", {"tree-1": "mask"}, "takes no tree of this kind"),
        ("trees", {"tree-1": "file", "file-1": "../people.yaml"}, "that are there"),
        ("trees", {"tree-1": "name", "name-1": "none"}, "that are there"),
        ("trees", {"tree-4": "intervals", "intervals-4": "1e999"}, "must be numbers"),
        ("trees", {"tree-4": "intervals", "intervals-4": "x"}, "must be numbers"),
        ("sweep", {"from": 2, "to": 500}, "41 at most"),
        ("sweep", {"from": "1e3"}, "must be a whole number"),
        ("sweep", {"from": "٣"}, "must be a whole number"),
        ("sweep", {"from": 3, "to": 4, "method": "exact"}, "that are offered"),
        ("choose", {"point": "gaa_cp/4"}, "that were tried"),
        ("job", {"file": "a.yaml", "name": "a b", "output": "x"}, "letters, digits"),
        ("job", {"file": "a.yaml", "name": "a", "output": "x.y"}, "without a schema"),
        ("job", {"file": "a.yaml", "name": "a", "output": "x", "export": "exe"}, "exported"),
        ("job", {"file": "a.yaml", "name": "a", "output": "x", "schedule": "* * * * ;"}, "cron"),
    ],
)
def test_only_what_is_offered_is_taken(
    client: Client, tmp_path: Path, name: str, fields: dict[str, Any], why: str
) -> None:
    decided(client, **ROLES)
    whole = {"columns": client.form(client.page("columns"), "columns"),
             "sweep": {"from": 3, "to": 4, "sample": 2000, "seed": 0, "limit": 9}}  # fmt: skip
    before = client.routes.bench.decided
    answer = client.post(name, whole.get(name, {}) | fields)
    assert answer.status == 422
    assert why in said(answer.body)
    assert 'role="alert"' in answer.body
    assert client.routes.bench.decided == before
    assert not (tmp_path / "a.yaml").exists()


def test_hostile_names(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the table, its columns and its labels, in pages, pictures, files and the job file."""
    from tests.doors.html.pages import HOSTILE

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DBANON_URL", database.url)
    table = '<b>"; DROP --{{x}} #'
    label = '</code><script>alert(1)</script>{{ 7 * 7 }}"\'&'
    kinds = {"id": "integer", **dict.fromkeys(HOSTILE[:2], "text"), HOSTILE[2]: "integer",
             HOSTILE[3]: "text", HOSTILE[4]: "text"}  # fmt: skip
    given = [[i, label, f"{label}{i % 3}", i % 30, label, "x"] for i in range(120)]
    database.load(table, {name: database.types[kind] for name, kind in kinds.items()}, given)
    quoted = '"' + table.replace('"', '""') + '"'
    with workbench(database.url, quoted, tmp_path, key=("id",)) as client:
        roles = dict(zip(kinds, ("identifier", "drop", "quasi_identifier", "quasi_identifier",
                                 "sensitive", "keep"), strict=True))  # fmt: skip
        decided(client, **roles)
        client.done("trees", trees(client, **{HOSTILE[1]: "suggest"}))
        swept(client)
        client.sent("choose", {"point": "gaa_cp/4"})
        form = client.form(client.page("job"), "job")
        client.done("job", form | {"report": "yes"})
        client.done("plan", {})
        assert "Released" in said(client.done("run", {}))
        output = client.routes.bench.made.output
        client.get(f"compare?b=r%2F{output}")
        for step in (*STEPS, "report"):
            client.page(step)
        shown = said(client.page("trees"))
        # As they are, not as a template or a browser would read them.
        assert f"{label}0" in shown
        assert "{{x}}" in shown
    for answer in client.answers:
        assert "<script>alert" not in answer.body
        assert "<img" not in answer.body
        assert "<b>" not in answer.body
        assert not any("\n" in value or "\r" in value for value in answer.headers.values())
    assert {path.name for path in tmp_path.iterdir() if path.suffix in (".yaml", ".csv")} == {
        "b-DROP-x.yaml", "b-DROP-x-3.csv",
    }  # fmt: skip
