"""Read and write PostgreSQL rows as packed bytes, without an object per row or value.

A client reads rows with COPY, which marks NULL by the length of a field. Inside a backend the
server concatenates the binary forms of keys and numbers into one ``bytea`` per chunk, and numpy
reads it as records of fixed width. The aggregate skips rows with NULLs, which shows in the number
of rows; then all parts are coalesced, and a mask of NULLs is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.schema import Attribute, Kind
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote

# Days and microseconds from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
EPOCH_DAYS = 10_957
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400_000_000

# Header and trailer of COPY … (FORMAT binary).
HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
END = b"\xff\xff"

_MASK_BITS = 32
_COPY_ROWS = 65_536
_COPY_PARTS = {
    "bytea": [("v{}", "(2,)>u8")],
    # Only the state of admitted cells, which has four letters.
    "text": [("v{}", "S4")],
    "bigint": [("v{}", ">i8")],
    "integer": [("v{}", ">i4")],
    "oid": [("v{}", ">u4")],
    "double precision": [("v{}", ">f8")],
    "boolean": [("v{}", "?")],
    "tid": [("{}_block", ">u4"), ("{}_row", ">u2")],
}
_KEY_PARTS = {
    "bigint": ("({})::bigint", "int8send", [("{}", ">i8")]),
    "oid": ("{}", "oidsend", [("{}", ">u4")]),
    "tid": ("{}", "tidsend", [("{}_block", ">u4"), ("{}_row", ">u2")]),
}


def packed_record(
    key_expressions: Sequence[str],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    *,
    masked: bool = True,
) -> str:
    """SQL of one row's bytes: keys, numbers and codes, mask of NULLs.

    Without the mask the result is NULL if a number is NULL.
    """
    if masked:
        parts = _parts(key_expressions, key_types, attributes)
    else:
        parts = _values(key_expressions, key_types, attributes, nulls=True)
    return " || ".join(f"{send}({value})" for value, send in parts)


def passthrough_records(
    key_expressions: Sequence[str],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    passthrough: Sequence[str],
    from_clause: str,
) -> str:
    """Return a COPY of keys, numbers (possibly NULL) and further columns of all rows.

    Parameters
    ----------
    passthrough : SQL of the further columns, of any type.
    """
    parts = _values(key_expressions, key_types, attributes, nulls=True)
    values = ", ".join([*(value for value, _ in parts), *passthrough])
    return f"COPY (SELECT {values} FROM {from_clause}) TO STDOUT (FORMAT binary)"


def _parts(
    key_expressions: Sequence[str], key_types: Sequence[str], attributes: Sequence[Attribute]
) -> list[tuple[str, str]]:
    """SQL of each packed value, never NULL, and the function that converts it to bytes."""
    parts = _values(key_expressions, key_types, attributes)
    for start in range(0, len(_nullable(attributes)), _MASK_BITS):
        bits = [
            f"((s.{quote(attribute.name)} IS NULL)::integer::bigint << {bit})"
            for bit, attribute in enumerate(_nullable(attributes)[start : start + _MASK_BITS])
        ]
        parts.append((" | ".join(bits), "int8send"))
    return parts


def _values(
    key_expressions: Sequence[str],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    *,
    nulls: bool = False,
) -> list[tuple[str, str]]:
    """Do the same without the mask; ``nulls`` allows NULL numbers."""
    parts = []
    for expression, key_type in zip(key_expressions, key_types, strict=True):
        value, send, _ = _KEY_PARTS[key_type]
        parts.append((value.format(expression), send))
    for position, attribute in enumerate(attributes):
        if attribute.kind.is_coded:
            parts.append((f"{statements.code_column(position)}::integer", "int4send"))
        else:
            parts.append(_number(attribute, nulls=nulls))
    return parts


def bytes_of_record(key_types: Sequence[str], attributes: Sequence[Attribute]) -> int:
    """Return the bytes per row of ``packed_record`` without the mask."""
    return _record_type(key_types, attributes, masked=False).itemsize


def by_address(
    source: RelationName, record: str, pages: tuple[str, str], joins: str = "", more: str = ""
) -> str:
    """Return a query for records between two addresses, and their number.

    Parameters
    ----------
    pages : SQL of the first address and of the one after the last.
    more : further conditions, beginning with AND.
    """
    low, high = pages
    return (
        f"SELECT string_agg({record}, ''::bytea), count(*) FROM ONLY {source.quoted} AS s{joins}"
        f" WHERE s.ctid >= {low}::tid AND s.ctid < {high}::tid{more}"
    )


def in_one_pass(from_clause: str, record: str, chunk_rows: int) -> str:
    """Return a query for all records of a relation, one row per chunk."""
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
    masked: bool = True,
) -> Chunk:
    """Unpack a chunk from the bytes of ``packed_record``."""
    records = np.frombuffer(buffer, _record_type(key_types, attributes, masked=masked))
    if masked:
        return _chunk_of(records, key_types, attributes, _valid(records, attributes))
    coded = [i for i, a in enumerate(attributes) if a.nullable and a.kind.is_coded]
    valid = None
    if any((records[f"v{i}"] < 0).any() for i in coded):
        valid = np.ones((len(records), len(attributes)), bool)
        for i in coded:
            valid[:, i] = records[f"v{i}"] >= 0
    return _chunk_of(records, key_types, attributes, valid)


def unpack_passthrough(
    buffer: NDArray[np.uint8],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    passthrough: int,
) -> tuple[Chunk, NDArray[np.uint8], NDArray[np.int64]]:
    """Unpack rows of ``passthrough_records``: chunk, and raw bytes of further columns.

    The bytes are uint8, with the end offset of each row, int64 (c,).

    Parameters
    ----------
    passthrough : number of further columns.

    Raises
    ------
    ValueError : the bytes are malformed.
    """
    fields: list[tuple[str, str]] = []
    widths = []
    for index, part in enumerate(_fields(key_types, attributes)):
        fields += [(f"length{index}", ">i4"), *part]
        widths.append(np.dtype(part).itemsize)
    heads, tails, ends = kernels.split_rows(buffer, widths, passthrough)
    records = heads.view(np.dtype(fields))
    chunk = _chunk_of(records, key_types, attributes, _not_null(records, key_types, attributes))
    return chunk, tails, ends


def _not_null(
    records: NDArray[np.void], key_types: Sequence[str], attributes: Sequence[Attribute]
) -> NDArray[np.bool_] | None:
    """Return which values are present, bool (c, d), from field lengths; None if all are."""
    validity = []
    for index in range(len(key_types) + len(attributes)):
        is_present = records[f"length{index}"] >= 0
        attribute = attributes[index - len(key_types)] if index >= len(key_types) else None
        may_lack = attribute is not None and attribute.nullable and not attribute.kind.is_coded
        if not may_lack and not is_present.all():
            raise ValueError("a row holds a NULL")
        if attribute is not None and attribute.nullable:
            code = records[f"v{index - len(key_types)}"]
            validity.append(code >= 0 if attribute.kind.is_coded else is_present)
    if all(column.all() for column in validity):
        return None
    valid = np.ones((len(records), len(attributes)), bool)
    valid[:, [i for i, a in enumerate(attributes) if a.nullable]] = np.column_stack(validity)
    return valid


def _chunk_of(
    records: NDArray[np.void],
    key_types: Sequence[str],
    attributes: Sequence[Attribute],
    valid: NDArray[np.bool_] | None,
) -> Chunk:
    keys = np.column_stack([_key(records, i, kind) for i, kind in enumerate(key_types)])
    columns = np.empty((len(records), len(attributes)))
    for position, attribute in enumerate(attributes):
        values = records[f"v{position}"]
        if attribute.kind is Kind.DATE:
            limits = np.iinfo(np.int32)
            columns[:, position] = np.where(
                (values == limits.max) | (values == limits.min), np.inf, values + EPOCH_DAYS
            )
        elif attribute.kind is Kind.TIMESTAMP:
            limits64 = np.iinfo(np.int64)
            infinite = (values == limits64.max) | (values == limits64.min)
            # Relative to 1970, PostgreSQL's last 30 years overflow 64 bits, so they become floats.
            late = ~infinite & (values > limits64.max - EPOCH_MICROSECONDS)
            shifted = np.where(infinite | late, 0, values).astype(np.int64) + EPOCH_MICROSECONDS
            columns[:, position] = np.where(infinite, np.inf, shifted)
            columns[late, position] = values[late].astype(np.float64) + EPOCH_MICROSECONDS
        else:
            columns[:, position] = values
    return chunk_from_columns(keys, columns, valid, attributes)


def _nullable(attributes: Sequence[Attribute]) -> list[Attribute]:
    return [attribute for attribute in attributes if attribute.nullable]


def _number(attribute: Attribute, *, nulls: bool = False) -> tuple[str, str]:
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
    # The expression may not be NULL if its column is.
    expression = f"CASE WHEN {column} IS NOT NULL THEN {value} END"
    absent = expression if value.startswith("CASE") else value
    return (absent if nulls else f"coalesce({value}, {zero})"), send


def _float8(attribute: Attribute, column: str) -> str:
    if attribute.kind is not Kind.DECIMAL or attribute.precision:
        return f"{column}::double precision"
    # Out of float8's range the cast would fail, and log the value on the server.
    return (
        f"CASE WHEN abs({column}) BETWEEN 1e-300 AND 1e300 THEN {column}::double precision"
        f" WHEN abs({column}) < 1 THEN 0 ELSE 'Infinity' END"
    )


def _record_type(
    key_types: Sequence[str], attributes: Sequence[Attribute], *, masked: bool = True
) -> np.dtype[np.void]:
    """Return the dtype of a row of ``packed_record``."""
    parts = _fields(key_types, attributes)
    if masked:
        masks = range(0, len(_nullable(attributes)), _MASK_BITS)
        parts += [[(f"mask{start}", ">i8")] for start in masks]
    return np.dtype([field for part in parts for field in part])


def _fields(
    key_types: Sequence[str], attributes: Sequence[Attribute]
) -> list[list[tuple[str, str]]]:
    """Return the fields of each key and attribute, without masks."""
    parts: list[list[tuple[str, str]]] = []
    for position, key_type in enumerate(key_types):
        key_parts = _KEY_PARTS[key_type][2]
        parts.append([(name.format(f"key{position}"), code) for name, code in key_parts])
    codes = {Kind.DATE: ">i4", Kind.TIMESTAMP: ">i8"}
    codes |= {kind: ">i4" for kind in Kind if kind.is_coded}
    parts += [
        [(f"v{position}", codes.get(attribute.kind, ">f8"))]
        for position, attribute in enumerate(attributes)
    ]
    return parts


def _key(
    records: NDArray[np.void], position: int, key_type: str, name: str = ""
) -> NDArray[np.int64]:
    name = name or f"key{position}"
    if key_type == "tid":
        block = records[f"{name}_block"].astype(np.int64)
        return np.asarray((block << 16) | records[f"{name}_row"], np.int64)
    key: NDArray[np.int64] = records[name].astype(np.int64)
    return key


def _valid(records: NDArray[np.void], attributes: Sequence[Attribute]) -> NDArray[np.bool_] | None:
    nullable = [i for i, attribute in enumerate(attributes) if attribute.nullable]
    valid = None
    for start in range(0, len(nullable), _MASK_BITS):
        mask = records[f"mask{start}"].astype(np.int64)
        if not mask.any():
            continue
        if valid is None:
            valid = np.ones((len(records), len(attributes)), bool)
        for bit, position in enumerate(nullable[start : start + _MASK_BITS]):
            valid[:, position] = (mask >> bit) & 1 == 0
    return valid


def copy_binary(columns: Sequence[tuple[str, str, NDArray[Any]]]) -> Iterator[bytes]:
    """Yield the bytes of COPY … FROM STDIN (FORMAT binary) for fixed-width columns without NULL.

    Columns are triples of name, SQL type and values, (n,) each. A ``tid`` is given as
    block * 65536 + row, as by ``unpack``. A ``bytea`` has 16 bytes, uint64 (n, 2), a ``text`` has 4
    ASCII characters.
    """
    yield HEAD
    record = _fixed_type([sql_type for _, sql_type, _ in columns])
    n = len(columns[0][2])
    for start in range(0, n, _COPY_ROWS):
        stop = min(start + _COPY_ROWS, n)
        rows = np.empty(stop - start, record)
        rows["fields"] = len(columns)
        for position, (_, sql_type, values) in enumerate(columns):
            piece = values[start:stop]
            width = sum(np.dtype(code).itemsize for _, code in _COPY_PARTS[sql_type])
            rows[f"length{position}"] = width
            if sql_type == "tid":
                rows[f"{position}_block"] = piece >> 16
                rows[f"{position}_row"] = piece & 0xFFFF
            else:
                rows[f"v{position}"] = piece
        yield rows.tobytes()
    yield END


def fixed_columns(buffer: NDArray[np.uint8], kinds: Sequence[str]) -> list[NDArray[Any]]:
    """Unpack the columns of rows in the format of ``copy_binary``, without header.

    Each is int64 (c,), or uint64 (c, 2) for ``bytea``.

    Raises
    ------
    ValueError : a row has a NULL, or a ``bytea`` of another width.
    """
    rows, columns = np.frombuffer(buffer, _fixed_type(kinds)), []
    for position, kind in enumerate(kinds):
        width = sum(np.dtype(code).itemsize for _, code in _COPY_PARTS[kind])
        if (rows[f"length{position}"] != width).any():
            raise ValueError("a row holds a NULL")
        if kind == "tid":
            columns.append(_key(rows, position, kind, str(position)))
        else:
            columns.append(rows[f"v{position}"].astype(np.uint64 if kind == "bytea" else np.int64))
    return columns


def _fixed_type(kinds: Sequence[str]) -> np.dtype[np.void]:
    fields: list[tuple[Any, ...]] = [("fields", ">i2")]
    for position, kind in enumerate(kinds):
        fields.append((f"length{position}", ">i4"))
        fields += [(name.format(position), code) for name, code in _COPY_PARTS[kind]]
    return np.dtype(fields)
