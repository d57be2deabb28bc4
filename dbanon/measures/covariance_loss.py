"""covariance_loss: the mean change of covariances, in the originals' deviations.

The mean of |v - v'| / sqrt(v_ii v_jj) over the pairs i <= j of columns that vary: what A of IL_3
says, without its division by covariances near 0.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, Figure, Measure, Task


def covariance_loss(task: Task) -> Figure:
    """Over the columns of numbers."""
    if not task.pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    return of_moments(task.pairs.moments)


def of_moments(found: Moments) -> Figure:
    """The figure of the covariances of z-scores alone."""
    counted = found.known & np.triu(np.ones_like(found.known))
    if not counted.any():
        return Figure(None, note=NO_VARIATION)
    # z-scores: the deviations are 1.
    return Figure(float(np.mean(np.abs(found.before - found.after)[counted])))


MEASURE = Measure(
    name="covariance_loss",
    run=covariance_loss,
    summary="Mean change of covariances, in deviations of the originals",
    range="0 to 1 for means",
    cost="n p^2",
    needs="columns",
)
