"""Column types of MariaDB: how values are read and released, and what other types become."""

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
from dbanon.sessions.base import cannot_travel, require_years, stays_here
from dbanon.sessions.names import RelationName, quote

# Texts are told apart by their bytes alone, and no space is added to the shorter one.
COLLATION = "utf8mb4_nopad_bin"
TEXT = f"CHARACTER SET utf8mb4 COLLATE {COLLATION}"
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum")
_INTEGERS = {"tinyint": 16, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
_WIDEST = 65
# A point: where it is valid, the order of its bytes, that it is one, and two doubles.
_HEAD = b"\0\0\0\0\x01\x01\0\0\0"
_POINT = len(_HEAD) + 16
UNKNOWN_POINTS = "This server writes points in a way that dbanon does not know."

# What shared SQL calls otherwise.
_SPELLED = {
    " AS TEXT)": " AS CHAR)",
    " AS DOUBLE PRECISION)": " AS DOUBLE)",
    "AS MATERIALIZED (": "AS (",
    # Classes are many and small: sorting their rows takes half as long as looking each row up.
    "(SELECT count(*) AS size": "(SELECT SQL_BIG_RESULT count(*) AS size",
}
_PART = re.compile(
    r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|\'(?:[^\'\\]|\\.|\'\')*\'|(\?)|('
    + "|".join(map(re.escape, _SPELLED))
    + ")",
    re.DOTALL,
)


def spelled(sql: str, *, bound: bool) -> str:
    """A statement of dbanon's as MariaDB and its driver read it; names and literals stay.

    Parameters
    ----------
    bound : there are values for bind parameters, so that the driver looks for its own marks.
    """

    def changed(found: re.Match[str]) -> str:
        if found[1]:
            return "%s" if bound else "?"
        if found[2]:
            return _SPELLED[found[2]]
        return found[0].replace("%", "%%") if bound else found[0]

    if not bound:
        return _PART.sub(changed, sql)
    pieces, end = [], 0
    for found in _PART.finditer(sql):
        pieces += [sql[end : found.start()].replace("%", "%%"), changed(found)]
        end = found.end()
    return "".join([*pieces, sql[end:].replace("%", "%%")])


def attribute(
    name: str, declared: str, nullable: bool, precision: int, scale: int, digits: int
) -> Attribute:
    """A column by the type that it declares, and what the catalog says of its digits."""
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
        found = re.findall(r"'((?:[^']|'')*)'", declared)
        order = tuple(value.replace("''", "'") for value in found)
    if kind not in (Kind.DECIMAL, Kind.TIMESTAMP):
        precision = scale = 0
    return Attribute(
        name, kind, sql_type=declared, bits=bits, nullable=nullable, scale=scale, order=order,
        precision=precision if kind is Kind.DECIMAL else 0, zoned=word == "timestamp",
    )  # fmt: skip


def text(attribute: Attribute, column: str) -> str:
    """SQL of a column's values as text that sorts by code point and is told apart by bytes."""
    if attribute.kind is Kind.CATEGORY:
        return f"CONVERT({column} USING utf8mb4) COLLATE {COLLATION}"
    if attribute.kind is Kind.OTHER and re.match(r"(var)?binary|\w*blob|bit", attribute.sql_type):
        return f"hex({column}) COLLATE {COLLATION}"
    if attribute.sql_type.startswith("float"):
        column = f"CAST({column} AS DOUBLE)"
    return f"CAST({column} AS CHAR CHARACTER SET utf8mb4) COLLATE {COLLATION}"


def kept(attribute: Attribute, column: str) -> str:
    """SQL of a column as it is copied: a text so that all comparisons are those of its bytes."""
    return text(attribute, column) if attribute.kind is Kind.CATEGORY else column


def declared(sql_type: str) -> str:
    """A type as CREATE TABLE has it: texts by their bytes, so that GROUP BY tells all apart."""
    word = re.split(r"[ (]", sql_type, maxsplit=1)[0]
    # Of a timestamp, NULL has to be said: otherwise the first one gets a default and changes.
    return f"{sql_type} {TEXT} NULL" if word in (*_TEXTS, "set") else f"{sql_type} NULL"


def number(position: int, attribute: Attribute) -> str:
    """SQL of a quasi-identifier as a number or a code, NULL where it is."""
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.DATE:
        return f"datediff({column}, '1970-01-01')"
    if attribute.kind is Kind.TIMESTAMP:
        return f"timestampdiff(MICROSECOND, '1970-01-01', {column})"
    return f"d{position}.code" if attribute.kind.is_coded else column


def bounded(attribute: Attribute, low: str, high: str) -> str:
    return f"CAST({number(0, attribute)} AS DOUBLE)"


def packed_bytes(attributes: Sequence[Attribute]) -> int:
    """Bytes of what ``packed`` makes of a row."""
    return _POINT * (1 + len(attributes))


def packed(key: str, attributes: Sequence[Attribute]) -> str:
    """SQL of a row's key, numbers and codes as bytes.

    Points are the one type whose bytes are those of doubles: to write a double as text, and to read
    it again, takes many times as long. One holds the halves of the key, and one for each attribute
    its value and whether it is NULL.
    """
    points = [f"POINT({key} >> 32, {key} & {2**32 - 1})"]
    for position, one in enumerate(attributes):
        value = number(position, one)
        points.append(f"POINT(coalesce({value}, 0), {value} IS NULL)")
    return f"concat({', '.join(points)})"


def chunk(packets: bytes, attributes: Sequence[Attribute]) -> Chunk:
    """A piece of rows, one after the other as ``packed`` has each."""
    points = np.frombuffer(packets, np.uint8).reshape(-1, 1 + len(attributes), _POINT)
    if not (points[0, :, : len(_HEAD)] == np.frombuffer(_HEAD, np.uint8)).all():
        raise DatabaseFailure(UNKNOWN_POINTS)
    halves = np.ascontiguousarray(points[:, 0, len(_HEAD) :]).view("<f8").astype(np.uint64)
    keys = (halves[:, :1] << np.uint64(32) | halves[:, 1:]).view(np.int64)
    pairs = np.ascontiguousarray(points[:, 1:, len(_HEAD) :]).view("<f8")
    valid: NDArray[np.bool_] | None = pairs[:, :, 1] == 0.0
    if valid is not None and valid.all():
        valid = None
    return chunk_from_columns(keys, np.ascontiguousarray(pairs[:, :, 0]), valid, attributes)


def packets(arrays: Sequence[NDArray[Any]]) -> NDArray[np.uint8]:
    """The bytes of rows of int64 and float64, 8 for each value, as ``unpacked`` reads them."""
    found = np.empty((len(arrays[0]), 8 * len(arrays)), np.uint8)
    for position, values in enumerate(arrays):
        order = values.astype(">i8" if values.dtype == np.int64 else "<f8")
        found[:, 8 * position : 8 * position + 8] = order.view(np.uint8).reshape(-1, 8)
    return found


def unpacked(position: int, kind: np.dtype[Any], width: int) -> str:
    """SQL of a value of the packet's row ``place``: doubles are those of a point."""
    value = f"substr(packet, {8 * width} * place + {8 * position + 1}, 8)"
    if kind == np.int64:
        return f"CONV(hex({value}), 16, -10)"
    return f"ST_X(concat(x'{_HEAD.hex()}', {value}, x'{bytes(8).hex()}'))"


# A double of which each byte is another one, and its bytes.
_PROBE = b"\x01\x23\x45\x67\x89\xab\xcd\x3f"
POINT_PROBE = (
    f"SELECT ST_X(x'{(_HEAD + _PROBE + bytes(8)).hex()}')"
    f" = {float(np.frombuffer(_PROBE, '<f8')[0])!r}e0"
)


def staged_values(column: ReleasedColumn) -> tuple[str, Any]:
    """Class values as staging holds them: SQL type, and values, None where NULL.

    Of numbers of 64 bits, none of which is missing, the array itself: they travel as bytes.
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
    """A value of another database as MariaDB stores it."""
    if isinstance(value, (float, Decimal)) and (value != value or value in (_INF, -_INF)):
        raise cannot_travel()
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
    # Decimals have room for the sum itself, 65 digits: nothing has to be divided.
    return f"0 * {column}", column


def type_of(attribute: Attribute) -> str:
    kind = attribute.kind
    if kind is Kind.OTHER:
        raise stays_here(attribute)
    if kind is Kind.INTEGER:
        return {16: "smallint", 32: "int", 64: "bigint"}.get(attribute.bits, "decimal(38,0)")
    if kind is Kind.DECIMAL:
        if attribute.precision > _WIDEST or not 0 <= attribute.scale <= 38:
            raise stays_here(attribute)
        return f"decimal({attribute.precision or _WIDEST},{attribute.scale})"
    if kind is Kind.TIMESTAMP:
        return f"datetime({min(attribute.scale, 6)})" if attribute.scale else "datetime"
    return {
        Kind.FLOAT: "double", Kind.DATE: "date", Kind.BOOLEAN: "tinyint(1)", Kind.CATEGORY: "text",
    }[kind]  # fmt: skip


DIGEST_WAY = "mariadb2"
DIGEST_PROBE = (
    "SELECT sha1(concat(concat_ws(':', 1, 'text', 1.50), CAST(DATE '2001-02-03' AS CHAR),"
    " POINT(2.5e0, -1e-7)))"
)


def digest_statement(
    relation: RelationName, columns: Sequence[Attribute], salt: int, where: str
) -> str:
    """The number of rows, and the sum of their hashes, 64 bits each."""
    points, texts = [], [f"'{salt}'"]
    for one in columns:
        column = f"s.{quote(one.name)}"
        if one.kind is Kind.FLOAT:
            # As the bytes that it is, the first of which is never a dash.
            points.append(f"coalesce(POINT({column}, 0), '-')")
            continue
        value = text(one, column)
        # In quotes no text can run over into the next column; of numbers none has a comma.
        plain = one.kind not in (Kind.CATEGORY, Kind.OTHER)
        texts.append(f"coalesce({value}, '-')" if plain else f"quote({value})")
    parts = ", ".join([*points, f"CAST(concat_ws(',', {', '.join(texts)}) AS BINARY)"])
    hashed = f"left(sha1(concat({parts})), 16)"
    total = f"coalesce(sum(CAST(conv({hashed}, 16, 10) AS UNSIGNED)), 0)"
    return f"SELECT count(*), {total} FROM {relation.quoted} AS s{where}"


def literals(values: Sequence[Any], escape: Callable[[Any], str]) -> tuple[str, Sequence[Any]]:
    """How a column's values are written into a statement: a mark of ``%``, and what it takes."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return "%d", values
    if kinds == {float}:
        # Seventeen digits are enough for any double.
        return "%.16e", values
    return "%s", [escape(value) for value in values]
