"""Column types of SQLite: how values are read and released, and how other types are mapped."""

from __future__ import annotations

import hashlib
import marshal
import math
import re
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import OnSql, local_type_error, require_years, uncopyable_value_error
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.file_session import FileSession

_CONSTRAINTS = frozenset(
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
STORED_AS = {
    Kind.INTEGER: ("integer",),
    Kind.DECIMAL: ("integer", "real"),
    Kind.FLOAT: ("integer", "real"),
    Kind.DATE: ("text",),
    Kind.TIMESTAMP: ("text",),
    Kind.BOOLEAN: ("integer",),
    Kind.CATEGORY: ("text",),
    Kind.ORDINAL: ("text",),
}


def is_well_formed(attribute: Attribute) -> str:
    """SQL that is true if a stored value matches the column's declared type."""
    column = f"s.{quote(attribute.name)}"
    storage_classes = ", ".join(f"'{name}'" for name in STORED_AS[attribute.kind])
    condition = f"typeof({column}) IN ({storage_classes})"
    if attribute.kind is Kind.BOOLEAN:
        condition += f" AND {column} IN (0, 1)"
    elif attribute.kind is Kind.DATE:
        # date() accepts impossible days and rolls them over into the next month.
        condition += f" AND date({column}, '+0 days') = {column}"
    elif attribute.kind is Kind.TIMESTAMP:
        second = f"substr({column}, 1, 19)"
        fraction = f"substr({column}, 20)"
        midnight_forms = f"replace({second}, 'T', ' '), {column} || ' 00:00:00'"
        condition += (
            f" AND datetime({second}, '+0 days') IN ({midnight_forms})"
            f" AND ({fraction} = '' OR {fraction} GLOB '.[0-9]*'"
            f" AND NOT {fraction} GLOB '.*[^0-9]*' AND length({fraction}) <= 7)"
        )
    return condition


def bounded(attribute: Attribute, low: str, high: str) -> str:
    """SQL for a value as a number; NULL if the stored value does not match the column's type.

    ``low`` and ``high`` are ignored, because REAL holds every number and date.
    """
    column, kind = f"s.{quote(attribute.name)}", attribute.kind
    if kind is Kind.DATE:
        condition, number = is_well_formed(attribute), f"julianday({column}) - 2440587.5"
    elif kind is Kind.TIMESTAMP:
        condition = is_well_formed(attribute)
        number = f"CAST(strftime('%s', substr({column}, 1, 19)) AS REAL) * 1000000"
    else:
        # SQLite does not enforce column types, so accept any stored number.
        condition, number = f"typeof({column}) IN ('integer', 'real')", f"CAST({column} AS REAL)"
    return f"CASE WHEN {condition} THEN {number} END"


def extent(attribute: Attribute) -> str:
    """SQL for the longest text of a timestamp, or the largest absolute value of a decimal."""
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.DECIMAL:
        # abs() of the smallest integer is an error.
        amount = (
            f"CASE WHEN {column} = {_MIN_INTEGER} THEN CAST({column} AS REAL) ELSE {column} END"
        )
        return f"max(abs({amount}))"
    return f"max(length({column}))" if attribute.kind is Kind.TIMESTAMP else "NULL"


def with_extent(attribute: Attribute, extent: Any) -> Attribute:
    """Refine an attribute with the extent of its values: fractional digits, or full precision."""
    if attribute.kind is Kind.TIMESTAMP:
        digits = max((extent or 0) - len("2000-01-01 00:00:00."), 0)
        return replace(attribute, scale=digits)
    if attribute.kind is Kind.DECIMAL and (extent or 0) >= 10 ** (
        attribute.precision - attribute.scale
    ):
        # SQLite does not enforce the declared precision; other databases do.
        return replace(attribute, precision=38)
    return attribute


def expected(attribute: Attribute) -> str:
    """Describe, for an error message, what a stored value of a column must look like."""
    if attribute.kind is Kind.DATE:
        return "written as YYYY-MM-DD"
    if attribute.kind is Kind.TIMESTAMP:
        return "written as YYYY-MM-DD HH:MM:SS[.ffffff]"
    if attribute.kind is Kind.BOOLEAN:
        return "0 or 1"
    return "stored as " + " or ".join(STORED_AS[attribute.kind])


def declared(sql_type: str) -> str:
    """A declared type as CREATE TABLE accepts it.

    SQLite accepts any quoted text as a type and reports it without quotes. Anything but a plain
    type name is quoted again so that it stays one name.
    """
    plain = re.fullmatch(r"[A-Za-z_][\w ]*(\(\s*\d+\s*(,\s*\d+\s*)?\))?|", sql_type, re.ASCII)
    # SQLite would parse these words as the start of a constraint, not as part of the type.
    words = {word.upper() for word in re.findall(r"[A-Za-z]+", sql_type)}
    return sql_type if plain and not words & _CONSTRAINTS else quote(sql_type)


def attribute(name: str, declared: str, nullable: bool) -> Attribute:
    """Build a column's attribute from its declared type, by SQLite's affinity rules."""
    upper = declared.upper()
    kind, precision, scale = Kind.OTHER, 0, 0
    limits = re.search(r"\((\d+)\s*(?:,\s*(\d+))?\)", upper)
    if "BOOL" in upper:
        kind = Kind.BOOLEAN
    elif "INT" in upper:
        kind = Kind.INTEGER
    elif any(word in upper for word in ("CHAR", "CLOB", "TEXT")):
        kind = Kind.CATEGORY
    elif any(word in upper for word in ("REAL", "FLOA", "DOUB")):
        kind = Kind.FLOAT
    elif "TIME" in upper:
        kind = Kind.TIMESTAMP if upper.startswith(("DATETIME", "TIMESTAMP")) else Kind.OTHER
    elif "DATE" in upper:
        kind = Kind.DATE
    elif upper.startswith(("DEC", "NUM")):
        kind = Kind.FLOAT
        if limits is not None:
            kind = Kind.DECIMAL
            precision, scale = int(limits[1]), int(limits[2] or 0)
    return Attribute(
        name, kind, sql_type=declared, nullable=nullable, precision=precision, scale=scale
    )


def chunk(
    keys: NDArray[np.int64],
    columns: Sequence[tuple[Any, ...]],
    attributes: Sequence[Attribute],
) -> Chunk:
    numbers = np.empty((len(keys), len(attributes)))
    valid = None
    for position, (attribute, values) in enumerate(zip(attributes, columns, strict=True)):
        if None in values:
            if valid is None:
                valid = np.ones(numbers.shape, bool)
            valid[:, position] = [value is not None for value in values]
        numbers[:, position] = _numbers(attribute, values)
    return chunk_from_columns(keys, numbers, valid, attributes)


def _numbers(attribute: Attribute, values: Sequence[Any]) -> NDArray[np.float64]:
    """Convert stored values to numbers, float64 (c,); 0 where NULL."""
    if attribute.kind not in (Kind.DATE, Kind.TIMESTAMP):
        return np.array([0 if value is None else value for value in values], np.float64)
    unit = "D" if attribute.kind is Kind.DATE else "us"
    texts = ["1970-01-01" if value is None else value for value in values]
    timestamps = np.array(texts, dtype=f"datetime64[{unit}]")
    return timestamps.astype(np.int64).astype(np.float64)


def stored_values(column: ReleasedColumn) -> Sequence[Any]:
    """Class values as SQLite stores them, None where NULL."""
    attribute, values = column.attribute, column.values
    stored: list[Any]
    if attribute.kind in (Kind.DATE, Kind.TIMESTAMP):
        require_years(column, 0, "SQLite")
    if attribute.kind is Kind.DATE:
        stored = np.datetime_as_string(values.astype("datetime64[D]")).tolist()
    elif attribute.kind is Kind.TIMESTAMP:
        unit = "s" if attribute.scale == 0 else "ms" if attribute.scale <= 3 else "us"
        timestamps = values.astype("datetime64[us]").astype(f"datetime64[{unit}]")
        stored = np.char.replace(np.datetime_as_string(timestamps), "T", " ").tolist()
    elif attribute.kind is Kind.DECIMAL:
        unit = 10**attribute.scale
        # Integers beyond 64 bits are stored as floats, like all decimals with a scale.
        stored = [
            int(value) if unit == 1 and _is_integer(int(value)) else int(value) / unit
            for value in values
        ]
    elif attribute.kind is Kind.INTEGER and values.dtype == object:
        stored = [_integer(int(value)) for value in values]
    else:
        stored = values.tolist()
    if column.missing is not None:
        stored = [
            None if is_missing else value
            for value, is_missing in zip(stored, column.missing, strict=True)
        ]
    return stored


def storable(value: Any) -> Any:
    """Convert a value of another database to one that SQLite can store."""
    if isinstance(value, (float, Decimal)) and value != value:
        # SQLite would silently store NaN as NULL.
        raise uncopyable_value_error()
    if isinstance(value, int):
        return _integer(value)
    if value is None or isinstance(value, (float, str, bytes)):
        return value
    if isinstance(value, Decimal):
        if value.is_infinite():
            raise uncopyable_value_error()
        return float(value) if int(value) != value else _integer(int(value))
    if hasattr(value, "hour"):
        return value.isoformat(sep=" ")
    return str(value)


def _is_integer(value: int) -> bool:
    return _MIN_INTEGER <= value < -_MIN_INTEGER


def _integer(value: int) -> int | float:
    """An integer as SQLite stores it: a float if it is too wide and the float is exact."""
    if _is_integer(value):
        return value
    if value.bit_length() > 1023 or value != float(value):
        raise UnsupportedType(
            "A column holds integers of more than 64 bits, which SQLite cannot store exactly.",
            hint="Cast the column to text or to floating point in a view, or name another database"
            " as the target.",
        )
    return float(value)


def released_expression(position: int, column: ReleasedColumn) -> str:
    return f"c.{statements.value_column(position)}"


def wide_parts(attribute: Attribute) -> tuple[str, str]:
    """SQL for quotient and remainder of a value by ``n.size``, in integers; for exact sums."""
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.TIMESTAMP:
        # Split whole seconds from the fraction, because SQLite rounds timestamps to milliseconds.
        seconds = f"CAST(strftime('%s', substr({column}, 1, 19)) AS INTEGER)"
        fraction = (
            f"CAST(substr(substr({column}, 21) || '000000', 1, {attribute.scale}) AS INTEGER)"
        )
        column = f"({seconds} * {10**attribute.scale} + {fraction})"
    return f"{column} / n.size", f"{column} % n.size"


def type_of(attribute: Attribute) -> str:
    if attribute.kind is Kind.OTHER:
        raise local_type_error(attribute)
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


DIGEST_WAY = "sqlite1"
_DIGEST_BITS = 128

# The serialized bytes of a row. This marshal version has been stable since Python 2.5. Texts are
# wrapped in a tuple of their bytes so that they differ from BLOBs and need not be valid UTF-8.
_FORMAT = 2
_PROBE = (1, -(2**40), 2.5, None, (b"text",), b"blob")


def digest_of_query(connection: sqlite3.Connection, query: str, salt: int) -> tuple[int, int]:
    """Return a query's row count and the sum of its row hashes."""
    text_factory = connection.text_factory
    connection.text_factory = _text
    try:
        return hash_rows(connection.execute(query), salt)
    finally:
        connection.text_factory = text_factory


def hash_rows(rows: Iterable[tuple[Any, ...]], salt: int) -> tuple[int, int]:
    """Return the row count and the sum of the row hashes."""
    # Hoist the lookups out of the loop over rows.
    start = hashlib.blake2b(salt.to_bytes(8, "little"), digest_size=_DIGEST_BITS // 8)
    copy, dumps, number = start.copy, marshal.dumps, int.from_bytes
    count = total = 0
    for row in rows:
        row_hash = copy()
        row_hash.update(dumps(row, _FORMAT))
        total += number(row_hash.digest(), "little")
        count += 1
    return count, total % 2**_DIGEST_BITS


def digest_probe() -> str:
    """The hash of a fixed row, which detects a changed hash function."""
    return str(hash_rows([_PROBE], 1)[1])


def _text(value: bytes) -> tuple[bytes]:
    return (value,)


# The SQL function that computes person tags; it exists while a key is staged.
_TAG = "dbanon_keyed_tag"
_LOGARITHM = "dbanon_ln"
_DIGEST = "dbanon_row_digest"
_MATCHES, _FOLDED = "dbanon_matches", "dbanon_folded"  # SQLite's lower() handles only ASCII.
# Few enough bytes that sums over thousands of rows remain 64-bit integers.
_DIGEST_BYTES = 6


def _matches(text: object, pattern: str) -> bool:
    return isinstance(text, str) and re.search(pattern, text) is not None


class SqliteStagingSession(FileSession):
    """The staging and SQL functions that chains need."""

    def __init__(self, driver: sqlite3.Connection, on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        self._driver = driver
        self._has_tag_function = False

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        def tag(text: str | None) -> bytes | None:
            if text is None:
                return None
            inner_hash = hashlib.sha256(inner + text.encode()).digest()
            return (hashlib.sha256(outer + inner_hash).digest() if outer else inner_hash)[:16]

        self._driver.create_function(_TAG, 1, tag, deterministic=True)
        self._has_tag_function = True

    def drop_staging(self) -> None:
        super().drop_staging()
        if self._has_tag_function:
            # Otherwise the caller's connection would retain the key.
            self._driver.create_function(_TAG, 1, None)

    def stage_other_key(self, inner: bytes, outer: bytes) -> None:
        self.stage_key(inner, outer)

    def logarithm(self, number: str) -> str:
        # SQLite may be built without math functions.
        self._driver.create_function(_LOGARITHM, 1, math.log, deterministic=True)
        return f"{_LOGARITHM}({number})"

    def lowercase_sql(self, text: str) -> str:
        self._driver.create_function(_FOLDED, 1, lambda t: t and t.casefold(), deterministic=True)
        return f"{_FOLDED}({text})"

    def matches(self, text: str, pattern: str) -> str:
        self._driver.create_function(_MATCHES, 2, _matches, deterministic=True)
        return f"{_MATCHES}({text}, '{pattern}')"

    def keyed_tag(self, text: str) -> str:
        return f"{_TAG}({text})"

    def pseudonym_of(self, text: str) -> str:
        # hex(NULL) is the empty text in SQLite.
        return f"nullif({super().pseudonym_of(text)}, '')"

    def row_digest(self, relation: RelationName, names: Sequence[str]) -> str:
        salt = secrets.token_bytes(16)

        def digest(*values: float | str | bytes | None) -> int:
            row_hash = hashlib.blake2b(repr(values).encode(), key=salt, digest_size=_DIGEST_BYTES)
            return int.from_bytes(row_hash.digest(), "big")

        # The salt is drawn per call, so digests are comparable only within this connection.
        self._driver.create_function(_DIGEST, -1, digest, deterministic=True)
        return f"{_DIGEST}({', '.join(f's.{quote(name)}' for name in names)})"

    def random_order_key(self, alias: str) -> str:
        return "randomblob(16)"
