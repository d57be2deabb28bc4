"""disclosure_risk, DR: the weighted sum of DLD and ID; DLD alone if not all columns are numeric.

Source: Chen and Han 2010, eq. (20).
"""

from __future__ import annotations

from dataclasses import replace

from dbanon.measures.figure import EvaluationTask, Figure, Measure

OF = ("nearest_linkage_risk", "interval_risk")


def disclosure_risk(task: EvaluationTask) -> Figure:
    """The weighted sum."""
    if task.pairs.all_numbers:
        return task.weighted(OF, task.parameters.taus)
    return replace(task.weighted(OF[:1], (1.0,)), note=task.figures[OF[0]].note)


MEASURE = Measure(
    name="disclosure_risk",
    symbol="DR",
    run=disclosure_risk,
    summary="Of being linked (DLD) and guessed within narrow ranks (ID), weighted",
    range="0 to 1",
    cost="none of its own",
    of=OF,
)
