"""structure_loss, IL_3: relative changes of covariances (A) and changes of correlations (B).

(A + B) / 2, A the mean of |v - v'| / |v| over the pairs i <= j of columns, B that of |r - r'| over
the pairs i < j (the printed i <= j adds zeros). With one column it is A. A is fragile: a covariance
near 0 makes a term of any size. Terms with v = 0 are left out; how many are near 0 is told.
``covariance_loss`` and ``correlation_loss`` are the sound figures.

Source: Chen and Han 2010, eq. (8).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.correlation_loss import change_of_correlations, constant_columns
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, Figure, Measure, Task

# Of a correlation: below it a relative change says little.
_NEAR_ZERO = 0.01


def structure_loss(task: Task) -> Figure:
    """Over the columns of numbers."""
    if not task.pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    return of_moments(task.pairs.moments)


def of_moments(found: Moments) -> Figure:
    """The figure of covariances alone."""
    upper = np.triu(np.ones_like(found.known))
    counted = found.related & upper
    if not counted.any():
        return Figure(None, note=NO_VARIATION)
    before, after = found.before[counted], found.after[counted]
    relative = float(np.mean(np.abs(before - after) / np.abs(before)))
    weak = np.abs(found.together_before) < _NEAR_ZERO
    parts = {"A": relative, "pairs near 0": float((found.known & upper & weak).sum())}
    change = change_of_correlations(found)
    constant = constant_columns(found)
    if change is None:
        return Figure(relative, parts=parts, note=constant)
    return Figure((relative + change) / 2, parts={**parts, "B": change}, note=constant)


MEASURE = Measure(
    name="structure_loss",
    symbol="IL_3",
    run=structure_loss,
    summary="Relative change of covariances, change of correlations",
    range="0 up, without limit",
    cost="n p^2",
    needs="columns",
)
