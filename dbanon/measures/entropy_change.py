"""entropy_change, IL_R: how much the entropy of the categorical columns changed, in percent.

It is 100 |H - H'| / H, where H is the sum of the columns' entropies before, and H' after release; H
= 0 gives 0. Entropies of ordinal columns are computed from cumulative shares (``ordinal_entropy``).
The paper prints a formula with other shares; there, reversing the order of the values would change
the entropy. The figure is 0 for any permutation of values, and may decrease when classes merge:
prefer ``entropy_loss``.

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
    """Compute the figure over categorical columns, and by column."""
    categorical = categorical_columns(task.pairs)
    if not categorical:
        return Figure(None, note=NO_CATEGORIES)
    before, after = 0.0, 0.0
    columns = {}
    for column in categorical:
        column_before, column_after = _entropies(column)
        columns[column.name] = _percent_change(column_before, column_after)
        before, after = before + column_before, after + column_after
    return Figure(_percent_change(before, after), columns)


def _entropies(column: CategoricalColumn) -> tuple[float, float]:
    """Return the entropies of a column before and after release."""
    if column.is_ordinal:
        before = ordinal_entropy(column.before, column.original_levels)
        return before, ordinal_entropy(column.after, column.original_levels)
    return entropy(column.before), entropy(column.after)


def _percent_change(before: float, after: float) -> float:
    """Return the absolute change in percent of the value before; 0 if that is 0."""
    return 100 * abs(before - after) / before if before else 0.0


MEASURE = Measure(
    name="entropy_change",
    symbol="IL_R",
    run=entropy_change,
    summary="Change of the entropy of categorical columns, in percent",
    range="0 up, percent",
    needs="columns",
)
