"""label_loss: the mean ``iloss`` per value, computed from released labels instead of classes.

The loss of a label is the number of edges from the value up to the label, divided by those from the
value up to the root. The loss of an interval is its width, relative to the column's range.

Source: Jiang, Zeng and Ma, Journal of Software 28 (2017), section 2.2.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attributes import Intervals, Nodes
from dbanon.measures.figure import EvaluationTask, Figure, Measure


def label_loss(task: EvaluationTask) -> Figure:
    """Compute the mean over columns released as labels or intervals; NULLs count 0."""
    pairs = task.pairs
    labels = pairs.labels
    columns = {}
    for column in pairs.columns:
        if isinstance(column, Intervals):
            losses = column.width[labels]
        elif isinstance(column, Nodes):
            leaves = np.maximum(column.original, 0)
            # A release that another tool made can be evaluated, too, and its labels may not cover
            # the values. The loss of a label that is deeper in the tree than the value would be
            # negative.
            losses = np.maximum(
                column.tree.loss(leaves, np.maximum(column.released, 0)[labels]), 0.0
            )
        else:
            continue
        is_valid = pairs.valid_cells_of(column)
        valid_losses = losses if is_valid is None else losses[is_valid]
        columns[column.name] = float(valid_losses.sum() / max(pairs.n, 1))
    if not columns:
        return Figure(None, note="no column is released as labels")
    return Figure(sum(columns.values()) / len(columns), columns)


MEASURE = Measure(
    name="label_loss",
    symbol="iloss",
    run=label_loss,
    summary="Mean generality of released labels: 0 for a single value, 1 for any value",
    range="0 to 1",
)
