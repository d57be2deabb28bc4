"""class_risk: the chance of re-identification if a person is known to be in the release.

The figure is 1 / size of the smallest class, which ARX calls prosecutor risk. The part ``average``
is the number of classes divided by the number of rows, the marketer risk. The part ``rows below s``
is the share of rows in classes smaller than s. Without a population table the journalist risk
equals the prosecutor risk. Identical released rows form one class. With an entity column, sizes and
shares count persons.
"""

from __future__ import annotations

from dbanon.measures.figure import NO_ROWS, EvaluationTask, Figure, Measure


def class_risk(task: EvaluationTask) -> Figure:
    """Compute the risk from the sizes of classes of identical rows."""
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
    summary="Chance to pick the right row in the smallest class: 1 divided by its size",
    range="0 to 1",
    cost="n",
    needs="counts",
)
