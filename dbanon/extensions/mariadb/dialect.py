"""MariaDB's dialect: how values of each column type are read, staged and released.

Values are transferred in packets: the bytes of many rows as a single value, which is faster than a
value for each column of each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray, AnyDtype
from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.conversion import TIME_UNITS
from dbanon.data.schema import Attribute, Kind
from dbanon.data.words import json_text
from dbanon.errors import DatabaseFailure
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import (
    Relation,
    require_years,
    uncopyable_type_error,
    uncopyable_value_error,
)
from dbanon.sessions.dialect import Dialect
from dbanon.sessions.names import RelationName, quote, unused_name

# A value as the driver sends it.
MariadbValue: TypeAlias = int | float | str | bytes | Decimal | None

# Names in backticks are read in every SQL mode, those in double quotes only with ANSI_QUOTES.
QUOTATION_MARK = "`"
# Compares texts by bytes, without padding the shorter one with spaces.
COLLATION = "utf8mb4_nopad_bin"
# Character set and collation of text columns.
TEXT_OPTIONS = f"CHARACTER SET utf8mb4 COLLATE {COLLATION}"
# Options of CREATE TABLE for staging tables.
STAGING_OPTIONS = f" ENGINE=Aria TRANSACTIONAL=0 {TEXT_OPTIONS}"
_TEXT_TYPES = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum")
# Bits by integer type, in multiples of 16.
_INTEGER_BITS = {"tinyint": 16, "smallint": 16, "mediumint": 32, "int": 32, "bigint": 64}
# Maximum digits of a DECIMAL.
_MAX_DIGITS = 65
# The server stores a geometric point as this header and two doubles. The header consists of the
# reference system, the byte order and the geometry type.
_POINT_HEADER = b"\0\0\0\0\x01\x01\0\0\0"
_POINT_BYTES = len(_POINT_HEADER) + 16
# The name of the column with the number or integer key of each row, in the copy of a source.
ROW_NUMBER = "dbanon_row"
UNKNOWN_DOUBLE_FORMAT = "This server stores floating-point numbers in an unknown format."

# Fragments of the SQL for all databases, each with what replaces it for MariaDB.
_REPLACEMENTS = {
    " AS TEXT)": " AS CHAR)",
    " AS DOUBLE PRECISION)": " AS DOUBLE)",
    "AS MATERIALIZED (": "AS (",
    # Let the server group by sorting: with many small classes this takes half as long as grouping
    # by a temporary table, its default.
    "(SELECT count(*) AS size": "(SELECT SQL_BIG_RESULT count(*) AS size",
}
# Quoted names and literals, parameters (group 1), and words to replace (group 2).
_TOKEN = re.compile(
    r'"(?:[^"]|"")*"|`(?:[^`]|``)*`|\'(?:[^\'\\]|\\.|\'\')*\'|(\?)|('
    + "|".join(map(re.escape, _REPLACEMENTS))
    + ")",
    re.DOTALL,
)


def to_mariadb(sql: str, *, has_parameters: bool) -> str:
    """Translate SQL for all databases into SQL for MariaDB and its driver; keep names and literals.

    Parameters
    ----------
    has_parameters : whether there are bind parameters, so that the driver interprets ``%``.
    """

    def replace_token(match: re.Match[str]) -> str:
        if match[1]:
            return "%s" if has_parameters else "?"
        if match[2]:
            return _REPLACEMENTS[match[2]]
        return match[0].replace("%", "%%") if has_parameters else match[0]

    if not has_parameters:
        return _TOKEN.sub(replace_token, sql)
    translated, end = [], 0
    for match in _TOKEN.finditer(sql):
        translated += [sql[end : match.start()].replace("%", "%%"), replace_token(match)]
        end = match.end()
    return "".join([*translated, sql[end:].replace("%", "%%")])


def build_attribute(
    name: str, declared_type: str, nullable: bool, precision: int, scale: int, second_digits: int
) -> Attribute:
    """Build the attribute for a column.

    Parameters
    ----------
    declared_type : the type as the server reports it, e.g. ``decimal(10,2)``.
    precision, scale : total digits of a number, and digits after its decimal point.
    second_digits : digits of a timestamp's fractional seconds.
    """
    type_name = re.split(r"[ (]", declared_type, maxsplit=1)[0]
    kind, bits = Kind.OTHER, 64
    order: tuple[str, ...] = ()
    if declared_type == "tinyint(1)":
        kind = Kind.BOOLEAN
    elif type_name in _INTEGER_BITS:
        kind, bits = Kind.INTEGER, _INTEGER_BITS[type_name]
        if "unsigned" in declared_type:
            # An unsigned number does not fit into a signed one of the same bits, so double them.
            # Only a tinyint has 8 bits, not 16, and fits.
            bits = min(2 * bits, 128) if bits > 16 or type_name == "smallint" else 16
    elif type_name == "year":
        kind, bits = Kind.INTEGER, 16
    elif type_name == "decimal" and precision <= 38:
        kind = Kind.DECIMAL
    elif type_name == "double":
        kind = Kind.FLOAT
    elif type_name == "date":
        kind = Kind.DATE
    elif type_name in ("datetime", "timestamp"):
        kind, scale = Kind.TIMESTAMP, second_digits
    elif type_name in _TEXT_TYPES:
        kind = Kind.CATEGORY
    if type_name == "enum":
        labels = re.findall(r"'((?:[^']|'')*)'", declared_type)
        order = tuple(value.replace("''", "'") for value in labels)
    if kind not in (Kind.DECIMAL, Kind.TIMESTAMP):
        precision = scale = 0
    return Attribute(
        name,
        kind,
        sql_type=declared_type,
        bits=bits,
        nullable=nullable,
        scale=scale,
        order=order,
        precision=precision if kind is Kind.DECIMAL else 0,
        has_time_zone=type_name == "timestamp",
    )


def as_text(attribute: Attribute, column: str) -> str:
    """SQL of a column as text that is compared by its bytes, and therefore sorted by code point."""
    if attribute.kind is Kind.CATEGORY:
        return f"CONVERT({column} USING utf8mb4) COLLATE {COLLATION}"
    if attribute.kind is Kind.OTHER and re.match(r"(var)?binary|\w*blob|bit", attribute.sql_type):
        return f"hex({column}) COLLATE {COLLATION}"
    if attribute.sql_type.startswith("float"):
        column = f"CAST({column} AS DOUBLE)"
    return f"CAST({column} AS CHAR CHARACTER SET utf8mb4) COLLATE {COLLATION}"


def copied_column(attribute: Attribute, column: str) -> str:
    """SQL of a column in the copy of a source; texts get a collation that compares bytes."""
    return as_text(attribute, column) if attribute.kind is Kind.CATEGORY else column


def declare_type(sql_type: str) -> str:
    """Return a type with its options for CREATE TABLE.

    Texts get a collation that compares bytes, so GROUP BY never merges different texts.
    """
    type_name = re.split(r"[ (]", sql_type, maxsplit=1)[0]
    # NULL is explicit: otherwise the first timestamp column would get the current time by default
    # and with each update.
    options = f" {TEXT_OPTIONS}" if type_name in (*_TEXT_TYPES, "set") else ""
    return f"{sql_type}{options} NULL"


def as_number(position: int, attribute: Attribute) -> str:
    """SQL of a column as a number; categories become codes, and NULL stays NULL.

    Parameters
    ----------
    position : the column's position. The dictionary that is staged for it has the alias
        ``d{position}``; it maps the column's values to codes.
    """
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.DATE:
        return f"datediff({column}, '1970-01-01')"
    if attribute.kind is Kind.TIMESTAMP:
        return f"timestampdiff(MICROSECOND, '1970-01-01', {column})"
    return f"d{position}.code" if attribute.kind.is_coded else column


def bytes_per_packed_row(attributes: Sequence[Attribute]) -> int:
    """Return the number of bytes per row that ``pack_row`` produces."""
    return _POINT_BYTES * (1 + len(attributes))


def pack_row(key: str, attributes: Sequence[Attribute]) -> str:
    """SQL of a row's key, numbers and codes as bytes.

    Values are sent as geometric points, the only type that stores doubles as plain bytes;
    formatting and parsing text would take many times as long. The first point holds the upper and
    the lower 32 bits of the key. Then follows a point for each attribute: its value, and 1 if it is
    NULL or else 0.

    Parameters
    ----------
    key : SQL of the row's key, an integer.
    """
    points = [f"POINT({key} >> 32, {key} & {2**32 - 1})"]
    for position, attribute in enumerate(attributes):
        value = as_number(position, attribute)
        points.append(f"POINT(coalesce({value}, 0), {value} IS NULL)")
    return f"concat({', '.join(points)})"


def unpack_rows(packed: bytes, attributes: Sequence[Attribute]) -> Chunk:
    """Unpack the concatenated bytes of rows that ``pack_row`` produced; raises DatabaseFailure."""
    points = np.frombuffer(packed, np.uint8).reshape(-1, 1 + len(attributes), _POINT_BYTES)
    if not (points[0, :, : len(_POINT_HEADER)] == np.frombuffer(_POINT_HEADER, np.uint8)).all():
        raise DatabaseFailure(UNKNOWN_DOUBLE_FORMAT)
    halves = np.ascontiguousarray(points[:, 0, len(_POINT_HEADER) :]).view("<f8").astype(np.uint64)
    keys = (halves[:, :1] << np.uint64(32) | halves[:, 1:]).view(np.int64)
    values_and_nulls = np.ascontiguousarray(points[:, 1:, len(_POINT_HEADER) :]).view("<f8")
    values = np.ascontiguousarray(values_and_nulls[:, :, 0])
    is_valid: NDArray[np.bool_] = values_and_nulls[:, :, 1] == 0.0
    return chunk_from_columns(keys, values, None if is_valid.all() else is_valid, attributes)


def pack_arrays(arrays: Sequence[AnyArray]) -> NDArray[np.uint8]:
    """Pack arrays of int64 and float64, (n,) each, into uint8 (n, 8 * number of arrays).

    The server reads the values with ``unpack_value``.
    """
    rows = np.empty((len(arrays[0]), 8 * len(arrays)), np.uint8)
    for position, values in enumerate(arrays):
        # ``unpack_value`` reads integers as hexadecimal numbers, which begin with the highest byte,
        # and doubles as stored by the server, lowest byte first.
        encoded = values.astype(">i8" if values.dtype == np.int64 else "<f8")
        rows[:, 8 * position : 8 * position + 8] = encoded.view(np.uint8).reshape(-1, 8)
    return rows


def unpack_value(position: int, dtype: AnyDtype, n_arrays: int) -> str:
    """SQL that reads a value from ``packet``, the bytes that ``pack_arrays`` produced.

    It reads the row whose index from 0 is the SQL column ``row_index``.

    Parameters
    ----------
    position : index of the packed array that holds the value.
    n_arrays : number of arrays that were packed together.
    """
    value = f"substr(packet, {8 * n_arrays} * row_index + {8 * position + 1}, 8)"
    if dtype == np.int64:
        return f"CONV(hex({value}), 16, -10)"
    # Doubles can only be read as a coordinate of a point.
    return f"ST_X(concat(x'{_POINT_HEADER.hex()}', {value}, x'{bytes(8).hex()}'))"


# A double whose bytes are all different.
_DOUBLE_BYTES = b"\x01\x23\x45\x67\x89\xab\xcd\x3f"
# Query that returns 1 if the server stores doubles as expected. The suffix e0 makes the number a
# double; otherwise it would be a decimal.
DOUBLE_FORMAT_PROBE = (
    f"SELECT ST_X(x'{(_POINT_HEADER + _DOUBLE_BYTES + bytes(8)).hex()}')"
    f" = {float(np.frombuffer(_DOUBLE_BYTES, '<f8')[0])!r}e0"
)


def staged_values(column: ReleasedColumn) -> tuple[str, Sequence[object] | AnyArray]:
    """Return the SQL type and the values, one per class, of a staging column; None means NULL.

    Columns of 64-bit numbers without NULL remain arrays, which are then sent as bytes.
    """
    kind, values = column.attribute.kind, column.values
    stored: Sequence[object] | AnyArray
    if kind in TIME_UNITS:
        # The first year of MariaDB's dates is 1.
        require_years(column, first_year=1, database="MariaDB")
        timestamps = np.datetime_as_string(values.astype(f"datetime64[{TIME_UNITS[kind]}]"))
        sql_type = "DATE" if kind is Kind.DATE else "DATETIME(6)"
        stored = [timestamp.replace("T", " ") for timestamp in timestamps.tolist()]
    elif kind is Kind.DECIMAL:
        scale = column.attribute.scale
        sql_type = f"DECIMAL({_MAX_DIGITS},{scale})"
        stored = [Decimal(int(value)).scaleb(-scale) for value in values]
    elif kind is Kind.INTEGER:
        sql_type, stored = f"DECIMAL({_MAX_DIGITS},0)", [int(value) for value in values]
        if values.dtype == np.int64 and column.missing is None:
            stored = values
    elif kind is Kind.FLOAT:
        sql_type, stored = "DOUBLE", values if column.missing is None else values.tolist()
    elif kind is Kind.BOOLEAN:
        sql_type, stored = "TINYINT", [int(value) for value in values]
    else:
        sql_type, stored = f"LONGTEXT {TEXT_OPTIONS}", [str(value) for value in values]
    if column.missing is not None:
        stored = [
            None if is_missing else value
            for value, is_missing in zip(stored, column.missing, strict=True)
        ]
    return sql_type, stored


def to_storable(value: object) -> MariadbValue:
    """Convert a value from another database for MariaDB; raises if MariaDB cannot store it."""
    if isinstance(value, (float, Decimal)) and (value != value or value in (_INF, -_INF)):
        raise uncopyable_value_error()
    if value is None or isinstance(value, (bool, int, float, str, bytes, Decimal)):
        return value
    if isinstance(value, datetime):
        offset = value.utcoffset()
        if offset is not None:
            value = (value - offset).replace(tzinfo=None)
        return value.isoformat(sep=" ")
    return str(value)


_INF = float("inf")


# Name of the digest algorithm in the ledger.
DIGEST_METHOD = "mariadb2"
# Query whose result changes if a server computes digests differently.
DIGEST_PROBE = (
    "SELECT sha1(concat(concat_ws(':', 1, 'text', 1.50), CAST(DATE '2001-02-03' AS CHAR),"
    " POINT(2.5e0, -1e-7)))"
)


def digest_statement(relation: RelationName, columns: Sequence[Attribute], salt: int) -> str:
    """Return a query for the number of rows and the sum of their 64-bit hashes.

    Parameters
    ----------
    salt : a number that is hashed with each row.
    """
    points, texts = [], [f"'{salt}'"]
    for attribute in columns:
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.FLOAT:
            # A dash stands for NULL; the bytes of a point never begin with one.
            points.append(f"coalesce(POINT({column}, 0), '-')")
            continue
        value = as_text(attribute, column)
        # Texts are quoted, since they may contain the comma that separates columns. ``quote``
        # returns the word NULL without quotes for NULL.
        needs_quotes = attribute.kind in (Kind.CATEGORY, Kind.OTHER)
        texts.append(f"quote({value})" if needs_quotes else f"coalesce({value}, '-')")
    row_bytes = ", ".join([*points, f"CAST(concat_ws(',', {', '.join(texts)}) AS BINARY)"])
    row_hash = f"left(sha1(concat({row_bytes})), 16)"
    total = f"coalesce(sum(CAST(conv({row_hash}, 16, 10) AS UNSIGNED)), 0)"
    return f"SELECT count(*), {total} FROM {relation.quoted} AS s"


def literals(
    values: Sequence[object], escape: Callable[[object], str]
) -> tuple[str, Sequence[object]]:
    """Return a ``%`` format for the SQL literals of values, and the values to format with it.

    Parameters
    ----------
    values : the values of a column.
    escape : returns the SQL literal of a value.
    """
    value_types = set(map(type, values))
    if value_types == {int}:
        return "%d", values
    if value_types == {float}:
        # Seventeen digits represent any double exactly.
        return "%.16e", values
    return "%s", [escape(value) for value in values]


def quote_name(name: str) -> str:
    """Quote a name for statements that users run, whatever the SQL mode of their session."""
    return quote(name, QUOTATION_MARK)


def quote_dotted(name: RelationName) -> str:
    """Quote a relation's name, with its schema, for statements that users run."""
    return name.quote(QUOTATION_MARK)


