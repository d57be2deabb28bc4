"""label_loss: the mean ``iloss`` per cell, computed from the released labels instead of classes.

A label loses the share of edges from its value up to it, and an interval its width relative to the
column's range.

Source: Jiang, Zeng and Ma, Journal of Software 28 (2017), section 2.2.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.attributes import Intervals, Nodes
from dbanon.measures.figure import EvaluationTask, Figure, Measure


def label_loss(task: EvaluationTask) -> Figure:
    """The mean over cells of columns released as labels; NULLs count 0."""
    pairs = task.pairs
    labels = pairs.labels
    columns = {}
    for column in pairs.columns:
        if isinstance(column, Intervals):
            losses = column.width[labels]
        elif isinstance(column, Nodes):
            leaves = np.maximum(column.original, 0)
            # A label of another tool may not cover the value, which would make the loss negative.
            losses = np.maximum(
                column.tree.loss(leaves, np.maximum(column.released, 0)[labels]), 0.0
            )
        else:
            continue
        cells = pairs.cells([column])
        present_losses = losses if cells is None else losses[cells[:, 0]]
        columns[column.name] = float(present_losses.sum() / max(pairs.n, 1))
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
