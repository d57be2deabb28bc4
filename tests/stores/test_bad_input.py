"""Bad input: each case its own error, and nothing left behind."""

from __future__ import annotations

from typing import Any

import pytest

from dbanon import errors
from tests.prerequisites import skip_case
from tests.stores.databases import (
    Database,
    PostgresqlDatabase,
    SqliteDatabase,
    inserts,
)
from tests.stores.people import load_people
from tests.stores.refusal import refuse

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

CASES: dict[str, tuple[type[errors.DbanonError], str, dict[str, Any]]] = {
    "unknown table": (errors.TableNotFound, 'Did you mean "people"', {"table": "poeple"}),
    "other case": (errors.TableNotFound, 'Did you mean "people"', {"table": "People"}),
    "unknown column": (errors.ColumnNotFound, 'Did you mean "age"', {"quasi_identifiers": ["aeg"]}),
    "unknown kept column": (errors.ColumnNotFound, 'Did you mean "site"', {"keep": ["sites"]}),
    "unknown sensitive column": (errors.ColumnNotFound, "sit", {"sensitive": ["sit"]}),
    "unknown key": (errors.ColumnNotFound, 'Did you mean "id"', {"key": ["idd"]}),
    "column with an empty name": (errors.ColumnNotFound, '""', {"quasi_identifiers": [""]}),
    "column with a NUL": (errors.ColumnNotFound, "", {"quasi_identifiers": ["a\0b"]}),
    "table with a NUL": (errors.InvalidName, "", {"table": "a\0b"}),
    "empty table": (errors.InvalidName, "not valid", {"table": ""}),
    "three parts": (errors.InvalidName, "not valid", {"table": "a.b.c"}),
    "open quote": (errors.InvalidName, "not valid", {"output": '"release.people'}),
    "k of one": (errors.InvalidParameter, "k must be", {"k": 1}),
    "negative k": (errors.InvalidParameter, "k must be", {"k": -3}),
    "k with a fraction": (errors.InvalidParameter, "k must be", {"k": 2.5}),
    "k as text": (errors.InvalidParameter, "k must be", {"k": "5"}),
    "k as truth": (errors.InvalidParameter, "k must be", {"k": True}),
    "k over rows": (errors.TooFewRecords, "Choose k=40 or less", {"k": 41}),
    "unknown method": (errors.UnknownMethod, 'Did you mean "mdav"', {"method": "mdva"}),
    "unknown option": (errors.UnknownOption, "no option", {"options": {"gama": 1}}),
    "unknown standardization": (errors.InvalidParameter, "zscore", {"standardize": "z"}),
    "unknown nulls": (errors.InvalidParameter, "category", {"nulls": "drop"}),
    "unknown recoding": (errors.InvalidParameter, "mean", {"recoding": "average"}),
    "budget over one": (errors.InvalidParameter, "0 to 1", {"max_suppression": 1.5}),
    "budget is no number": (errors.InvalidParameter, "0 to 1", {"max_suppression": float("nan")}),
    "negative seed": (errors.InvalidParameter, "seed", {"seed": -1}),
    "weight of nothing": (errors.InvalidParameter, "names no", {"weights": {"site": 1.0}}),
    "negative weight": (errors.InvalidParameter, "0 or more", {"weights": {"age": -1.0}}),
    "infinite weight": (errors.InvalidParameter, "numbers by", {"weights": {"age": float("inf")}}),
    "no quasi-identifier": (errors.InvalidParameter, "No quasi", {"quasi_identifiers": []}),
    "names as one text": (errors.InvalidParameter, "a list", {"quasi_identifiers": "age"}),
    "names that are none": (errors.InvalidParameter, "a list", {"quasi_identifiers": [1]}),
    "named twice": (errors.InvalidParameter, "more than once", {"quasi_identifiers": ["age"] * 2}),
    "named in two roles": (errors.InvalidParameter, "more than once", {"keep": ["age"]}),
    "key named twice": (errors.InvalidParameter, "twice", {"key": ["id", "id"]}),
    "text column": (errors.UnsupportedType, "takes numbers", {"quasi_identifiers": ["name"]}),
    "no rows at a time": (errors.InvalidParameter, "chunk_rows", {"chunk_rows": 0}),
    "kind of output": (errors.InvalidParameter, "output_kind", {"output_kind": "matview"}),
    "if_exists": (errors.InvalidParameter, "if_exists", {"if_exists": "append"}),
    "memory": (errors.MemoryLimit, "records were read so far", {"memory_limit": 1000}),
    "output is the source": (errors.OutputExists, 'if_exists="replace"', {"output": "people"}),
    "source replaced": (
        errors.OutputNotOurs,
        "drop it yourself",
        {"output": "people", "if_exists": "replace"},
    ),
    "output is the ledger": (errors.InvalidName, "ledger", {"output": "dbanon.release"}),
    "equal keys": (errors.DuplicateKeys, "more than once, 0 rows with NULL", {"key": ["twice"]}),
    "equal integer keys": (errors.DuplicateKeys, "more than once", {"key": ["same"]}),
    "NULL in a key": (errors.DuplicateKeys, "1 row with NULL in the key", {"key": ["hole"]}),
    "NULL in a key of two": (errors.DuplicateKeys, "with NULL", {"key": ["hole", "twice"]}),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input(database: Database, case: str) -> None:
    load_people(database)
    database.execute(
        "ALTER TABLE people ADD COLUMN twice " + database.types["text"],
        "ALTER TABLE people ADD COLUMN same integer",
        "ALTER TABLE people ADD COLUMN hole integer",
        "UPDATE people SET twice = 'a' || (id % 20), same = id % 20,"
        " hole = CASE WHEN id > 1 THEN id END",
    )
    error, message, options = CASES[case]
    refuse(database, error, message, **options)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_hardly_any_rows(database: Database, rows: int) -> None:
    database.load("people", {"x": "integer"}, [(1,)] * rows)
    refuse(database, errors.TooFewRecords, f"{rows} records", quasi_identifiers=["x"], k=2)


def test_unknown_schema(database: Database) -> None:
    load_people(database)
    if database.name == "sqlite":
        refuse(database, errors.TableNotFound, table="pubic.people")
        return
    schema = "main" if database.name == "duckdb" else "public"
    refuse(database, errors.SchemaNotFound, f'"{schema}"', table=f"{schema[:-1]}x.people")


def test_an_output_that_exists_and_is_not_ours(database: Database) -> None:
    load_people(database)
    database.make_schema("release")
    database.execute(f"CREATE TABLE {database.relation('release.people')} (x integer)")
    refuse(database, errors.OutputExists, "already exists")
    refuse(database, errors.OutputNotOurs, "was not made by dbanon", if_exists="replace")
    database.execute(
        f"DROP TABLE {database.relation('release.people')}",
        f"CREATE VIEW {database.relation('release.people')} AS SELECT * FROM people",
    )
    refuse(database, errors.OutputNotOurs, if_exists="replace", output_kind="view")


def test_embedded_databases_know_no_case(database: Database) -> None:
    if database.name == "postgresql":
        skip_case("names that differ in case are two names in PostgreSQL")
    load_people(database)
    refuse(database, errors.OutputExists, output="PEOPLE")
    refuse(database, errors.OutputNotOurs, output="PEOPLE", if_exists="replace")


def test_other_objects_of_that_name(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    postgresql.make_schema("release")
    for statement, name in (
        ("CREATE SEQUENCE release.a", "a"),
        ("CREATE INDEX b ON people (age)", "b"),
        ("CREATE MATERIALIZED VIEW release.c AS SELECT 1 AS x", "c"),
    ):
        postgresql.execute(statement)
        where = "public" if name == "b" else "release"
        refuse(postgresql, errors.OutputExists, output=f"{where}.{name}")
    postgresql.execute("CREATE TYPE release.d AS ENUM ('x')")
    refuse(postgresql, errors.OutputExists, output="release.d")


def test_a_view_and_a_foreign_table_need_a_key(database: Database) -> None:
    load_people(database, table="base")
    database.execute("CREATE VIEW people AS SELECT * FROM base")
    error = refuse(database, errors.KeyRequired, "is a view")
    assert 'key=["…"]' in str(error.hint)
    if database.name == "postgresql":
        database.execute(
            "CREATE EXTENSION file_fdw",
            "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
            "CREATE FOREIGN TABLE abroad (age integer, height integer) SERVER files"
            " OPTIONS (filename '/dev/null')",
        )
        refuse(database, errors.KeyRequired, "is a foreign table", table="abroad")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("INTEGER", 5, "secret"),
        ("INTEGER", 5, 1.5),
        ("REAL", 0.5, "secret"),
        ("DECIMAL(10,2)", 1.25, "1,25"),
        ("DATE", "2020-01-01", "01.02.2020"),
        ("DATE", "2020-01-01", ""),
        ("DATE", "2020-01-01", "now"),
        ("DATE", "2020-01-01", "NaT"),
        ("DATE", "2020-01-01", "2021-02-29"),
        ("DATE", "2020-01-01", 2458849.5),
        ("DATE", "2020-01-01", "2020-01-01 10:00:00"),
        ("TIMESTAMP", "2020-01-01 00:00:00", "2020-01-01 24:00:00"),
        ("TIMESTAMP", "2020-01-01 00:00:00", "2020-01-01T00:00:00Z"),
        ("TIMESTAMP", "2020-01-01T00:00:00", "2020-01-01 00:00:00+02:00"),
        ("TIMESTAMP", "2020-01-01", 1577836800),
    ],
)
def test_values_of_sqlite_that_are_not_what_they_declare(
    sqlite_file: SqliteDatabase, kind: str, good: Any, bad: Any
) -> None:
    sqlite_file.load("people", {"x": kind}, [(good,)] * 8)
    assert sqlite_file.anonymize(quasi_identifiers=["x"], output="fine").classes == 1
    sqlite_file.execute(*inserts("people", [(bad,)]))
    error = refuse(sqlite_file, errors.MixedTypes, "1 of its values", quasi_identifiers=["x"])
    assert f"declares {kind}" in error.message


@pytest.mark.parametrize("kind", ["json", "integer[]", "interval", "bytea", "point"])
def test_columns_that_are_no_numbers(postgresql: PostgresqlDatabase, kind: str) -> None:
    postgresql.load("people", {"x": kind, "y": "integer"}, [(None, 1)] * 5)
    refuse(postgresql, errors.UnsupportedType, f"of type {kind}", quasi_identifiers=["x"])
