"""Read arrays and data frames for dp_ranks by declared types instead of their dtypes.

The dtype of a column depends on its values: one blank turns integers into floats, and one text
turns everything into objects. A release or an error that depends on the dtype reveals that one
person's value with certainty. So types are declared, and values of other types become NULL.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timezone
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.conversion import to_moment, to_unit
from dbanon.errors import ColumnNotFound, InvalidParameter, UnsupportedType
from dbanon.synthesis.columns import Table

Values = tuple[NDArray[Any], NDArray[np.bool_]]

# Floats represent all integers up to this one.
_LARGEST_EXACT = 2.0**53


def table_of(data: Any, owner: str | None, types: Mapping[str, str] | str | None) -> Table:
    """Wrap an array or a data frame by declared types, without reading any value.

    Parameters
    ----------
    owner : the column with person identifiers.
    types : one of ``TYPES`` by column; a single word applies to all columns.

    Raises
    ------
    InvalidParameter : the data is neither; column names are duplicated or not text; a column has no
        declared type, or a type names an unknown column.
    ColumnNotFound : the column ``owner`` does not exist.
    UnsupportedType : the column of persons may hold NULL.
    """
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _of_frame(data, owner, types)
    if not isinstance(data, np.ndarray) or data.ndim != 2:
        raise InvalidParameter(
            "dp_ranks takes an array of two dimensions or a data frame.",
            hint="Make one: numpy.array(...), or pandas.DataFrame(...).",
        )
    names = tuple(f"column {j}" for j in range(data.shape[1]))
    if owner is not None:
        raise InvalidParameter(
            "An array has no named column of persons.", hint="Pass a pandas.DataFrame."
        )
    return _table(len(data), names, types, lambda j: data[:, j])


def _of_frame(frame: Any, owner: str | None, types: Mapping[str, str] | str | None) -> Table:
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidParameter("The columns of the frame must have unique names.")
    if owner is not None and owner not in names:
        raise ColumnNotFound(f'The data frame has no column "{owner}".')
    read_persons, n = None, len(frame)
    if owner is not None:
        series = frame[owner]
        if not isinstance(series.dtype, np.dtype) or series.dtype.kind not in "iu":
            raise UnsupportedType(
                f'Column "{owner}" identifies persons, and may be NULL.',
                hint="Convert it to whole numbers without NULL, such as int64.",
            )
        read_persons, n = series.to_numpy, int(series.nunique())
    names = [name for name in names if name != owner]
    return _table(n, names, types, lambda j: frame[names[j]], read_persons)


def _table(
    n: int,
    names: Sequence[str],
    types: Mapping[str, str] | str | None,
    column: Callable[[int], Any],
    read_persons: Callable[[], NDArray[Any]] | None = None,
) -> Table:
    if isinstance(types, str):
        types = dict.fromkeys(names, types)
    types = {} if types is None else types
    for name, type_name in types.items():
        if name not in names:
            raise InvalidParameter(f'types name "{name}", which is not a column.')
        if type_name not in TYPES:
            raise InvalidParameter(
                f'The type of "{name}" is none of {", ".join(TYPES)}.', hint=_HINT
            )
    undeclared = [name for name in names if name not in types]
    if undeclared:
        raise InvalidParameter(
            f'Column "{undeclared[0]}"'
            " has no declared type, and the one in memory depends on its values: a single blank or"
            " text changes it, and the release would reveal that.",
            hint=_HINT,
        )
    kinds = [TYPES[types[name]] for name in names]
    return Table(
        n,
        tuple(names),
        tuple(dtype for dtype, _ in kinds),
        tuple(dtype.kind in "MO" for dtype, _ in kinds),
        lambda j: kinds[j][1](column(j)),
        read_persons,
    )


def _numbers(column: Any) -> Values:
    """Read numbers as float64 (n,), NaN for other values; text is never parsed."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        values = np.asarray(column, np.float64)
    else:
        values = np.array([_number(value) for value in _objects(column)], np.float64)
    return values, np.isnan(values)


def _number(value: Any) -> float:
    # In Python booleans are numbers, but here they are not.
    if isinstance(value, bool | np.bool_ | str | bytes):
        return np.nan
    # A value must never make a run fail.
    with suppress(Exception):
        return float(value)
    return np.nan


def _integers(column: Any) -> Values:
    values, nulls = _numbers(column)
    with np.errstate(invalid="ignore"):
        is_integer = (np.rint(values) == values) & (np.abs(values) <= _LARGEST_EXACT)
    # Infinity is clipped later, like any number out of bounds.
    is_integer |= np.isinf(values)
    return np.where(is_integer, values, np.nan), nulls | ~is_integer


def _truths(column: Any) -> Values:
    truth_values = {True: 1.0, False: 0.0}
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        values = np.asarray(column, np.float64)
        values[(values != 0) & (values != 1)] = np.nan
    else:
        truths = [
            truth_values.get(bool(value), np.nan) if _number_or_truth(value) in (0, 1) else np.nan
            for value in _objects(column)
        ]
        values = np.array(truths, np.float64)
    return values, np.isnan(values)


def _number_or_truth(value: Any) -> float:
    return float(value) if isinstance(value, bool | np.bool_) else _number(value)


def _text(column: Any) -> Values:
    values = _objects(column)
    nulls = np.array([not isinstance(value, str) for value in values], bool)
    texts = np.empty(len(values), object)
    texts[:] = values
    return texts, nulls


def _timestamps(unit: str) -> Callable[[Any], Values]:
    """Return a reader of dates and times in units of ``unit``; zoned times become UTC."""

    def read(column: Any) -> Values:
        if getattr(column.dtype, "kind", "") == "M" and hasattr(column, "dt"):
            zone = getattr(column.dtype, "tz", None)
            column = column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
            values = to_unit(column.to_numpy(f"datetime64[{column.dt.unit}]"), unit)
        elif isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
            values = to_unit(np.asarray(column), unit)
        else:
            timestamps = [_timestamp(value, unit) for value in _objects(column)]
            values = np.array(timestamps, f"datetime64[{unit}]")
        return values, np.isnat(values)

    return read


def _timestamp(value: Any, unit: str) -> np.datetime64:
    # A value must neither make a run fail nor appear in a warning.
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(value, int | float | np.number):
            return to_moment(None, unit)
        if getattr(value, "tzinfo", None) is not None:
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
        return to_moment(value, unit)
    return to_moment(None, unit)


def _objects(column: Any) -> list[Any]:
    """List the values of an array or a series; each is checked on its own later."""
    if isinstance(column, np.ndarray):
        objects: list[Any] = column.tolist()
        return objects
    return list(column)


# The types that a column can be declared as: the released dtype, and the reader of values.
TYPES: dict[str, tuple[np.dtype[Any], Callable[[Any], Values]]] = {
    "integer": (np.dtype(np.int64), _integers),
    "number": (np.dtype(np.float64), _numbers),
    "boolean": (np.dtype(np.bool_), _truths),
    "text": (np.dtype(object), _text),
    "date": (np.dtype("datetime64[D]"), _timestamps("D")),
    "timestamp": (np.dtype("datetime64[us]"), _timestamps("us")),
}
_HINT = (
    f'Declare it: `types={{"age": "integer"}}`, of {", ".join(TYPES)}; or one word for all columns.'
    " A value that is none of its type is NULL."
)
