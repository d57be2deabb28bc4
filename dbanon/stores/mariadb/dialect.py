"""MariaDB's column types: reading, releasing and converting values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DatabaseFailure
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import local_type_error, require_years, uncopyable_value_error
from dbanon.sessions.names import RelationName, quote

# Compares texts by bytes, without padding the shorter one with spaces.
COLLATION = "utf8mb4_nopad_bin"
TEXT = f"CHARACTER SET utf8mb4 COLLATE {COLLATION}"
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum")
_INTEGERS = {"tinyint": 16, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
_WIDEST = 65
# A point: reference system, byte order, geometry type, and two doubles.
_HEAD = b"\0\0\0\0\x01\x01\0\0\0"
_POINT = len(_HEAD) + 16
UNKNOWN_POINTS = "This server writes points in a way that dbanon does not know."

# Replacements for shared SQL that MariaDB spells differently.
_REPLACEMENTS = {
    " AS TEXT)": " AS CHAR)",
    " AS DOUBLE PRECISION)": " AS DOUBLE)",
    "AS MATERIALIZED (": "AS (",
    # Classes are many and small: sorting rows takes half as long as looking each up.
    "(SELECT count(*) AS size": "(SELECT SQL_BIG_RESULT count(*) AS size",
}
_TOKEN = re.compile(
    r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|\'(?:[^\'\\]|\\.|\'\')*\'|(\?)|('
    + "|".join(map(re.escape, _REPLACEMENTS))
    + ")",
    re.DOTALL,
)


def to_mariadb(sql: str, *, bound: bool) -> str:
    """Translate a statement for MariaDB and its driver, except names and literals.

    Parameters
    ----------
    bound : whether there are bind parameters, so that the driver looks for its own marks.
    """

    def replacement(match: re.Match[str]) -> str:
        if match[1]:
            return "%s" if bound else "?"
        if match[2]:
            return _REPLACEMENTS[match[2]]
        return match[0].replace("%", "%%") if bound else match[0]

    if not bound:
        return _TOKEN.sub(replacement, sql)
    pieces, end = [], 0
    for match in _TOKEN.finditer(sql):
        pieces += [sql[end : match.start()].replace("%", "%%"), replacement(match)]
        end = match.end()
    return "".join([*pieces, sql[end:].replace("%", "%%")])


def attribute(
    name: str, declared: str, nullable: bool, precision: int, scale: int, digits: int
) -> Attribute:
    """Build the attribute for a column from its declared type and number of digits."""
    word = re.split(r"[ (]", declared, maxsplit=1)[0]
    kind, bits = Kind.OTHER, 64
    order: tuple[str, ...] = ()
    if declared == "tinyint(1)":
        kind = Kind.BOOLEAN
    elif word in _INTEGERS:
        kind, bits = Kind.INTEGER, _INTEGERS[word]
        if "unsigned" in declared:
            bits = min(2 * bits, 128) if bits > 16 or word == "smallint" else 16
    elif word == "year":
        kind, bits = Kind.INTEGER, 16
    elif word == "decimal" and precision <= 38:
        kind = Kind.DECIMAL
    elif word == "double":
        kind = Kind.FLOAT
    elif word == "date":
        kind = Kind.DATE
    elif word in ("datetime", "timestamp"):
        kind, scale = Kind.TIMESTAMP, digits
    elif word in _TEXTS:
        kind = Kind.CATEGORY
    if word == "enum":
        labels = re.findall(r"'((?:[^']|'')*)'", declared)
        order = tuple(value.replace("''", "'") for value in labels)
    if kind not in (Kind.DECIMAL, Kind.TIMESTAMP):
        precision = scale = 0
    return Attribute(
        name,
        kind,
        sql_type=declared,
        bits=bits,
        nullable=nullable,
        scale=scale,
        order=order,
        precision=precision if kind is Kind.DECIMAL else 0,
        has_time_zone=word == "timestamp",
    )


def text(attribute: Attribute, column: str) -> str:
    """SQL of a column as text that sorts by code point and compares by bytes."""
    if attribute.kind is Kind.CATEGORY:
        return f"CONVERT({column} USING utf8mb4) COLLATE {COLLATION}"
    if attribute.kind is Kind.OTHER and re.match(r"(var)?binary|\w*blob|bit", attribute.sql_type):
        return f"hex({column}) COLLATE {COLLATION}"
    if attribute.sql_type.startswith("float"):
        column = f"CAST({column} AS DOUBLE)"
    return f"CAST({column} AS CHAR CHARACTER SET utf8mb4) COLLATE {COLLATION}"


def retained_column(attribute: Attribute, column: str) -> str:
    """SQL of a column in the copy; texts get a collation that compares bytes."""
    return text(attribute, column) if attribute.kind is Kind.CATEGORY else column


def declared(sql_type: str) -> str:
    """Return a type for CREATE TABLE; texts compare by bytes, so that GROUP BY is exact."""
    word = re.split(r"[ (]", sql_type, maxsplit=1)[0]
    # Without NULL the first timestamp column would get a default and change on update.
    return f"{sql_type} {TEXT} NULL" if word in (*_TEXTS, "set") else f"{sql_type} NULL"


def number(position: int, attribute: Attribute) -> str:
    """SQL of a quasi-identifier as a number or code; NULL stays NULL."""
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.DATE:
        return f"datediff({column}, '1970-01-01')"
    if attribute.kind is Kind.TIMESTAMP:
        return f"timestampdiff(MICROSECOND, '1970-01-01', {column})"
    return f"d{position}.code" if attribute.kind.is_coded else column


def bounded(attribute: Attribute, low: str, high: str) -> str:
    return f"CAST({number(0, attribute)} AS DOUBLE)"


def bytes_per_packed_row(attributes: Sequence[Attribute]) -> int:
    """Return the bytes of a row packed by ``pack_row``."""
    return _POINT * (1 + len(attributes))


def pack_row(key: str, attributes: Sequence[Attribute]) -> str:
    """SQL of a row's key, numbers and codes as bytes.

    Values travel as points, the only type that stores doubles as plain bytes: writing and parsing
    text takes many times as long. The first point holds the halves of the key; each attribute has a
    point with its value and whether it is NULL.
    """
    points = [f"POINT({key} >> 32, {key} & {2**32 - 1})"]
    for position, column in enumerate(attributes):
        value = number(position, column)
        points.append(f"POINT(coalesce({value}, 0), {value} IS NULL)")
    return f"concat({', '.join(points)})"


def chunk(pack_arrays: bytes, attributes: Sequence[Attribute]) -> Chunk:
    """Unpack rows that ``pack_row`` packed, one after the other."""
    points = np.frombuffer(pack_arrays, np.uint8).reshape(-1, 1 + len(attributes), _POINT)
    if not (points[0, :, : len(_HEAD)] == np.frombuffer(_HEAD, np.uint8)).all():
        raise DatabaseFailure(UNKNOWN_POINTS)
    halves = np.ascontiguousarray(points[:, 0, len(_HEAD) :]).view("<f8").astype(np.uint64)
    keys = (halves[:, :1] << np.uint64(32) | halves[:, 1:]).view(np.int64)
    pairs = np.ascontiguousarray(points[:, 1:, len(_HEAD) :]).view("<f8")
    valid: NDArray[np.bool_] | None = pairs[:, :, 1] == 0.0
    if valid is not None and valid.all():
        valid = None
    return chunk_from_columns(keys, np.ascontiguousarray(pairs[:, :, 0]), valid, attributes)


def pack_arrays(arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """Pack columns of int64 and float64 into rows of 8 bytes per value, for ``unpack_value``."""
    rows = np.empty((len(arrays[0]), 8 * len(arrays)), np.uint8)
    for position, values in enumerate(arrays):
        order = values.astype(">i8" if values.dtype == np.int64 else "<f8")
        rows[:, 8 * position : 8 * position + 8] = order.view(np.uint8).reshape(-1, 8)
    return rows


def unpack_value(position: int, kind: np.dtype[Any], width: int) -> str:
    """SQL of a value in row ``place`` of a packet; doubles are read as part of a point."""
    value = f"substr(packet, {8 * width} * place + {8 * position + 1}, 8)"
    if kind == np.int64:
        return f"CONV(hex({value}), 16, -10)"
    return f"ST_X(concat(x'{_HEAD.hex()}', {value}, x'{bytes(8).hex()}'))"


# The bytes of a double, all different.
_PROBE = b"\x01\x23\x45\x67\x89\xab\xcd\x3f"
POINT_PROBE = (
    f"SELECT ST_X(x'{(_HEAD + _PROBE + bytes(8)).hex()}')"
    f" = {float(np.frombuffer(_PROBE, '<f8')[0])!r}e0"
)


def staged_values(column: ReleasedColumn) -> tuple[str, Any]:
    """Return SQL type and values of a column of class values for staging; None is NULL.

    64-bit numbers without NULLs stay an array, which travels as bytes.
    """
    kind, values = column.attribute.kind, column.values
    stored: Any
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        require_years(column, 1, "MariaDB")
        unit = "D" if kind is Kind.DATE else "us"
        moments = np.datetime_as_string(values.astype(f"datetime64[{unit}]"))
        sql_type = "DATE" if kind is Kind.DATE else "DATETIME(6)"
        stored = [moment.replace("T", " ") for moment in moments.tolist()]
    elif kind is Kind.DECIMAL:
        scale = column.attribute.scale
        sql_type = f"DECIMAL({_WIDEST},{scale})"
        stored = [Decimal(int(value)).scaleb(-scale) for value in values]
    elif kind is Kind.INTEGER:
        sql_type, stored = f"DECIMAL({_WIDEST},0)", [int(value) for value in values]
        if values.dtype == np.int64 and column.missing is None:
            stored = values
    elif kind is Kind.FLOAT:
        sql_type, stored = "DOUBLE", values if column.missing is None else values.tolist()
    elif kind is Kind.BOOLEAN:
        sql_type, stored = "TINYINT", [int(value) for value in values]
    else:
        sql_type, stored = f"LONGTEXT {TEXT}", [str(value) for value in values]
    if column.missing is not None:
        stored = [None if no else value for value, no in zip(stored, column.missing, strict=True)]
    return sql_type, stored


def storable(value: Any) -> Any:
    """Convert a value of another database for MariaDB."""
    if isinstance(value, (float, Decimal)) and (value != value or value in (_INF, -_INF)):
        raise uncopyable_value_error()
    if value is None or isinstance(value, (bool, int, float, str, bytes, Decimal)):
        return value
    if hasattr(value, "hour") and hasattr(value, "year"):
        if value.tzinfo is not None:
            value = (value - value.utcoffset()).replace(tzinfo=None)
        return value.isoformat(sep=" ")
    return str(value)


_INF = float("inf")


def released_expression(position: int, column: ReleasedColumn) -> str:
    return f"c.{statements.value_column(position)}"


def wide_parts(attribute: Attribute) -> tuple[str, str]:
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.TIMESTAMP:
        moment = f"timestampdiff(MICROSECOND, '1970-01-01', {column})"
        column = f"({moment} DIV {10 ** (6 - attribute.scale)})"
    elif attribute.kind is Kind.DECIMAL:
        column = f"CAST({column} * {10**attribute.scale} AS DECIMAL({_WIDEST},0))"
    else:
        column = f"CAST({column} AS DECIMAL({_WIDEST},0))"
    # The sum fits a decimal of 65 digits, so no division is needed.
    return f"0 * {column}", column


def type_of(attribute: Attribute) -> str:
    kind = attribute.kind
    if kind is Kind.OTHER:
        raise local_type_error(attribute)
    if kind is Kind.INTEGER:
        return {16: "smallint", 32: "int", 64: "bigint"}.get(attribute.bits, "decimal(38,0)")
    if kind is Kind.DECIMAL:
        if attribute.precision > _WIDEST or not 0 <= attribute.scale <= 38:
            raise local_type_error(attribute)
        return f"decimal({attribute.precision or _WIDEST},{attribute.scale})"
    if kind is Kind.TIMESTAMP:
        return f"datetime({min(attribute.scale, 6)})" if attribute.scale else "datetime"
    return {
        Kind.FLOAT: "double",
        Kind.DATE: "date",
        Kind.BOOLEAN: "tinyint(1)",
        Kind.CATEGORY: "text",
    }[kind]


DIGEST_WAY = "mariadb2"
DIGEST_PROBE = (
    "SELECT sha1(concat(concat_ws(':', 1, 'text', 1.50), CAST(DATE '2001-02-03' AS CHAR),"
    " POINT(2.5e0, -1e-7)))"
)


def digest_statement(
    relation: RelationName, columns: Sequence[Attribute], salt: int, where: str
) -> str:
    """SQL of the number of rows and the sum of their 64-bit hashes."""
    points, texts = [], [f"'{salt}'"]
    for attribute in columns:
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.FLOAT:
            # The bytes of a point never begin with a dash.
            points.append(f"coalesce(POINT({column}, 0), '-')")
            continue
        value = text(attribute, column)
        # Quotes keep a text from running into the next column; numbers contain no comma.
        plain = attribute.kind not in (Kind.CATEGORY, Kind.OTHER)
        texts.append(f"coalesce({value}, '-')" if plain else f"quote({value})")
    parts = ", ".join([*points, f"CAST(concat_ws(',', {', '.join(texts)}) AS BINARY)"])
    hashed = f"left(sha1(concat({parts})), 16)"
    total = f"coalesce(sum(CAST(conv({hashed}, 16, 10) AS UNSIGNED)), 0)"
    return f"SELECT count(*), {total} FROM {relation.quoted} AS s{where}"


def literals(values: Sequence[Any], escape: Callable[[Any], str]) -> tuple[str, Sequence[Any]]:
    """Return the ``%`` format for a column's values, and the values to format."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return "%d", values
    if kinds == {float}:
        # Seventeen digits represent any double exactly.
        return "%.16e", values
    return "%s", [escape(value) for value in values]


def quote_name(name: str) -> str:
    """A name in statements that users run, in whatever SQL mode their session has."""
    return "`" + name.replace("`", "``") + "`"


def quote_dotted(name: RelationName) -> str:
    """A relation in statements that users run."""
    return ".".join(quote_name(part) for part in (name.schema, name.name) if part)


def quote_account(account: str | None) -> str:
    """An account in statements that users run, such as `app`@`%`."""
    user, _, host = str(account).rpartition("@")
    return f"{quote_name(user)}@{quote_name(host)}"
