"""correlation_loss: the mean change of pairwise correlations.

It is also the second part, B, of ``structure_loss`` (IL_3 of Chen and Han 2010).

Pairs with an originally constant column are left out: they have no correlation to lose, and many
such pairs would hide changes. If only the released column is constant, its correlations become 0.
"""

from __future__ import annotations

import numpy as np

from dbanon.errors import pluralize
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure


def change_of_correlations(moments: Moments) -> float | None:
    """Return the mean of |r - r'| over the pairs of columns that vary; None if there is no pair.

    Here r and r' are the correlations before and after release.
    """
    is_counted = np.triu(moments.is_defined, 1)
    if not is_counted.any():
        return None
    changes = np.abs(moments.correlations_before - moments.correlations_after)
    return float(np.mean(changes[is_counted]))


def describe_constant_columns(moments: Moments) -> str:
    """Describe how many constant columns are left out; empty if there are none."""
    n_constant = int((~np.diagonal(moments.is_defined)).sum())
    if not n_constant:
        return ""
    return f"{pluralize(n_constant, 'column is', 'columns are')} constant, and left out"


def correlation_loss(task: EvaluationTask) -> Figure:
    """Compute the figure over numeric columns."""
    if not task.pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    if task.pairs.n < 2:
        return Figure(None, note="there are fewer than two rows")
    moments = task.pairs.moments
    change, constant_note = change_of_correlations(moments), describe_constant_columns(moments)
    if change is not None:
        return Figure(change, note=constant_note)
    n_varying = int(np.diagonal(moments.is_defined).sum())
    if not n_varying:
        return Figure(None, note=NO_VARIATION)
    if n_varying > 1:
        return Figure(None, note="no row holds two columns that vary")
    suffix = " that varies" if constant_note else ""
    return Figure(None, note=f"there is one column of numbers{suffix}")


MEASURE = Measure(
    name="correlation_loss",
    symbol="B of IL_3",
    run=correlation_loss,
    summary="Mean change of the correlation of two columns",
    range="0 to 2",
    cost="n p^2",
    needs="columns",
)
