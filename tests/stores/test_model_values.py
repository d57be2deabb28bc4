"""Which values of a sensitive column are one value, and how they are ordered, by type."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import dbanon
from dbanon.errors import InvalidParameter, MixedTypes, ModelInfeasible
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database, PostgresqlDatabase, SqliteDatabase
from tests.stores.refusal import refuse

DAYS = [date(2020, 1, 1) + timedelta(days=9 * i) for i in range(4)]
VALUES: dict[str, list[Any]] = {
    "text": ["", " ", "a", "A"],
    "integer": [-5, 3, 20, 100],
    "bigint": [2**62, 2**62 + 1, -(2**62), 0],
    "double": [-1.5, 0.25, 1e300, 7.0],
    "decimal": [Decimal("2.50"), Decimal("10.00"), Decimal("-3.25"), Decimal("0.01")],
    "date": DAYS,
    "timestamp": [datetime(2020, 1, 1, 10, i, 0, 125_000 * i) for i in range(4)],
}
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age"], "sensitive": ["ill"], "method": "gaa_cp"}
FOUR = dbanon.Model("distinct_l", "ill", 4)


def load(database: Database, kind: str, values: list[Any]) -> None:
    rows = [(i, i // 2, values[i % len(values)]) for i in range(24)]
    database.load("people", {"id": "INTEGER PRIMARY KEY", "age": "INTEGER", "ill": kind}, rows)


def test_values_of_every_type(database: Database) -> None:
    names = {kind: f"ill_{kind}" for kind in VALUES}
    columns = {"id": "INTEGER PRIMARY KEY", "age": "INTEGER"}
    columns |= {name: database.types[kind] for kind, name in names.items()}
    rows = [(i, i // 2, *(values[i % 4] for values in VALUES.values())) for i in range(24)]
    database.load("people", columns, rows)
    options = {**OPTIONS, "sensitive": [*names.values()]}
    models = [
        model
        for name in names.values()
        for model in (
            dbanon.Model("distinct_l", name, 4),
            dbanon.Model("t_closeness", name, 0.2, distance="ordered"),
        )
    ]
    report = database.anonymize(**options, models=models)
    assert [level.achieved for level in report.models[::2]] == [4] * len(names)
    assert max(level.achieved for level in report.models[1::2]) <= 0.2
    for name in names.values():
        refuse(
            database,
            ModelInfeasible,
            "4 distinct values",
            **options,
            output="release.x",
            models=[dbanon.Model("distinct_l", name, 5)],
        )


def test_a_hierarchy_of_timestamps_is_refused(database: Database) -> None:
    load(database, database.types["timestamp"], VALUES["timestamp"])
    tree = dbanon.Hierarchy.from_levels([["2020", "*"]])
    model = dbanon.Model("t_closeness", "ill", 0.2, distance=tree)
    refuse(database, InvalidParameter, "timestamps", **OPTIONS, models=[model])


def test_names_are_names(database: Database) -> None:
    names = {"id": "INTEGER PRIMARY KEY", 'a"? %s': "INTEGER", "value": "INTEGER"}
    names |= {"v0 :x": database.types["text"], "class": "INTEGER"}
    database.load("people", names, [(i, i, i, "abcd"[i % 4], i % 3) for i in range(24)])
    report = database.anonymize(
        quasi_identifiers=['a"? %s', "value"],
        sensitive=["v0 :x", "class"],
        method="gaa_cp",
        models=[
            dbanon.Model("distinct_l", "v0 :x", 3),
            dbanon.Model("t_closeness", "class", 0.3, distance="ordered"),
        ],
    )
    assert report.models[0].achieved >= 3


def test_two_zeros_are_one_value(database: Database) -> None:
    load(database, database.types["double"], [0.0, "-0.0"])
    error = refuse(
        database, ModelInfeasible, **OPTIONS, models=[dbanon.Model("distinct_l", "ill", 2)]
    )
    assert "1 distinct values" in str(error)


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("char(3)", ["a", "b", "bc", "c"]),
        ("mood", ["sad", "ok", "glad", "angry"]),
        ("uuid", [f"00000000-0000-4000-8000-00000000000{i}" for i in range(4)]),
        ("jsonb", ["1", '"1"', "[1]", "{}"]),
        ("numeric", ["1", "2.5", "NaN", "-3"]),
        ("real", ["0.1", "Infinity", "NaN", "-3"]),
        ("timestamptz", ["infinity", "-infinity", "2020-01-01 00:00+01", "2020-01-01 00:00+02"]),
        ("date", ["0044-03-15 BC", "0043-01-01 BC", "0001-01-01", "12020-01-01"]),
        ("smallint[]", ["{1}", "{2}", "{1,2}", "{}"]),
    ],
)
def test_types_of_postgresql(postgresql: PostgresqlDatabase, kind: str, values: list[str]) -> None:
    postgresql.execute("CREATE TYPE mood AS ENUM ('angry', 'sad', 'ok', 'glad')")
    load(postgresql, kind, values)
    models = [FOUR, dbanon.Model("t_closeness", "ill", 0.3, distance="ordered")]
    report = postgresql.anonymize(**OPTIONS, models=models)
    assert report.models[0].achieved == 4


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["numeric", "numeric(5,2)", "real"])
def test_nan_comes_last_in_an_order_of_numbers(postgresql: PostgresqlDatabase, kind: str) -> None:
    load(postgresql, kind, ["1", "2.5", "NaN", "-3"])
    model = dbanon.Model("t_closeness", "ill", 0.3, distance={"ordered": True})
    assert postgresql.anonymize(**OPTIONS, models=[model]).models[0].achieved <= 0.3


@pytest.mark.postgresql
def test_leaves_of_decimals_of_no_scale_have_the_largest_one(
    postgresql: PostgresqlDatabase,
) -> None:
    load(postgresql, "numeric", ["1", "2.5", "2.50", "3.25"])
    rows = [(leaf, "*") for leaf in ("1.00", "2.50", "3.25")]
    postgresql.load("ref.tree", {"child": "text", "parent": "text"}, rows)
    model = dbanon.Model("t_closeness", "ill", 0.3, distance={"table": "ref.tree"})
    report = postgresql.anonymize(**OPTIONS, models=[model])
    store = open_store(postgresql.url)
    [level] = verify(store, parse_relation(report.output)).models
    assert level.counted == pytest.approx(report.models[0].achieved)


@pytest.mark.postgresql
def test_equal_decimals_are_one_value(postgresql: PostgresqlDatabase) -> None:
    load(postgresql, "numeric", ["1", "1.0", "1.00"])
    refuse(postgresql, ModelInfeasible, "1 distinct values", **OPTIONS, models=[FOUR])


def test_a_column_that_ignores_case(sqlite_file: SqliteDatabase) -> None:
    load(sqlite_file, "TEXT COLLATE NOCASE", ["a", "A", "b", "B"])
    assert sqlite_file.anonymize(**OPTIONS, models=[FOUR]).models[0].achieved == 4


def test_values_of_other_types_than_declared(sqlite_file: SqliteDatabase) -> None:
    load(sqlite_file, "INTEGER", [1, "one", 2])
    refuse(sqlite_file, MixedTypes, '"ill"', **OPTIONS, models=[FOUR])
