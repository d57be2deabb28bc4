"""distance_loss, IL_h: distances that records moved, relative to distances from the mean.

The sum over the records of d(z, z') over that of d(z, mean of z), d being Euclidean distance of
z-scores, **not squared**: eq. (1) has the root and (2) to (4) add up d. The source does not
mention z-scores, but raw columns in different units would be dominated by one.

Source: J. Chen and J. Han, "Evaluation model for quality of k-anonymity data oriented to
microaggregation", 2010, eq. (1) to (5).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure


def distance_loss(task: EvaluationTask) -> Figure:
    """The figure over numeric columns."""
    pairs = task.pairs
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    points, released = pairs.points
    cells = pairs.cells(pairs.numeric_columns)
    moved = spread = 0.0
    for part in pairs.chunks():
        at = points[part]
        gap = at - released[pairs.labels[part]]
        if cells is not None:
            at, gap = at * cells[part], gap * cells[part]
        moved += float(np.sqrt(np.square(gap).sum(axis=1)).sum())
        spread += float(np.sqrt(np.square(at).sum(axis=1)).sum())
    if not spread:
        return Figure(None, note=NO_VARIATION)
    return Figure(moved / spread)


MEASURE = Measure(
    name="distance_loss",
    symbol="IL_h",
    run=distance_loss,
    summary="Distance that records moved, against their distance from the mean",
    range="0 to about 1 for means",
)
