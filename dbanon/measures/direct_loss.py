"""direct_loss: the mean distance of released values from the originals; ZIL is the sum.

Source: Chen and Han 2010, eq. (11) to (13). See ``attributes.py`` for the distances.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_ROWS, NOT_FOR_LABELS, EvaluationTask, Figure, Measure


def direct_loss(task: EvaluationTask) -> Figure:
    """The mean over all cells and by column, and ``zil``, the sum."""
    pairs = task.pairs
    labels = pairs.rows
    total, cells = 0.0, 0
    columns = {}
    for index, column in enumerate(pairs.columns):
        present = pairs.cells([column])
        count = pairs.n if present is None else int(present.sum())
        column_total = 0.0
        for chunk in pairs.chunks():
            records = np.arange(chunk.start, chunk.stop)
            column_total += float(column.apart(records, labels[chunk]).sum())
        if count:
            columns[column.name] = column_total / count
        total, cells = total + column_total, cells + count
        task.tick((index + 1) / len(pairs.columns))
    if not cells:
        return Figure(None, note=NO_ROWS)
    covered = total == 0 and any(column.covers for column in pairs.columns)
    return Figure(total / cells, columns, {"zil": total}, note=NOT_FOR_LABELS if covered else "")


MEASURE = Measure(
    name="direct_loss",
    symbol="ZIL/(np)",
    run=direct_loss,
    summary="Mean distance of a released value from the original",
    range="0 to 1 inside the columns' ranges",
)
