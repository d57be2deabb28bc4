"""Columns of numbers with their own scales, for tests without microdata."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.scales import Scale, Standardization


def standardization(
    numbers: NDArray[np.float64], how: str = "zscore", valid: NDArray[np.bool_] | None = None
) -> Standardization:
    """The map that standardizes the columns, float64 (n, p), by their valid values."""
    columns = range(numbers.shape[1])
    return Standardization.of(
        [Scale.of(numbers[:, j] if valid is None else numbers[valid[:, j], j]) for j in columns],
        how,
    )
