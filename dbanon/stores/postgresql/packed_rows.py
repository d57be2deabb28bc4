"""Read and write PostgreSQL rows as packed bytes, without an object per row or value.

Columns are read as numbers. A column that is no number, date or timestamp is *coded*: its distinct
values form a dictionary, and each value is read as its code there.

A client reads rows with COPY, in which a field of length -1 is NULL. SQL functions let the server
concatenate the binary forms of keys and numbers into one ``bytea`` per chunk (``string_agg``),
which numpy reads as records of fixed width. The aggregate skips rows with a NULL. If the number of
bytes shows that it has skipped any, the chunk is read again, with default values instead of NULLs
and a bit mask that marks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.schema import Attribute, Kind
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote

# Days and microseconds from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
EPOCH_DAYS = 10_957
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400_000_000

# First and last bytes of COPY … (FORMAT binary).
COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
COPY_TRAILER = b"\xff\xff"

# Number of nullable columns per bit mask.
_COLUMNS_PER_MASK = 32
# Number of rows to encode at once.
_ROWS_PER_WRITE = 65_536
# numpy fields of a value in COPY's binary format, by SQL type; {} is the position of the column.
_COPY_FIELDS = {
    # The only bytes sent this way are tags of persons: 16 bytes, as two numbers.
    "bytea": [("v{}", "(2,)>u8")],
    # The only texts sent this way have four letters: the states of a chain's cells.
    "text": [("v{}", "S4")],
    "bigint": [("v{}", ">i8")],
    "integer": [("v{}", ">i4")],
    "oid": [("v{}", ">u4")],
    "double precision": [("v{}", ">f8")],
    "boolean": [("v{}", "?")],
    "tid": [("{}_block", ">u4"), ("{}_row", ">u2")],
}


class _KeyEncoding(NamedTuple):
    """How the server converts a key column to bytes.

    Parameters
    ----------
    value : SQL template of the value; {} is the SQL of the key.
    send : the SQL function that converts the value to bytes.
    fields : numpy fields of the bytes; {} is the name of the key.
    """

    value: str
    send: str
    fields: list[tuple[str, str]]


_KEY_ENCODINGS = {
    "bigint": _KeyEncoding("({})::bigint", "int8send", [("{}", ">i8")]),
    "oid": _KeyEncoding("{}", "oidsend", [("{}", ">u4")]),
    "tid": _KeyEncoding("{}", "tidsend", [("{}_block", ">u4"), ("{}_row", ">u2")]),
}


def packed_record(
    key_expressions: Sequence[str],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    *,
    has_mask: bool = True,
) -> str:
    """SQL of one row's bytes: keys, then numbers and codes, then masks of NULLs.

    Parameters
    ----------
    key_expressions, key_types : SQL and type of each key column.
    attributes : the columns to read.
    has_mask : whether to append masks; without them, the result is NULL if a number is NULL.
    """
    if has_mask:
        values = _values_and_masks(key_expressions, key_types, attributes)
    else:
        values = _values_to_pack(key_expressions, key_types, attributes, allow_null=True)
    return " || ".join(f"{send}({value})" for value, send in values)


def build_copy_query(
    key_expressions: Sequence[str],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    passthrough: Sequence[str],
    from_clause: str,
) -> str:
    """Return a COPY statement for keys, numbers (possibly NULL) and passthrough columns.

    Parameters
    ----------
    key_expressions, key_types : SQL and type of each key column.
    attributes : the columns to read as numbers or codes.
    passthrough : SQL of the columns to pass through as bytes, of any type; empty for none.
    from_clause : the FROM clause, with WHERE and ORDER BY if needed.
    """
    values = _values_to_pack(key_expressions, key_types, attributes, allow_null=True)
    select_list = ", ".join([*(value for value, _ in values), *passthrough])
    return f"COPY (SELECT {select_list} FROM {from_clause}) TO STDOUT (FORMAT binary)"


def _values_and_masks(
    key_expressions: Sequence[str], key_types: Sequence[str], attributes: Sequence[Attribute]
) -> list[tuple[str, str]]:
    """Return SQL and conversion function of each value to pack; no value is NULL.

    Masks of NULLs come last.
    """
    values = _values_to_pack(key_expressions, key_types, attributes, allow_null=False)
    nullable = _nullable_attributes(attributes)
    for start in range(0, len(nullable), _COLUMNS_PER_MASK):
        bits = [
            f"((s.{quote(attribute.name)} IS NULL)::integer::bigint << {bit})"
            for bit, attribute in enumerate(nullable[start : start + _COLUMNS_PER_MASK])
        ]
        values.append((" | ".join(bits), "int8send"))
    return values


def _values_to_pack(
    key_expressions: Sequence[str],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    *,
    allow_null: bool,
) -> list[tuple[str, str]]:
    """Return the SQL of each key, number and code, and the function that converts it to bytes.

    Parameters
    ----------
    allow_null : whether numbers may be NULL; otherwise a default replaces NULL.
    """
    values = []
    for expression, key_type in zip(key_expressions, key_types, strict=True):
        encoding = _KEY_ENCODINGS[key_type]
        values.append((encoding.value.format(expression), encoding.send))
    for position, attribute in enumerate(attributes):
        if attribute.kind.is_coded:
            values.append((f"{statements.code_column(position)}::integer", "int4send"))
        else:
            values.append(_number_value(attribute, allow_null=allow_null))
    return values


def unmasked_record_bytes(key_types: Sequence[str], attributes: Sequence[Attribute]) -> int:
    """Return the bytes per row of ``packed_record`` without the mask."""
    return _record_type(key_types, attributes, has_mask=False).itemsize


def select_address_range(
    source: RelationName,
    record: str,
    address_range: tuple[str, str],
    joins: str = "",
    and_condition: str = "",
) -> str:
    """Return a query for the records between two row addresses, concatenated, and their number.

    Parameters
    ----------
    record : SQL of one record, from ``packed_record``.
    address_range : SQL of the first address, and of the address at which to stop.
    joins : JOIN clauses that the records need, with a leading space; empty for none.
    and_condition : further conditions, beginning with AND; empty for none.
    """
    low, high = address_range
    return (
        f"SELECT string_agg({record}, ''::bytea), count(*) FROM ONLY {source.quoted} AS s{joins}"
        f" WHERE s.ctid >= {low}::tid AND s.ctid < {high}::tid{and_condition}"
    )


def select_all_records(from_clause: str, record: str, chunk_rows: int) -> str:
    """Return a query for the records of a relation, concatenated to one row per chunk.

    Parameters
    ----------
    record : SQL of one record, from ``packed_record``.
    chunk_rows : number of records per chunk.
    """
    return (
        "SELECT string_agg(record, ''::bytea) FROM"
        f" (SELECT {record} AS record, (row_number() OVER () - 1) / {int(chunk_rows)} AS chunk"
        f" FROM {from_clause}) AS records GROUP BY chunk"
    )


def unpack(
    buffer: bytes,
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    *,
    has_mask: bool = True,
) -> Chunk:
    """Unpack a chunk from the concatenated bytes of ``packed_record``."""
    records = np.frombuffer(buffer, _record_type(key_types, attributes, has_mask=has_mask))
    if has_mask:
        validity = _validity_from_masks(records, attributes)
        return _build_chunk(records, key_types, attributes, validity)
    # Without masks no number is NULL, but negative codes stand for NULL.
    coded_positions = [i for i, a in enumerate(attributes) if a.nullable and a.kind.is_coded]
    validity = None
    if any((records[f"v{i}"] < 0).any() for i in coded_positions):
        validity = np.ones((len(records), len(attributes)), bool)
        for i in coded_positions:
            validity[:, i] = records[f"v{i}"] >= 0
    return _build_chunk(records, key_types, attributes, validity)


def unpack_copy_rows(
    buffer: NDArray[np.uint8],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    n_passthrough: int,
) -> tuple[Chunk, NDArray[np.uint8], NDArray[np.int64]]:
    """Unpack c rows of ``build_copy_query``.

    Returns the chunk, the passthrough columns as raw bytes, uint8 (m,), and the end offset of each
    row in these bytes, int64 (c,).

    Parameters
    ----------
    buffer : rows of the COPY without header and trailer.
    n_passthrough : number of passthrough columns.

    Raises
    ------
    ValueError : the bytes are malformed.
    """
    fields: list[tuple[str, str]] = []
    widths = []
    for index, value_fields in enumerate(_value_fields(key_types, attributes)):
        fields += [(f"length{index}", ">i4"), *value_fields]
        widths.append(np.dtype(value_fields).itemsize)
    fixed_bytes, passthrough_bytes, passthrough_ends = kernels.split_rows(
        buffer, widths, n_passthrough
    )
    records = fixed_bytes.view(np.dtype(fields))
    validity = _validity_from_lengths(records, key_types, attributes)
    chunk = _build_chunk(records, key_types, attributes, validity)
    return chunk, passthrough_bytes, passthrough_ends


def _validity_from_lengths(
    records: NDArray[np.void], key_types: Sequence[str], attributes: Sequence[Attribute]
) -> NDArray[np.bool_] | None:
    """Return which values are not NULL, bool (c, d), from field lengths; None if none is NULL.

    Keys are never NULL, and a negative code stands for NULL.
    """
    nullable_columns = []
    for index in range(len(key_types) + len(attributes)):
        is_present = records[f"length{index}"] >= 0
        attribute = attributes[index - len(key_types)] if index >= len(key_types) else None
        can_be_null = attribute is not None and attribute.nullable and not attribute.kind.is_coded
        if not can_be_null and not is_present.all():
            raise ValueError("a row has a NULL where none is allowed")
        if attribute is not None and attribute.nullable:
            codes = records[f"v{index - len(key_types)}"]
            nullable_columns.append(codes >= 0 if attribute.kind.is_coded else is_present)
    if all(column.all() for column in nullable_columns):
        return None
    validity = np.ones((len(records), len(attributes)), bool)
    nullable_positions = [i for i, a in enumerate(attributes) if a.nullable]
    validity[:, nullable_positions] = np.column_stack(nullable_columns)
    return validity


def _build_chunk(
    records: NDArray[np.void],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    validity: NDArray[np.bool_] | None,
) -> Chunk:
    """Convert records, (c,), to a chunk, with dates and times relative to 1970.

    Parameters
    ----------
    validity : bool (c, d), which values are not NULL; None if none is NULL.
    """
    keys = np.column_stack(
        [_unpack_key(records, f"key{i}", key_type) for i, key_type in enumerate(key_types)]
    )
    columns = np.empty((len(records), len(attributes)))
    for position, attribute in enumerate(attributes):
        values = records[f"v{position}"]
        if attribute.kind is Kind.DATE:
            # PostgreSQL encodes infinite dates and timestamps as the limits of the integer type.
            limits = np.iinfo(np.int32)
            columns[:, position] = np.where(
                (values == limits.max) | (values == limits.min), np.inf, values + EPOCH_DAYS
            )
        elif attribute.kind is Kind.TIMESTAMP:
            limits64 = np.iinfo(np.int64)
            is_infinite = (values == limits64.max) | (values == limits64.min)
            # Relative to 1970, PostgreSQL's last 30 years overflow 64 bits: compute these as
            # floats.
            overflows = ~is_infinite & (values > limits64.max - EPOCH_MICROSECONDS)
            exact_values = np.where(is_infinite | overflows, 0, values).astype(np.int64)
            columns[:, position] = np.where(is_infinite, np.inf, exact_values + EPOCH_MICROSECONDS)
            overflowing_values = values[overflows].astype(np.float64)
            columns[overflows, position] = overflowing_values + EPOCH_MICROSECONDS
        else:
            columns[:, position] = values
    return chunk_from_columns(keys, columns, validity, attributes)


def _nullable_attributes(attributes: Sequence[Attribute]) -> list[Attribute]:
    return [attribute for attribute in attributes if attribute.nullable]


def _number_value(attribute: Attribute, *, allow_null: bool) -> tuple[str, str]:
    """SQL of a number, date or timestamp, and the function that converts it to bytes."""
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.DATE:
        value, zero, send = f"{column}::date", "date '2000-01-01'", "date_send"
    elif attribute.kind is Kind.TIMESTAMP and attribute.has_time_zone:
        value, zero = f"{column}::timestamptz", "timestamptz '2000-01-01 00:00:00+00'"
        send = "timestamptz_send"
    elif attribute.kind is Kind.TIMESTAMP:
        value, zero = f"{column}::timestamp", "timestamp '2000-01-01 00:00:00'"
        send = "timestamp_send"
    else:
        value, zero, send = _float8(attribute, column), "0", "float8send"
    if not attribute.nullable:
        return value, send
    if allow_null:
        # A plain value is NULL for NULL. But the CASE of ``_float8`` is infinite for NULL.
        expression = f"CASE WHEN {column} IS NOT NULL THEN {value} END"
        return (expression if value.startswith("CASE") else value), send
    # Here the value in place of NULL may be any: a mask marks it.
    return f"coalesce({value}, {zero})", send


def _float8(attribute: Attribute, column: str) -> str:
    """SQL of a number as float8; numbers outside its range become 0 or infinity."""
    if attribute.kind is not Kind.DECIMAL or attribute.precision:
        return f"{column}::double precision"
    # A numeric without a declared precision may be outside the range of float8. The cast would then
    # fail, and the server would log the value.
    return (
        f"CASE WHEN abs({column}) BETWEEN 1e-300 AND 1e300 THEN {column}::double precision"
        f" WHEN abs({column}) < 1 THEN 0 ELSE 'Infinity' END"
    )


def _record_type(
    key_types: Sequence[str], attributes: Sequence[Attribute], *, has_mask: bool = True
) -> np.dtype[np.void]:
    """Return the dtype of a row of ``packed_record``."""
    fields = _value_fields(key_types, attributes)
    if has_mask:
        starts = range(0, len(_nullable_attributes(attributes)), _COLUMNS_PER_MASK)
        fields += [[(f"mask{start}", ">i8")] for start in starts]
    return np.dtype([field for value_fields in fields for field in value_fields])


def _value_fields(
    key_types: Sequence[str], attributes: Sequence[Attribute]
) -> list[list[tuple[str, str]]]:
    """Return the numpy fields of each key and attribute, without masks."""
    fields: list[list[tuple[str, str]]] = []
    for position, key_type in enumerate(key_types):
        key_fields = _KEY_ENCODINGS[key_type].fields
        fields.append([(name.format(f"key{position}"), dtype) for name, dtype in key_fields])
    dtypes = {Kind.DATE: ">i4", Kind.TIMESTAMP: ">i8"}
    dtypes |= {kind: ">i4" for kind in Kind if kind.is_coded}
    fields += [
        [(f"v{position}", dtypes.get(attribute.kind, ">f8"))]
        for position, attribute in enumerate(attributes)
    ]
    return fields


def _unpack_key(records: NDArray[np.void], name: str, key_type: str) -> NDArray[np.int64]:
    """Return the keys in these fields, int64 (c,); a row address becomes block * 65536 + row."""
    if key_type == "tid":
        block = records[f"{name}_block"].astype(np.int64)
        return np.asarray((block << 16) | records[f"{name}_row"], np.int64)
    key: NDArray[np.int64] = records[name].astype(np.int64)
    return key


def _validity_from_masks(
    records: NDArray[np.void], attributes: Sequence[Attribute]
) -> NDArray[np.bool_] | None:
    """Return which values are not NULL, bool (c, d), from masks of NULLs; None if none is NULL."""
    nullable_positions = [i for i, attribute in enumerate(attributes) if attribute.nullable]
    validity = None
    for start in range(0, len(nullable_positions), _COLUMNS_PER_MASK):
        mask = records[f"mask{start}"].astype(np.int64)
        if not mask.any():
            continue
        if validity is None:
            validity = np.ones((len(records), len(attributes)), bool)
        for bit, position in enumerate(nullable_positions[start : start + _COLUMNS_PER_MASK]):
            validity[:, position] = (mask >> bit) & 1 == 0
    return validity


def encode_copy(columns: Sequence[tuple[str, str, AnyArray]]) -> Iterator[bytes]:
    """Yield the bytes of COPY … FROM STDIN (FORMAT binary) for fixed-width columns without NULL.

    Parameters
    ----------
    columns : name, SQL type and values of each column. Values are an array (n,). A ``tid`` is block
        * 65536 + row, as ``unpack`` returns it; a ``bytea`` has 16 bytes, uint64 (n, 2); a ``text``
        has 4 ASCII characters.
    """
    yield COPY_HEADER
    row_type = _copy_row_type([sql_type for _, sql_type, _ in columns])
    n = len(columns[0][2])
    for start in range(0, n, _ROWS_PER_WRITE):
        stop = min(start + _ROWS_PER_WRITE, n)
        rows = np.empty(stop - start, row_type)
        rows["n_fields"] = len(columns)
        for position, (_, sql_type, values) in enumerate(columns):
            written_values = values[start:stop]
            rows[f"length{position}"] = _copy_bytes(sql_type)
            if sql_type == "tid":
                rows[f"{position}_block"] = written_values >> 16
                rows[f"{position}_row"] = written_values & 0xFFFF
            else:
                rows[f"v{position}"] = written_values
        yield rows.tobytes()
    yield COPY_TRAILER


def decode_copy(buffer: NDArray[np.uint8], sql_types: Sequence[str]) -> list[AnyArray]:
    """Unpack c rows in the format of ``encode_copy``, without header and trailer.

    Returns the columns: int64 (c,) each, or uint64 (c, 2) for ``bytea``.

    Raises
    ------
    ValueError : a row has a NULL, or a ``bytea`` of a different length.
    """
    rows = np.frombuffer(buffer, _copy_row_type(sql_types))
    columns = []
    for position, sql_type in enumerate(sql_types):
        if (rows[f"length{position}"] != _copy_bytes(sql_type)).any():
            raise ValueError("a row has a NULL or a value of a different length")
        if sql_type == "tid":
            columns.append(_unpack_key(rows, str(position), sql_type))
        else:
            dtype = np.uint64 if sql_type == "bytea" else np.int64
            columns.append(rows[f"v{position}"].astype(dtype))
    return columns


def _copy_row_type(sql_types: Sequence[str]) -> np.dtype[np.void]:
    """Return the dtype of a row of COPY with columns of these types."""
    fields: list[tuple[str, str]] = [("n_fields", ">i2")]
    for position, sql_type in enumerate(sql_types):
        fields.append((f"length{position}", ">i4"))
        fields += [(name.format(position), dtype) for name, dtype in _COPY_FIELDS[sql_type]]
    return np.dtype(fields)


def _copy_bytes(sql_type: str) -> int:
    """Return the number of bytes that a value of this type has in COPY."""
    return sum(np.dtype(dtype).itemsize for _, dtype in _COPY_FIELDS[sql_type])
