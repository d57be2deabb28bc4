"""distance_loss, IL_h: distances that records moved, relative to distances from the mean.

It is the sum of d(z, z') over the records, divided by the sum of d(z, mean of z), for original
z-scores z and released ones z'. Here d is the Euclidean distance, **not squared**: eq. (1) has the
root, and eq. (2) to (4) add up d. The source does not mention z-scores, but with raw values one
column with large units would dominate.

Source: J. Chen and J. Han, "Evaluation model for quality of k-anonymity data oriented to
microaggregation", 2010, eq. (1) to (5).
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure


def distance_loss(task: EvaluationTask) -> Figure:
    """Compute the figure over numeric columns."""
    pairs = task.pairs
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    points, released = pairs.points
    is_valid = pairs.valid_cells(pairs.numeric_columns)
    total_moved = total_from_mean = 0.0
    for chunk in pairs.chunks():
        # The mean of z-scores is 0.
        from_mean = points[chunk]
        moved = from_mean - released[pairs.labels[chunk]]
        if is_valid is not None:
            from_mean, moved = from_mean * is_valid[chunk], moved * is_valid[chunk]
        total_moved += float(np.sqrt(np.square(moved).sum(axis=1)).sum())
        total_from_mean += float(np.sqrt(np.square(from_mean).sum(axis=1)).sum())
    if not total_from_mean:
        return Figure(None, note=NO_VARIATION)
    return Figure(total_moved / total_from_mean)


MEASURE = Measure(
    name="distance_loss",
    symbol="IL_h",
    run=distance_loss,
    summary="Distance that records moved, relative to their distance from the mean",
    range="0 to about 1 for means",
)
