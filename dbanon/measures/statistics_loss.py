"""statistics_loss, IL_s: IL_1, IL_2 and IL_3, weighted.

The source's text weighs them by thirds, its experiment by 1/2, 0 and 1/2, as here.

Source: Chen and Han 2010, eq. (9).
"""

from __future__ import annotations

from dbanon.measures.figure import Figure, Measure, Task

OF = ("deviation_loss", "moment_loss", "structure_loss")


def statistics_loss(task: Task) -> Figure:
    """The weighted sum."""
    return task.weighted(OF, task.parameters.lambdas)


MEASURE = Measure(
    name="statistics_loss",
    symbol="IL_s",
    run=statistics_loss,
    summary="Change of values, means, variances and correlations (IL_1 to IL_3), weighted",
    range="0 up, without limit",
    cost="none of its own",
    of=OF,
)
