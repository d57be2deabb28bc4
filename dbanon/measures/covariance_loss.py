"""covariance_loss: the mean change of covariances, relative to the originals' deviations.

The mean of |v - v'| / sqrt(v_ii v_jj) over the pairs i <= j of columns that vary: like A of
IL_3, but without dividing by covariances near 0.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure


def covariance_loss(task: EvaluationTask) -> Figure:
    """The figure over numeric columns."""
    if not task.pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    return figure_from_moments(task.pairs.moments)


def figure_from_moments(moments: Moments) -> Figure:
    """The figure from covariances of z-scores."""
    counted = moments.is_defined & np.triu(np.ones_like(moments.is_defined))
    if not counted.any():
        return Figure(None, note=NO_VARIATION)
    # Deviations of z-scores are 1.
    return Figure(float(np.mean(np.abs(moments.before - moments.after)[counted])))


MEASURE = Measure(
    name="covariance_loss",
    run=covariance_loss,
    summary="Mean change of covariances, in deviations of the originals",
    range="0 to 1 for means",
    cost="n p^2",
    needs="columns",
)
