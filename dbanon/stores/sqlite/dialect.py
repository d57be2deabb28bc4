"""SQLite's dialect: how values of each column type are read, staged and released.

It also chooses the types for columns that come from other databases.
"""

from __future__ import annotations

import functools
import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

import numpy as np

from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.conversion import TIME_UNITS, texts_to_numbers
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.kernels import hash_rows, take_numbers
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import require_years, uncopyable_type_error, uncopyable_value_error
from dbanon.sessions.dialect import Dialect
from dbanon.sessions.names import quote

# A value as SQLite stores it, in one of its storage classes.
SqliteValue: TypeAlias = int | float | str | bytes | None

# Words that begin a column constraint for SQLite's parser.
_CONSTRAINT_KEYWORDS = frozenset(
    [
        "AS",
        "CHECK",
        "COLLATE",
        "CONSTRAINT",
        "DEFAULT",
        "GENERATED",
        "NOT",
        "NULL",
        "PRIMARY",
        "REFERENCES",
        "UNIQUE",
    ]
)
_MIN_INTEGER = -(2**63)
# The storage classes, as typeof() names them, that a column of each kind may hold.
STORAGE_CLASSES = {
    Kind.INTEGER: ("integer",),
    Kind.DECIMAL: ("integer", "real"),
    Kind.FLOAT: ("integer", "real"),
    Kind.DATE: ("text",),
    Kind.TIMESTAMP: ("text",),
    Kind.BOOLEAN: ("integer",),
    Kind.CATEGORY: ("text",),
    Kind.ORDINAL: ("text",),
}


def well_formed_condition(attribute: Attribute) -> str:
    """Build SQL that is true if a stored value matches the column's declared type."""
    column = f"s.{quote(attribute.name)}"
    storage_classes = ", ".join(f"'{name}'" for name in STORAGE_CLASSES[attribute.kind])
    condition = f"typeof({column}) IN ({storage_classes})"
    if attribute.kind is Kind.BOOLEAN:
        condition += f" AND {column} IN (0, 1)"
    elif attribute.kind is Kind.DATE:
        # date() accepts impossible days and rolls them over into the next month.
        condition += f" AND date({column}, '+0 days') = {column}"
    elif attribute.kind is Kind.TIMESTAMP:
        second = f"substr({column}, 1, 19)"
        fraction = f"substr({column}, 20)"
        # datetime() writes a space for the T, and adds midnight to a date without a time.
        accepted_forms = f"replace({second}, 'T', ' '), {column} || ' 00:00:00'"
        condition += (
            f" AND datetime({second}, '+0 days') IN ({accepted_forms})"
            f" AND ({fraction} = '' OR {fraction} GLOB '.[0-9]*'"
            f" AND NOT {fraction} GLOB '.*[^0-9]*' AND length({fraction}) <= 7)"
        )
    return condition


def malformed_count(attribute: Attribute) -> str:
    """Build an aggregate: the number of values that do not match the column's declared type."""
    column = f"s.{quote(attribute.name)}"
    if STORAGE_CLASSES[attribute.kind] == ("integer", "real"):
        # Texts and BLOBs sort after all numbers; a comparison takes a third of the time.
        return f"count(*) FILTER (WHERE {column} COLLATE BINARY >= '')"
    return f"sum({column} IS NOT NULL AND ({well_formed_condition(attribute)}) IS NOT 1)"


def longest_or_largest_expression(attribute: Attribute) -> str:
    """Build an aggregate: the length of the longest timestamp, or the largest absolute decimal.

    It shows what the declared type leaves open; see ``with_observed_digits``. It is NULL for
    columns of other kinds.
    """
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.DECIMAL:
        # abs() of the smallest integer is an error.
        safe_value = (
            f"CASE WHEN {column} = {_MIN_INTEGER} THEN CAST({column} AS REAL) ELSE {column} END"
        )
        return f"max(abs({safe_value}))"
    return f"max(length({column}))" if attribute.kind is Kind.TIMESTAMP else "NULL"


def with_observed_digits(attribute: Attribute, longest_or_largest: float | None) -> Attribute:
    """Set the scale of timestamps, or the precision of decimals, by the stored values.

    Parameters
    ----------
    longest_or_largest : the result of the SQL that ``longest_or_largest_expression`` builds; None
        if all values are NULL.
    """
    if attribute.kind is Kind.TIMESTAMP:
        # The digits after this prefix are the fraction of a second.
        n_digits = max(int(longest_or_largest or 0) - len("2000-01-01 00:00:00."), 0)
        return replace(attribute, scale=n_digits)
    if attribute.kind is Kind.DECIMAL and (longest_or_largest or 0) >= 10 ** (
        attribute.precision - attribute.scale
    ):
        # SQLite does not enforce the declared precision; other databases do.
        return replace(attribute, precision=38)
    return attribute


