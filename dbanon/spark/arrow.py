"""Columns between databases, Arrow, Spark and microdata: their types, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.recoding.columns import ReleasedColumn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# As many digits as a decimal has at most, in Arrow's 128 bits and in Spark.
MOST_DIGITS = 38


def arrow_type(attribute: Attribute) -> pa.DataType:
    """The Arrow type that a column of a database is read as.

    Raises
    ------
    UnsupportedType : Spark has none that holds all of its values.
    """
    import pyarrow as pa

    kind = attribute.kind
    if kind is Kind.INTEGER and attribute.bits <= 64:
        return {16: pa.int16(), 32: pa.int32()}.get(attribute.bits, pa.int64())
    if kind is Kind.DECIMAL:
        digits = attribute.precision or MOST_DIGITS
        if 0 <= attribute.scale <= digits <= MOST_DIGITS:
            return pa.decimal128(digits, attribute.scale)
    if kind is Kind.FLOAT:
        return pa.float32() if attribute.bits == 32 else pa.float64()
    if kind is Kind.TIMESTAMP:
        return pa.timestamp("us", "UTC" if attribute.zoned else None)
    plain = {Kind.DATE: pa.date32(), Kind.BOOLEAN: pa.bool_(), Kind.CATEGORY: pa.string(),
             Kind.ORDINAL: pa.string()}  # fmt: skip
    if kind in plain:
        return plain[kind]
    raise UnsupportedType(
        f'Column "{attribute.name}" of type {attribute.sql_type} cannot be read by Spark.',
        hint="Cast it to text or to a number in a view, and anonymize the view, with its `key`.",
    )


def arrow_schema(attributes: Sequence[Attribute]) -> pa.Schema:
    """The Arrow schema of columns of a database; raises as ``arrow_type``."""
    import pyarrow as pa

    return pa.schema([pa.field(a.name, arrow_type(a)) for a in attributes])


def spark_schema(schema: pa.Schema) -> StructType:
    """The same as Spark has it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # A timestamp without a zone is one in Spark, too: it has no place in the world.
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


# Digits of a decimal whose units one 64-bit number holds, and of which float64 holds each power of
# ten exactly.
_NARROW = 18
_EXACT_POWER = 22
_EXACT = 2**53

_EPOCH = date(1970, 1, 1)
# No digit of a decimal is lost, however many there are.
_DIGITS = Context(prec=80)


def one_array(column: Any) -> pa.Array:
    """A column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def valid_of(column: pa.Array) -> NDArray[np.bool_]:
    """Which values are not NULL, bool (n,)."""
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def numbers_of(column: pa.Array, attribute: Attribute) -> NDArray[np.float64]:
    """Values as the numbers that ``Microdata`` holds, float64 (n,); 0 where NULL."""
    if attribute.kind is Kind.DECIMAL:
        return _decimals(column, attribute.scale)
    plain = _as_plain(column, attribute)
    return np.asarray(plain.to_numpy(zero_copy_only=False)).astype(np.float64)


def integers_of(column: pa.Array, attribute: Attribute) -> NDArray[np.object_]:
    """Values as Python's integers, in units of 10**-scale, (n,); 0 where NULL."""
    if attribute.kind is not Kind.DECIMAL:
        values = np.asarray(_as_plain(column, attribute).to_numpy(zero_copy_only=False))
        divisor = 10 ** (6 - attribute.scale) if attribute.kind is Kind.TIMESTAMP else 1
        return np.asarray((values.astype(np.int64) // divisor).astype(object))
    units = [
        0 if value is None else int(value.scaleb(attribute.scale, _DIGITS))
        for value in column.to_pylist()
    ]
    return np.array(units, object)


def _as_plain(column: pa.Array, attribute: Attribute) -> pa.Array:
    if attribute.kind is Kind.DATE:
        column = column.cast(pa.int32())
    elif attribute.kind is Kind.TIMESTAMP:
        column = column.cast(pa.int64())
    return pc.fill_null(column, 0) if column.null_count else column


def _decimals(column: pa.Array, scale: int) -> NDArray[np.float64]:
    """The nearest float64 of each decimal."""
    if column.type.precision <= _NARROW and scale <= _EXACT_POWER and not column.null_count:
        # 128 bits each, of which the lower half says it all.
        held = np.frombuffer(column.buffers()[1], np.int64)
        units = held[2 * column.offset : 2 * (column.offset + len(column)) : 2]
        if not units.size or np.abs(units).max() <= _EXACT:
            # Both are exact, so that the quotient is the nearest number.
            return np.asarray(units / 10.0**scale)
    return np.array([0.0 if x is None else float(x) for x in column.to_pylist()], np.float64)


def codes_of(
    column: pa.Array, dictionary: tuple[str, ...] | None = None
) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Texts as codes int32 (n,), -1 where NULL, and the values by code point.

    Parameters
    ----------
    dictionary : the values that the codes are of; None for those that occur.
    """
    if dictionary is None:
        dictionary = tuple(sorted(x for x in pc.unique(column).to_pylist() if x is not None))
    known = pa.array(dictionary, column.type)
    found = pc.fill_null(pc.index_in(column, value_set=known, skip_nulls=True), -1)
    codes = np.asarray(found.to_numpy(zero_copy_only=False)).astype(np.int32)
    return codes, dictionary


def released_array(column: ReleasedColumn, labels: NDArray[np.int32], kind: pa.DataType) -> Any:
    """The released value of each record, as an array of Arrow of this type.

    Parameters
    ----------
    labels : int32 (n,), the class of each record.
    """
    attribute, values = column.attribute, column.values
    missing = column.missing
    if attribute.kind is Kind.DATE:
        made = pa.array(_all(values, missing, _day), pa.date32())
    elif attribute.kind is Kind.DECIMAL:
        scale = attribute.scale
        made = pa.array(
            _all(values, missing, lambda x: Decimal(int(x)).scaleb(-scale, _DIGITS)), kind
        )
    elif attribute.kind is Kind.TIMESTAMP:
        made = pa.array(_all(values, missing, int), pa.int64()).cast(kind)
    elif attribute.kind is Kind.CATEGORY:
        made = pa.array(_all(values, missing, str), pa.string())
    else:
        # Exact: the values are of the column's type, or were rounded to it.
        made = pa.array(values, mask=missing).cast(kind, safe=attribute.kind is not Kind.FLOAT)
    return made.take(pa.array(labels))


def _all(values: NDArray[Any], missing: NDArray[np.bool_] | None, form: Any) -> list[Any]:
    if missing is None:
        return [form(value) for value in values.tolist()]
    pairs = zip(values.tolist(), missing.tolist(), strict=True)
    return [None if absent else form(value) for value, absent in pairs]


def _day(days: int) -> date:
    return _EPOCH + timedelta(days=int(days))
