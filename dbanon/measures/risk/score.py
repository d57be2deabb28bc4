"""score: the weighted sum of IL and DR, given because the paper gives it; never used to choose.

On the tables of the paper it decreases over almost the entire range k = 3 to 10, far beyond the
knee of loss against risk.

Source: Chen and Han 2010, eq. (21).
"""

from __future__ import annotations

from dbanon.measures.figure import NOT_ALL_NUMBERS, EvaluationTask, Figure, Measure

OF = ("overall_loss", "disclosure_risk")


def score(task: EvaluationTask) -> Figure:
    """The weighted sum; only for numeric tables, since IL needs numbers."""
    if not task.pairs.all_numbers:
        return Figure(None, note=NOT_ALL_NUMBERS)
    return task.weighted(OF, task.parameters.gammas)


MEASURE = Measure(
    name="score",
    run=score,
    summary="Loss (IL) and risk (DR) as one number, weighted; not a ground to choose by",
    range="0 up, without limit",
    cost="none of its own",
    of=OF,
)
