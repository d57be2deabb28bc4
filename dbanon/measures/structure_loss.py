"""structure_loss, IL_3: relative changes of covariances (A) and changes of correlations (B).

(A + B) / 2 where A is the mean of |v - v'| / |v| over column pairs i <= j, and B that of |r - r'|
over i < j (the printed i <= j adds zeros). With one column it is A. A is fragile: covariances near
0 make terms arbitrarily large. Terms with v = 0 are left out, and those near 0 are counted. Prefer
``covariance_loss`` and ``correlation_loss``.

Source: Chen and Han 2010, eq. (8).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.correlation_loss import change_of_correlations, constant_columns
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure

# Relative changes of smaller correlations mean little.
_NEAR_ZERO = 0.01


def structure_loss(task: EvaluationTask) -> Figure:
    """The figure over numeric columns."""
    if not task.pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    return figure_from_moments(task.pairs.moments)


def figure_from_moments(moments: Moments) -> Figure:
    """The figure from covariances."""
    upper = np.triu(np.ones_like(moments.is_defined))
    counted = moments.covary & upper
    if not counted.any():
        return Figure(None, note=NO_VARIATION)
    before, after = moments.before[counted], moments.after[counted]
    relative = float(np.mean(np.abs(before - after) / np.abs(before)))
    weak = np.abs(moments.correlations_before) < _NEAR_ZERO
    parts = {"A": relative, "pairs near 0": float((moments.is_defined & upper & weak).sum())}
    change = change_of_correlations(moments)
    constant = constant_columns(moments)
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
