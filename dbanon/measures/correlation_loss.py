"""correlation_loss: the mean change of the correlations of two columns, B of IL_3.

The correlation with a constant column is 0, be it constant from the first or only as released.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, Figure, Measure, Task


def change_of_correlations(found: Moments) -> float | None:
    """The mean of |r - r'| over the pairs of columns; None where there is no pair."""
    pairs = np.triu(np.ones_like(found.known), 1)
    if not pairs.any():
        return None
    return float(np.mean(np.abs(found.together_before - found.together_after)[pairs]))


def correlation_loss(task: Task) -> Figure:
    """Over the columns of numbers."""
    if not task.pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    if task.pairs.n < 2:
        return Figure(None, note="there are fewer than two rows")
    change = change_of_correlations(task.pairs.moments)
    return Figure(change, note="" if change is not None else "there is one column of numbers")


MEASURE = Measure(
    name="correlation_loss",
    symbol="B of IL_3",
    run=correlation_loss,
    summary="Mean change of the correlations of two columns",
    range="0 to 2",
    cost="n p^2",
    needs="columns",
)
