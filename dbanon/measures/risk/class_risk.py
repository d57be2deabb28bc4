"""class_risk: what one gains who knows that a person is in the release.

1 / size of the smallest class: the prosecutor's risk, in ARX's words; ``average`` is classes over
rows, the marketer's; ``rows below s`` the share of rows in classes of fewer than s. Without a table
of the population the journalist's is the prosecutor's. Rows that are released alike are one class.
In persons where an entity is named: sizes are persons, and so are the shares.
"""

from __future__ import annotations

from dbanon.measures.figure import NO_ROWS, Figure, Measure, Task


def class_risk(task: Task) -> Figure:
    """Of the rows that are released alike."""
    sizes = task.pairs.sizes
    if not sizes.size:
        return Figure(None, note=NO_ROWS)
    total = int(sizes.sum())
    parts = {"average": len(sizes) / total}
    for small in task.parameters.small:
        parts[f"rows below {small}"] = float(sizes[sizes < small].sum() / total)
    return Figure(1 / int(sizes.min()), parts=parts)


MEASURE = Measure(
    name="class_risk",
    run=class_risk,
    summary="Chance to pick the right one in the smallest class: one by its size",
    range="0 to 1",
    cost="n",
    needs="counts",
)
