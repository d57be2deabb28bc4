"""Ordinal columns: enums, text with a stated order, and their types, on every database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

import dbanon
from dbanon.errors import UnsupportedType, ValueNotInOrder
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase
from tests.stores.refusal import refuse

# In code point order they would be Doctor, a, bachelor ...; quotes and commas are values, too.
SCHOOLS = ["none", "it's", "a, b", "Doctor", 'a"b']
ORDERS = {"school": SCHOOLS}
ENUM = "ENUM (" + ", ".join("'" + value.replace("'", "''") + "'" for value in SCHOOLS) + ")"
NAMES = ["age", "school"]


def rows(n: int = 60) -> list[tuple[Any, ...]]:
    return [(i, i * 37 % 53, None if i % 10 == 7 else SCHOOLS[i * 17 // 3 % 5]) for i in range(n)]


def load(database: Database, school: str = "", table: str = "people") -> pd.DataFrame:
    columns = {"id": "integer PRIMARY KEY", "age": "integer"}
    columns["school"] = school or database.types["text"]
    database.load(table, columns, rows())
    return pd.DataFrame(rows(), columns=list(columns))


def released(database: Database, school: str = "school") -> list[tuple[Any, ...]]:
    # None sorts as a text does.
    rows = database.rows(f"SELECT age, {school} FROM {database.relation('release.people')}")
    return sorted((age, str(school)) for age, school in rows)


def of_frame(frame: pd.DataFrame, **options: Any) -> list[tuple[Any, ...]]:
    released_frame, _ = dbanon.anonymize_frame(frame, quasi_identifiers=NAMES, k=3, **options)
    released_frame = released_frame.astype(object).where(released_frame.notna(), None)
    return sorted((age, str(school)) for age, school in released_frame.to_numpy())


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(
    "options",
    [
        {"nulls": "category"},
        {"nulls": "suppress", "max_suppression": 1, "method": "ldf", "weights": {"school": 3.0}},
        {"nulls": "category", "recoding": "medoid"},
        {"nulls": "category", "method": "gaa_cp"},
        {"nulls": "category", "method": "gaa_cp", "intervals": "midpoint"},
    ],
)
def test_a_stated_order(database: Database, options: Mapping[str, Any]) -> None:
    frame = load(database)
    report = database.anonymize(quasi_identifiers=NAMES, orders=ORDERS, **options)
    assert report.k_achieved >= 3
    assert list(report.column_losses) == NAMES
    assert released(database) == of_frame(frame, orders=ORDERS, **options)


def test_bounds_of_ranks(database: Database) -> None:
    load(database)
    database.anonymize(
        quasi_identifiers=NAMES,
        orders=ORDERS,
        nulls="suppress",
        max_suppression=1,
        method="mondrian",
        intervals="bounds",
    )
    bounds = database.rows(
        f"SELECT DISTINCT school_low, school_high FROM {database.relation('release.people')}"
    )
    assert all(SCHOOLS.index(low) <= SCHOOLS.index(high) for low, high in bounds)
    assert len(bounds) > 1


def test_a_value_outside_the_order(database: Database) -> None:
    load(database)
    error = refuse(
        database,
        ValueNotInOrder,
        '"school"',
        quasi_identifiers=NAMES,
        nulls="suppress",
        max_suppression=1,
        orders={"school": SCHOOLS[:-1]},
    )
    count = sum(school == SCHOOLS[-1] for _, _, school in rows())
    assert f"1 of 5 values, in {count} of 54 rows" in str(error)
    assert not any(value in str(error) for value in SCHOOLS)


def test_an_order_of_numbers_is_refused(database: Database) -> None:
    load(database)
    refuse(database, UnsupportedType, '"age"', quasi_identifiers=NAMES, orders={"age": ["1", "2"]})


def test_to_another_database(database: Database, make_database: Any) -> None:
    frame = load(database)
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    database.anonymize(
        quasi_identifiers=NAMES, keep=["id"], orders=ORDERS, nulls="category", target=other.url
    )
    assert released(other) == of_frame(frame, orders=ORDERS, nulls="category")


def enum(database: DuckdbDatabase | PostgresqlDatabase) -> pd.DataFrame:
    database.execute(f"CREATE TYPE school AS {ENUM}")
    return load(database, "school")


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_enums_have_their_order_and_keep_their_type(kind: str, make_database: Any) -> None:
    database = make_database(kind)
    frame = enum(database)
    report = database.anonymize(quasi_identifiers=NAMES, nulls="category")
    assert report.k_achieved >= 3
    types = database.rows(
        f"SELECT DISTINCT {'typeof' if kind == 'duckdb' else 'pg_typeof'}(school)"
        f" FROM {database.relation('release.people')}"
    )
    assert len(types) == 1
    assert str(types[0][0]).lower().startswith("enum" if kind == "duckdb" else "school")
    assert released(database, "CAST(school AS VARCHAR)") == of_frame(
        frame, orders=ORDERS, nulls="category"
    )
    # The caller's order goes before the type's.
    turned = {"school": [SCHOOLS[i] for i in (2, 0, 4, 1, 3)]}
    database.anonymize(
        quasi_identifiers=NAMES, nulls="category", orders=turned, if_exists="replace"
    )
    assert released(database, "CAST(school AS VARCHAR)") == of_frame(
        frame, orders=turned, nulls="category"
    )
    # An empty one leaves a category, which only some methods take.
    refuse(
        database,
        UnsupportedType,
        '"school"',
        quasi_identifiers=NAMES,
        orders={"school": []},
        if_exists="replace",
    )
    database.anonymize(
        quasi_identifiers=NAMES,
        orders={"school": []},
        method="gaa_cp",
        nulls="suppress",
        max_suppression=1,
        if_exists="replace",
    )
    assert {school for _, school in released(database)} <= {*SCHOOLS, "*"}


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_enums_as_strata_and_as_sensitive_columns_are_as_before(
    kind: str, make_database: Any
) -> None:
    database = make_database(kind)
    enum(database)
    database.anonymize(quasi_identifiers=["age"], by=["school"], k=3)
    report = database.anonymize(
        quasi_identifiers=["age"],
        sensitive=["school"],
        output="release.more",
        models=[dbanon.Model("distinct_l", "school", 2)],
    )
    assert report.models[0].achieved >= 2


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["character(8)", "varchar(8)", 'text COLLATE "C"', "grade"])
def test_other_text_of_postgresql(postgresql: PostgresqlDatabase, kind: str) -> None:
    postgresql.execute(f"CREATE TYPE school AS {ENUM}", "CREATE DOMAIN grade AS school")
    frame = load(postgresql, kind)
    postgresql.anonymize(quasi_identifiers=NAMES, orders=ORDERS, nulls="category")
    assert released(postgresql, "trim(school::text)") == of_frame(
        frame, orders=ORDERS, nulls="category"
    )
    if kind == "grade":
        postgresql.anonymize(quasi_identifiers=NAMES, nulls="category", if_exists="replace")
        assert released(postgresql) == of_frame(frame, orders=ORDERS, nulls="category")
        assert postgresql.rows("SELECT DISTINCT pg_typeof(school)::text FROM release.people") == [
            ("grade",)
        ]
