"""moment_loss, IL_2: the average of relative changes of means and variances.

It uses raw values, since z-scores have mean 0. Terms with denominator 0 are left out. For unrounded
class means it is half of ``sse_loss`` if no mean or variance is 0: means do not change, and each
variance decreases by SSE/SST of its column.

Source: Chen and Han 2010, eq. (7).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attributes import Flags, Numbers
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure
from dbanon.measures.pairs import Pairs

# A smaller mean, relative to the largest value, is rounding error.
_ROUNDING = 1e-15


def moment_loss(task: EvaluationTask) -> Figure:
    """The figure over numeric columns."""
    pairs = task.pairs
    if not pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    cells = pairs.cells(pairs.numbers)
    means, variances = [], []
    for at, column in enumerate(pairs.numbers):
        mean, variance = _changes(pairs, column, None if cells is None else cells[:, at])
        means += [] if mean is None else [mean]
        variances += [] if variance is None else [variance]
    if not variances:
        return Figure(None, note=NO_VARIATION)
    if not means:
        return Figure(None, note="all means are 0")
    return Figure(
        (float(np.mean(means)) + float(np.mean(variances))) / 2,
        parts={"means": float(np.mean(means)), "variances": float(np.mean(variances))},
    )


def _changes(
    pairs: Pairs, column: Numbers, cells: Flags | None
) -> tuple[float | None, float | None]:
    """The relative changes of mean and variance; None if undefined."""
    # Scaling by a power of two leaves ratios unchanged and avoids overflow.
    small = -column.scale.exponent
    before = np.ldexp(column.original, small)
    after = np.ldexp(column.released, small)[pairs.rows]
    if cells is not None:
        before, after = before[cells], after[cells]
    if len(before) < 2:
        return None, None
    mean, mean_after = float(before.mean()), float(after.mean())
    change = None
    if abs(mean) > _ROUNDING * float(np.abs(before).max()):
        change = abs(mean - mean_after) / abs(mean)
    if before.max() == before.min():
        return change, None
    variance = float(before.var(ddof=1))
    variance_after = 0.0 if after.max() == after.min() else float(after.var(ddof=1))
    return change, abs(variance - variance_after) / variance if variance else None


MEASURE = Measure(
    name="moment_loss",
    symbol="IL_2",
    run=moment_loss,
    summary="Relative change of means and variances",
    range="0 up, without limit",
    needs="columns",
)
