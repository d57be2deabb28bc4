"""Released rows as Arrow arrays: plain ones, never dictionaries, whose values no row need have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.sessions.base import cannot_travel

# Of moments: the whole numbers behind them, and those of the years 1 to 9999.
_MOMENTS = {
    pa.date32().id: (pa.int32(), -719_162, 2_932_896),
    pa.timestamp("us").id: (pa.int64(), -62_135_596_800_000_000, 253_402_300_799_999_999),
}


def arrow_type(attribute: Attribute) -> pa.DataType:
    """The type of a column in a file; what has none of its own is text."""
    kind = attribute.kind
    if kind is Kind.INTEGER:
        sizes = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
        return sizes.get(attribute.bits, pa.decimal128(38, 0))
    if kind is Kind.DECIMAL:
        if attribute.precision > 38 or attribute.scale > 38:
            raise UnsupportedType(
                f'Column "{attribute.name}" has more than 38 digits, which files do not hold.',
                hint="Cast it to fewer digits in a view.",
            )
        return pa.decimal128(attribute.precision or 38, attribute.scale)
    if kind is Kind.TIMESTAMP:
        return pa.timestamp("us", "UTC" if attribute.zoned else None)
    if kind is Kind.FLOAT:
        return pa.float32() if attribute.bits == 32 else pa.float64()
    return {Kind.DATE: pa.date32(), Kind.BOOLEAN: pa.bool_()}.get(kind, pa.string())


def arrow_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """The columns of a file; raises UnsupportedType."""
    return pa.schema([pa.field(a.name, arrow_type(a)) for a in attributes])


def batches(
    attributes: Sequence[Attribute], pieces: Iterable[Any], rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows in pieces as batches of so many rows, in their order; the last may have fewer.

    Parameters
    ----------
    pieces : lists of rows, or batches of Arrow, with columns as a database has them.
    """
    schema = arrow_schema(attributes)
    held: list[pa.RecordBatch] = []
    waiting = 0
    for piece in filter(len, pieces):
        held.append(_batch(schema, piece))
        waiting += len(piece)
        while waiting >= rows:
            table = pa.Table.from_batches(held)
            yield from table.slice(0, rows).combine_chunks().to_batches()
            held = table.slice(rows).to_batches()
            waiting -= rows
    # Not empty_table: to make one of a schema, Arrow imports pandas.
    yield from pa.Table.from_batches(held, schema).combine_chunks().to_batches()


def _batch(schema: pa.Schema, piece: Any) -> pa.RecordBatch:
    of_arrow = isinstance(piece, pa.RecordBatch)
    columns: Iterable[Any] = piece.columns if of_arrow else zip(*piece, strict=True)
    make: Any = _cast if of_arrow else _array
    arrays = []
    for field, values in zip(schema, columns, strict=True):
        try:
            arrays.append(make(values, field.type))
        except UnsupportedType:
            raise cannot_travel(field.name) from None
        except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError):
            raise cannot_travel(field.name) from None
    return pa.record_batch(arrays, schema=schema)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column of Arrow's as another type; by its values where Arrow has no way."""
    if limits := _MOMENTS.get(wanted.id):
        # Loaded when it is used: that takes as long as a small file.
        import pyarrow.compute as pc

        whole, first, last = limits
        found = pc.min_max(column.cast(whole)) if column.type == wanted else None
        if found is None or column.null_count == len(column):
            return _array(column.to_pylist(), wanted)
        # What is no moment to others, as infinity, does not travel.
        if found["min"].as_py() < first or found["max"].as_py() > last:
            raise cannot_travel()
        return column
    if pa.types.is_decimal(column.type):
        # DuckDB hands out a HUGEINT's 39 digits as a decimal of 38.
        column.validate(full=True)
    try:
        return column if column.type == wanted else column.cast(wanted)
    except pa.ArrowException:
        return _array(column.to_pylist(), wanted)


def _array(values: Sequence[Any], wanted: pa.DataType) -> pa.Array:
    """A column; the values of most databases are taken as they are, which is faster by far."""
    try:
        return pa.array(values, wanted)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.array([_plain(value, wanted) for value in values], wanted)


def _plain(value: Any, wanted: pa.DataType) -> Any:
    """A value as Arrow takes it for this type: some databases hold dates as text."""
    if value is None:
        return None
    if pa.types.is_string(wanted):
        return value if isinstance(value, str) else str(value)
    if pa.types.is_decimal(wanted):
        return value if isinstance(value, Decimal) else Decimal(str(value))
    if pa.types.is_date(wanted):
        return date.fromisoformat(value) if isinstance(value, str) else value
    if pa.types.is_boolean(wanted):
        return bool(value)
    if pa.types.is_timestamp(wanted):
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if wanted.tz and isinstance(moment, datetime) and moment.tzinfo is None:
            return moment.replace(tzinfo=timezone.utc)
        return moment
    return value
