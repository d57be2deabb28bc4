"""Hints of jobs, methods and doors are followed as they are printed."""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from tests.doors.hint_cases import Case
from tests.doors.hint_doors import Call
from tests.doors.hint_list import text_of
from tests.doors.hint_steps import CSV, Steps, World, hint_of
from tests.doors.hints_jobs import BY_NAME, COMMANDS, FRAMES, IN_POSTGRESQL
from tests.doors.hints_workbench import IN_WORKBENCH, FormSteps
from tests.doors.job_steps import OF_TABLES
from tests.doors.test_hints_followed import at_doors, door_of, pattern, people, try_case
from tests.doors.workbench import client as browser
from tests.doors.workbench.people import COLUMNS, ROLES, decide_roles, load, rows
from tests.stores.databases import PostgresqlDatabase

pytestmark = pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
_BASE = {
    "table": "people",
    "quasi_identifiers": ["age", "size"],
    "k": 4,
    "releases": "independent",
}


@dataclass(frozen=True)
class ServerWorld(World):
    """A folder, and a database of a server."""

    address: str

    @property
    def url(self) -> str:
        return self.address


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A folder with a database, a chain of its table and a key."""
    folder = tmp_path_factory.mktemp("hints")
    with closing(sqlite3.connect(folder / "people.sqlite")) as connection:
        people().to_sql("people", connection, index=False)
        for name in ("measured", "labs"):
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM people")
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT i AS id, CAST(999 - i % 3 AS DECIMAL(3, 0)) AS age,"
            " i / 7 AS size, [i % 2] AS tags FROM range(40) AS r(i);"
            "CREATE VIEW as_text AS SELECT id, CAST(age AS INTEGER) AS age, tags::text AS tags,"
            " size::text AS size FROM people;"
            "CREATE VIEW drawn AS SELECT * FROM people WHERE random() < 0.5"
        )
    (folder / "rows.csv").write_text(CSV)
    (folder / "foreign").mkdir()
    with duckdb.connect(str(folder / "foreign" / "persons.duckdb")) as connection:
        connection.execute("CREATE SCHEMA app; CREATE TABLE app.person (id INTEGER)")
    (folder / "key").write_text("00" * 32)
    (folder / "key").chmod(0o600)
    world = World(folder)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(folder)
        world.cli(
            "chain create {url} open --table people --entity id --changes show"
            " --key-out {path}/people.key"
        )
        world.cli(
            "chain create {url} measured --table measured --entity id --changes show"
            " --mode measure --key-out {path}/measured.key"
        )
        yield world


@pytest.mark.parametrize(("case", "door"), at_doors(OF_TABLES))
def test_a_hint_for_a_table_can_be_followed(case: Case, door: str, world: World) -> None:
    call = Call(world.url, _BASE).with_options(case.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try_case(case, door_of(door, world.path), call)


def follow(steps: Steps, world: World, text: str | None = None) -> None:
    """Raise the error, then take each way out."""
    text = text_of(steps.hint) if text is None else text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hint = hint_of(steps.wrong, world)
        assert pattern(text).match(hint), (text, hint)
        for act in steps.right:
            act(world)


@pytest.mark.parametrize("steps", [*COMMANDS, *FRAMES], ids=lambda steps: steps.hint[:40])
def test_a_hint_in_words_can_be_followed(steps: Steps, world: World) -> None:
    follow(steps, world)


@pytest.mark.parametrize("steps", BY_NAME, ids=lambda steps: steps.hint[:40])
def test_a_hint_that_has_a_name_can_be_followed(steps: Steps, world: World) -> None:
    follow(steps, world, steps.hint)


@pytest.mark.parametrize("steps", IN_POSTGRESQL, ids=lambda steps: steps.hint[:40])
def test_a_hint_of_postgresql_can_be_followed(steps: Steps, pg_url: str, tmp_path: Path) -> None:
    PostgresqlDatabase(pg_url).execute(
        "CREATE TABLE late AS SELECT i AS id, timestamp '294276-12-31' AS moment"
        " FROM generate_series(1, 6) AS r(i);"
        "CREATE VIEW early AS SELECT id, moment - interval '9000 years' AS moment FROM late;"
        "CREATE TABLE unknown AS SELECT * FROM early UNION ALL SELECT id, NULL FROM late",
    )
    follow(steps, ServerWorld(tmp_path, pg_url))


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[browser.Client]:
    """A workbench on invented persons, with roles."""
    monkeypatch.chdir(tmp_path)
    columns = [f"{name} {kind}" for name, kind in COLUMNS.items()]
    url = load(tmp_path, "people", columns, rows())
    with browser.workbench(url, "people", tmp_path, key=("id",)) as client:
        decide_roles(client, **ROLES)
        yield client


@pytest.mark.parametrize("steps", IN_WORKBENCH, ids=lambda steps: steps.hint[:40])
def test_a_hint_of_the_workbench_can_be_followed(steps: FormSteps, client: browser.Client) -> None:
    text = pattern(text_of(steps.hint)).pattern.removesuffix(r"\Z")
    assert re.search(text, browser.text_of(steps.wrong(client)))
    for act in steps.right:
        act(client)