def quote_account(account: str | None) -> str:
    """Quote an account for statements that users run, such as `app`@`%`."""
    user, _, host = str(account).rpartition("@")
    # The user of an anonymous account is empty, which no other name is.
    return f"{quote_name(user) if user else '``'}@{quote_name(host)}"


def row_number_column(source: Relation) -> str:
    """Return a name for the copy's column of row numbers that no source column has."""
    return unused_name(ROW_NUMBER, [attribute.name for attribute in source.schema.attributes])


class MariadbDialect(Dialect):
    """The SQL of MariaDB."""

    quotation_mark = QUOTATION_MARK
    name_limit = 64
    staging_suffix = STAGING_OPTIONS
    random_number = "rand()"

    def text_of(self, attribute: Attribute) -> str:
        return as_text(attribute, f"s.{quote(attribute.name)}")

    def value_of(self, attribute: Attribute) -> str:
        return self.normalized_sql(attribute, self.text_of(attribute))

    def grouping_sql(self, attribute: Attribute) -> str:
        if attribute.kind in (Kind.CATEGORY, Kind.OTHER):
            return self.text_of(attribute)
        return super().grouping_sql(attribute)

    def sort_key(self, attribute: Attribute) -> str:
        return copied_column(attribute, f"s.{quote(attribute.name)}")

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} REGEXP '{pattern}'"

    def declared_type(self, sql_type: str) -> str:
        return declare_type(sql_type)

    def texts_query(self, values: Sequence[str]) -> tuple[str, object]:
        text_type = f"LONGTEXT {TEXT_OPTIONS}"
        table = f"JSON_TABLE(?, '$[*]' COLUMNS(value {text_type} PATH '$')) AS t"
        return f"SELECT value FROM {table}", json_text(values)

    def bounded_number(self, attribute: Attribute, low: str, high: str) -> str:
        # Only numbers, dates and timestamps have bounds; for these the position has no effect.
        return f"CAST({as_number(0, attribute)} AS DOUBLE)"

    def date_limits(self, attribute: Attribute) -> tuple[str, str]:
        if attribute.sql_type.startswith("timestamp"):
            # The range of the type, with a day for time zones at each end.
            return "1970-01-02", "2038-01-18"
        return super().date_limits(attribute)

    def shifted_date(self, attribute: Attribute, days: str) -> str:
        return f"date_add(s.{quote(attribute.name)}, INTERVAL {days} DAY)"

    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        return f"c.{statements.value_column(position)}"

    def quotient_and_remainder(self, attribute: Attribute) -> tuple[str, str]:
        """SQL of two numbers for the sum of a column by class.

        Other databases divide each value by the class size, so that sums do not overflow. Here sums
        fit into a DECIMAL of 65 digits, so the quotient is 0 and the remainder is the value itself.
        """
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.TIMESTAMP:
            microseconds = f"timestampdiff(MICROSECOND, '1970-01-01', {column})"
            column = f"({microseconds} DIV {10 ** (6 - attribute.scale)})"
        elif attribute.kind is Kind.DECIMAL:
            column = f"CAST({column} * {10**attribute.scale} AS DECIMAL({_MAX_DIGITS},0))"
        else:
            column = f"CAST({column} AS DECIMAL({_MAX_DIGITS},0))"
        return f"0 * {column}", column

    def type_of(self, attribute: Attribute) -> str:
        kind = attribute.kind
        if kind is Kind.OTHER:
            raise uncopyable_type_error(attribute)
        if kind is Kind.INTEGER:
            return {16: "smallint", 32: "int", 64: "bigint"}.get(attribute.bits, "decimal(38,0)")
        if kind is Kind.DECIMAL:
            if attribute.precision > _MAX_DIGITS or not 0 <= attribute.scale <= 38:
                raise uncopyable_type_error(attribute)
            return f"decimal({attribute.precision or _MAX_DIGITS},{attribute.scale})"
        if kind is Kind.TIMESTAMP:
            return f"datetime({min(attribute.scale, 6)})" if attribute.scale else "datetime"
        return {
            Kind.FLOAT: "double",
            Kind.DATE: "date",
            Kind.BOOLEAN: "tinyint(1)",
            Kind.CATEGORY: "text",
        }[kind]
