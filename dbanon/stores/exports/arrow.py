"""Convert released rows to Arrow arrays.

Dictionary arrays are never used: they could hold values that no released row has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa

from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import SqlRow
from dbanon.errors import UnsupportedType
from dbanon.sessions.base import uncopyable_value_error

# By the id of a date or timestamp type: the integer type that it is stored as, and the integers of
# the first and the last moment of the years 1 to 9999.
_DATE_LIMITS = {
    pa.date32().id: (pa.int32(), -719_162, 2_932_896),
    pa.timestamp("us").id: (pa.int64(), -62_135_596_800_000_000, 253_402_300_799_999_999),
}


def arrow_type(attribute: Attribute) -> pa.DataType:
    """Return a column's type in a file; text if the file format has no such type."""
    kind = attribute.kind
    if kind is Kind.INTEGER:
        types_by_bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
        return types_by_bits.get(attribute.bits, pa.decimal128(38, 0))
    if kind is Kind.DECIMAL:
        if attribute.precision > 38 or attribute.scale > 38:
            raise UnsupportedType(
                f'Column "{attribute.name}" has more than 38 digits, which files cannot store.',
                hint="Cast it to at most 38 digits in a view, and anonymize the view.",
            )
        return pa.decimal128(attribute.precision or 38, attribute.scale)
    if kind is Kind.TIMESTAMP:
        return pa.timestamp("us", "UTC" if attribute.has_time_zone else None)
    if kind is Kind.FLOAT:
        return pa.float32() if attribute.bits == 32 else pa.float64()
    return {Kind.DATE: pa.date32(), Kind.BOOLEAN: pa.bool_()}.get(kind, pa.string())


def arrow_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """Build the schema of a file; raises UnsupportedType."""
    return pa.schema([pa.field(a.name, arrow_type(a)) for a in attributes])


def regroup_batches(
    attributes: Sequence[Attribute],
    chunks: Iterable[pa.RecordBatch | list[SqlRow]],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Regroup rows into batches of ``batch_rows`` rows, in order; the last one may have fewer.

    Parameters
    ----------
    chunks : lists of rows, or Arrow batches, with columns as the database returns them.
    """
    schema = arrow_schema(attributes)
    buffer: list[pa.RecordBatch] = []
    n_buffered = 0
    # Skip empty chunks, which may have no columns.
    for chunk in filter(len, chunks):
        buffer.append(_to_batch(schema, chunk))
        n_buffered += len(chunk)
        while n_buffered >= batch_rows:
            table = pa.Table.from_batches(buffer)
            yield from table.slice(0, batch_rows).combine_chunks().to_batches()
            buffer = table.slice(batch_rows).to_batches()
            n_buffered -= batch_rows
    # schema.empty_table() would import pandas.
    yield from pa.Table.from_batches(buffer, schema).combine_chunks().to_batches()


def _to_batch(schema: pa.Schema, chunk: pa.RecordBatch | list[SqlRow]) -> pa.RecordBatch:
    """Convert a list of rows to an Arrow batch with this schema, or cast an Arrow batch to it."""
    columns = chunk.columns if isinstance(chunk, pa.RecordBatch) else zip(*chunk, strict=True)
    convert = _cast if isinstance(chunk, pa.RecordBatch) else _to_array
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        try:
            arrays.append(convert(values, field.type))
        except UnsupportedType:
            raise uncopyable_value_error(field.name) from None
        except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError):
            raise uncopyable_value_error(field.name) from None
    return pa.record_batch(arrays, schema=schema)


def _cast(column: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Cast an Arrow column, converting value by value where Arrow cannot cast."""
    if limits := _DATE_LIMITS.get(target_type.id):
        # Import lazily: loading it takes as long as writing a small file.
        import pyarrow.compute as pc

        integer_type, first, last = limits
        # Other types are converted through dates of Python, which have the years 1 to 9999.
        extremes = pc.min_max(column.cast(integer_type)) if column.type == target_type else None
        if extremes is None or column.null_count == len(column):
            return _to_array(column.to_pylist(), target_type)
        # Refuse infinite dates, which other programs cannot represent.
        if extremes["min"].as_py() < first or extremes["max"].as_py() > last:
            raise uncopyable_value_error()
        return column
    if pa.types.is_decimal(column.type):
        # Refuse a HUGEINT of 39 digits, which DuckDB returns as a decimal of 38 digits.
        column.validate(full=True)
    try:
        return column if column.type == target_type else column.cast(target_type)
    except pa.ArrowException:
        return _to_array(column.to_pylist(), target_type)


def _to_array(values: Sequence[object], target_type: pa.DataType) -> pa.Array:
    """Convert values to an Arrow array; one by one only if Arrow cannot convert them together."""
    try:
        return pa.array(values, target_type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([_to_arrow_value(value, target_type) for value in values], target_type)


def _to_arrow_value(value: object, target_type: pa.DataType) -> object:
    """Convert a value to a Python object that Arrow accepts for a type.

    Dates may be text, since some databases store them so.
    """
    if value is None:
        return None
    if pa.types.is_string(target_type):
        return value if isinstance(value, str) else str(value)
    if pa.types.is_decimal(target_type):
        return value if isinstance(value, Decimal) else Decimal(str(value))
    if pa.types.is_date(target_type):
        return date.fromisoformat(value) if isinstance(value, str) else value
    if pa.types.is_boolean(target_type):
        return bool(value)
    if pa.types.is_timestamp(target_type):
        timestamp = datetime.fromisoformat(value) if isinstance(value, str) else value
        if target_type.tz and isinstance(timestamp, datetime) and timestamp.tzinfo is None:
            return timestamp.replace(tzinfo=timezone.utc)
        return timestamp
    return value
