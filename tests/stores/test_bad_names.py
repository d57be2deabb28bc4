"""Names that SQL, a driver or a format might take for something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dbanon
from dbanon import errors
from tests.stores.databases import (
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
    inserts,
    quote,
)
from tests.stores.people import load_people
from tests.stores.refusal import refuse

AWKWARD = [
    "Zip Code",
    'a""b',
    "select",
    "MiXed",
    "100%",
    "%s",
    "a%sb%%",
    "what?",
    "a:b",
    ":name",
    "it's",
    "$1",
    "$2::tid",
    "{x}",
    "é€",
    "back\\slash",
    "semi;colon--",
    "/* comment */",
    "tab\there",
]
# Column names in dbanon's own statements, and the longest name.
PLAIN = ["s", "class", "position", "key0", "v0", "size", "null_in_class", "ctid_", "x" * 63]
NAMES = AWKWARD + PLAIN


@pytest.mark.parametrize("with_key", [True, False])
def test_awkward_names_of_columns(database: Database, with_key: bool) -> None:
    columns = {'the "id"?%s': "integer" + (" PRIMARY KEY" if with_key else "")}
    columns |= dict.fromkeys(NAMES, "integer")
    rows = [tuple(i * (j + 1) % 13 for j in range(len(columns))) for i in range(12)]
    rows = [(i, *row[1:]) for i, row in enumerate(rows)]
    database.load("people", columns, rows)
    half = len(NAMES) // 2
    for first, second in ((NAMES[:half], NAMES[half:]), (NAMES[half:], NAMES[:half])):
        report = database.anonymize(
            quasi_identifiers=first, keep=second[:5], sensitive=second[5:], if_exists="replace"
        )
        assert report.quasi_identifiers == tuple(first)
        names = ", ".join(quote(name) for name in first)
        smallest = database.rows(
            f"SELECT min(n) FROM (SELECT count(*) AS n FROM {database.relation('release.people')}"
            f" GROUP BY {names}) AS classes"
        )
        assert smallest == [(report.k_achieved,)]


@pytest.mark.in_turn
@pytest.mark.parametrize("option", ["table", "output", "where", "quasi_identifiers", "exports"])
def test_halves_of_characters_are_refused_before_anything_is_read(
    database: Database, option: str
) -> None:
    # The command line produces these from bytes that are not UTF-8.
    load_people(database)
    half = "age \udcff.csv"
    options: dict[str, Any] = {"quasi_identifiers": ["age"]}
    options |= {option: half if option in ("table", "output", "where") else [half]}
    refuse(database, errors.InvalidParameter, **options)


# No engine decides of plain names.
@pytest.mark.parametrize(
    "name", [*AWKWARD, 'x"y.z', *(pytest.param(name, marks=pytest.mark.in_turn) for name in PLAIN)]
)
def test_awkward_names_of_tables(database: Database, name: str) -> None:
    rows = [(i, i) for i in range(9)]
    if database.name == "sqlite":
        database.execute(
            f"CREATE TABLE {quote(name)} (x integer, kept integer)", *inserts(quote(name), rows)
        )
        source = quote(name)
    else:
        schema = "Off the %s ? path"
        database.execute(
            f"CREATE SCHEMA {quote(schema)}",
            f"CREATE TABLE {quote(schema)}.{quote(name)} (x integer, kept integer)",
            *inserts(f"{quote(schema)}.{quote(name)}", rows),
        )
        source = f"{quote(schema)}.{quote(name)}"
    output = name[:49]
    ways: list[dict[str, str]] = [{}]
    if name in AWKWARD[: 5 if database.name == "sqlite" else 2]:
        view = {"output": f"v_{output}"[:49], "output_kind": "view"}
        ways += [{"if_exists": "replace"}, view, view | {"if_exists": "replace"}]
    for how in ways:
        options: dict[str, Any] = {"output": output} | how
        options["output"] = f"{quote('Out ? %')}.{quote(options['output'])}"
        report = database.anonymize(table=source, quasi_identifiers=["x"], keep=["kept"], **options)
        assert report.rows_out == 9


def test_awkward_names_travel(
    make_database: Callable[[str], Database], sqlite_file: SqliteDatabase
) -> None:
    rows = [tuple([i] * len(NAMES)) for i in range(9)]
    sqlite_file.load("people", dict.fromkeys(NAMES, "integer"), rows)
    for name in ("duckdb", "postgresql"):
        target = make_database(name)
        report = sqlite_file.anonymize(
            quasi_identifiers=NAMES[:3], keep=NAMES[3:], target=target.url
        )
        assert report.rows_out == 9
        again = target.anonymize(
            table="release.people",
            output="release.again",
            quasi_identifiers=NAMES[:3],
            keep=NAMES[3:],
            target=DuckdbDatabase(sqlite_file.path.parent / f"{name}.duckdb").url,
        )
        assert again.rows_out == 9


def test_names_that_are_too_long(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    for options in (
        {"table": "x" * 64},
        {"table": f"{'x' * 64}.people"},
        {"output": f"{'é' * 32}.people"},
        {"output": f"release.{'é' * 32}"},
        {"output": f"release.{'x' * 64}", "output_kind": "view"},
    ):
        refuse(postgresql, errors.NameTooLong, "64 bytes long", **options)


def test_an_output_may_have_the_longest_name_there_is(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    for kind in ("table", "view"):
        for name in ("x" * 63, "é" * 31):
            output = f"release_{kind}.{name}"
            for _ in range(2):
                report = postgresql.anonymize(
                    table="people",
                    quasi_identifiers=["age"],
                    k=3,
                    output=output,
                    output_kind=kind,
                    if_exists="replace",
                )
                assert report.output == output
                assert postgresql.rows(f'SELECT count(*) FROM release_{kind}."{name}"') == [(40,)]
            # PostgreSQL would cut the name of a summary to that of the output.
            assert len(dbanon.drop(postgresql.url, output)) == (2 if kind == "view" else 1)


@pytest.mark.parametrize(
    "declared", ["INT, extra TEXT", "INT) --", 'INT "x" y', "INT CHECK (0)", "INT DEFAULT 7", ""]
)
def test_a_declared_type_stays_a_type(sqlite_file: SqliteDatabase, declared: str) -> None:
    """SQLite takes any quoted text for the type of a column."""
    quoted = '"' + declared.replace('"', '""') + '"' if declared else ""
    sqlite_file.execute(f"CREATE TABLE odd (a INTEGER, b {quoted})")
    for i in range(9):
        sqlite_file.execute(f"INSERT INTO odd VALUES ({i}, {i})")
    report = sqlite_file.anonymize(
        table="odd", quasi_identifiers=["a"], keep=["b"], k=3, output="released"
    )
    assert report.rows_out == 9
    columns = sqlite_file.rows("SELECT name, type FROM pragma_table_xinfo('released')")
    before = sqlite_file.rows("SELECT name, type FROM pragma_table_xinfo('odd')")
    assert columns == before


def test_bounds_of_a_long_name(database: Database) -> None:
    """PostgreSQL would cut ``NAME_low`` and ``NAME_high`` to one name."""
    name = "x" * 60
    rows = [(i, i % 7) for i in range(12)]
    database.load("people", {"id": "integer PRIMARY KEY", name: "integer"}, rows)
    options: dict[str, Any] = {
        "quasi_identifiers": [name],
        "k": 3,
        "method": "gaa_cp",
        "intervals": "bounds",
    }
    if database.name != "postgresql":
        assert database.anonymize(**options).k_achieved >= 3
        return
    before = database.state()
    with pytest.raises(errors.NameTooLong, match="x_low"):
        database.anonymize(**options)
    assert database.state() == before


def test_a_name_too_long_for_the_target(
    duckdb_file: DuckdbDatabase, postgresql: PostgresqlDatabase
) -> None:
    name = "x" * 64
    rows = [(i, i % 7, i) for i in range(12)]
    duckdb_file.load(
        "people", {"id": "integer PRIMARY KEY", "age": "integer", name: "integer"}, rows
    )
    before = postgresql.state()
    with pytest.raises(errors.NameTooLong, match="column"):
        duckdb_file.anonymize(quasi_identifiers=["age"], keep=[name], k=3, target=postgresql.url)
    assert postgresql.state() == before
