"""moment_loss, IL_2: the average of relative changes of means and variances.

The figure is the mean of two averages over columns: that of the relative changes of means, and that
of the relative changes of variances. It uses raw values, since z-scores have mean 0. Terms with
denominator 0 are left out. For unrounded class means the figure is half of the mean of the columns'
SSE/SST (``sse_loss``) if no mean or variance is 0: means do not change, and each variance decreases
by its column's SSE/SST.

Source: Chen and Han 2010, eq. (7).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attributes import Flags, Numbers
from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure
from dbanon.measures.pairs import Pairs

# A mean below this fraction of the largest value is a rounding error.
_ROUNDING_TOLERANCE = 1e-15


def moment_loss(task: EvaluationTask) -> Figure:
    """Compute the figure over numeric columns."""
    pairs = task.pairs
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    is_valid = pairs.valid_cells(pairs.numeric_columns)
    mean_changes, variance_changes = [], []
    for index, column in enumerate(pairs.numeric_columns):
        is_counted = None if is_valid is None else is_valid[:, index]
        mean_change, variance_change = _relative_changes(pairs, column, is_counted)
        if mean_change is not None:
            mean_changes.append(mean_change)
        if variance_change is not None:
            variance_changes.append(variance_change)
    if not variance_changes:
        return Figure(None, note=NO_VARIATION)
    if not mean_changes:
        return Figure(None, note="all means are 0")
    average_mean_change = float(np.mean(mean_changes))
    average_variance_change = float(np.mean(variance_changes))
    return Figure(
        (average_mean_change + average_variance_change) / 2,
        parts={"means": average_mean_change, "variances": average_variance_change},
    )


def _relative_changes(
    pairs: Pairs, column: Numbers, is_counted: Flags | None
) -> tuple[float | None, float | None]:
    """Return the relative changes of mean and variance; None for a change that is undefined.

    Parameters
    ----------
    is_counted : bool (n,), True for records without NULL in this column; None if there are no
        NULLs.
    """
    # Scaling by a power of two leaves ratios unchanged and avoids overflow.
    exponent = -column.scale.exponent
    before = np.ldexp(column.original, exponent)
    after = np.ldexp(column.released, exponent)[pairs.labels]
    if is_counted is not None:
        before, after = before[is_counted], after[is_counted]
    if len(before) < 2:
        return None, None
    mean, mean_after = float(before.mean()), float(after.mean())
    mean_change = None
    if abs(mean) > _ROUNDING_TOLERANCE * float(np.abs(before).max()):
        mean_change = abs(mean - mean_after) / abs(mean)
    if before.max() == before.min():
        return mean_change, None
    variance = float(before.var(ddof=1))
    variance_after = 0.0 if after.max() == after.min() else float(after.var(ddof=1))
    return mean_change, abs(variance - variance_after) / variance if variance else None


MEASURE = Measure(
    name="moment_loss",
    symbol="IL_2",
    run=moment_loss,
    summary="Relative change of means and variances",
    range="0 up, without limit",
    needs="columns",
)
