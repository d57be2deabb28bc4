"""structure_loss, IL_3: relative changes of covariances (A) and changes of correlations (B).

The figure is (A + B) / 2. Let v and r be the covariance and correlation of a pair of columns
before, and v' and r' after release. A is the mean of |v - v'| / |v| over pairs i <= j. B is the
mean of |r - r'| over pairs i < j (the paper prints i <= j, which only adds zeros). With one column
the figure is A.

A is fragile: covariances near 0 make terms arbitrarily large. Pairs with v = 0 are left out, and
the part ``pairs near 0`` counts the pairs near 0. Prefer ``covariance_loss`` and
``correlation_loss``.

Source: Chen and Han 2010, eq. (8).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.correlation_loss import change_of_correlations, describe_constant_columns
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure

# Covariances of columns whose correlation is smaller than this count as near 0.
_NEAR_ZERO = 0.01


def structure_loss(task: EvaluationTask) -> Figure:
    """Compute the figure over numeric columns."""
    if not task.pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    return figure_from_moments(task.pairs.moments)


def figure_from_moments(moments: Moments) -> Figure:
    """Compute the figure from covariances of z-scores."""
    upper_triangle = np.triu(np.ones_like(moments.is_defined))
    is_counted = moments.is_correlated & upper_triangle
    if not is_counted.any():
        return Figure(None, note=NO_VARIATION)
    before, after = moments.covariances_before[is_counted], moments.covariances_after[is_counted]
    covariance_change = float(np.mean(np.abs(before - after) / np.abs(before)))
    is_near_zero = np.abs(moments.correlations_before) < _NEAR_ZERO
    n_near_zero = (moments.is_defined & upper_triangle & is_near_zero).sum()
    parts = {"A": covariance_change, "pairs near 0": float(n_near_zero)}
    correlation_change = change_of_correlations(moments)
    note = describe_constant_columns(moments)
    if correlation_change is None:
        return Figure(covariance_change, parts=parts, note=note)
    value = (covariance_change + correlation_change) / 2
    return Figure(value, parts={**parts, "B": correlation_change}, note=note)


MEASURE = Measure(
    name="structure_loss",
    symbol="IL_3",
    run=structure_loss,
    summary="Relative change of covariances and change of correlations",
    range="0 up, without limit",
    cost="n p^2",
    needs="columns",
)
