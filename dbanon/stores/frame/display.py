"""Distinguish values of a data frame that are displayed differently but equal in Python."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# If all objects of a column have the same type and it is one of these, equal objects are displayed
# alike.
_UNAMBIGUOUS_TYPES = ({str}, {int}, {bool}, {date}, {bytes})


def display_codes(series: pd.Series[Any]) -> NDArray[np.int32] | None:
    """Encode a column so that two codes are equal if the values are displayed alike, int32 (n,).

    NULL is -1. Returns None if equal values of the column are always displayed alike. Examples of
    equal values that are not: the decimals 7.5 and 7.50; 1, 1.0 and True; 0.0 and -0.0.
    """
    if series.dtype == object:
        has_value = series.notna().to_numpy()
        if set(map(type, series[has_value])) in _UNAMBIGUOUS_TYPES:
            return None
        texts = series.map(lambda value: f"{type(value).__name__} {value}", na_action="ignore")
        return pd.factorize(texts)[0].astype(np.int32)
    if not pd.api.types.is_float_dtype(series.dtype):
        return None
    values = series.to_numpy(np.float64, na_value=np.nan)
    is_negative_zero = (values == 0) & np.signbit(values)
    if not is_negative_zero.any():
        return None
    # pandas gives 0.0 and -0.0 one code, so give -0.0 a new one.
    codes = pd.factorize(series)[0].astype(np.int32)
    codes[is_negative_zero] = codes.max() + 1
    return codes


def group_by_display(frame: pd.DataFrame, names: Sequence[str]) -> Any:
    """Group rows by the displayed values of these columns; NULL counts as a value."""
    columns = {}
    for name in names:
        codes = display_codes(frame[name])
        columns[name] = frame[name].reset_index(drop=True) if codes is None else pd.Series(codes)
    return pd.DataFrame(columns).groupby(list(names), dropna=False, observed=True)
