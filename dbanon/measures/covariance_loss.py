"""covariance_loss: the mean change of covariances, relative to the originals' deviations.

The figure is the mean of |v_ij - v'_ij| / sqrt(v_ii v_jj) over the pairs i <= j of columns that
vary, for covariances v before and v' after release. It is like A of ``structure_loss``, but does
not divide by covariances, which may be near 0.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure


def covariance_loss(task: EvaluationTask) -> Figure:
    """Compute the figure over numeric columns."""
    if not task.pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    return figure_from_moments(task.pairs.moments)


def figure_from_moments(moments: Moments) -> Figure:
    """Compute the figure from covariances of z-scores."""
    is_counted = moments.is_defined & np.triu(np.ones_like(moments.is_defined))
    if not is_counted.any():
        return Figure(None, note=NO_VARIATION)
    # The deviations of z-scores are 1, so no division is needed.
    return Figure(
        float(np.mean(np.abs(moments.covariances_before - moments.covariances_after)[is_counted]))
    )


MEASURE = Measure(
    name="covariance_loss",
    run=covariance_loss,
    summary="Mean change of covariances, in deviations of the originals",
    range="0 to 1 for means",
    cost="n p^2",
    needs="columns",
)
