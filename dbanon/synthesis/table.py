"""What dp_ranks reads: columns by their types; no value is looked at before it is paid for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    n : the number of rows, or persons.
    names, dtypes, nullable : of the columns.
    read : gives a column by its place.
    whose : gives whose each row is, whole numbers; None where each is somebody's of their own.
    source : what the guarantee calls it.
    labels : the values of columns of an enumerated type, as the type itself states them.
    """

    n: int
    names: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    nullable: tuple[bool, ...]
    read: Read
    whose: Callable[[], NDArray[Any]] | None = None
    source: str = "the source"
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
        return data[:, j], _missing(data[:, j])

    return Table(len(data), names, (data.dtype,) * p, (data.dtype.kind in "MO",) * p, read)


def _missing(values: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which values of an array are none, where its type holds that beside NaN."""
    if values.dtype.kind == "M":
        return np.array(np.isnat(values))
    if values.dtype.kind == "O":
        return np.array([v is None or (isinstance(v, float) and v != v) for v in values.tolist()])
    return None


def _of_frame(frame: Any, owner: str | None) -> Table:
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidParameter("The columns of the frame must have names, each its own.")
    if owner is not None and owner not in names:
        raise ColumnNotFound(f'The data frame has no column "{owner}".')
    whose, n = None, len(frame)
    if owner is not None:
        series = frame[owner]
        if _typed(series)[0].kind not in "iu" or _typed(series)[1]:
            raise UnsupportedType(
                f'Column "{owner}" says whose a row is, and may hold NULL.',
                hint="Give it a type of whole numbers without NULL, such as int64.",
            )
        whose, n = series.to_numpy, int(series.nunique())
    names = [name for name in names if name != owner]
    kinds = [_typed(frame[name]) for name in names]

    def read(j: int) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        series, (dtype, nullable) = frame[names[j]], kinds[j]
        if not nullable:
            return series.to_numpy(), None
        nulls = series.isna().to_numpy()
        if dtype.kind in "MO":
            return series.to_numpy(dtype), nulls
        return series.to_numpy(np.float64, na_value=np.nan), nulls

    return Table(
        n,
        tuple(names),
        tuple(dtype for dtype, _ in kinds),
        tuple(nullable for _, nullable in kinds),
        read,
        whose,
    )


def _typed(series: Any) -> tuple[np.dtype[Any], bool]:
    """The type of a column's values, and whether it holds NULL: by its declaration alone.

    Text and categories are objects; instants with a zone are those of UTC.
    """
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return dtype, dtype.kind in "MO"
    plain = getattr(dtype, "numpy_dtype", None)
    if isinstance(plain, np.dtype) and plain.kind in "iufb":
        return plain, True
    if getattr(dtype, "kind", "") == "M":
        return np.dtype(f"datetime64[{getattr(dtype, 'unit', 'ns')}]"), True
    listed = getattr(dtype, "categories", None)
    if dtype.type is str or (listed is not None and _typed(listed)[0].kind == "O"):
        return np.dtype(object), True
    return np.dtype(np.void), True


def numbered(whose: NDArray[Any]) -> NDArray[np.int64]:
    """Which person each row is of, int64 (n,), from 0."""
    return np.unique(whose, return_inverse=True)[1].reshape(-1).astype(np.int64)
