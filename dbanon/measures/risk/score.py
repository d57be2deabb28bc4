"""score: IL and DR, weighted. Printed because the source does; nothing is chosen by it.

It falls almost to the end of k = 3 to 10 on the source's own tables, far behind the bend of loss
against risk.

Source: Chen and Han 2010, eq. (21).
"""

from __future__ import annotations

from dbanon.measures.figure import NOT_ALL_NUMBERS, Figure, Measure, Task

OF = ("overall_loss", "disclosure_risk")


def score(task: Task) -> Figure:
    """The weighted sum, of tables of numbers: IL is theirs alone."""
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
