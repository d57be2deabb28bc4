"""correlation_loss: the mean change of pairwise correlations, B of IL_3.

Pairs with an originally constant column are left out: they have no correlation to lose, and many of
them would hide changes. If only the released column is constant, its correlations become 0.
"""

from __future__ import annotations

import numpy as np

from dbanon.errors import pluralize
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure


def change_of_correlations(moments: Moments) -> float | None:
    """The mean of |r - r'| over the pairs of columns that vary; None without a pair."""
    pairs = np.triu(moments.is_defined, 1)
    if not pairs.any():
        return None
    return float(np.mean(np.abs(moments.correlations_before - moments.correlations_after)[pairs]))


def constant_columns(moments: Moments) -> str:
    """A note on the number of constant columns left out; empty if there are none."""
    constant = int((~np.diagonal(moments.is_defined)).sum())
    if not constant:
        return ""
    return f"{pluralize(constant, 'column is', 'columns are')} constant, and left out"


def correlation_loss(task: EvaluationTask) -> Figure:
    """The figure over numeric columns."""
    if not task.pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    if task.pairs.n < 2:
        return Figure(None, note="there are fewer than two rows")
    moments = task.pairs.moments
    change, constant = change_of_correlations(moments), constant_columns(moments)
    if change is not None:
        return Figure(change, note=constant)
    varying = int(np.diagonal(moments.is_defined).sum())
    if not varying:
        return Figure(None, note=NO_VARIATION)
    one_column = "there is one column of numbers" + (" that varies" if constant else "")
    return Figure(None, note=one_column if varying == 1 else "no row holds two columns that vary")


MEASURE = Measure(
    name="correlation_loss",
    symbol="B of IL_3",
    run=correlation_loss,
    summary="Mean change of the correlations of two columns",
    range="0 to 2",
    cost="n p^2",
    needs="columns",
)
