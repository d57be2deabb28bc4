"""sse_loss: SSE/SST on z-scores, the share of the variation that is lost. The headline.

See ``information_loss.py``. Not to be confused with ``distance_loss``, which does not square: the
source of that one calls both SSE.
"""

from __future__ import annotations

from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, Figure, Measure, Task
from dbanon.measures.information_loss import released_loss


def sse_loss(task: Task) -> Figure:
    """Over the columns of numbers and of ranks."""
    pairs = task.pairs
    if not pairs.ranked:
        return Figure(None, note=NO_NUMBERS)
    if all(column.scale.constant for column in pairs.ranked):
        return Figure(None, note=NO_VARIATION)
    points, released = pairs.points if pairs.numbers == pairs.ranked else pairs.scores(pairs.ranked)
    loss = released_loss(points, pairs.partition, released, pairs.cells(pairs.ranked))
    names = [column.name for column in pairs.ranked]
    return Figure(loss.total, dict(zip(names, loss.columns.tolist(), strict=True)))


MEASURE = Measure(
    name="sse_loss",
    symbol="SSE/SST",
    run=sse_loss,
    summary="Share of the squared deviations from the mean that is lost",
    range="0 to 1 for means",
    needs="columns",
)
