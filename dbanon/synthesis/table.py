"""What dp_ranks reads: columns by their types; no value is looked at before it is paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import ColumnNotFound, InvalidParameter, UnsupportedType

# The values of a column in its type, and which of them are NULL, where its type says so.
Read = Callable[[int], "tuple[NDArray[Any], NDArray[np.bool_] | None]"]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by their types.

    Parameters
    ----------
    n : the number of rows.
    names, dtypes, nullable : of the columns.
    read : gives a column by its place.
    whose : whose each row is, whole numbers, (n,); None where each is somebody's of their own.
    """

    n: int
    names: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    nullable: tuple[bool, ...]
    read: Read
    whose: NDArray[Any] | None = None


def table_of(data: Any, owner: str | None) -> Table:
    """An array or a data frame by its types; no value is looked at.

    Raises
    ------
    InvalidParameter : it is neither; columns are named twice, or by no text.
    ColumnNotFound : there is no such column as ``owner``, which says whose a row is.
    UnsupportedType : the column of persons may hold NULL.
    """
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _of_frame(data, owner)
    if not isinstance(data, np.ndarray) or data.ndim != 2:
        raise InvalidParameter(
            "dp_ranks takes an array of two dimensions or a data frame, whose types are known"
            " before any value is read.",
            hint="Make one: numpy.array(...), or pandas.DataFrame(...).astype(...).",
        )
    names = tuple(f"column {j}" for j in range(data.shape[1]))
    if owner is not None:
        raise InvalidParameter("An array has no named column of persons.", hint="Give a frame.")
    p = len(names)

    def read(j: int) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        return data[:, j], np.isnat(data[:, j]) if data.dtype.kind == "M" else None

    return Table(len(data), names, (data.dtype,) * p, (data.dtype.kind == "M",) * p, read)


def _of_frame(frame: Any, owner: str | None) -> Table:
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidParameter("The columns of the frame must have names, each its own.")
    if owner is not None and owner not in names:
        raise ColumnNotFound(f'The data frame has no column "{owner}".')
    whose = None
    if owner is not None:
        whose = frame[owner]
        if _typed(whose)[0].kind not in "iu" or _typed(whose)[1]:
            raise UnsupportedType(
                f'Column "{owner}" says whose a row is, and may hold NULL.',
                hint="Give it a type of whole numbers without NULL, such as int64.",
            )
        whose = whose.to_numpy()
    names = [name for name in names if name != owner]
    kinds = [_typed(frame[name]) for name in names]

    def read(j: int) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        series, (dtype, nullable) = frame[names[j]], kinds[j]
        if not nullable:
            return series.to_numpy(), None
        nulls = series.isna().to_numpy()
        if dtype.kind == "M":
            return series.to_numpy(dtype), nulls
        return series.to_numpy(np.float64, na_value=np.nan), nulls

    return Table(
        len(frame),
        tuple(names),
        tuple(dtype for dtype, _ in kinds),
        tuple(nullable for _, nullable in kinds),
        read,
        whose,
    )


def _typed(series: Any) -> tuple[np.dtype[Any], bool]:
    """The type of a column's values, and whether it holds NULL: by its declaration alone."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return dtype, dtype.kind == "M"
    plain = getattr(dtype, "numpy_dtype", None)
    if isinstance(plain, np.dtype) and plain.kind in "iufb":
        return plain, True
    return np.dtype(object), True


def persons(whose: NDArray[Any], columns: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The means of each person's values, float64 (p, persons): one row of a table each."""
    number = np.unique(whose, return_inverse=True)[1].reshape(-1)
    rows = np.bincount(number)
    return np.array([np.bincount(number, column) / rows for column in columns])
