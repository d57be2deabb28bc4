"""Arrow columns of numbers to and from numpy, without pyarrow's own ways: these import pandas.

That takes a quarter of a second in every process, and nobody asked for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.float64): pa.float64(),
}
_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16"}


def column_of(values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """The Arrow array of int32, int64 or float64 (n,); NULL where ``missing``."""
    values = np.ascontiguousarray(values)
    kind = _TYPES[values.dtype]
    return pa.Array.from_buffers(kind, len(values), [bits_of(missing), pa.py_buffer(values)])


def values_of(column: pa.Array) -> NDArray[Any]:
    """The values of an Arrow array of numbers, (n,); anything where they are NULL."""
    name = str(column.type)
    dtype = np.dtype(_NAMES.get(name, name))
    data = column.buffers()[1]
    if data is None:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype, column.offset + len(column))[column.offset :]


def is_valid(column: pa.Array) -> NDArray[np.bool_]:
    """Where an Arrow array has a value, bool (n,)."""
    bits = column.buffers()[0]
    if bits is None:
        return np.ones(len(column), bool)
    found = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
    return found[column.offset : column.offset + len(column)].astype(bool)


def table_of(columns: list[pa.Array]) -> pa.Table:
    """The table of these columns, named by their places."""
    return pa.Table.from_arrays(columns, [str(place) for place in range(len(columns))])


def bits_of(missing: NDArray[np.bool_] | None) -> pa.Buffer | None:
    """The bits of an Arrow array that tell where it has values; None where everywhere."""
    return None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
