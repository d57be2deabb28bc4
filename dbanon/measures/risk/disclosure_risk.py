"""disclosure_risk, DR: the weighted sum of DLD and ID; only DLD if not all columns are numeric.

DLD is ``nearest_linkage_risk``, and ID is ``interval_risk``.

Source: Chen and Han 2010, eq. (20).
"""

from __future__ import annotations

from dataclasses import replace

from dbanon.measures.figure import EvaluationTask, Figure, Measure

TERMS = ("nearest_linkage_risk", "interval_risk")


def disclosure_risk(task: EvaluationTask) -> Figure:
    """Compute the weighted sum of the two risks, or of DLD alone."""
    if task.pairs.is_all_numeric:
        return task.weighted_sum(TERMS, task.parameters.taus)
    return replace(task.weighted_sum(TERMS[:1], (1.0,)), note=task.figures[TERMS[0]].note)


MEASURE = Measure(
    name="disclosure_risk",
    symbol="DR",
    run=disclosure_risk,
    summary="Risk of being linked (DLD) and of being guessed within narrow ranks (ID), weighted",
    range="0 to 1",
    cost="none of its own",
    depends_on=TERMS,
)
