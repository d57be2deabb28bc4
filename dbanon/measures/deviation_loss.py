"""deviation_loss, IL_1: the mean of |x - x'| over the square root of 2 times the deviation.

S_j is the originals' sample deviation. Eq. (6) as printed lacks the root; it is IL1s of J.
Mateo-Sanz, F. Sebe and J. Domingo-Ferrer, "Outlier protection in continuous microdata masking", PSD
2004, which replaced |x - x'| / |x| because of x = 0. Constant columns count as 0 in the mean.

Source: Chen and Han 2010, eq. (6).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_NUMBERS, NO_ROWS, EvaluationTask, Figure, Measure


def deviation_loss(task: EvaluationTask) -> Figure:
    """The mean over cells of numeric columns, and by column."""
    pairs = task.pairs
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    points, released = pairs.points
    cells = pairs.cells(pairs.numeric_columns)
    sums = np.zeros(len(pairs.numeric_columns))
    for part in pairs.chunks():
        gap = np.abs(points[part] - released[pairs.labels[part]])
        sums += (gap if cells is None else gap * cells[part]).sum(axis=0)
    sums /= np.sqrt(2.0)
    counts = np.full(len(sums), pairs.n) if cells is None else cells.sum(axis=0)
    if not counts.any():
        return Figure(None, note=NO_ROWS)
    columns = {
        column.name: float(total / count)
        for column, total, count in zip(pairs.numeric_columns, sums, counts, strict=True)
        if count
    }
    return Figure(float(sums.sum() / counts.sum()), columns)


MEASURE = Measure(
    name="deviation_loss",
    symbol="IL_1",
    run=deviation_loss,
    summary="Mean change of a value, in its column's deviations times the square root of 2",
    range="0 up, without limit",
)
