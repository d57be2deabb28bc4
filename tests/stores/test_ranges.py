"""Intervals as values of PostgreSQL's range types, and their absence elsewhere."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from dbanon.errors import UnsupportedType
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase, SqliteDatabase
from tests.stores.people import load_people, rows_of_people
from tests.stores.refusal import refuse

OPTIONS: dict[str, Any] = {"method": "mondrian", "intervals": "range", "k": 4}

TYPES = [
    ("smallint", "int4range", lambda i: i * 13 % 31),
    ("smallint", "int4range", lambda i: 32767 - i),
    ("integer", "int4range", lambda i: i * 7919 % 100_000 - 50_000),
    ("integer", "int8range", lambda i: 2**31 - 1 - i),
    ("integer", "int8range", lambda i: i - 2**31),
    ("bigint", "int8range", lambda i: 10**14 + i),
    ("numeric(5,2)", "numrange", lambda i: Decimal(99999 - i * i) / 100),
    ("numeric", "numrange", lambda i: Decimal(i * 7) / 1000),
    ("double precision", "numrange", lambda i: i * 0.1 / 3),
    ("double precision", "numrange", lambda i: i * 1e-300),
    ("double precision", "numrange", lambda i: i * -1e300),
    ("real", "numrange", lambda i: i * 0.25),
    ("date", "daterange", lambda i: date(1990, 1, 1) + timedelta(days=i * i)),
    ("date", "daterange", lambda i: f"{'0044-03-' if i % 2 else '0030-01-'}{i % 28 + 1:02} BC"),
    ("timestamp", "tsrange", lambda i: datetime(2020, 1, 1) + timedelta(seconds=i * 7919)),
    ("timestamptz", "tstzrange", lambda i: datetime(2020, 1, 1) + timedelta(days=i * 31)),
    ("timestamp(0)", "tsrange", lambda i: f"2250-01-01 00:00:{i % 60:02}"),
]


@pytest.mark.postgresql
@pytest.mark.parametrize("local_range", [False, True])
@pytest.mark.parametrize("share", range(3))
def test_every_type_has_its_range(
    postgresql: PostgresqlDatabase, share: int, local_range: bool
) -> None:
    """A third of the types at once: the more columns, the fewer borders each of them has."""
    types = TYPES[share::3]
    rows = [(i, *(value(i) for _, _, value in types)) for i in range(80)]
    columns = {f"x{index}": kind for index, (kind, _, _) in enumerate(types)}
    postgresql.load("people", {"id": "integer PRIMARY KEY"} | columns, rows)
    report = postgresql.anonymize(
        quasi_identifiers=[*columns], keep=["id"], local_range=local_range, **OPTIONS
    )
    sizes = postgresql.rows(f"SELECT count(*) FROM release.people GROUP BY {', '.join(columns)}")
    assert min(size for (size,) in sizes) == report.k_achieved >= 4
    assert len(sizes) >= 10
    several = 0
    for index, (kind, expected, value) in enumerate(types):
        if local_range and kind == "integer":
            first = value(0)
            expected = "int4range" if first < 0 and first > -(2**31) + 1 else expected
        several += require_ranges(postgresql, f"x{index}", kind, expected, local_range)
    assert several >= len(types) - 1
    assert verify(open_store(postgresql.url), parse_relation("release.people")).unchanged


def require_ranges(
    postgresql: PostgresqlDatabase, name: str, kind: str, expected: str, local_range: bool
) -> bool:
    """Every row's own value lies in its range, which is of this type; whether there are several."""
    [(found_type, several)] = postgresql.rows(
        f"SELECT pg_typeof({name})::text, count(DISTINCT {name}) > 1 FROM release.people GROUP BY 1"
    )
    assert found_type == expected
    bound_type = "numeric" if expected == "numrange" else expected.replace("range", "")
    bound_type = {
        "int4": "integer",
        "int8": "bigint",
        "ts": "timestamp",
        "tstz": "timestamptz",
    }.get(bound_type, bound_type)
    cast = f"p.{name}::{bound_type}" if kind != "double precision" else f"p.{name}::text::numeric"
    outside = postgresql.rows(
        "SELECT count(*) FROM release.people r JOIN people p USING (id)"
        f" WHERE NOT r.{name} @> {cast}"
    )
    assert outside == [(0,)]
    if local_range:
        # Borders are members' values: lower ones always, upper ones where the type is no integer.
        failures = postgresql.rows(
            f"SELECT count(*) FROM release.people r WHERE NOT lower_inc(r.{name}) OR NOT EXISTS"
            f" (SELECT FROM people p WHERE {cast} = lower(r.{name}))"
        )
        assert failures == [(0,)]
    return bool(several)


