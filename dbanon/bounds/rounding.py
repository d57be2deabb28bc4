"""What rounding may have added is taken off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Far more than the rounding of a few operations, and of the measures that bounds stand beside.
SLACK = 2.0**-40


def error_of(terms: int) -> float:
    """The relative error of a sum of so many products of numbers that are 0 or more, and more."""
    return float((terms + 64) * 2.0**-50)


def lowered(values: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Below the exact values, whose terms were so many."""
    return np.asarray(values - (SLACK + error_of(terms)) * np.abs(values))


def raised(values: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Above the exact values, whose terms were so many."""
    return -lowered(-values, terms)
