"""Read arrays and data frames for dp_ranks by declared types instead of their dtypes.

The dtype of a column depends on its values: one blank turns integers into floats, and one text
turns everything into objects. A release or an error that depends on the dtype reveals that person's
value with certainty. So types are declared, and values of other types become NULL.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timezone
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray, AnyDtype
from dbanon.data.conversion import to_moment, to_unit
from dbanon.errors import ColumnNotFound, InvalidParameter, UnsupportedType
from dbanon.extensions.synthesis.columns import TypedTable

# A column of an array, or a series of pandas, which this module does not import.
ColumnValues: TypeAlias = Any
# The values of a column, (n,), and whether each is NULL, bool (n,).
ValuesAndNulls = tuple[AnyArray, NDArray[np.bool_]]

# Floats represent all integers up to this one.
_LARGEST_EXACT = 2.0**53


def wrap_data(
    data: object, person_column: str | None, types: Mapping[str, str] | str | None
) -> TypedTable:
    """Wrap an array or a data frame by declared types, without reading any value.

    Parameters
    ----------
    person_column : the column with person identifiers; None if each row is a person.
    types : for each column a name in ``TYPES``; a single name applies to all columns.

    Raises
    ------
    InvalidParameter : the data is neither an array of two dimensions nor a data frame; column names
        are duplicated or not text; a column has no declared type; a type names an unknown column.
    ColumnNotFound : the column ``person_column`` does not exist.
    UnsupportedType : the column of persons may hold NULL.
    """
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _wrap_frame(data, person_column, types)
    if not isinstance(data, np.ndarray) or data.ndim != 2:
        raise InvalidParameter(
            "dp_ranks takes an array of two dimensions or a data frame.",
            hint="Make one: numpy.array(...), or pandas.DataFrame(...).",
        )
    names = tuple(f"column {j}" for j in range(data.shape[1]))
    if person_column is not None:
        raise InvalidParameter(
            "An array has no named column of persons.", hint="Pass a pandas.DataFrame."
        )
    return _build_table(len(data), names, types, lambda j: data[:, j])


def _wrap_frame(
    frame: Any, person_column: str | None, types: Mapping[str, str] | str | None
) -> TypedTable:
    names = list(frame.columns)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise InvalidParameter("The columns of the frame must have unique names.")
    if person_column is not None and person_column not in names:
        raise ColumnNotFound(f'The data frame has no column "{person_column}".')
    read_persons, n = None, len(frame)
    if person_column is not None:
        series = frame[person_column]
        if not isinstance(series.dtype, np.dtype) or series.dtype.kind not in "iu":
            raise UnsupportedType(
                f'Column "{person_column}" identifies persons, and may be NULL.',
                hint="Convert it to whole numbers without NULL, such as int64.",
            )
        read_persons, n = series.to_numpy, int(series.nunique())
    names = [name for name in names if name != person_column]
    return _build_table(n, names, types, lambda j: frame[names[j]], read_persons)


def _build_table(
    n: int,
    names: Sequence[str],
    types: Mapping[str, str] | str | None,
    get_column: Callable[[int], ColumnValues],
    read_persons: Callable[[], AnyArray] | None = None,
) -> TypedTable:
    if isinstance(types, str):
        types = dict.fromkeys(names, types)
    types = {} if types is None else types
    for name, type_name in types.items():
        if name not in names:
            raise InvalidParameter(f'types name "{name}", which is not a column.')
        if type_name not in TYPES:
            raise InvalidParameter(
                f'The type of "{name}" is none of {", ".join(TYPES)}.', hint=_TYPES_HINT
            )
    undeclared = [name for name in names if name not in types]
    if undeclared:
        raise InvalidParameter(
            f'Column "{undeclared[0]}"'
            " has no declared type, and the one in memory depends on its values: a single blank or"
            " text changes it, and the release would reveal that.",
            hint=_TYPES_HINT,
        )
    dtypes = [TYPES[types[name]][0] for name in names]
    readers = [TYPES[types[name]][1] for name in names]
    return TypedTable(
        n=n,
        names=tuple(names),
        dtypes=tuple(dtypes),
        # Other columns need no ``null_as``: NULL becomes their low bound, or False.
        nullable=tuple(dtype.kind in "MO" for dtype in dtypes),
        read=lambda j: readers[j](get_column(j)),
        read_persons=read_persons,
    )


def _read_numbers(column: ColumnValues) -> ValuesAndNulls:
    """Read numbers as float64 (n,), NaN for other values; text is never parsed."""
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        values = np.asarray(column, np.float64)
    else:
        values = np.array([_to_number(value) for value in _list_values(column)], np.float64)
    return values, np.isnan(values)


def _to_number(value: Any) -> float:
    """Convert a number to a float, and everything else to NaN."""
    # Python's booleans are numbers, but a boolean in a column of numbers is read as NULL.
    if isinstance(value, bool | np.bool_ | str | bytes):
        return np.nan
    # A value must never make a run fail.
    with suppress(Exception):
        return float(value)
    return np.nan


def _read_integers(column: ColumnValues) -> ValuesAndNulls:
    """Read whole numbers as float64 (n,), NaN for other values."""
    values, nulls = _read_numbers(column)
    with np.errstate(invalid="ignore"):
        is_integer = (np.rint(values) == values) & (np.abs(values) <= _LARGEST_EXACT)
    # Infinity counts as an integer: the column's domain clips it to its bounds, like other numbers.
    is_integer |= np.isinf(values)
    return np.where(is_integer, values, np.nan), nulls | ~is_integer


def _read_booleans(column: ColumnValues) -> ValuesAndNulls:
    """Read booleans, also if written as 0 and 1, as float64 (n,); NaN for other values."""
    boolean_numbers = {True: 1.0, False: 0.0}
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        # A copy: the column may be the caller's.
        values = np.array(column, np.float64)
        values[(values != 0) & (values != 1)] = np.nan
    else:
        booleans = [
            boolean_numbers.get(bool(value), np.nan)
            if _to_number_or_boolean(value) in (0, 1)
            else np.nan
            for value in _list_values(column)
        ]
        values = np.array(booleans, np.float64)
    return values, np.isnan(values)


def _to_number_or_boolean(value: object) -> float:
    return float(value) if isinstance(value, bool | np.bool_) else _to_number(value)


def _read_text(column: ColumnValues) -> ValuesAndNulls:
    values = _list_values(column)
    nulls = np.array([not isinstance(value, str) for value in values], bool)
    texts = np.empty(len(values), object)
    texts[:] = values
    return texts, nulls


def _timestamp_reader(unit: str) -> Callable[[ColumnValues], ValuesAndNulls]:
    """Return a reader of dates and times in units of ``unit``; zoned times become UTC."""

    def read(column: ColumnValues) -> ValuesAndNulls:
        # Only a series of pandas has ``dt``; its type may have a time zone.
        if getattr(column.dtype, "kind", "") == "M" and hasattr(column, "dt"):
            zone = getattr(column.dtype, "tz", None)
            column = column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)
            values = to_unit(column.to_numpy(f"datetime64[{column.dt.unit}]"), unit)
        elif isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
            values = to_unit(np.asarray(column), unit)
        else:
            timestamps = [_to_timestamp(value, unit) for value in _list_values(column)]
            values = np.array(timestamps, f"datetime64[{unit}]")
        return values, np.isnat(values)

    return read


def _to_timestamp(value: Any, unit: str) -> np.datetime64:
    """Convert a date or time to units of ``unit``; return NaT for everything else."""
    # A value must neither make a run fail nor appear in a warning.
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(value, int | float | np.number):
            return to_moment(None, unit)
        if getattr(value, "tzinfo", None) is not None:
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
        return to_moment(value, unit)
    return to_moment(None, unit)


def _list_values(column: ColumnValues) -> list[object]:
    """List the values of an array or a series, unchecked."""
    if isinstance(column, np.ndarray):
        column = column.tolist()
    return list(column)


# For each type that a column can be declared as, the released dtype and the reader of values.
TYPES: dict[str, tuple[AnyDtype, Callable[[ColumnValues], ValuesAndNulls]]] = {
    "integer": (np.dtype(np.int64), _read_integers),
    "number": (np.dtype(np.float64), _read_numbers),
    "boolean": (np.dtype(np.bool_), _read_booleans),
    "text": (np.dtype(object), _read_text),
    "date": (np.dtype("datetime64[D]"), _timestamp_reader("D")),
    "timestamp": (np.dtype("datetime64[us]"), _timestamp_reader("us")),
}
_TYPES_HINT = (
    f'Declare it: `types={{"age": "integer"}}`, of {", ".join(TYPES)}; or one word for all columns.'
    " A value of another type is read as NULL."
)
