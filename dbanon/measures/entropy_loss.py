"""entropy_loss: the share of a column's entropy that remains if the released value is known.

The figure is the mean of H(X | X') / H(X) over the categorical columns that vary, for original
values X and released values X'. Ordinal columns are treated as nominal. The figure never decreases
when classes merge or labels become more general, and is 0 if the released value determines the
original. It is related to the non-uniform entropy of A. De Waal and L. Willenborg, "Information
loss through global recoding and local suppression", 1999.
"""

from __future__ import annotations

from dbanon.measures.agreement import combine_codes
from dbanon.measures.entropies import categorical_columns, entropy
from dbanon.measures.figure import NO_CATEGORIES, EvaluationTask, Figure, Measure


def entropy_loss(task: EvaluationTask) -> Figure:
    """Compute the figure over categorical columns, and by column."""
    categorical = categorical_columns(task.pairs)
    if not categorical:
        return Figure(None, note=NO_CATEGORIES)
    columns = {}
    for column in categorical:
        original_entropy = entropy(column.before)
        if not original_entropy:
            continue
        joint_entropy = entropy(combine_codes([column.before, column.after]))
        columns[column.name] = max(joint_entropy - entropy(column.after), 0.0) / original_entropy
    if not columns:
        return Figure(None, note="no categorical column varies")
    return Figure(sum(columns.values()) / len(columns), columns)


MEASURE = Measure(
    name="entropy_loss",
    run=entropy_loss,
    summary="Share of a column's entropy that remains if the released value is known",
    range="0 to 1",
)
