"""deviation_loss, IL_1: the mean change of a value, divided by sqrt(2) times the deviation.

It is the mean of |x - x'| / (sqrt(2) S) over all values x and released values x', where S is the
sample deviation of the column's originals. Eq. (6) as printed lacks the root. The measure is IL1s
of J. Mateo-Sanz, F. Sebe and J. Domingo-Ferrer, "Outlier protection in continuous microdata
masking", PSD 2004, which replaced |x - x'| / |x| because x may be 0. Values of constant columns
count as 0 in the mean.

Source: Chen and Han 2010, eq. (6).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_NUMBERS, NO_ROWS, EvaluationTask, Figure, Measure


def deviation_loss(task: EvaluationTask) -> Figure:
    """Compute the mean over all values of numeric columns, and by column."""
    pairs = task.pairs
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    # z-scores, which are in units of the deviation S already.
    points, released = pairs.points
    is_valid = pairs.valid_cells(pairs.numeric_columns)
    sums = np.zeros(len(pairs.numeric_columns))
    for chunk in pairs.chunks():
        changes = np.abs(points[chunk] - released[pairs.labels[chunk]])
        sums += (changes if is_valid is None else changes * is_valid[chunk]).sum(axis=0)
    sums /= np.sqrt(2.0)
    counts = np.full(len(sums), pairs.n) if is_valid is None else is_valid.sum(axis=0)
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
    summary="Mean change of a value, divided by its column's deviation times the root of 2",
    range="0 up, without limit",
)
