"""How rows are found again, and in which order they count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import make_url

from dbanon.errors import KeyRequired
from tests.prerequisites import skip_or_fail
from tests.stores.databases import Database, PostgresqlDatabase, inserts
from tests.stores.people import COLUMNS, load_people, rows_of_people

NUMERIC = ["age", "height"]
ROWS = rows_of_people(40)


def classes(database: Database, name: str = "release.people") -> Counter[tuple[str, ...]]:
    """Released values with the kept ones: equal only if the classes are."""
    names = 'age, height, "site"'
    return Counter(
        tuple(map(str, row))
        for row in database.rows(f"SELECT {names} FROM {database.relation(name)}")
    )


@pytest.fixture(scope="module")
def expected_by_database() -> dict[str, Counter[tuple[str, ...]]]:
    """Caches the fixture `expected` by database name."""
    return {}


@pytest.fixture
def expected(
    database: Database, expected_by_database: dict[str, Counter[tuple[str, ...]]]
) -> Counter[tuple[str, ...]]:
    """The classes of the people with an integer key, in its order: found once a database."""
    if database.name not in expected_by_database:
        load_people(database, ROWS, "reference")
        database.anonymize(
            table="reference", quasi_identifiers=NUMERIC, keep=["site"], output="release.reference"
        )
        expected_by_database[database.name] = classes(database, "release.reference")
    return expected_by_database[database.name]


def shuffled(rows: Sequence[Any]) -> list[Any]:
    return [rows[(17 * i + 5) % len(rows)] for i in range(len(rows))]


def test_order_is_the_keys_whatever_the_physical_one(
    database: Database, expected: Counter[tuple[str, ...]]
) -> None:
    load_people(database, shuffled(ROWS))
    # In PostgreSQL an update moves the row to another place.
    database.execute("UPDATE people SET name = name || '!' WHERE id % 3 = 0")
    database.anonymize(quasi_identifiers=NUMERIC, keep=["site"])
    assert classes(database) == expected


@pytest.mark.parametrize("key", ["name", "born, name", "site, id", "income", "seen"])
def test_keys_of_any_type(database: Database, expected: Counter[tuple[str, ...]], key: str) -> None:
    columns = {column: database.types[kind] for column, kind in COLUMNS.items()}
    body = ", ".join(f"{column} {kind} NOT NULL" for column, kind in columns.items())
    database.execute(f"CREATE TABLE people ({body}, PRIMARY KEY ({key}))")
    # Every candidate ascends with the id, so the record order stays the same.
    rows = [
        (
            *(i, f"{i:03d}", age, i, height),
            date(1900, 1, 1) + timedelta(days=i // 10),
            datetime(2020, 1, 1, 0, 0, i),
            f"{i:03d} é",
        )
        for i, (_, _, age, _, height, *_) in enumerate(ROWS)
    ]
    database.execute(*inserts("people", shuffled(rows)))
    database.anonymize(quasi_identifiers=NUMERIC, keep=["site"])
    site = {f"{i:03d} é": row[7] for i, row in enumerate(ROWS)}
    assert (
        Counter((age, height, site[kept_index]) for age, height, kept_index in classes(database))
        == expected
    )


def test_text_keys_sort_by_code_point(database: Database) -> None:
    # By locale the order would be a, A, b, B, é, z.
    letters = ["z", "B", "é", "a", "A", "b"]
    order = sorted(letters)
    rows = [(letter, 10 * (order.index(letter) % 3)) for letter in letters]
    database.load("people", {"k": database.types["text"] + " PRIMARY KEY", "x": "integer"}, rows)
    database.load(
        "reference",
        {"k": "integer PRIMARY KEY", "x": "integer"},
        [(order.index(k), x) for k, x in rows],
    )
    for table in ("people", "reference"):
        database.anonymize(
            table=table, quasi_identifiers=["x"], keep=["k"], output=f"release.{table}"
        )
    by_text, by_integer = (
        Counter(database.rows(f"SELECT x, k FROM {database.relation(f'release.{table}')}"))
        for table in ("people", "reference")
    )
    assert Counter((x, order.index(k)) for x, k in by_text.elements()) == by_integer


def test_tables_without_a_key(database: Database, expected: Counter[tuple[str, ...]]) -> None:
    load_people(database, ROWS, key=False)
    report = database.anonymize(quasi_identifiers=NUMERIC, keep=["site"])
    assert report.rows_out == len(ROWS)
    assert classes(database) == expected


def test_equal_rows_without_a_key(database: Database) -> None:
    load_people(database, [ROWS[0], ROWS[1]] * 10, key=False)
    report = database.anonymize(quasi_identifiers=NUMERIC, keep=["site"], k=10)
    assert report.classes == 2
    assert report.internal.information_loss == pytest.approx(0.0, abs=1e-12)


def test_a_stated_key_is_used_instead_of_the_primary_key(
    database: Database, expected: Counter[tuple[str, ...]]
) -> None:
    rows = [(len(ROWS) - row[0], *row[1:]) for row in ROWS]
    renamed = [(row[0], f"{i:03d}", *row[2:]) for i, row in enumerate(rows)]
    load_people(database, renamed)
    database.anonymize(quasi_identifiers=NUMERIC, keep=["site"], key=["name"])
    assert classes(database) == expected


def test_views_with_a_key(database: Database, expected: Counter[tuple[str, ...]]) -> None:
    load_people(database, ROWS, "base")
    database.execute("CREATE VIEW people AS SELECT * FROM base")
    for key in (["id"], ["site", "id"]):
        database.anonymize(quasi_identifiers=NUMERIC, keep=["site"], key=key, if_exists="replace")
        if key == ["id"]:
            assert classes(database) == expected


def test_sqlite_tables_without_rowid_and_with_columns_named_rowid(sqlite_file: Database) -> None:
    sqlite_file.execute(
        "CREATE TABLE people (k TEXT PRIMARY KEY, x INTEGER) WITHOUT ROWID",
        "CREATE TABLE taken (rowid INTEGER, _rowid_ INTEGER, x INTEGER)",
        "CREATE TABLE all_taken (rowid INTEGER, _rowid_ INTEGER, oid INTEGER, x INTEGER)",
        *inserts("people", [(f"k{i}", i % 5) for i in range(20)]),
        *inserts("taken", [(7, 7, i % 5) for i in range(20)]),
        *inserts("all_taken", [(i, 7, 7, i % 5) for i in range(20)]),
    )
    for table in ("people", "taken"):
        report = sqlite_file.anonymize(
            table=table, quasi_identifiers=["x"], output=f"release.{table}"
        )
        assert report.rows_out == 20
    report = sqlite_file.anonymize(
        table="all_taken", quasi_identifiers=["x"], key=["rowid"], output="release.all_taken"
    )
    assert report.rows_out == 20


PEOPLE = ", ".join(f"{name} {PostgresqlDatabase.types[kind]}" for name, kind in COLUMNS.items())


def partitioned(database: PostgresqlDatabase) -> None:
    database.execute(
        f"CREATE TABLE people ({PEOPLE}) PARTITION BY RANGE (age)",
        "CREATE TABLE young PARTITION OF people FOR VALUES FROM (0) TO (50)",
        # A different column order: reading by position would be wrong.
        "CREATE TABLE old (site text, seen timestamp, born date, height double precision,"
        " income numeric(10,2), dropped integer, age integer, name text, id integer)",
        "ALTER TABLE old DROP COLUMN dropped",
        "ALTER TABLE people ATTACH PARTITION old FOR VALUES FROM (50) TO (200)",
        *inserts("people", ROWS),
    )


def inherited(database: PostgresqlDatabase) -> None:
    database.execute(
        f"CREATE TABLE people ({PEOPLE})",
        "CREATE TABLE child (extra integer) INHERITS (people)",
        *inserts("people", ROWS[:20]),
        *inserts("child", [(*row, 1) for row in ROWS[20:]]),
    )


def inherited_with_keys_that_meet(database: PostgresqlDatabase) -> None:
    # A primary key of a parent says nothing of its children.
    database.execute(
        f"CREATE TABLE people ({PEOPLE}, PRIMARY KEY (id))",
        "CREATE TABLE child () INHERITS (people)",
        *inserts("people", ROWS[:20]),
        *inserts("child", [(row[0] - 20, *row[1:]) for row in ROWS[20:]]),
    )


def materialized(database: PostgresqlDatabase) -> None:
    load_people(database, ROWS, "base")
    database.execute("CREATE MATERIALIZED VIEW people AS SELECT * FROM base")


def unlogged_with_dropped_column(database: PostgresqlDatabase) -> None:
    database.execute(
        f"CREATE UNLOGGED TABLE people (dropped integer, {PEOPLE})",
        "ALTER TABLE people DROP COLUMN dropped",
        *inserts("people", ROWS),
    )


@pytest.mark.parametrize(
    "make",
    [
        partitioned,
        inherited,
        inherited_with_keys_that_meet,
        materialized,
        unlogged_with_dropped_column,
    ],
)
def test_relations_of_postgresql(
    postgresql: PostgresqlDatabase, make: Callable[[PostgresqlDatabase], None]
) -> None:
    make(postgresql)
    for rows in (3, None):
        report = postgresql.anonymize(
            quasi_identifiers=NUMERIC, keep=["site"], chunk_rows=rows, if_exists="replace"
        )
        assert (report.rows_in, report.rows_out) == (40, 40)
        sites = [site for *_, site in classes(postgresql)]
        assert sorted(sites) == sorted(row[7] for row in ROWS)


@pytest.mark.parametrize("wrapper", ["postgres_fdw", "file_fdw"])
def test_foreign_tables(
    postgresql: PostgresqlDatabase, pg_server: Any, tmp_path: Any, wrapper: str
) -> None:
    if not postgresql.rows(f"SELECT 1 FROM pg_available_extensions WHERE name = '{wrapper}'"):
        skip_or_fail(f"this server has no {wrapper}")
    load_people(postgresql, ROWS, "base")
    url = make_url(postgresql.url)
    if wrapper == "postgres_fdw":
        statements = [
            f"CREATE SERVER there FOREIGN DATA WRAPPER postgres_fdw OPTIONS"
            f" (host '{url.host}', port '{url.port}', dbname '{url.database}')",
            f"CREATE USER MAPPING FOR CURRENT_USER SERVER there OPTIONS"
            f" (user '{url.username}', password '{url.password}')",
            f"CREATE FOREIGN TABLE people ({PEOPLE}) SERVER there OPTIONS (table_name 'base')",
        ]
    else:
        statements = [
            "CREATE SERVER there FOREIGN DATA WRAPPER file_fdw",
            f"CREATE FOREIGN TABLE people ({PEOPLE}) SERVER there OPTIONS (program 'printf"
            ' "'
            + "\\\\n".join(",".join(str(value) for value in row) for row in ROWS)
            + "\\\\n\"', format 'csv')",
        ]
    postgresql.execute(f"CREATE EXTENSION {wrapper}", *statements)
    report = postgresql.anonymize(quasi_identifiers=NUMERIC, keep=["site"], key=["id"])
    assert report.rows_out == 40
    assert sorted(site for *_, site in classes(postgresql)) == sorted(row[7] for row in ROWS)


@pytest.mark.parametrize("parent", ["partitioned", "inherited"])
def test_a_table_with_a_foreign_part_needs_a_key(
    postgresql: PostgresqlDatabase, parent: str
) -> None:
    if not postgresql.rows("SELECT 1 FROM pg_available_extensions WHERE name = 'file_fdw'"):
        skip_or_fail("this server has no file_fdw")
    lines = "\\n".join(",".join(str(value) for value in row) for row in ROWS)
    options = f"SERVER there OPTIONS (program 'printf \"{lines}\\n\"', format 'csv')"
    create_statements = {
        "partitioned": (
            f"CREATE TABLE people ({PEOPLE}) PARTITION BY LIST (height)",
            f"CREATE FOREIGN TABLE part PARTITION OF people DEFAULT {options}",
        ),
        "inherited": (
            f"CREATE TABLE people ({PEOPLE})",
            "CREATE TABLE middle () INHERITS (people)",
            f"CREATE FOREIGN TABLE part () INHERITS (middle) {options}",
        ),
    }[parent]
    postgresql.execute(
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER there FOREIGN DATA WRAPPER file_fdw",
        *create_statements,
    )
    with pytest.raises(KeyRequired, match="with a foreign part"):
        postgresql.anonymize(quasi_identifiers=NUMERIC, keep=["site"])
    report = postgresql.anonymize(quasi_identifiers=NUMERIC, keep=["site"], key=["id"])
    assert report.rows_out == 40
    assert sorted(site for *_, site in classes(postgresql)) == sorted(row[7] for row in ROWS)
