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

# A mean below this fraction of the largest value is a rounding error.
_ROUNDING_TOLERANCE = 1e-15


def moment_loss(task: EvaluationTask) -> Figure:
    """The figure over numeric columns."""
    pairs = task.pairs
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    cells = pairs.cells(pairs.numeric_columns)
    mean_changes, variance_changes = [], []
    for index, column in enumerate(pairs.numeric_columns):
        is_counted = None if cells is None else cells[:, index]
        mean_change, variance_change = _relative_changes(pairs, column, is_counted)
        mean_changes += [] if mean_change is None else [mean_change]
        variance_changes += [] if variance_change is None else [variance_change]
    if not variance_changes:
        return Figure(None, note=NO_VARIATION)
    if not mean_changes:
        return Figure(None, note="all means are 0")
    of_means, of_variances = float(np.mean(mean_changes)), float(np.mean(variance_changes))
    return Figure(
        (of_means + of_variances) / 2, parts={"means": of_means, "variances": of_variances}
    )


def _relative_changes(
    pairs: Pairs, column: Numbers, is_counted: Flags | None
) -> tuple[float | None, float | None]:
    """The relative changes of mean and variance; None if undefined.

    Parameters
    ----------
    is_counted : bool (n,), records without NULL in this column; None for all.
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
