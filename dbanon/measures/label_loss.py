"""label_loss: iloss of the labels that are released, per cell.

Climbed edges over all edges, or the width of the interval over that of the column: what
``iloss`` says of classes, of the labels as they are written.

Source: Jiang, Zeng and Ma, Journal of Software 28 (2017), section 2.2.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attributes import Intervals, Nodes
from dbanon.measures.figure import Figure, Measure, Task


def label_loss(task: Task) -> Figure:
    """Over the cells of the columns that are released as labels; NULLs count 0."""
    pairs = task.pairs
    labels = pairs.rows
    columns = {}
    for column in pairs.columns:
        if isinstance(column, Intervals):
            lost = column.width[labels]
        elif isinstance(column, Nodes):
            leaves = np.maximum(column.original, 0)
            # A label of a tool that does not cover its value may lie deeper than it.
            lost = np.maximum(column.tree.loss(leaves, np.maximum(column.released, 0)[labels]), 0.0)
        else:
            continue
        held = pairs.cells([column])
        kept = lost if held is None else lost[held[:, 0]]
        columns[column.name] = float(kept.sum() / max(pairs.n, 1))
    if not columns:
        return Figure(None, note="no column is released as labels")
    return Figure(sum(columns.values()) / len(columns), columns)


MEASURE = Measure(
    name="label_loss",
    symbol="iloss",
    run=label_loss,
    summary="How much a released label leaves open of its column: 0 one value, 1 any value",
    range="0 to 1",
)