def describe_expected(attribute: Attribute) -> str:
    """Describe, for an error message, what a stored value of a column must look like."""
    if attribute.kind is Kind.DATE:
        return "written as YYYY-MM-DD"
    if attribute.kind is Kind.TIMESTAMP:
        return "written as YYYY-MM-DD HH:MM:SS[.ffffff]"
    if attribute.kind is Kind.BOOLEAN:
        return "0 or 1"
    return "stored as " + " or ".join(STORAGE_CLASSES[attribute.kind])


def quote_type(sql_type: str) -> str:
    """Write a declared type so that CREATE TABLE accepts it.

    SQLite accepts any quoted text as a type, and reports it without quotes. Quote it again unless
    it is an ordinary type name.
    """
    is_type_name = re.fullmatch(
        r"[A-Za-z_][\w ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?|", sql_type, re.ASCII
    )
    # SQLite would parse these words as the start of a constraint, not as part of the type.
    keywords = {word.upper() for word in re.findall(r"[A-Za-z]+", sql_type)}
    return sql_type if is_type_name and not keywords & _CONSTRAINT_KEYWORDS else quote(sql_type)


def has_real_affinity(declared_type: str) -> bool:
    """Whether a table's column of a declared type stores all numbers as floats."""
    upper_type = declared_type.upper()
    # SQLite decides by the first of these that occurs, in this order.
    words = ("INT", "CHAR", "CLOB", "TEXT", "BLOB", "REAL", "FLOA", "DOUB")
    deciding_word = next((word for word in words if word in upper_type), "")
    return deciding_word in ("REAL", "FLOA", "DOUB")


def to_attribute(name: str, declared_type: str, nullable: bool) -> Attribute:
    """Build a column's attribute from its declared type, by SQLite's affinity rules."""
    upper_type = declared_type.upper()
    kind, precision, scale = Kind.OTHER, 0, 0
    precision_and_scale = re.search(r"\((\d+)\s*(?:,\s*(\d+))?\)", upper_type)
    if "BOOL" in upper_type:
        kind = Kind.BOOLEAN
    elif "INT" in upper_type:
        kind = Kind.INTEGER
    elif any(word in upper_type for word in ("CHAR", "CLOB", "TEXT")):
        kind = Kind.CATEGORY
    elif any(word in upper_type for word in ("REAL", "FLOA", "DOUB")):
        kind = Kind.FLOAT
    elif "TIME" in upper_type:
        kind = Kind.TIMESTAMP if upper_type.startswith(("DATETIME", "TIMESTAMP")) else Kind.OTHER
    elif "DATE" in upper_type:
        kind = Kind.DATE
    elif upper_type.startswith(("DEC", "NUM")):
        kind = Kind.FLOAT
        if precision_and_scale is not None:
            kind = Kind.DECIMAL
            precision, scale = int(precision_and_scale[1]), int(precision_and_scale[2] or 0)
    return Attribute(
        name, kind, sql_type=declared_type, nullable=nullable, precision=precision, scale=scale
    )


def take_chunk(
    rows: Iterator[tuple[SqliteValue, ...]], chunk_rows: int, attributes: Sequence[Attribute]
) -> Chunk:
    """Take up to ``chunk_rows`` rows from a cursor; the chunk is empty at the end.

    Parameters
    ----------
    rows : rows of a row key and the stored value, or the code, of each attribute.
    """
    # Dates and timestamps are stored as texts.
    is_number = [attribute.kind not in TIME_UNITS for attribute in attributes]
    keys, flat_numbers, missing, texts = take_numbers(rows, chunk_rows, is_number)
    numbers = flat_numbers.reshape(len(keys), len(attributes))
    valid = None
    if len(missing):
        valid = np.ones(numbers.shape, bool)
        valid.flat[missing] = False
    for position, attribute in enumerate(attributes):
        if attribute.kind in TIME_UNITS:
            unit = TIME_UNITS[attribute.kind]
            numbers[:, position] = texts_to_numbers(texts[position], unit)
    return chunk_from_columns(keys.reshape(-1, 1), numbers, valid, attributes)


