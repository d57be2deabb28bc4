"""entropy_change, IL_R: how much the entropy of the categorical columns changed, in percent.

100 |H - H'| / H, summed over columns; H = 0 gives 0. Shares of an ordinal column are cumulative
(the printed ones would depend on the direction of the order). It is not monotone, and 0 for any
permutation: prefer ``entropy_loss``.

Source: Chen and Han 2010, eq. (14) to (17).
"""

from __future__ import annotations

from dbanon.measures.entropies import (
    CategoricalColumn,
    categorical_columns,
    entropy,
    ordinal_entropy,
)
from dbanon.measures.figure import NO_CATEGORIES, EvaluationTask, Figure, Measure


def entropy_change(task: EvaluationTask) -> Figure:
    """The figure over categorical columns, and by column."""
    categorical = categorical_columns(task.pairs)
    if not categorical:
        return Figure(None, note=NO_CATEGORIES)
    before, after = 0.0, 0.0
    columns = {}
    for column in categorical:
        pair = _entropies(column)
        columns[column.name] = _change(*pair)
        before, after = before + pair[0], after + pair[1]
    return Figure(_change(before, after), columns)


def _entropies(column: CategoricalColumn) -> tuple[float, float]:
    if column.ordinal:
        before = ordinal_entropy(column.before, column.levels)
        return before, ordinal_entropy(column.after, column.levels)
    return entropy(column.before), entropy(column.after)


def _change(before: float, after: float) -> float:
    return 100 * abs(before - after) / before if before else 0.0


MEASURE = Measure(
    name="entropy_change",
    symbol="IL_R",
    run=entropy_change,
    summary="Change of the entropy of categorical columns, in percent",
    range="0 up, percent",
    needs="columns",
)
