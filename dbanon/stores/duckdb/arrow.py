"""Arrow arrays for rows that DuckDB reads and writes in bulk.

Importing Arrow takes as long as reading ten thousand rows, so sessions import this module for more
rows, and for values that NumPy arrays do not hold exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import Chunk, chunk_from_columns
from dbanon.data.schema import Attribute, Kind
from dbanon.recoding import ReleasedColumn

_ARROW_TYPES = {
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.float64): pa.float64(),
}
# NumPy's names of Arrow's types, where they differ.
_NUMPY_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16"}


def to_arrow(
    values: NDArray[np.int32 | np.int64 | np.float64], missing: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Convert int32, int64 or float64 (n,) to an Arrow array; NULL where ``missing``, bool (n,)."""
    values = np.ascontiguousarray(values)
    arrow_type = _ARROW_TYPES[values.dtype]
    return pa.Array.from_buffers(
        arrow_type, len(values), [validity_bitmap(missing), pa.py_buffer(values)]
    )


def to_arrow_texts(texts: Iterable[str], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Convert texts to an Arrow array; NULL where ``missing``, bool (n,).

    Arrow's own constructor would import pandas.
    """
    utf8_texts = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, utf8_texts)], dtype=np.int64)
    buffers = [
        validity_bitmap(missing),
        pa.py_buffer(offsets),
        pa.py_buffer(b"".join(utf8_texts)),
    ]
    return pa.Array.from_buffers(pa.large_string(), len(utf8_texts), buffers)


def to_numpy(column: pa.Array) -> AnyArray:
    """Convert an Arrow array of numbers to NumPy, (n,); values are undefined where NULL."""
    name = str(column.type)
    dtype = np.dtype(_NUMPY_NAMES.get(name, name))
    data = column.buffers()[1]
    if data is None:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype, column.offset + len(column))[column.offset :]


def validity_mask(column: pa.Array) -> NDArray[np.bool_]:
    """True where an Arrow array is not NULL, bool (n,)."""
    bits = column.buffers()[0]
    if bits is None:
        return np.ones(len(column), bool)
    flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return flags[column.offset : column.offset + len(column)].astype(bool)


def to_table(columns: list[pa.Array]) -> pa.Table:
    """Build an Arrow table of these columns, named by their positions."""
    return pa.Table.from_arrays(columns, [str(i) for i in range(len(columns))])


def validity_bitmap(missing: NDArray[np.bool_] | None) -> pa.Buffer | None:
    """The validity bitmap of an Arrow array; None if nothing is missing."""
    return None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))


def staged_values(column: ReleasedColumn) -> pa.Array:
    """The Arrow array for staging the values of classes; ``dialect.staged_type`` is its type."""
    values, missing = column.values, column.missing
    if column.attribute.kind is Kind.DECIMAL:
        arrow_type = pa.decimal128(38, column.attribute.scale)
        if values.dtype == object:
            # Decimals are held as integers without the point, those over 64 bits as Python's.
            decimals = [Decimal(f"{value}E-{column.attribute.scale}") for value in values]
            return pa.array(decimals, arrow_type, mask=missing)
        # Arrow stores decimals as 128-bit integers without the point. The upper 64 bits repeat the
        # sign of the lower ones.
        low_and_high_words = np.column_stack([values, values >> 63])
        return pa.Array.from_buffers(
            arrow_type,
            len(values),
            [validity_bitmap(missing), pa.py_buffer(low_and_high_words)],
        )
    if values.dtype == object:
        return to_arrow_texts(map(str, values), missing)
    return to_arrow(values, missing)


def to_arrow_values(attribute: Attribute, values: list[Any]) -> pa.Array:
    """Convert values of a copied column to Arrow; integers over 64 bits become decimals."""
    if attribute.kind is not Kind.INTEGER or attribute.bits <= 64:
        return pa.array(values)
    decimals = [None if value is None else Decimal(int(value)) for value in values]
    return pa.array(decimals, pa.decimal128(38, 0))


# Take Arrow scalars from arrays: creating one from a Python number imports pandas, 0.5 s.
_ZERO = to_arrow(np.zeros(1))[0]
NAN = to_arrow(np.full(1, np.nan))[0]


def to_chunk(batch: pa.RecordBatch, attributes: Sequence[Attribute]) -> Chunk:
    """Convert a batch to a chunk; its first columns are the row key, the others the attributes."""
    n_key_columns = batch.num_columns - len(attributes)
    keys = np.column_stack(
        [to_numpy(batch.column(i)).astype(np.int64, copy=False) for i in range(n_key_columns)]
    )
    numbers = np.empty((batch.num_rows, len(attributes)))
    valid = None
    for position in range(len(attributes)):
        column = batch.column(n_key_columns + position)
        if column.null_count:
            if valid is None:
                valid = np.ones(numbers.shape, bool)
            valid[:, position] = validity_mask(column)
            column = column.fill_null(_ZERO)
        numbers[:, position] = to_numpy(column)
    return chunk_from_columns(keys, numbers, valid, attributes)
