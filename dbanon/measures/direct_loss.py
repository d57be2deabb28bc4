"""direct_loss: the mean distance of a released value from the original; ZIL is their sum.

Source: Chen and Han 2010, eq. (11) to (13). See ``attributes.py`` for the distances.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_ROWS, NOT_FOR_LABELS, Figure, Measure, Task


def direct_loss(task: Task) -> Figure:
    """Over the cells of all columns; a column's own beside it, and ``zil``, the sum."""
    pairs = task.pairs
    labels = pairs.rows
    total, cells = 0.0, 0
    columns = {}
    for at, column in enumerate(pairs.columns):
        held = pairs.cells([column])
        count = pairs.n if held is None else int(held.sum())
        found = 0.0
        for part in pairs.chunks():
            records = np.arange(part.start, part.stop)
            found += float(column.apart(records, labels[part]).sum())
        if count:
            columns[column.name] = found / count
        total, cells = total + found, cells + count
        task.tick((at + 1) / len(pairs.columns))
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
