"""sse_loss: SSE/SST on z-scores, the share of variation lost. It is the main loss measure.

``information_loss.py`` defines it. ``distance_loss`` is another measure: it does not square
distances, although its source calls both SSE.
"""

from __future__ import annotations

from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure
from dbanon.measures.information_loss import released_loss


def sse_loss(task: EvaluationTask) -> Figure:
    """Compute the loss over columns of numbers and ranks, and by column."""
    pairs = task.pairs
    if not pairs.ordered_columns:
        return Figure(None, note=NO_NUMBERS)
    if all(column.scale.is_constant for column in pairs.ordered_columns):
        return Figure(None, note=NO_VARIATION)
    has_ranks = pairs.numeric_columns != pairs.ordered_columns
    points, released = pairs.scores(pairs.ordered_columns) if has_ranks else pairs.points
    is_valid = pairs.valid_cells(pairs.ordered_columns)
    loss = released_loss(points, pairs.partition, released, is_valid)
    names = [column.name for column in pairs.ordered_columns]
    return Figure(loss.total, dict(zip(names, loss.columns.tolist(), strict=True)))


MEASURE = Measure(
    name="sse_loss",
    symbol="SSE/SST",
    run=sse_loss,
    summary="Share of the squared deviations from the mean that is lost",
    range="0 to 1 for means",
    needs="columns",
)
