"""Convert column types and values between databases, Arrow, Spark and microdata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.recoding.columns import ReleasedColumn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# The most digits of a decimal in Arrow's 128 bits, and in Spark.
MAX_DIGITS = 38


def arrow_type(attribute: Attribute) -> pa.DataType:
    """Return the Arrow type to read a database column as.

    Raises
    ------
    UnsupportedType : no Spark type can hold all its values.
    """
    import pyarrow as pa

    kind = attribute.kind
    if kind is Kind.INTEGER and attribute.bits <= 64:
        return {16: pa.int16(), 32: pa.int32()}.get(attribute.bits, pa.int64())
    if kind is Kind.DECIMAL:
        digits = attribute.precision or MAX_DIGITS
        if 0 <= attribute.scale <= digits <= MAX_DIGITS:
            return pa.decimal128(digits, attribute.scale)
    if kind is Kind.FLOAT:
        return pa.float32() if attribute.bits == 32 else pa.float64()
    if kind is Kind.TIMESTAMP:
        return pa.timestamp("us", "UTC" if attribute.has_time_zone else None)
    simple_types = {
        Kind.DATE: pa.date32(),
        Kind.BOOLEAN: pa.bool_(),
        Kind.CATEGORY: pa.string(),
        Kind.ORDINAL: pa.string(),
    }
    if kind in simple_types:
        return simple_types[kind]
    raise UnsupportedType(
        f'Column "{attribute.name}" of type {attribute.sql_type} cannot be read by Spark.',
        hint="Cast it to text or to a number in a view, and anonymize the view, with its `key`.",
    )


def arrow_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """Return the Arrow schema of database columns; raises UnsupportedType."""
    import pyarrow as pa

    return pa.schema([pa.field(a.name, arrow_type(a)) for a in attributes])


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # A timestamp without time zone must not become an instant in Spark.
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


# The most digits of a decimal whose unscaled integer fits in 64 bits.
_INT64_DIGITS = 18
# The exponent of the largest power of ten that float64 represents exactly.
_MAX_EXACT_POWER = 22
# float64 represents all integers up to this one.
_MAX_EXACT_INTEGER = 2**53

_EPOCH = date(1970, 1, 1)
# Precise enough that no digit of a decimal is lost.
_EXACT_DECIMALS = Context(prec=80)


def combine_chunks(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Combine a column's chunks into one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def valid_mask(column: pa.Array) -> NDArray[np.bool_]:
    """Return which values are not NULL, bool (n,)."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def to_floats(column: pa.Array, attribute: Attribute) -> NDArray[np.float64]:
    """Convert values to the numbers of ``Microdata``, float64 (n,); 0 where NULL.

    Dates are days, and timestamps microseconds, since 1970-01-01.
    """
    if attribute.kind is Kind.DECIMAL:
        return _decimals_to_floats(column, attribute.scale)
    integers = _as_integers(column, attribute)
    return np.asarray(integers.to_numpy(zero_copy_only=False)).astype(np.float64)


def to_integers(column: pa.Array, attribute: Attribute) -> NDArray[np.object_]:
    """Convert values to Python integers in units of 10**-scale, (n,); 0 where NULL."""
    if attribute.kind is not Kind.DECIMAL:
        values = np.asarray(_as_integers(column, attribute).to_numpy(zero_copy_only=False))
        # Arrow's timestamps are microseconds.
        divisor = 10 ** (6 - attribute.scale) if attribute.kind is Kind.TIMESTAMP else 1
        return np.asarray((values.astype(np.int64) // divisor).astype(object))
    unscaled = [
        0 if value is None else int(value.scaleb(attribute.scale, _EXACT_DECIMALS))
        for value in column.to_pylist()
    ]
    return np.array(unscaled, object)


def _as_integers(column: pa.Array, attribute: Attribute) -> pa.Array:
    """Convert dates to days and timestamps to microseconds; replace NULL by 0."""
    if attribute.kind is Kind.DATE:
        column = column.cast(pa.int32())
    elif attribute.kind is Kind.TIMESTAMP:
        column = column.cast(pa.int64())
    return pc.fill_null(column, 0) if column.null_count else column


def _decimals_to_floats(column: pa.Array, scale: int) -> NDArray[np.float64]:
    """Convert decimals to the nearest float64."""
    if (
        column.type.precision <= _INT64_DIGITS
        and scale <= _MAX_EXACT_POWER
        and not column.null_count
    ):
        # Arrow stores 16 bytes per value, the low half first. So few digits fit into that half.
        halves = np.frombuffer(column.buffers()[1], np.int64)
        unscaled = halves[2 * column.offset : 2 * (column.offset + len(column)) : 2]
        if not unscaled.size or np.abs(unscaled).max() <= _MAX_EXACT_INTEGER:
            # Both operands are exact, so the quotient is correctly rounded.
            return np.asarray(unscaled / 10.0**scale)
    return np.array([0.0 if x is None else float(x) for x in column.to_pylist()], np.float64)


def encode_texts(
    column: pa.Array, dictionary: tuple[str, ...] | None = None
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Encode texts as indices in a dictionary, int32 (n,), -1 where NULL; return both.

    Parameters
    ----------
    dictionary : the values to encode; None for the values that occur, sorted by code points.
    """
    if dictionary is None:
        dictionary = tuple(sorted(x for x in pc.unique(column).to_pylist() if x is not None))
    values = pa.array(dictionary, column.type)
    indices = pc.fill_null(pc.index_in(column, value_set=values, skip_nulls=True), -1)
    codes = np.asarray(indices.to_numpy(zero_copy_only=False)).astype(np.int32)
    return codes, dictionary


def build_released_array(
    column: ReleasedColumn, labels: NDArray[np.int32], target_type: pa.DataType
) -> pa.Array:
    """Return the released value of each record as an Arrow array of ``target_type``.

    Parameters
    ----------
    column : the released value of each class.
    labels : int32 (n,), the class of each record.
    """
    attribute, values = column.attribute, column.values
    is_null = column.missing
    if attribute.kind is Kind.DATE:
        class_values = pa.array(_convert_values(values, is_null, _to_date), pa.date32())
    elif attribute.kind is Kind.DECIMAL:
        # The values are integers in units of 10**-scale.
        scale = attribute.scale
        class_values = pa.array(
            _convert_values(
                values, is_null, lambda x: Decimal(int(x)).scaleb(-scale, _EXACT_DECIMALS)
            ),
            target_type,
        )
    elif attribute.kind is Kind.TIMESTAMP:
        class_values = pa.array(_convert_values(values, is_null, int), pa.int64()).cast(target_type)
    elif attribute.kind is Kind.CATEGORY:
        class_values = pa.array(_convert_values(values, is_null, str), pa.string())
    else:
        # ``safe`` raises an error if a value would change. Only float64 may be rounded, to float32;
        # other values have been rounded to the column's type already.
        class_values = pa.array(values, mask=is_null).cast(
            target_type, safe=attribute.kind is not Kind.FLOAT
        )
    return class_values.take(pa.array(labels))


def _convert_values(
    values: AnyArray, is_null: NDArray[np.bool_] | None, convert: Callable[[Any], object]
) -> list[object]:
    if is_null is None:
        return [convert(value) for value in values.tolist()]
    pairs = zip(values.tolist(), is_null.tolist(), strict=True)
    return [None if is_missing else convert(value) for value, is_missing in pairs]


def _to_date(days: int) -> date:
    return _EPOCH + timedelta(days=int(days))
