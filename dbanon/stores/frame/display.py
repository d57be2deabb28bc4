"""What readers of a data frame see: values apart that Python takes for equal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

# Objects of one of these types alone print alike where they are equal.
_PLAIN = ({str}, {int}, {bool}, {date}, {bytes})


def display_codes(series: pd.Series[Any]) -> NDArray[np.int32] | None:
    """A column as codes that are equal where readers see the same, int32 (n,); -1 where NULL.

    None where values that are equal are shown alike. 7.5 and 7.50 are not, nor 1, 1.0 and True,
    nor 0.0 and -0.0.
    """
    if series.dtype == object:
        present = series.notna().to_numpy()
        if set(map(type, series[present])) in _PLAIN:
            return None
        texts = series.map(lambda value: f"{type(value).__name__} {value}", na_action="ignore")
        return pd.factorize(texts)[0].astype(np.int32)
    if not pd.api.types.is_float_dtype(series.dtype):
        return None
    values = series.to_numpy(np.float64, na_value=np.nan)
    negative = (values == 0) & np.signbit(values)
    if not negative.any():
        return None
    codes = pd.factorize(series)[0].astype(np.int32)
    codes[negative] = codes.max() + 1
    return codes


def group_by_display(frame: pd.DataFrame, names: Sequence[str]) -> Any:
    """Group the rows by the displayed values of some columns; NULL is a value."""
    columns = {}
    for name in names:
        codes = display_codes(frame[name])
        columns[name] = frame[name].reset_index(drop=True) if codes is None else pd.Series(codes)
    return pd.DataFrame(columns).groupby(list(names), dropna=False, observed=True)