@pytest.mark.postgresql
def test_worked_example(postgresql: PostgresqlDatabase) -> None:
    rows = [(i, x) for i, x in enumerate([31, 33, 34, 52, 58, 59])]
    postgresql.load("people", {"id": "integer PRIMARY KEY", "x": "integer"}, rows)
    options = {"quasi_identifiers": ["x"], "method": "mondrian", "intervals": "range", "k": 3}
    postgresql.anonymize(steps={"x": 10}, **options)
    query = "SELECT DISTINCT x::text FROM release.people ORDER BY 1"
    assert postgresql.rows(query) == [("[30,40)",), ("[50,60)",)]
    postgresql.anonymize(local_range=True, if_exists="replace", **options)
    assert postgresql.rows(query) == [("[31,35)",), ("[52,60)",)]
    [(kind,)] = postgresql.rows(
        "SELECT DISTINCT sql_type FROM dbanon.release_column WHERE name = 'x'"
    )
    assert kind == "int4range"


@pytest.mark.postgresql
def test_ranges_next_to_other_columns(postgresql: PostgresqlDatabase) -> None:
    """Several ranges, categories, ordinal columns and hierarchies, with NULLs."""
    postgresql.execute("CREATE TYPE grade AS ENUM ('low', 'mid', 'high')")
    rows = [
        (
            i,
            i * 37 % 53,
            None if i % 5 == 0 else i * 0.5,
            ["low", "mid", "high"][i % 3],
            f"s{i % 2}",
        )
        for i in range(80)
    ]
    columns = {"id": "integer PRIMARY KEY", "age": "integer", "size": "double precision"}
    postgresql.load("people", columns | {"grade": "grade", "site": "text"}, rows)
    postgresql.anonymize(
        quasi_identifiers=["age", "size", "grade", "site"],
        nulls="category",
        hierarchies={"site": {"levels": [["s0", "*"], ["s1", "*"]]}},
        **OPTIONS,
    )
    type_counts = postgresql.rows(
        "SELECT pg_typeof(age)::text, pg_typeof(size)::text, pg_typeof(grade)::text,"
        " pg_typeof(site)::text, count(*), count(size) FROM release.people GROUP BY 1, 2, 3, 4"
    )
    assert type_counts == [("int4range", "numrange", "text", "text", 80, 64)]
    assert postgresql.rows(
        "SELECT count(*) FROM release.people"
        " WHERE isempty(age) OR lower_inf(age) OR upper_inf(size)"
    ) == [(0,)]


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_from_another_database(
    kind: str, make_database: Any, postgresql: PostgresqlDatabase
) -> None:
    database = make_database(kind)
    rows = load_people(database, rows_of_people(60))
    names = ["age", "income", "height", "born", "seen"]
    database.anonymize(quasi_identifiers=names, keep=["id"], target=postgresql.url, **OPTIONS)
    load_people(postgresql, rows)
    assert postgresql.rows(
        "SELECT count(*) FROM release.people r JOIN people p USING (id) WHERE lower(r.age) <= p.age"
        " AND p.age < upper(r.age) AND"
        " r.income @> p.income AND r.height @> p.height::text::numeric AND r.born @> p.born AND"
        " r.seen @> p.seen"
    ) == [(60,)]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_no_range_types(kind: str, make_database: Any) -> None:
    database: DuckdbDatabase | SqliteDatabase = make_database(kind)
    load_people(database)
    read: list[str] = []
    refuse(
        database,
        UnsupportedType,
        "no range types",
        quasi_identifiers=["age", "height"],
        on_sql=read.append,
        **OPTIONS,
    )
    assert not any("height" in sql for sql in read)
    # Where nothing would be a range, nothing is refused.
    database.anonymize(quasi_identifiers=["age"], intervals="range")


def test_bounds_hold_their_members_at_broken_steps(database: Database) -> None:
    """A step of 2.5 has the borders 2.5 and 7.5, which no whole number has."""
    rows = [(i, i * 7 % 40) for i in range(40)]
    database.load("people", {"id": "integer PRIMARY KEY", "x": "integer"}, rows)
    database.anonymize(
        quasi_identifiers=["x"],
        keep=["id"],
        k=2,
        method="mondrian",
        intervals="bounds",
        steps={"x": 2.5},
    )
    originals = dict(rows)
    released_rows = database.rows(
        f"SELECT id, x_low, x_high FROM {database.relation('release.people')}"
    )
    assert all(low <= originals[key] < high for key, low, high in released_rows)
    assert len(released_rows) == 40
