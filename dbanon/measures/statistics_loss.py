"""statistics_loss, IL_s: the weighted sum of IL_1, IL_2 and IL_3.

The text of the source uses weights of 1/3. Its experiment uses 1/2, 0 and 1/2, the default here.

Source: Chen and Han 2010, eq. (9).
"""

from __future__ import annotations

from dbanon.measures.figure import EvaluationTask, Figure, Measure

TERMS = ("deviation_loss", "moment_loss", "structure_loss")


def statistics_loss(task: EvaluationTask) -> Figure:
    """Compute the weighted sum of the three losses."""
    return task.weighted_sum(TERMS, task.parameters.lambdas)


MEASURE = Measure(
    name="statistics_loss",
    symbol="IL_s",
    run=statistics_loss,
    summary="Change of values, means, variances and correlations (IL_1 to IL_3), weighted",
    range="0 up, without limit",
    cost="none of its own",
    depends_on=TERMS,
)
