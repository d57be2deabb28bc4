"""Values at the ends of what databases hold: released exactly, or refused in clear words."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from dbanon.errors import DuplicateKeys, KeyRequired, UnsupportedType
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase, SqliteDatabase

# -- a column in the place of a row's address ------------------------------------------------------


@pytest.mark.parametrize("name", ["rowid", "RowId"])
@pytest.mark.parametrize("kind", ["INTEGER", "VARCHAR"])
def test_duckdb_column_named_rowid(duckdb_file: DuckdbDatabase, name: str, kind: str) -> None:
    duckdb_file.execute(
        f'CREATE TABLE people AS SELECT CAST(i % 3 AS {kind}) AS "{name}", i AS x, i AS own'
        " FROM range(12) AS r(i)"
    )
    with pytest.raises(KeyRequired, match='column named "rowid"') as caught:
        duckdb_file.anonymize(quasi_identifiers=["x"], keep=["own"])
    assert 'key=["…"]' in str(caught.value.hint)
    for key in (["own"], ["own", name]):
        report = duckdb_file.anonymize(
            quasi_identifiers=["x"], keep=["own"], key=key, if_exists="replace"
        )
        assert report.rows_out == 12
    rows = duckdb_file.rows("SELECT x, own FROM release.people ORDER BY own")
    # Each value belongs to the row it was released in.
    assert all(abs(x - original) <= 2 for x, original in rows)


def test_duckdb_key_named_rowid(duckdb_file: DuckdbDatabase) -> None:
    duckdb_file.execute("CREATE TABLE people (rowid INTEGER PRIMARY KEY, x INTEGER)")
    duckdb_file.execute("INSERT INTO people SELECT 99 - i, i FROM range(12) AS r(i)")
    assert duckdb_file.anonymize(quasi_identifiers=["x"], keep=["rowid"]).rows_out == 12
    rows = duckdb_file.rows("SELECT x, rowid FROM release.people")
    assert all(abs(x - (99 - key)) <= 2 for x, key in rows)


# -- keys of SQLite that are not what they declare -------------------------------------------------


@pytest.mark.parametrize(
    "keys",
    [
        [1e20 + i * 1e18 for i in range(9)],
        [i + 0.5 for i in range(9)],
        list("abcdefghi"),
        [1, 2, 3, 4.5, "x", b"x", "1x", 2**62, -(2**63)],
    ],
    ids=["beyond 64 bits", "halves", "texts", "all"],
)
@pytest.mark.parametrize("stated", [False, True])
def test_sqlite_keys_of_other_types(
    sqlite_file: SqliteDatabase, keys: list[Any], stated: bool
) -> None:
    with closing(sqlite3.connect(sqlite_file.path)) as connection:
        primary = "" if stated else " PRIMARY KEY"
        connection.execute(f"CREATE TABLE people (id BIGINT{primary}, x INTEGER, own INTEGER)")
        connection.executemany(
            "INSERT INTO people VALUES (?, ?, ?)", [(key, i, i) for i, key in enumerate(keys)]
        )
        connection.commit()
    options: dict[str, Any] = {"key": ["id"]} if stated else {}
    assert sqlite_file.anonymize(quasi_identifiers=["x"], keep=["own"], **options).rows_out == 9
    rows = sqlite_file.rows("SELECT x, own FROM release_people")
    assert all(abs(x - original) <= 2 for x, original in rows)
    sqlite_file.execute("CREATE TABLE nobody (id BIGINT PRIMARY KEY, x INTEGER)")
    sqlite_file.execute("INSERT INTO nobody SELECT NULL, x FROM people")
    with pytest.raises(DuplicateKeys):
        sqlite_file.anonymize(table="nobody", quasi_identifiers=["x"], output="release.nobody")


# -- numbers of SQLite -----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0, 2, 350])
def test_sqlite_decimals_beyond_64_bits(sqlite_file: SqliteDatabase, scale: int) -> None:
    columns = {"x": f"DECIMAL(400,{scale})"}
    sqlite_file.load("people", columns, [(v,) for v in (1e30, 2e30, 3e30, 1.0, 2.0, 3.0)])
    sqlite_file.anonymize(quasi_identifiers=["x"])
    values = sorted(x for (x,) in sqlite_file.rows("SELECT x FROM release_people"))
    assert values == [2] * 3 + [2e30] * 3


def test_sqlite_smallest_integer(sqlite_file: SqliteDatabase) -> None:
    for kind in ("DECIMAL(10,2)", "INTEGER"):
        table = kind[:3].lower()
        sqlite_file.load(table, {"x": kind}, [(-(2**63),)] * 3 + [(5,)] * 3)
        sqlite_file.anonymize(table=table, quasi_identifiers=["x"], output=f"release.{table}")
        values = {x for (x,) in sqlite_file.rows(f"SELECT x FROM release_{table}")}
        assert values == {-(2**63), 5}


@pytest.mark.parametrize("kind", ["HUGEINT", "DECIMAL(38,0)"])
def test_integers_that_sqlite_does_not_hold(
    duckdb_file: DuckdbDatabase, sqlite_file: SqliteDatabase, kind: str
) -> None:
    duckdb_file.execute(
        f"CREATE TABLE people AS SELECT i AS x, CAST((i // 3 * 3 + 1) AS {kind}) * "
        f"CAST('36893488147419103233' AS {kind}) AS y FROM range(9) AS r(i)"
    )
    with pytest.raises(UnsupportedType, match="64 bits"):
        duckdb_file.anonymize(quasi_identifiers=["x"], keep=["y"], target=sqlite_file.url)
    if kind == "HUGEINT":
        with pytest.raises(UnsupportedType, match="64 bits"):
            duckdb_file.anonymize(quasi_identifiers=["y"], target=sqlite_file.url)
    assert sqlite_file.relations() == set()
    duckdb_file.execute("UPDATE people SET y = 36893488147419103232")
    duckdb_file.anonymize(quasi_identifiers=["x"], keep=["y"], target=sqlite_file.url)
    assert sqlite_file.rows("SELECT DISTINCT y FROM release_people") == [(float(2**65),)]


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
@pytest.mark.parametrize("year", ["0044-03-15 (BC)", "10000-01-01"])
def test_years_that_sqlite_has_not(
    duckdb_file: DuckdbDatabase, sqlite_file: SqliteDatabase, kind: str, year: str
) -> None:
    duckdb_file.load("people", {"x": kind}, [(year,)] * 3)
    with pytest.raises(UnsupportedType, match=r'"x".*years 0 to 9999'):
        duckdb_file.anonymize(quasi_identifiers=["x"], target=sqlite_file.url)
    duckdb_file.execute(f"UPDATE people SET x = CAST('9999-12-31' AS {kind})")
    duckdb_file.anonymize(quasi_identifiers=["x"], target=sqlite_file.url)
    [(text,)] = sqlite_file.rows("SELECT DISTINCT x FROM release_people")
    assert text.startswith("9999-12-31")


# -- instants of PostgreSQL ------------------------------------------------------------------------


@pytest.mark.parametrize("sql_type", ["timestamp", "timestamptz"])
def test_instants_beyond_64_bits_from_1970(postgresql: PostgresqlDatabase, sql_type: str) -> None:
    values = ["0044-03-15 BC", "2020-01-01", "294276-12-31 23:59:59.999999"]
    postgresql.load("people", {"x": sql_type}, [(value,) for value in values * 2])
    report = postgresql.anonymize(quasi_identifiers=["x"], k=6)
    # One class, whose mean is that of all: what wraps around is neither.
    assert report.internal.information_loss == pytest.approx(1.0)
    [(mean, count)] = postgresql.rows(
        f"SELECT r.x - p.x, count(*) FROM release.people AS r, (SELECT {sql_type} 'epoch'"
        " + avg(extract(epoch FROM x)) / 86400 * interval '1 day' AS x FROM people) AS p GROUP BY 1"
    )
    assert count == 6
    assert abs(mean.total_seconds()) < 1
    postgresql.execute("UPDATE people SET x = '294276-12-31'")
    with pytest.raises(UnsupportedType, match="year 294246"):
        postgresql.anonymize(quasi_identifiers=["x"], output="release.late")
    assert not postgresql.rows("SELECT FROM pg_class WHERE relname = 'late'")


def test_dates_at_the_ends(database: Database) -> None:
    ends = {
        "postgresql": ("4714-11-24 BC", "5874897-12-31"),
        "duckdb": ("5877642-06-25 (BC)", "5881580-07-10"),
        "sqlite": ("0000-01-01", "9999-12-31"),
    }[database.name]
    database.load("people", {"x": "date"}, [(end,) for end in ends for _ in range(3)])
    assert database.anonymize(quasi_identifiers=["x"]).internal.information_loss == 0
    join = f"SELECT count(*) FROM {database.relation('release.people')} AS r JOIN people AS p"
    assert database.rows(f"{join} ON p.x = r.x") == [(18,)]


def test_decimals_of_many_digits(postgresql: PostgresqlDatabase, sqlite_file: Any) -> None:
    postgresql.load("people", {"x": "integer", "y": "numeric"}, [(i, Decimal(1)) for i in range(3)])
    postgresql.execute("UPDATE people SET y = 1e400")
    with pytest.raises(UnsupportedType):
        postgresql.anonymize(quasi_identifiers=["x"], keep=["y"], target=sqlite_file.url)
