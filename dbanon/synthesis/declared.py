"""Arrays and data frames for dp_ranks, by types that are declared and not those that they have.

The type of a column in memory follows from its values: one blank makes floating-point numbers of
whole ones, one text makes objects of all. A release, or a refusal, that follows it tells of one
person with certainty. So the types are said, and what is none of its type is NULL, by rule.
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

# Whole numbers beyond it are not told apart by floating-point numbers.
_WHOLE = 2.0**53


def table_of(data: Any, owner: str | None, types: Mapping[str, str] | str | None) -> Table:
    """An array or a data frame by declared types; no value is looked at.

    Parameters
    ----------
    owner : the column that says whose a row is.
    types : by column one of ``TYPES``; a word alone is that of all columns.

    Raises
    ------
    InvalidParameter : it is neither; columns are named twice, or by no text; a column has no
        declared type, or a type no column.
    ColumnNotFound : there is no such column as ``owner``.
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
        raise InvalidParameter("An array has no named column of persons.", hint="Give a frame.")
    return _table(len(data), names, types, lambda j: data[:, j])


def _of_frame(frame: Any, owner: str | None, types: Mapping[str, str] | str | None) -> Table:
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidParameter("The columns of the frame must have names, each its own.")
    if owner is not None and owner not in names:
        raise ColumnNotFound(f'The data frame has no column "{owner}".')
    whose, n = None, len(frame)
    if owner is not None:
        series = frame[owner]
        if not isinstance(series.dtype, np.dtype) or series.dtype.kind not in "iu":
            raise UnsupportedType(
                f'Column "{owner}" says whose a row is, and may hold NULL.',
                hint="Give it a type of whole numbers without NULL, such as int64.",
            )
        whose, n = series.to_numpy, int(series.nunique())
    names = [name for name in names if name != owner]
    return _table(n, names, types, lambda j: frame[names[j]], whose)


def _table(
    n: int,
    names: Sequence[str],
    types: Mapping[str, str] | str | None,
    column: Callable[[int], Any],
    whose: Callable[[], NDArray[Any]] | None = None,
) -> Table:
    if isinstance(types, str):
        types = dict.fromkeys(names, types)
    types = {} if types is None else types
    for name, given in types.items():
        if name not in names:
            raise InvalidParameter(f'types name "{name}", which is no column.')
        if given not in TYPES:
            raise InvalidParameter(
                f'The type of "{name}" is none of {", ".join(TYPES)}.', hint=_SAY
            )
    left = [name for name in names if name not in types]
    if left:
        raise InvalidParameter(
            f'Column "{left[0]}" has no declared type, and the one in memory follows from its'
            " values: one blank or one text changes it, and the release would reveal that.",
            hint=_SAY,
        )
    kinds = [TYPES[types[name]] for name in names]
    return Table(
        n,
        tuple(names),
        tuple(dtype for dtype, _ in kinds),
        tuple(dtype.kind in "MO" for dtype, _ in kinds),
        lambda j: kinds[j][1](column(j)),
        whose,
    )


def _numbers(column: Any) -> Values:
    """Numbers as float64 (n,), NaN where a value is none; text is none, whatever it says."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        values = np.asarray(column, np.float64)
    else:
        values = np.array([_number(value) for value in _objects(column)], np.float64)
    return values, np.isnan(values)


def _number(value: Any) -> float:
    # Truths are numbers in Python, and none here.
    if isinstance(value, bool | np.bool_ | str | bytes):
        return np.nan
    # No content of a row ends a run.
    with suppress(Exception):
        return float(value)
    return np.nan


def _integers(column: Any) -> Values:
    values, nulls = _numbers(column)
    with np.errstate(invalid="ignore"):
        whole = (np.rint(values) == values) & (np.abs(values) <= _WHOLE)
    # Infinity is clipped, as a number out of bounds is.
    whole |= np.isinf(values)
    return np.where(whole, values, np.nan), nulls | ~whole


def _truths(column: Any) -> Values:
    known = {True: 1.0, False: 0.0}
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        values = np.asarray(column, np.float64)
        values[(values != 0) & (values != 1)] = np.nan
    else:
        found = [
            known.get(bool(value), np.nan) if _number_or_truth(value) in (0, 1) else np.nan
            for value in _objects(column)
        ]
        values = np.array(found, np.float64)
    return values, np.isnan(values)


def _number_or_truth(value: Any) -> float:
    return float(value) if isinstance(value, bool | np.bool_) else _number(value)


def _text(column: Any) -> Values:
    values = _objects(column)
    nulls = np.array([not isinstance(value, str) for value in values], bool)
    found = np.empty(len(values), object)
    found[:] = values
    return found, nulls


def _moments(unit: str) -> Callable[[Any], Values]:
    """What reads dates and times, in units of ``unit``; instants with a zone are those of UTC."""

    def read(column: Any) -> Values:
        if getattr(column.dtype, "kind", "") == "M" and hasattr(column, "dt"):
            zone = getattr(column.dtype, "tz", None)
            column = column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
            values = to_unit(column.to_numpy(f"datetime64[{column.dt.unit}]"), unit)
        elif isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
            values = to_unit(np.asarray(column), unit)
        else:
            moments = [_moment(value, unit) for value in _objects(column)]
            values = np.array(moments, f"datetime64[{unit}]")
        return values, np.isnat(values)

    return read


def _moment(value: Any, unit: str) -> np.datetime64:
    # No content of a row ends a run, or is seen in a warning.
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(value, int | float | np.number):
            return to_moment(None, unit)
        if getattr(value, "tzinfo", None) is not None:
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
        return to_moment(value, unit)
    return to_moment(None, unit)


def _objects(column: Any) -> list[Any]:
    """The values of an array or a series, one by one; an unlike one says what it is later."""
    if isinstance(column, np.ndarray):
        found: list[Any] = column.tolist()
        return found
    return list(column)


# What a column may be declared as: the type of what is released, and what reads its values.
TYPES: dict[str, tuple[np.dtype[Any], Callable[[Any], Values]]] = {
    "integer": (np.dtype(np.int64), _integers),
    "number": (np.dtype(np.float64), _numbers),
    "boolean": (np.dtype(np.bool_), _truths),
    "text": (np.dtype(object), _text),
    "date": (np.dtype("datetime64[D]"), _moments("D")),
    "timestamp": (np.dtype("datetime64[us]"), _moments("us")),
}
_SAY = (
    f'Say it: `types={{"age": "integer"}}`, of {", ".join(TYPES)}; or one word for all columns.'
    " A value that is none of its type is NULL."
)
