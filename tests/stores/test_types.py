"""Released values have the column's own type, and are exact however large they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from dbanon.errors import NonFiniteValue
from tests.stores.databases import (
    ALL_NAMES,
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)

DATABASES = ALL_NAMES

EPOCH = datetime(1970, 1, 1)
K = 3


def half_even(value: Fraction) -> int:
    """The nearest whole number, half to even: Python's own rule, here of exact fractions."""
    return round(value)


Column = tuple[str, Sequence[Any], Any, str]


def check_columns(database: Database, columns: Sequence[Column]) -> list[list[Any]]:
    """Release columns together and compare each class with the means of its members.

    A column is its type, its values, their mean and how it is shown, ``x`` being its name. Values
    come in groups of K that lie far apart in some column, and near one another in all, so that
    they are the classes; column g, the number of the group, is kept.
    """
    values = [column[1] for column in columns]
    names = [f"x{index}" for index in range(len(columns))]
    types = {"id": "integer PRIMARY KEY", "g": "integer"}
    types |= {name: column[0] for name, column in zip(names, columns, strict=True)}
    rows = [(i, i // K, *row) for i, row in enumerate(zip(*values, strict=True))]
    database.load("people", types, rows)
    report = database.anonymize(quasi_identifiers=names, keep=["g"])
    all_found = []
    for name, (sql_type, input_values, mean, select_expression) in zip(names, columns, strict=True):
        sql = select_expression.replace("x", name, 1)
        released_rows = database.rows(f"SELECT g, {sql} FROM {database.relation('release.people')}")
        assert len(released_rows) == report.rows_out == len(input_values)
        expected = [mean(input_values[i : i + K]) for i in range(0, len(input_values), K)]
        for group, value in released_rows:
            assert value == expected[group], f"group {group} in {sql_type}"
            assert type(value) is type(expected[group])
        all_found.append(released_rows)
    return all_found


def check_means(
    database: Database,
    sql_type: str,
    values: Sequence[Any],
    mean: Any,
    select_expression: str = "x",
) -> list[Any]:
    """The same of one column."""
    return check_columns(database, [(sql_type, values, mean, select_expression)])[0]


def integer_mean(values: Sequence[int]) -> int:
    return half_even(Fraction(sum(values), len(values)))


def decimal_mean(scale: int) -> Any:
    def mean(values: Sequence[Decimal]) -> Decimal:
        unscaled = sum(Fraction(value) for value in values) / len(values) * 10**scale
        return Decimal(f"{half_even(unscaled)}E-{scale}")

    return mean


def timestamp_mean(digits: int) -> Any:
    def mean(values: Sequence[datetime]) -> datetime:
        micros = [(value - EPOCH) // timedelta(microseconds=1) for value in values]
        step = 10 ** (6 - digits)
        rounded = half_even(Fraction(sum(micros), len(micros) * step)) * step
        return EPOCH + timedelta(microseconds=rounded)

    return mean


def date_mean(values: Sequence[date]) -> date:
    days = [value.toordinal() for value in values]
    return date.fromordinal(half_even(Fraction(sum(days), len(days))))


LOW, HIGH = -(2**63), 2**63 - 1
SMALL = [0, 1, 1, 10, 10, 11, -30, -30, -29, 99, 100, 100]
AT_63_BITS = [LOW, LOW, LOW + 1, HIGH, HIGH - 1, HIGH, 2**53 + 1, 2**53 + 3, 2**53 + 3, -1, 0, 0]
AT_127_BITS = [2**127 - 1, 2**127 - 2, 2**127 - 1, -(2**127) + 1, -(2**127) + 2, -(2**127) + 1]

# Types with equally many values, by database.
INTEGERS = [
    (
        "postgresql",
        {
            "smallint": [-32768, -32768, -32767, 32767, 32767, 32766],
            "integer": [-(2**31), -(2**31), 1 - 2**31, 2**31 - 1, 2**31 - 1, 2**31 - 2],
        },
    ),
    ("postgresql", {"bigint": AT_63_BITS, "smallint": SMALL}),
    ("sqlite", {"INTEGER": SMALL, "BIGINT": AT_63_BITS}),
    (
        "duckdb",
        {
            "TINYINT": [-128, -128, -127, 127, 127, 126],
            "UTINYINT": [0, 0, 1, 255, 255, 254],
            "UINTEGER": [0, 0, 1, 2**32 - 1, 2**32 - 1, 2**32 - 2],
            "UBIGINT": [0, 0, 1, 2**64 - 1, 2**64 - 1, 2**64 - 2],
        },
    ),
    ("duckdb", {"SMALLINT": SMALL, "INTEGER": SMALL, "BIGINT": AT_63_BITS}),
    ("duckdb", {"HUGEINT": [*AT_127_BITS, *AT_63_BITS]}),
]


@pytest.mark.parametrize(("kind", "types"), INTEGERS)
def test_integers(make_database: Any, kind: str, types: dict[str, list[int]]) -> None:
    columns = [(sql_type, values, integer_mean, "x") for sql_type, values in types.items()]
    check_columns(make_database(kind), columns)


def test_halves_go_to_the_even_neighbour(database: Database) -> None:
    rows = [(i, x) for i, x in enumerate([0, 1, 2, 3, 100, 101, 103, 104, -1, 0, -3, -4][:8])]
    # Pairs with k = 2: means 0.5, 2.5, 100.5, 103.5.
    database.load("people", {"id": "integer PRIMARY KEY", "x": database.types["bigint"]}, rows)
    database.load(
        "near_zero",
        {"id": "integer PRIMARY KEY", "x": database.types["bigint"]},
        [(0, -1), (1, 0), (2, -4), (3, -3)],
    )
    database.anonymize(quasi_identifiers=["x"], k=2)
    database.anonymize(table="near_zero", quasi_identifiers=["x"], k=2, output="release.near_zero")
    released_rows = database.rows(f"SELECT DISTINCT x FROM {database.relation('release.people')}")
    assert {x for (x,) in released_rows} <= {0, 2, 100, 104}
    released_rows = database.rows(
        f"SELECT DISTINCT x FROM {database.relation('release.near_zero')}"
    )
    assert {x for (x,) in released_rows} == {0, -4}


CENTS = [
    Decimal(x)
    for x in (
        "0.10",
        "0.11",
        "0.11",
        "50.00",
        "50.01",
        "50.03",
        "-9.99",
        "-9.98",
        "-9.98",
        "900.05",
        "900.05",
        "900.06",
    )
]
LONG = [
    Decimal(x)
    for x in (
        "1234567890123456789012345678.0123456789",
        "1234567890123456789012345678.0123456788",
        "1234567890123456789012345678.0123456788",
        "-9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999999",
        "-9999999999999999999999999999.9999999998",
        "0.0000000001",
        "0.0000000002",
        "0.0000000002",
        "9999999999999999999999999999.9999999999",
        "9999999999999999999999999999.9999999999",
        "9999999999999999999999999999.9999999998",
    )
]

DECIMALS = {
    "postgresql": [
        ("numeric(10,2)", CENTS, 2),
        ("numeric(38,10)", LONG, 10),
        ("numeric", CENTS, 2),
        ("numeric", LONG, 10),
        ("numeric", [Decimal(f"{value:f}".replace(".", "")) for value in LONG], 0),
    ],
    "duckdb": [
        ("DECIMAL(10,2)", CENTS, 2),
        ("DECIMAL(38,10)", LONG, 10),
        ("DECIMAL(4,0)", [Decimal(x) for x in SMALL], 0),
    ],
}


@pytest.mark.parametrize("kind", DECIMALS)
def test_decimals(make_database: Any, kind: str) -> None:
    columns = [
        (sql_type, values, decimal_mean(scale), "x") for sql_type, values, scale in DECIMALS[kind]
    ]
    all_found = check_columns(make_database(kind), columns)
    for rows, (_, _, scale) in zip(all_found, DECIMALS[kind], strict=True):
        assert {value.as_tuple().exponent for _, value in rows} == {-scale}


def test_decimals_in_sqlite(sqlite_file: SqliteDatabase) -> None:
    check_means(sqlite_file, "DECIMAL(10,2)", CENTS, lambda values: float(decimal_mean(2)(values)))


def test_large_decimals_in_sqlite(sqlite_file: SqliteDatabase) -> None:
    """SQLite holds them as integers of 64 bits or as floats: means are exact of what it holds."""
    values = [10**17 + 1, 10**17 + 2, 10**17 + 2, 1.5e25, 1.5e25, 2.5e25, -3, -4, -4]

    def mean(members: Sequence[Any]) -> Any:
        exact = sum(Fraction(value) for value in members) / len(members)
        return float(half_even(exact * 10**10) / Fraction(10**10))

    check_means(sqlite_file, "DECIMAL(38,10)", values, mean, "CAST(x AS REAL)")


FLOATS = [1.5, 1.5, 1.5, 1e300, 1e300, 1e300, -2.25, -2.25, -2.25, 5e-324, 5e-324, 5e-324]


def test_floats(database: Database) -> None:
    check_means(database, database.types["double"], FLOATS, lambda values: values[0])


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
def test_single_precision(make_database: Any, kind: str) -> None:
    values = [1.5, 1.25, 1.75, 1e30, 1e30, 1e30, -0.1, -0.1, -0.1]
    database = make_database(kind)

    rows = [(i, i // K, value) for i, value in enumerate(values)]
    database.load("people", {"id": "integer PRIMARY KEY", "g": "integer", "x": "real"}, rows)
    database.anonymize(quasi_identifiers=["x"], keep=["g"])
    wrong = database.rows(
        f"SELECT count(*) FROM {database.relation('release.people')} AS r"
        " JOIN people AS p USING (g) WHERE p.id IN (0, 3, 6) AND p.x <> r.x"
    )
    assert wrong == [(0,)]


DATES = [
    date(2000, 1, 1),
    date(2000, 1, 2),
    date(2000, 1, 2),
    date(9999, 12, 31),
    date(9999, 12, 30),
    date(9999, 12, 31),
    date(1, 1, 1),
    date(1, 1, 2),
    date(1, 1, 1),
]


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgresql"])
def test_dates(make_database: Any, kind: str) -> None:
    database = make_database(kind)
    as_text = str if kind == "sqlite" else lambda value: value
    check_means(database, "date", DATES, lambda values: as_text(date_mean(values)))


LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999)
MOMENTS = [datetime(2000, 1, 1, 12, 0, 0, x) for x in (1, 2, 2)]
MOMENTS += [LAST, LAST - timedelta(microseconds=1), LAST]
MOMENTS += [datetime(1, 1, 1, 0, 0, 0, x) for x in (0, 1, 3)]
MOMENTS += [datetime(1969, 12, 31, 23, 59, 59, x) for x in (999_999, 999_998, 999_998)]
# Halves of seconds, near and beyond 2**53 microseconds.
SECONDS = [
    datetime(year, 1, 1, 0, 0, second)
    for year, seconds in (
        (2000, (0, 1, 1)),
        (9000, (1, 2, 1)),
        (1200, (9, 8, 8)),
        (5000, (3, 4, 4)),
    )
    for second in seconds
]

TIMESTAMPS = {
    "postgresql": [
        *((f"timestamp({digits})", digits) for digits in range(7)),
        ("timestamp", 6),
        ("timestamp with time zone", 6),
        ("timestamp(0) with time zone", 0),
    ],
    "duckdb": [("TIMESTAMP", 6), ("TIMESTAMP_S", 0), ("TIMESTAMP_MS", 3)],
    "sqlite": [("TIMESTAMP", 0), ("DATETIME", 3), ("TIMESTAMP", 6)],
}


def cut(value: datetime, digits: int) -> datetime:
    step = 10 ** (6 - digits)
    return value.replace(microsecond=value.microsecond // step * step)


def moments_of(kind: str, sql_type: str, digits: int) -> Column:
    mean: Any = timestamp_mean(digits)
    select_expression = "x AT TIME ZONE 'UTC'" if "zone" in sql_type else "x"
    values: list[Any] = [cut(value, digits) for value in [*MOMENTS, *SECONDS]]
    if kind == "sqlite":
        timespec = {0: "seconds", 3: "milliseconds", 6: "microseconds"}[digits]
        values = [value.isoformat(" ", timespec) for value in values]

        def mean(texts: Sequence[str]) -> str:
            moment: datetime = timestamp_mean(digits)([datetime.fromisoformat(t) for t in texts])
            return moment.isoformat(" ", timespec)
    elif "zone" in sql_type:
        values = [f"{value}+00" for value in values]

        def mean(texts: Sequence[str]) -> datetime:
            moments = [datetime.fromisoformat(t.removesuffix("+00")) for t in texts]
            moment: datetime = timestamp_mean(digits)(moments)
            return moment

    return sql_type, values, mean, select_expression


@pytest.mark.parametrize("kind", TIMESTAMPS)
def test_timestamps(make_database: Any, kind: str) -> None:
    columns = [moments_of(kind, sql_type, digits) for sql_type, digits in TIMESTAMPS[kind]]
    check_columns(make_database(kind), columns)


@pytest.mark.parametrize("sql_type", ["TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"])
def test_other_timestamps_of_duckdb(duckdb_file: DuckdbDatabase, sql_type: str) -> None:
    duckdb_file.execute("SET TimeZone = 'UTC'")
    values = [value for value in MOMENTS if 1700 < value.year < 2200]
    texts = [f"{value}+00" if "ZONE" in sql_type else str(value) for value in values]

    def mean(members: Sequence[str]) -> str:
        moments = [datetime.fromisoformat(text.removesuffix("+00")) for text in members]
        return str(timestamp_mean(6)(moments))

    check_means(
        duckdb_file,
        sql_type,
        texts,
        mean,
        "strftime(CAST(x AT TIME ZONE 'UTC' AS TIMESTAMP), '%Y-%m-%d %H:%M:%S.%f')"
        if "ZONE" in sql_type
        else "strftime(CAST(x AS TIMESTAMP), '%Y-%m-%d %H:%M:%S.%f')",
    )


INFINITE = [
    ("duckdb", "DATE", "infinity"),
    ("duckdb", "TIMESTAMP", "-infinity"),
    ("duckdb", "TIMESTAMP WITH TIME ZONE", "infinity"),
    ("duckdb", "DOUBLE", "nan"),
    ("duckdb", "FLOAT", "-inf"),
    ("sqlite", "REAL", "9e999"),
    ("postgresql", "date", "infinity"),
    ("postgresql", "date", "-infinity"),
    ("postgresql", "timestamp", "infinity"),
    ("postgresql", "timestamptz", "-infinity"),
    ("postgresql", "double precision", "NaN"),
    ("postgresql", "real", "-infinity"),
    ("postgresql", "numeric", "NaN"),
    ("postgresql", "numeric(10,2)", "NaN"),
    ("postgresql", "numeric", "1e400"),
]


@pytest.mark.parametrize(("kind", "sql_type", "text"), INFINITE)
def test_no_distance_to_infinity(make_database: Any, kind: str, sql_type: str, text: str) -> None:
    database = make_database(kind)
    number = "date" not in sql_type.lower() and "time" not in sql_type.lower()
    rows = [(i, i if number else f"2000-01-0{i}") for i in range(1, 9)]
    database.load("people", {"id": "integer PRIMARY KEY", "x": sql_type}, rows)
    value = text if kind == "sqlite" else f"'{text}'"
    database.execute(f"INSERT INTO people VALUES (20, {value})")
    state = database.state()
    with pytest.raises(NonFiniteValue, match=r'Column "x" holds .*infinity in 1 of 9 rows'):
        database.anonymize(quasi_identifiers=["x"])
    assert database.state() == state


def test_numbers_below_the_smallest_float_count_as_zero(postgresql: PostgresqlDatabase) -> None:
    rows = [(i, Decimal(10) ** -400 * i) for i in range(3)] + [(i, i) for i in range(10, 13)]
    postgresql.load("people", {"id": "integer PRIMARY KEY", "x": "numeric"}, rows)
    report = postgresql.anonymize(quasi_identifiers=["x"])
    assert report.classes == 2
    released_rows = postgresql.rows("SELECT DISTINCT x FROM release.people ORDER BY x")
    assert released_rows == [(Decimal(10) ** -400,), (Decimal(11),)]


def test_sentinels_are_ordinary_values(database: Database) -> None:
    means = check_means(
        database, database.types["integer"], [-999] * 3 + [1, 2, 3] + [9999] * 3, integer_mean
    )
    assert sorted(means) == [(0, -999)] * 3 + [(1, 2)] * 3 + [(2, 9999)] * 3


def test_constant_columns_change_nothing(database: Database) -> None:
    rows = [(i, i * i, 7, Decimal("0.10"), date(2000, 1, 1)) for i in range(20)]
    columns = {
        "id": "integer PRIMARY KEY",
        "x": "integer",
        "c": "integer",
        "d": database.types["decimal"],
        "e": "date",
    }
    database.load("people", columns, rows)
    names = ["x", "c", "d", "e"]
    with_constants = database.anonymize(quasi_identifiers=names)
    released_rows = database.rows(f"SELECT * FROM {database.relation('release.people')}")
    assert len({(c, str(d), str(e)) for _, c, d, e in released_rows}) == 1
    without_constants = database.anonymize(quasi_identifiers=["x"], if_exists="replace")
    assert with_constants.internal.information_loss == without_constants.internal.information_loss
    again = database.rows(f"SELECT x FROM {database.relation('release.people')}")
    assert sorted(x for x, *_ in released_rows) == sorted(x for (x,) in again)


def test_all_rows_identical(database: Database) -> None:
    columns = {"id": "integer PRIMARY KEY", "x": "integer", "y": database.types["double"]}
    database.load("people", columns, [(i, 5, 0.1) for i in range(11)])
    report = database.anonymize(quasi_identifiers=["x", "y"])
    # Three classes of equal values are one to whoever counts.
    assert (report.classes, report.k_achieved) == (1, 11)
    assert report.internal.information_loss == report.internal.information_loss_before_rounding == 0
    assert set(database.rows(f"SELECT x, y FROM {database.relation('release.people')}")) == {
        (5, 0.1)
    }


@pytest.mark.parametrize(("width", "nullable"), [(1, False), (64, False), (70, True)])
def test_one_and_many_quasi_identifiers(database: Database, width: int, nullable: bool) -> None:
    names = [f"c{i}" for i in range(width)]
    rows = [(i, *((i * (j + 3)) % 11 for j in range(width))) for i in range(30)]
    if nullable:
        rows = [(*row[:-1], None) if row[0] % 2 else row for row in rows]
    columns = {"id": "integer PRIMARY KEY"} | dict.fromkeys(names, "integer")
    database.load("people", columns, rows)
    report = database.anonymize(quasi_identifiers=names, nulls="category")
    assert len(report.internal.column_losses) == width
    assert report.null_rows == (15 if nullable else 0)
    last = database.rows(f"SELECT count({names[-1]}) FROM {database.relation('release.people')}")
    assert last == [(15 if nullable else 30,)]
