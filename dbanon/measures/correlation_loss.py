"""correlation_loss: the mean change of the correlations of two columns, B of IL_3.

Pairs with a column that is constant from the first are left out: they have no correlation to lose,
and many of them would make any change look small. Where a column is constant only as released, its
correlations are 0 then.
"""

from __future__ import annotations

import numpy as np

from dbanon.errors import counted
from dbanon.measures.covariances import Moments
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, Figure, Measure, Task


def change_of_correlations(found: Moments) -> float | None:
    """The mean of |r - r'| over the pairs of columns that vary; None where there is no pair."""
    pairs = np.triu(found.known, 1)
    if not pairs.any():
        return None
    return float(np.mean(np.abs(found.together_before - found.together_after)[pairs]))


def constant_columns(found: Moments) -> str:
    """How many columns are left out as they are constant, in words; empty where none is."""
    constant = int((~np.diagonal(found.known)).sum())
    if not constant:
        return ""
    return f"{counted(constant, 'column is', 'columns are')} constant, and left out"


def correlation_loss(task: Task) -> Figure:
    """Over the columns of numbers."""
    if not task.pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    if task.pairs.n < 2:
        return Figure(None, note="there are fewer than two rows")
    found = task.pairs.moments
    change, constant = change_of_correlations(found), constant_columns(found)
    if change is not None:
        return Figure(change, note=constant)
    varying = int(np.diagonal(found.known).sum())
    if not varying:
        return Figure(None, note=NO_VARIATION)
    alone = "there is one column of numbers" + (" that varies" if constant else "")
    return Figure(None, note=alone if varying == 1 else "no row holds two columns that vary")


MEASURE = Measure(
    name="correlation_loss",
    symbol="B of IL_3",
    run=correlation_loss,
    summary="Mean change of the correlations of two columns",
    range="0 to 2",
    cost="n p^2",
    needs="columns",
)
