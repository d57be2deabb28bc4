"""Columns between databases, Arrow and Spark: which type is which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType

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
