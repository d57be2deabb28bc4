"""entropy_loss: what share of a column's entropy the released value leaves open.

The mean over the categorical columns of H(X | X') / H(X), nominal, in which constant columns do not
count. It never falls when classes merge or labels generalize, and is 0 where the original follows
from what is released. Kin of the non-uniform entropy of A. De Waal and L. Willenborg, "Information
loss through global recoding and local suppression", 1999.
"""

from __future__ import annotations

from dbanon.measures.entropies import coded, entropy
from dbanon.measures.figure import NO_CATEGORIES, Figure, Measure, Task
from dbanon.measures.pairs import joined


def entropy_loss(task: Task) -> Figure:
    """Over the categorical columns; a column's own beside it."""
    found = coded(task.pairs)
    if not found:
        return Figure(None, note=NO_CATEGORIES)
    columns = {}
    for column in found:
        whole = entropy(column.before)
        if not whole:
            continue
        both = entropy(joined([column.before, column.after]))
        columns[column.name] = max(both - entropy(column.after), 0.0) / whole
    if not columns:
        return Figure(None, note="no categorical column varies")
    return Figure(sum(columns.values()) / len(columns), columns)


MEASURE = Measure(
    name="entropy_loss",
    run=entropy_loss,
    summary="Share of a column's entropy that the released value leaves open",
    range="0 to 1",
)
