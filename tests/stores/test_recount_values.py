"""Texts that look alike, as quasi-identifiers and sensitive: recounted by GROUP BY and by hand."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

import dbanon
from dbanon.errors import HierarchyBroken
from tests.stores.databases import (
    ALL_NAMES,
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)
from tests.stores.refusal import refuse

DATABASES = ALL_NAMES

TEXTS = ["", " ", "a", "a ", "A", " a", "é", "e\u0301"]
PATHS = [[text, "blank" if not text.strip() else "letter", "*"] for text in TEXTS]
TREE = dbanon.Hierarchy.from_levels(PATHS)
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["name", "age"],
    "sensitive": ["ill"],
    "keep": ["id"],
    "method": "gaa_cp",
    "hierarchies": {"name": TREE},
    "nulls": "category",
}
Row = tuple[int, str | None, int, str | None]


def rows_of(texts: list[str], nulls: bool = True, n: int = 120) -> list[Row]:
    return [
        (
            i,
            None if nulls and i % 10 == 0 else texts[i * 7 % len(texts)],
            20 + i * 13 % 31,
            None if i % 9 == 0 else texts[i * 5 % len(texts)],
        )
        for i in range(n)
    ]


def load(database: Database, rows: list[Row], name: str = "text", ill: str = "text") -> None:
    columns = {"id": "integer", "name": name, "age": "integer", "ill": ill}
    columns = {column: database.types.get(kind, kind) for column, kind in columns.items()}
    columns["id"] += " PRIMARY KEY"
    database.load("people", columns, rows)


def recount(database: Database, report: dbanon.Report, rows: list[Row], paths: Any) -> None:
    """The release as a GROUP BY and as plain Python count it; every label covers its values."""
    relation = database.relation("release.people")
    grouped = database.rows(f"SELECT name, age, count(*) FROM {relation} GROUP BY name, age")
    released = database.rows(f"SELECT id, name, age, ill FROM {relation}")
    by_hand = Counter((name, age) for _, name, age, _ in released)
    assert Counter({(name, age): size for name, age, size in grouped}) == by_hand
    assert min(by_hand.values()) == report.k_achieved == report.smallest_class >= 3
    assert len(by_hand) == report.classes
    assert len(released) == report.rows_out == len(rows)
    before = {row[0]: row for row in rows}
    for i, name, _, ill in released:
        assert ill == before[i][3]
        assert (name is None) == (before[i][1] is None)
        assert name is None or name in paths[before[i][1]]
    values = defaultdict(set)
    for _, name, age, ill in released:
        values[name, age].add(ill)
    for level in report.models:
        assert level.achieved == min(map(len, values.values())) >= 3


PATH_OF = {path[0]: path for path in PATHS}
THREE = dbanon.Model("distinct_l", "ill", 3)


@pytest.mark.parametrize("models", [[], [THREE]], ids=["k", "l"])
def test_texts_that_look_alike(database: Database, models: list[dbanon.Model]) -> None:
    rows = rows_of(TEXTS)
    load(database, rows)
    report = database.anonymize(**OPTIONS, models=models)
    recount(database, report, rows, PATH_OF)
    assert report.null_rows == 12


@pytest.mark.in_turn
@pytest.mark.parametrize("method", ["kaca", "mondrian", "full_domain", "kmember", "ebkc"])
def test_by_every_method(database: Database, method: str) -> None:
    rows = rows_of(TEXTS)
    load(database, rows)
    recount(database, database.anonymize(**OPTIONS | {"method": method}), rows, PATH_OF)


def test_values_that_are_no_leaf_are_counted_not_shown(database: Database) -> None:
    load(database, rows_of([*TEXTS, "B ", "secret", "b"]))
    error = refuse(database, HierarchyBroken, '"name"', **OPTIONS)
    assert (error.sqlstate, error.exit_code) == ("ZK004", 2)
    assert "3 " in str(error)
    assert "secret" not in str(error)
    # In the tree there is no text with spaces behind it.
    tree = dbanon.Hierarchy.from_levels([path for path in PATHS if path[0] != "a "])
    error = refuse(database, HierarchyBroken, '"name"', **OPTIONS | {"hierarchies": {"name": tree}})


def test_flat_texts(database: Database) -> None:
    """Without a hierarchy a class has one text, or "*"."""
    rows = rows_of(TEXTS)
    load(database, rows)
    report = database.anonymize(**OPTIONS | {"hierarchies": {}})
    recount(database, report, rows, {text: [text, "*"] for text in TEXTS})


def test_columns_that_ignore_case(sqlite_file: SqliteDatabase, duckdb_file: DuckdbDatabase) -> None:
    rows = rows_of(TEXTS)
    for database, kind in ((sqlite_file, "TEXT"), (duckdb_file, "VARCHAR")):
        load(database, rows, f"{kind} COLLATE NOCASE", f"{kind} COLLATE NOCASE")
        recount(database, database.anonymize(**OPTIONS, models=[THREE]), rows, PATH_OF)


@pytest.mark.postgresql
def test_a_collation_in_which_texts_are_equal(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(
        "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level1-ka-shifted',"
        " deterministic = false)"
    )
    rows = rows_of(TEXTS)
    load(postgresql, rows, "text COLLATE alike", "text COLLATE alike")
    assert postgresql.rows("SELECT count(DISTINCT name) FROM people") < [(len(TEXTS),)]
    recount(postgresql, postgresql.anonymize(**OPTIONS, models=[THREE]), rows, PATH_OF)


@pytest.mark.postgresql
def test_texts_filled_up_with_spaces(postgresql: PostgresqlDatabase) -> None:
    """To char(3) "a" and "a " are one value, whose text has no spaces behind it."""
    rows = rows_of(["", "a", "A", " a", "é"])
    padded = [(i, name and f"{name} ", age, ill and f"{ill} ") for i, name, age, ill in rows]
    padded = [row if row[0] % 2 else plain for row, plain in zip(padded, rows, strict=True)]
    load(postgresql, padded, "char(3)", "varchar(4)")
    report = postgresql.anonymize(**OPTIONS)
    recount(
        postgresql, report, [(*p[:3], r[3]) for p, r in zip(rows, padded, strict=True)], PATH_OF
    )
