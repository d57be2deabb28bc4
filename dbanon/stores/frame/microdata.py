"""Conversion of data frame columns to microdata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import Chunk, encode_texts, microdata_of_records
from dbanon.data.conversion import to_unit
from dbanon.data.microdata import Microdata, is_wide
from dbanon.data.schema import Attribute, Kind, apply_kinds, apply_orders, normalize_spelling
from dbanon.errors import (
    ColumnNotFound,
    InvalidParameter,
    NonFiniteValue,
    UnsupportedType,
    invalid_text_error,
    nearest_names,
)
from dbanon.stores.frame.conversion import has_lone_surrogate

_NESTED_TYPES = (list, dict, set, frozenset, tuple, np.ndarray)
# Arrow types whose values pandas returns as Python objects.
_ARROW_OBJECT_TYPES = ("date32", "date64", "decimal", "binary", "large_binary", "fixed_size_binary")


def attribute_of_objects(name: str, series: pd.Series[Any]) -> Attribute | None:
    """Describe a column of dates or decimals; None for any other column.

    Raises
    ------
    UnsupportedType : the column holds lists, dicts, bytes or complex numbers.
    NonFiniteValue : a decimal is infinite.
    """
    type_name = str(series.dtype)
    if series.dtype != object and not (
        isinstance(series.dtype, pd.ArrowDtype) and type_name.startswith(_ARROW_OBJECT_TYPES)
    ):
        return None
    values = series[series.notna()].astype(object)
    value_types = set(map(type, values))
    if any(issubclass(value_type, _NESTED_TYPES) for value_type in value_types):
        raise UnsupportedType(
            f'Column "{name}" holds lists or dicts, which have neither an order nor a hierarchy.',
            hint=(
                "Extract the values that you need into separate columns: frame.explode(…),"
                " pandas.json_normalize(…)."
            ),
        )
    if any(issubclass(t, (bytes, bytearray, memoryview)) for t in value_types):
        raise UnsupportedType(
            f'Column "{name}" holds bytes, which have neither an order nor a text form.',
            hint=f'Make them text: frame["{name}"].map(bytes.hex, na_action="ignore") in pandas,'
            f' pl.col("{name}").bin.encode("hex") in polars.',
        )
    if any(issubclass(t, (complex, np.complexfloating)) for t in value_types):
        raise complex_numbers_error(name)
    if value_types == {date}:
        return Attribute(name, Kind.DATE, sql_type=type_name)
    if Decimal not in value_types or not value_types <= {Decimal, int}:
        return None
    scale = 0
    for value in values:
        exponent = Decimal(value).as_tuple().exponent
        if not isinstance(exponent, int):
            raise NonFiniteValue(f'Column "{name}" holds infinity.')
        scale = max(scale, -exponent)
    return Attribute(name, Kind.DECIMAL, sql_type=type_name, scale=scale)


def complex_numbers_error(name: str) -> UnsupportedType:
    """Build the error for a column of complex numbers."""
    return UnsupportedType(
        f'Column "{name}" holds complex numbers, which have no order.',
        hint="Pass the real and imaginary parts as separate columns.",
    )


def dates_to_days(series: pd.Series[Any]) -> NDArray[np.float64]:
    """Convert dates to days since 1970-01-01, float64 (n,); 0 where NULL."""
    numbers = np.zeros(len(series))
    is_valid = series.notna().to_numpy()
    dates = np.array(series[is_valid].astype(object).tolist(), "datetime64[D]")
    numbers[is_valid] = dates.astype(np.int64)
    return numbers


def decimals_to_floats(series: pd.Series[Any]) -> NDArray[np.float64]:
    """Convert decimals to the nearest floats, float64 (n,); 0 where NULL."""
    numbers = np.zeros(len(series))
    is_valid = series.notna().to_numpy()
    numbers[is_valid] = [float(value) for value in series[is_valid]]
    return numbers


def unscaled_integer(value: Decimal | int, scale: int) -> int:
    """Convert a decimal to the integer that has its digits without the point, value * 10**scale.

    Parameters
    ----------
    value : the decimal; it has at most ``scale`` decimal places.
    """
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number


def to_python_objects(attribute: Attribute, values: AnyArray) -> NDArray[np.object_]:
    """Convert integers, (m,), to Python's dates or decimals, object (m,).

    Parameters
    ----------
    values : days since 1970-01-01, or decimals without the point, value * 10**scale.
    """
    if attribute.kind is Kind.DATE:
        return np.asarray(values.astype("datetime64[D]").astype(object), object)
    return np.array([Decimal(f"{int(value)}E-{attribute.scale}") for value in values], object)


def microdata_from_frame(
    frame: pd.DataFrame,
    names: Sequence[str],
    other_names: Sequence[str] = (),
    by: Sequence[str] = (),
    *,
    orders: Mapping[str, Sequence[str]] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Microdata:
    """Convert columns of a frame to microdata, in row order.

    Raises the errors of ``require_columns`` and ``require_texts``.

    Parameters
    ----------
    names : the columns to convert.
    other_names : columns that are not converted but must exist.
    by : the stratum columns.
    orders : the order of categories, lowest first, by column; None for none.
    kinds : ``nominal`` or ``numeric`` for columns whose type suggests another kind, by column; None
        for none.
    """
    require_columns(frame, [*names, *other_names])
    require_texts(frame, [*names, *by])
    attributes = apply_kinds([attribute_of(str(name), frame[name]) for name in names], kinds or {})
    attributes = apply_orders(attributes, orders or {})
    n = len(frame)
    numbers = np.zeros((n, sum(not attribute.kind.is_coded for attribute in attributes)))
    codes = []
    categories = []
    is_valid = np.ones((n, len(attributes)), bool)
    # Columns with values that float64 may be unable to represent exactly.
    wide_names = set()
    # The next column of ``numbers``, which has no columns for coded attributes.
    number_index = 0
    for position, (attribute, name) in enumerate(zip(attributes, names, strict=True)):
        series = frame[name]
        is_valid[:, position] = series.notna().to_numpy()
        if attribute.kind.is_coded:
            if isinstance(series.dtype, pd.CategoricalDtype):
                # pandas before 3 warns about casting categories to text.
                series = series.astype(object)
            texts = series.astype(str).to_numpy(object)
            texts[~is_valid[:, position]] = None
            column_codes, column_categories = encode_texts(texts)
            codes.append(column_codes)
            categories.append(column_categories)
            continue
        numbers[:, number_index] = _to_numbers(attribute, series)
        if is_wide(numbers[:, number_index], attribute):
            wide_names.add(attribute.name)
        number_index += 1
    keys = np.arange(n, dtype=np.int64).reshape(-1, 1)
    chunk = Chunk(
        keys,
        numbers,
        np.column_stack(codes) if codes else None,
        None if is_valid.all() else is_valid,
        frozenset(wide_names),
    )
    microdata = microdata_of_records(attributes, chunk, categories)
    if not by:
        return microdata
    return with_strata_and_persons(frame, microdata, by)


def with_strata_and_persons(
    frame: pd.DataFrame,
    microdata: Microdata,
    by: Sequence[str],
    person_columns: Sequence[str] = (),
    normalization: str = "",
) -> Microdata:
    """Add strata and persons to the records; raises the errors of ``require_columns``.

    Parameters
    ----------
    by : the stratum columns.
    person_columns : the column that identifies the person; empty if each row is a person. It must
        not contain NULL, which a run refuses: all rows with NULL would count as one person.
    normalization : how texts that identify persons are compared, as in ``encode_persons``.
    """
    require_columns(frame, [*by, *person_columns])
    if by:
        # The number of each row's combination of values is its stratum.
        strata = frame.groupby(list(by), dropna=False, observed=True).ngroup()
        microdata = replace(microdata, strata=np.asarray(strata, np.int32))
    for name in person_columns:
        entities = encode_persons(frame[name], normalization).astype(np.int32)
        microdata = replace(microdata, entities=entities)
    return microdata


def encode_persons(series: pd.Series[Any], normalization: str) -> NDArray[np.int64]:
    """Encode person identifiers as codes, int64 (n,); -1 for NULL.

    Parameters
    ----------
    normalization : how texts are normalized before they are compared, as in ``as_identifier``;
        empty to compare them as they are.
    """
    if normalization:
        series = series.map(
            lambda value: (
                normalize_spelling(value, normalization) if isinstance(value, str) else value
            ),
            na_action="ignore",
        )
    return pd.factorize(series)[0].astype(np.int64)


def require_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Check that exactly one column has each of these names.

    Raises
    ------
    ColumnNotFound : no column has the name.
    InvalidParameter : two columns have the same name.
    """
    columns = list(frame.columns)
    for name in dict.fromkeys(names):
        if name not in columns:
            raise ColumnNotFound(
                f'The data frame has no column "{name}".',
                hint=nearest_names(str(name), [str(column) for column in columns]),
            )
        if columns.count(name) > 1:
            raise InvalidParameter(f'The data frame has two columns named "{name}".')