def stored_values(column: ReleasedColumn) -> Sequence[SqliteValue]:
    """Convert the values of classes to what SQLite stores; None where NULL."""
    attribute, values = column.attribute, column.values
    stored: list[SqliteValue]
    if attribute.kind in (Kind.DATE, Kind.TIMESTAMP):
        # Raises UnsupportedType.
        require_years(column, first_year=0, database="SQLite")
    if attribute.kind is Kind.DATE:
        stored = np.datetime_as_string(values.astype("datetime64[D]")).tolist()
    elif attribute.kind is Kind.TIMESTAMP:
        time_unit = "s" if attribute.scale == 0 else "ms" if attribute.scale <= 3 else "us"
        timestamps = values.astype("datetime64[us]").astype(f"datetime64[{time_unit}]")
        stored = np.char.replace(np.datetime_as_string(timestamps), "T", " ").tolist()
    elif attribute.kind is Kind.DECIMAL:
        # The values are integers without the decimal point.
        divisor = 10**attribute.scale
        # Integers beyond 64 bits are stored as floats, like all decimals with a scale.
        stored = [
            int(value) if divisor == 1 and _fits_integer(int(value)) else int(value) / divisor
            for value in values
        ]
    elif attribute.kind is Kind.INTEGER and values.dtype == object:
        stored = [_to_storable_integer(int(value)) for value in values]
    else:
        stored = values.tolist()
    if column.missing is not None:
        stored = [
            None if is_missing else value
            for value, is_missing in zip(stored, column.missing, strict=True)
        ]
    return stored


def to_storable(value: object) -> SqliteValue:
    """Convert a value from another database to one that SQLite can store."""
    if isinstance(value, (float, Decimal)) and value != value:
        # SQLite would silently store NaN as NULL.
        raise uncopyable_value_error()
    if isinstance(value, int):
        return _to_storable_integer(value)
    if value is None or isinstance(value, (float, str, bytes)):
        return value
    if isinstance(value, Decimal):
        if value.is_infinite():
            raise uncopyable_value_error()
        return float(value) if int(value) != value else _to_storable_integer(int(value))
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return str(value)


def _fits_integer(value: int) -> bool:
    """Whether SQLite can store an integer, in 64 bits."""
    return _MIN_INTEGER <= value < -_MIN_INTEGER


def _to_storable_integer(value: int) -> int | float:
    """Convert an integer to one that SQLite can store, or else to a float if that is exact."""
    if _fits_integer(value):
        return value
    if value.bit_length() > 1023 or value != float(value):
        raise UnsupportedType(
            "A column holds integers of more than 64 bits, which SQLite cannot store exactly.",
            hint="Cast the column to text or to floating point in a view, or name another database"
            " as the target.",
        )
    return float(value)


# Stored in digests; changes whenever rows are hashed in another way.
DIGEST_METHOD = "sqlite1"
# Texts are fetched as bytearrays, which differ from BLOBs and need not be valid UTF-8.
_PROBE_ROW = (1, -(2**40), 2.5, None, bytearray(b"text"), b"blob")


def digest_of_query(connection: sqlite3.Connection, query: str, salt: int) -> tuple[int, int]:
    """Return the number of rows of a query, and the sum of their hashes."""
    text_factory = connection.text_factory
    connection.text_factory = bytearray
    try:
        return _hash_rows(connection.execute(query), salt)
    finally:
        connection.text_factory = text_factory


def digest_probe() -> str:
    """Hash a constant row, to detect a change of the hash function."""
    return str(_hash_rows([_PROBE_ROW], 1)[1])


def _hash_rows(rows: Iterable[tuple[object, ...]], salt: int) -> tuple[int, int]:
    """Return the number of rows, and the sum of their hashes."""
    n_rows, high_word, low_word = hash_rows(rows, salt.to_bytes(8, "little"))
    return n_rows, (high_word << 64) + low_word


# Names of SQL functions that are written in Python.
_MATCH_FUNCTION, _CASEFOLD_FUNCTION = "dbanon_matches", "dbanon_folded"


