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
    attributes: Sequence[Attribute], pieces: Iterable[Sequence[tuple[Any, ...]]], rows: int
) -> Iterator[pa.RecordBatch]:
    """Rows in pieces as batches of so many rows, in their order; the last may have fewer."""
    schema = arrow_schema(attributes)
    held: list[tuple[Any, ...]] = []
    for piece in pieces:
        held += piece
        while len(held) >= rows:
            yield _batch(schema, held[:rows])
            held = held[rows:]
    if held:
        yield _batch(schema, held)


def _batch(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    try:
        arrays = [
            _array(values, field.type)
            for field, values in zip(schema, zip(*rows, strict=True), strict=True)
        ]
    except (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError):
        raise cannot_travel() from None
    return pa.record_batch(arrays, schema=schema)


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
