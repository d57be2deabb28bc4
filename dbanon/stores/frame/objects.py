"""Columns of Python's dates and decimals, of dtype object or Arrow's: as numbers, and back."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import NonFiniteValue, UnsupportedType

_NESTED = (list, dict, set, frozenset, tuple, np.ndarray)
# Types of Arrow that pandas gives as such objects.
_ARROW = ("date32", "date64", "decimal")


def attribute_of_objects(name: str, series: pd.Series[Any]) -> Attribute | None:
    """What a column of dates or decimals is; None for a column of anything else.

    Raises
    ------
    UnsupportedType : it holds lists, dicts or complex numbers.
    NonFiniteValue : a decimal is infinite.
    """
    text = str(series.dtype)
    if series.dtype != object and not (
        isinstance(series.dtype, pd.ArrowDtype) and text.startswith(_ARROW)
    ):
        return None
    values = series[series.notna()].astype(object)
    kinds = set(map(type, values))
    if any(issubclass(kind, _NESTED) for kind in kinds):
        raise UnsupportedType(
            f'Column "{name}" holds lists or dicts, which have neither an order nor a hierarchy.',
            hint="Take what is needed out of them, a column each: frame.explode(…),"
            " pandas.json_normalize(…).",
        )
    if any(issubclass(kind, (complex, np.complexfloating)) for kind in kinds):
        raise complex_numbers(name)
    if kinds == {date}:
        return Attribute(name, Kind.DATE, sql_type=text)
    if Decimal not in kinds or not kinds <= {Decimal, int}:
        return None
    scale = 0
    for value in values:
        exponent = Decimal(value).as_tuple().exponent
        if not isinstance(exponent, int):
            raise NonFiniteValue(f'Column "{name}" holds infinity.')
        scale = max(scale, -exponent)
    return Attribute(name, Kind.DECIMAL, sql_type=text, scale=scale)


def complex_numbers(name: str) -> UnsupportedType:
    """The refusal of numbers that have no order."""
    return UnsupportedType(
        f'Column "{name}" holds complex numbers, which have no order.',
        hint="Give real and imaginary parts as columns of their own.",
    )


def days(series: pd.Series[Any]) -> NDArray[np.float64]:
    """Dates as days since 1970-01-01, float64 (n,); 0 where NULL."""
    found = np.zeros(len(series))
    known = series.notna().to_numpy()
    found[known] = np.array(series[known].astype(object).tolist(), "datetime64[D]").astype(np.int64)
    return found


def decimals(series: pd.Series[Any]) -> NDArray[np.float64]:
    """Decimals as the nearest numbers, float64 (n,); 0 where NULL."""
    found = np.zeros(len(series))
    known = series.notna().to_numpy()
    found[known] = [float(value) for value in series[known]]
    return found


def units(value: Any, scale: int) -> int:
    """A decimal in units of 10**-scale; of more digits it has none."""
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    number: int = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return -number if sign else number


def objects(attribute: Attribute, values: NDArray[Any]) -> NDArray[np.object_]:
    """Released days or units of decimals as Python's dates and decimals, object (m,)."""
    if attribute.kind is Kind.DATE:
        return np.asarray(values.astype("datetime64[D]").astype(object), object)
    return np.array([Decimal(f"{int(value)}E-{attribute.scale}") for value in values], object)