def require_texts(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Check that all texts of these columns can be encoded in UTF-8.

    Raises
    ------
    UnsupportedType : a text contains a lone surrogate.
    """
    for name in names:
        if frame[name].dtype == object and has_lone_surrogate(frame[name].to_numpy()):
            raise invalid_text_error(str(name))


def releasable_rows(
    frame: pd.DataFrame, quasi_identifiers: Sequence[str], nulls: str
) -> pd.DataFrame:
    """Select the rows that may be released.

    If NULLs are suppressed, these are the rows without a NULL in any quasi-identifier. Categories
    that occur only in the other rows are dropped, so that they do not affect ranks.

    Parameters
    ----------
    nulls : the job's option for NULLs; ``suppress`` withholds rows with a NULL.
    """
    if nulls != "suppress" or not frame[list(quasi_identifiers)].isna().any(axis=None):
        return frame
    has_all_values = frame[list(quasi_identifiers)].notna().all(axis=1)
    complete_rows: pd.DataFrame = frame[has_all_values].copy()
    for name in quasi_identifiers:
        if isinstance(complete_rows[name].dtype, pd.CategoricalDtype):
            complete_rows[name] = complete_rows[name].cat.remove_unused_categories()
    return complete_rows


def attribute_of(name: str, series: pd.Series[Any]) -> Attribute:
    """Describe a column of a frame as an attribute.

    Raises
    ------
    UnsupportedType : the column holds floating-point numbers other than float32 and float64,
        complex numbers, bytes, lists or dicts.
    NonFiniteValue : a decimal is infinite.
    """
    dtype: Any = series.dtype
    types = pd.api.types
    type_name = str(dtype)
    if (attribute := attribute_of_objects(name, series)) is not None:
        return attribute
    if types.is_complex_dtype(dtype):
        raise complex_numbers_error(name)
    if types.is_bool_dtype(dtype):
        return Attribute(name, Kind.BOOLEAN, sql_type=type_name)
    if types.is_integer_dtype(dtype):
        # A uint64 may exceed the range of an int64.
        bits = 128 if "uint64" in type_name.lower() else 64
        return Attribute(name, Kind.INTEGER, sql_type=type_name, bits=bits)
    if types.is_float_dtype(dtype):
        # Types of pandas and Arrow name the numpy type that holds their values.
        bits = 8 * getattr(dtype, "numpy_dtype", dtype).itemsize
        if bits not in (32, 64):
            raise UnsupportedType(
                f'Column "{name}" is of type {type_name}.', hint="Use float32 or float64."
            )
        return Attribute(name, Kind.FLOAT, sql_type=type_name, bits=bits)
    if types.is_datetime64_any_dtype(dtype):
        # The type's name has the unit of time, as in datetime64[ms].
        scale = 0 if "[s" in type_name else 3 if "[ms" in type_name else 6
        return Attribute(
            name,
            Kind.TIMESTAMP,
            sql_type=type_name,
            scale=scale,
            has_time_zone=series.dt.tz is not None,
        )
    if isinstance(dtype, pd.CategoricalDtype):
        order = tuple(map(str, dtype.categories)) if dtype.ordered else ()
        return Attribute(name, Kind.CATEGORY, sql_type=type_name, order=order)
    if types.is_string_dtype(dtype):
        return Attribute(name, Kind.CATEGORY, sql_type=type_name)
    return Attribute(name, Kind.OTHER, sql_type=type_name)


def dates_to_numbers(attribute: Attribute, series: pd.Series[Any]) -> NDArray[np.float64]:
    """Convert dates to days, and timestamps to microseconds, float64 (n,); NULL becomes NaN."""
    numbers = _to_numbers(attribute, series)
    return np.where(series.isna().to_numpy(), np.nan, numbers)


def _to_numbers(attribute: Attribute, series: pd.Series[Any]) -> NDArray[np.float64]:
    """Convert a column to numbers, float64 (n,).

    Dates become days and timestamps microseconds, both since 1970-01-01.
    """
    if attribute.kind is Kind.TIMESTAMP:
        if attribute.has_time_zone:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        timestamps = to_unit(series.to_numpy(f"datetime64[{series.dt.unit}]"), "us")
        numbers = timestamps.astype(np.int64).astype(np.float64)
        # Timestamps too large for microseconds become infinite, like a database's infinity.
        numbers[np.isnat(timestamps)] = np.inf
        numbers[series.isna().to_numpy()] = 0
        return numbers
    if attribute.kind is Kind.DATE:
        return dates_to_days(series)
    if attribute.kind is Kind.DECIMAL:
        return decimals_to_floats(series)
    return np.asarray(series.to_numpy(np.float64, na_value=np.nan))
