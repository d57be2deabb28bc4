"""direct_loss: the mean distance of released values from the originals; ZIL is their sum.

Source: Chen and Han 2010, eq. (11) to (13). See ``attributes.py`` for the distances.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_ROWS, NOT_FOR_LABELS, EvaluationTask, Figure, Measure


def direct_loss(task: EvaluationTask) -> Figure:
    """Compute the mean distance, overall and by column, and its part ``zil``, the sum."""
    pairs = task.pairs
    labels = pairs.labels
    total, n_cells = 0.0, 0
    columns = {}
    for index, column in enumerate(pairs.columns):
        is_valid = pairs.valid_cells([column])
        count = pairs.n if is_valid is None else int(is_valid.sum())
        column_total = 0.0
        for chunk in pairs.chunks():
            records = np.arange(chunk.start, chunk.stop)
            column_total += float(column.distances_ignoring_nulls(records, labels[chunk]).sum())
        if count:
            columns[column.name] = column_total / count
        total, n_cells = total + column_total, n_cells + count
        task.tick((index + 1) / len(pairs.columns))
    if not n_cells:
        return Figure(None, note=NO_ROWS)
    # Labels that cover their values are at distance 0, whatever they lose.
    is_meaningless = total == 0 and any(column.is_generalized for column in pairs.columns)
    note = NOT_FOR_LABELS if is_meaningless else ""
    return Figure(total / n_cells, columns, {"zil": total}, note=note)


MEASURE = Measure(
    name="direct_loss",
    symbol="ZIL/(np)",
    run=direct_loss,
    summary="Mean distance of a released value from the original",
    # A released value outside the range of its column can have a distance above 1.
    range="0 to 1 inside the columns' ranges",
)