@functools.cache
def _compiled_search(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return the search of a pattern; ``re`` looks patterns up more slowly."""
    return re.compile(pattern).search


def _matches(text: object, pattern: str) -> bool:
    """Whether a pattern occurs in a text; False for other values."""
    return isinstance(text, str) and _compiled_search(pattern)(text) is not None


class SqliteDialect(Dialect):
    """The SQL of SQLite, with functions that SQLite lacks, which it defines on the connection.

    Parameters
    ----------
    driver : the connection of Python's module sqlite3.
    """

    random_number = "(random() & 4294967295) / 4294967296.0"
    unsupported_in_views = frozenset(["true", "false"])

    def __init__(self, driver: sqlite3.Connection) -> None:
        self._driver = driver

    def text_of(self, attribute: Attribute) -> str:
        return f"CAST(s.{quote(attribute.name)} AS TEXT) COLLATE BINARY"

    def sort_key(self, attribute: Attribute) -> str:
        return f"{super().sort_key(attribute)} COLLATE BINARY"

    def lowercase_sql(self, text: str) -> str:
        # SQLite's own lower() handles only ASCII.
        self._driver.create_function(
            _CASEFOLD_FUNCTION, 1, lambda value: value and value.casefold(), deterministic=True
        )
        return f"{_CASEFOLD_FUNCTION}({text})"

    def matches(self, text: str, pattern: str) -> str:
        self._driver.create_function(_MATCH_FUNCTION, 2, _matches, deterministic=True)
        return f"{_MATCH_FUNCTION}({text}, '{pattern}')"

    def declared_type(self, sql_type: str) -> str:
        return quote_type(sql_type)

    def cast_parameter(self, sql_type: str) -> str:
        # SQLite converts the parameter, a text, to the affinity of the column that it is compared
        # with. CAST to DATE would yield a number instead.
        return "?"

    def texts_query(self, values: Sequence[str]) -> tuple[str, object]:
        return "SELECT value FROM json_each(?)", json.dumps(values)

    def bounded_number(self, attribute: Attribute, low: str, high: str) -> str:
        column, kind = f"s.{quote(attribute.name)}", attribute.kind
        if kind is Kind.DATE:
            # Days since 1970-01-01, which begins at the Julian day 2440587.5.
            condition, number = well_formed_condition(attribute), f"julianday({column}) - 2440587.5"
        elif attribute.has_time_zone:
            # A text copied from another database, which may end with its distance from UTC.
            zone = f"CASE WHEN substr({column}, -6, 1) IN ('+', '-') THEN substr({column}, -6) END"
            instant = f"substr({column}, 1, 19) || coalesce({zone}, '')"
            condition = f"{column} IS NOT NULL"
            number = f"CAST(strftime('%s', {instant}) AS REAL) * 1000000"
        elif kind is Kind.TIMESTAMP:
            condition = well_formed_condition(attribute)
            number = f"CAST(strftime('%s', substr({column}, 1, 19)) AS REAL) * 1000000"
        else:
            # SQLite does not enforce column types, so accept any stored number.
            condition, number = (
                f"typeof({column}) IN ('integer', 'real')",
                f"CAST({column} AS REAL)",
            )
        return f"CASE WHEN {condition} THEN {number} END"

    def day_of(self, attribute: Attribute) -> str:
        return f"substr(s.{quote(attribute.name)}, 1, 10)"

    def shifted_date(self, attribute: Attribute, days: str) -> str:
        # Dates and timestamps are texts. The time of day follows ten characters.
        column = f"s.{quote(attribute.name)}"
        return f"date(substr({column}, 1, 10), {days} || ' days') || substr({column}, 11)"

    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        # The alias c has the staged values of the classes, as they are released.
        return f"c.{statements.value_column(position)}"

    def quotient_and_remainder(self, attribute: Attribute) -> tuple[str, str]:
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.TIMESTAMP:
            # Split whole seconds from the fraction: SQLite rounds timestamps to milliseconds.
            seconds = f"CAST(strftime('%s', substr({column}, 1, 19)) AS INTEGER)"
            fraction = (
                f"CAST(substr(substr({column}, 21) || '000000', 1, {attribute.scale}) AS INTEGER)"
            )
            column = f"({seconds} * {10**attribute.scale} + {fraction})"
        return f"{column} / n.size", f"{column} % n.size"

    def type_of(self, attribute: Attribute) -> str:
        if attribute.kind is Kind.OTHER:
            raise uncopyable_type_error(attribute)
        if attribute.kind is Kind.DECIMAL:
            return f"DECIMAL({attribute.precision or 38},{attribute.scale})"
        return {
            Kind.INTEGER: "INTEGER",
            Kind.FLOAT: "REAL",
            Kind.DATE: "DATE",
            Kind.TIMESTAMP: "TIMESTAMP",
            Kind.BOOLEAN: "BOOLEAN",
            Kind.CATEGORY: "TEXT",
        }[attribute.kind]
