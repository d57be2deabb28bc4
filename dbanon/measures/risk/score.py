"""score: the weighted sum of IL and DR, which is reported because the paper reports it.

Do not choose k by this score: on the tables of the paper it decreases over almost the entire range
k = 3 to 10, far beyond the best trade-off between loss and risk.

Source: Chen and Han 2010, eq. (21).
"""

from __future__ import annotations

from dbanon.measures.figure import NOT_ALL_NUMBERS, EvaluationTask, Figure, Measure

TERMS = ("overall_loss", "disclosure_risk")


def score(task: EvaluationTask) -> Figure:
    """Compute the weighted sum; it needs numeric columns only, because IL does."""
    if not task.pairs.is_all_numeric:
        return Figure(None, note=NOT_ALL_NUMBERS)
    return task.weighted_sum(TERMS, task.parameters.gammas)


MEASURE = Measure(
    name="score",
    run=score,
    summary="Loss (IL) and risk (DR) as one number, weighted; do not choose k by it",
    range="0 up, without limit",
    cost="none of its own",
    depends_on=TERMS,
)
