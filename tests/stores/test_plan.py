"""Plans: refused if the run would be, equal to its result, and without side effects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon import errors
from dbanon.doors.cli.main import main
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

OPTIONS: dict[str, Any] = {
    "table": "people",
    "output": "release.people",
    "quasi_identifiers": ["age", "income"],
    "sensitive": ["site"],
    "k": 4,
}


def command(name: str, database: Database, *more: str) -> Result:
    words = ["--table", "people", "--quasi-identifiers", "age,income", "--sensitive", "site"]
    words += ["--k", "4", "--output", "release.people", *more]
    return CliRunner().invoke(main, [name, database.url, *words], env={"COLUMNS": "200"})


def bytes_of(database: Database) -> bytes:
    """All that a file holds; nothing of a server."""
    path = getattr(database, "path", None)
    return b"" if path is None else Path(path).read_bytes()


@pytest.mark.parametrize("cluster", [False, True])
def test_a_plan_changes_nothing_and_says_what_comes(database: Database, cluster: bool) -> None:
    load_people(database)
    before, file_bytes = database.state(), bytes_of(database)
    planned = dbanon.plan(database.url, **OPTIONS, cluster=cluster)
    assert (database.state(), bytes_of(database)) == (before, file_bytes)
    report = database.anonymize(**OPTIONS)
    assert (planned.source, planned.output) == (report.source, report.output)
    assert (planned.rows, planned.not_copied) == (report.rows_in, report.not_copied)
    assert (planned.k, planned.guarantee) == (report.k_requested, report.guarantee)
    assert planned.replaces is None
    assert [c.name for c in planned.quasi_identifiers] == list(report.quasi_identifiers)
    assert [c.kind for c in planned.quasi_identifiers] == ["integer", "decimal"]
    clustering = planned.clustered
    assert (clustering is not None) is cluster
    if clustering is not None:
        assert clustering.information_loss == report.information_loss
        assert (clustering.classes, clustering.smallest_class) == (
            report.classes,
            report.smallest_class,
        )
        assert (clustering.largest_class, clustering.suppressed) == (report.largest_class, 0)


def test_a_plan_of_what_is_replaced(database: Database) -> None:
    load_people(database)
    database.anonymize(**OPTIONS, output_kind="view")
    before = database.state()
    planned = dbanon.plan(database.url, **OPTIONS, output_kind="view", if_exists="replace")
    assert (planned.output_kind, planned.replaces) == ("view", "view")
    assert database.state() == before


def test_rows_with_a_null_are_counted(database: Database) -> None:
    load_people(database)
    database.execute(f"UPDATE {database.relation('people')} SET age = NULL WHERE id <= 3")
    more = {"nulls": "suppress", "max_suppression": 1}
    planned = dbanon.plan(database.url, **OPTIONS, **more, cluster=True)
    assert (planned.rows, planned.withheld) == (40, 3)
    assert planned.clustered is not None
    assert planned.clustered.suppressed == 3


REFUSALS: dict[str, dict[str, Any]] = {
    "no table": {"table": "nobody"},
    "no column": {"quasi_identifiers": ["age", "size"]},
    "text": {"quasi_identifiers": ["name"], "sensitive": []},
    "two roles": {"keep": ["age"]},
    "orders of a number": {"orders": {"age": ["a", "b"]}},
    "a hierarchy in nobody's table": {
        "quasi_identifiers": ["site"],
        "sensitive": [],
        "method": "gaa_cp",
        "hierarchies": {"site": {"table": "trees"}},
    },
    "the output is there": {"output": "people"},
    "the ledger's name": {"output": "dbanon.release"},
    "a key that is no column": {"key": ["number"]},
    "not ours": {"output": "people", "if_exists": "replace"},
    "persons of no column": {"entity": "nobody"},
}


@pytest.mark.in_turn
@pytest.mark.parametrize("name", REFUSALS)
def test_a_plan_is_refused_as_the_run_is(database: Database, name: str) -> None:
    load_people(database)
    before = database.state()
    with pytest.raises(errors.DbanonError) as planned:
        dbanon.plan(database.url, **OPTIONS | REFUSALS[name])
    assert database.state() == before
    with pytest.raises(errors.DbanonError) as run:
        dbanon.anonymize(database.url, **OPTIONS | REFUSALS[name])
    assert planned.value.to_dict() == run.value.to_dict()


NULLS = "UPDATE {} SET age = NULL WHERE id <= 3"
COUNTED: dict[str, tuple[str | None, dict[str, Any]]] = {
    "NULLs": (NULLS, {}),
    "NULLs of two columns": ("UPDATE {} SET age = NULL, income = NULL WHERE id <= 3", {}),
    "a pattern of NULLs": (NULLS, {"nulls": "category"}),
    "too many withheld": (NULLS, {"nulls": "suppress", "max_suppression": 0.05}),
    "too few left": (
        "UPDATE {} SET age = NULL WHERE id > 3",
        {"nulls": "suppress", "max_suppression": 1},
    ),
    "fewer rows than k": (None, {"k": 50}),
    "no rows": ("DELETE FROM {}", {}),
    "strata": (None, {"by": ["name"], "sensitive": []}),
    "strata of NULL": ("UPDATE {} SET name = CASE WHEN id > 2 THEN 'a' END", {"by": ["name"]}),
    "strata and patterns": (
        "UPDATE {} SET name = 'a', age = CASE WHEN id > 2 THEN age END",
        {"by": ["name"], "nulls": "category"},
    ),
    "strata without rows": ("DELETE FROM {}", {"by": ["name"], "sensitive": []}),
    "nobody's rows": ("UPDATE {} SET name = NULL WHERE id <= 3", {"entity": "name"}),
    "few persons": ("UPDATE {} SET name = 'a' WHERE id > 3", {"entity": "name", "k": 5}),
    "chosen rows": (None, {"where": "id <= 3"}),
}


@pytest.mark.parametrize("name", COUNTED)
def test_nulls_and_strata_are_counted_always(database: Database, name: str) -> None:
    """A plan says of them what the run says, without reading a row."""
    load_people(database)
    statement, more = COUNTED[name]
    if statement is not None:
        database.execute(statement.format(database.relation("people")))
    before = database.state()
    with pytest.raises(errors.DbanonError) as planned:
        dbanon.plan(database.url, **OPTIONS | more)
    assert database.state() == before
    with pytest.raises(errors.DbanonError) as run:
        dbanon.anonymize(database.url, **OPTIONS | more)
    assert planned.value.to_dict() == run.value.to_dict()


def test_what_is_feasible_is_planned(database: Database) -> None:
    load_people(database)
    people = database.relation("people")
    database.execute(
        f"UPDATE {people} SET name = CASE WHEN id > 20 THEN 'a' ELSE 'b' END",
        f"UPDATE {people} SET age = NULL WHERE id <= 5",
    )
    for more in (
        {"nulls": "category"},
        {"nulls": "category", "by": ["name"]},
        {"nulls": "suppress", "max_suppression": 0.125, "by": ["name"]},
        {"nulls": "category", "entity": "id"},
    ):
        dbanon.plan(database.url, **OPTIONS | more, if_exists="replace")
        dbanon.anonymize(database.url, **OPTIONS | more, if_exists="replace")


def test_what_needs_more_memory_than_allowed(database: Database) -> None:
    load_people(database)
    with pytest.raises(errors.MemoryLimit, match="more than 1000 bytes"):
        dbanon.plan(database.url, **OPTIONS, memory_limit=1000)


def test_a_target_that_is_not_there_is_not_made(database: Database, tmp_path: Path) -> None:
    load_people(database)
    for kind, ending in (("duckdb", "duckdb"), ("sqlite", "db")):
        path = tmp_path / f"fresh.{ending}"
        planned = dbanon.plan(database.url, **OPTIONS, target=f"{kind}:///{path}", cluster=True)
        assert planned.output.endswith("people")
        assert not path.exists()
    with pytest.raises(errors.DatabaseNotFound, match="no directory"):
        dbanon.plan(database.url, **OPTIONS, target=f"duckdb:///{tmp_path}/none/fresh.duckdb")
    with pytest.raises(errors.NotADatabase):
        dbanon.plan(database.url, **OPTIONS, target=f"duckdb:///{tmp_path}/people.csv")


def test_the_command(database: Database) -> None:
    load_people(database)
    before = database.state()
    done = command("plan", database, "--format", "json", "--cluster")
    assert (done.exit_code, done.stderr) == (0, "")
    plan_json = json.loads(done.stdout)
    assert plan_json == json.loads(
        json.dumps(dbanon.plan(database.url, **OPTIONS, cluster=True).to_dict())
    ) | {"memory_limit": plan_json["memory_limit"], "clustered": plan_json["clustered"]}
    assert plan_json["clustered"]["classes"] == 10
    done = command("plan", database)
    assert "quasi-identifier age" in done.stdout
    assert "classes: number" not in done.stdout
    assert database.state() == before
    for more, code in (
        (["--table", "nobody"], 2),
        (["--k", "1"], 2),
        (["--cluster", "--k", "50"], 3),
        (["--output", "people"], 2),
    ):
        run, planned = (command(name, database, *more) for name in ("anonymize", "plan"))
        if "--cluster" in more:
            run = command("anonymize", database, *more[1:])
        assert (planned.exit_code, planned.stderr) == (code, run.stderr)
        assert run.exit_code == code


def test_a_url_is_known_by_its_slashes(duckdb_file: DuckdbDatabase) -> None:
    load_people(duckdb_file)
    words = ["plan", str(duckdb_file.path), "--table", "people", "-q", "age", "--k", "4"]
    done = CliRunner().invoke(main, [*words, "--output", "release.people"])
    assert done.exit_code == 2
    assert "://" in done.stderr


@pytest.mark.postgresql
@pytest.mark.parametrize("of_another_database", [False, True])
def test_a_plan_says_that_nothing_can_be_written(
    postgresql: PostgresqlDatabase, duckdb_file: DuckdbDatabase, of_another_database: bool
) -> None:
    read = duckdb_file if of_another_database else postgresql
    load_people(read)
    url = f"{postgresql.url}{'&' if '?' in postgresql.url else '?'}"
    url += "options=-c%20default_transaction_read_only%3Don"
    options = {**OPTIONS, "target": url} if of_another_database else OPTIONS
    database = read.url if of_another_database else url
    for call in (dbanon.plan, dbanon.anonymize):
        with pytest.raises(errors.ReadOnly, match="may only read"):
            call(database, **options)


@pytest.mark.postgresql
def test_the_transaction_of_a_plan_only_reads(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    sql: list[str] = []
    assert dbanon.plan(postgresql.url, **OPTIONS, on_sql=sql.append).rows == 40
    assert "SET TRANSACTION READ ONLY" in sql
