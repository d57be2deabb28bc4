"""overall_loss, IL: the mean of IL_h (``distance_loss``) and IL_s (``statistics_loss``).

Source: Chen and Han 2010, eq. (10).
"""

from __future__ import annotations

from dbanon.measures.figure import EvaluationTask, Figure, Measure

TERMS = ("distance_loss", "statistics_loss")


def overall_loss(task: EvaluationTask) -> Figure:
    """Compute the mean of the two losses."""
    return task.weighted_sum(TERMS, (0.5, 0.5))


MEASURE = Measure(
    name="overall_loss",
    symbol="IL",
    run=overall_loss,
    summary="Mean of the distance that records moved (IL_h) and the change of statistics (IL_s)",
    range="0 up, without limit",
    cost="none of its own",
    depends_on=TERMS,
)
