"""The catalogue of measures of a release: one file and one line each, parts before what is made of
them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dbanon.errors import InvalidParameter
from dbanon.measures import (
    correlation_loss,
    covariance_loss,
    deviation_loss,
    direct_loss,
    distance_loss,
    entropy_change,
    entropy_loss,
    label_loss,
    moment_loss,
    overall_loss,
    sse_loss,
    statistics_loss,
    structure_loss,
)
from dbanon.measures.figure import Figure, Measure, Task, Tick
from dbanon.measures.risk import (
    class_risk,
    disclosure_risk,
    interval_risk,
    linkage_risk,
    nearest_linkage_risk,
    score,
    security_ratio,
)

LOSSES: dict[str, Measure] = {
    module.MEASURE.name: module.MEASURE
    for module in (
        sse_loss,
        distance_loss,
        deviation_loss,
        moment_loss,
        structure_loss,
        covariance_loss,
        correlation_loss,
        statistics_loss,
        overall_loss,
        direct_loss,
        entropy_change,
        entropy_loss,
        label_loss,
    )
}

RISKS: dict[str, Measure] = {
    module.MEASURE.name: module.MEASURE
    for module in (
        class_risk,
        linkage_risk,
        nearest_linkage_risk,
        interval_risk,
        disclosure_risk,
        score,
        security_ratio,
    )
}

MEASURES: dict[str, Measure] = {**LOSSES, **RISKS}


def evaluate(task: Task, names: Iterable[str] | None = None) -> dict[str, Figure]:
    """The figures of these measures, and of those that they are made of; of all by default.

    Raises
    ------
    InvalidParameter : there is no measure of a name.
    """
    wanted = set(MEASURES if names is None else names)
    for name in wanted:
        if name not in MEASURES:
            raise InvalidParameter(
                f'There is no measure "{name}".', hint="Known: " + ", ".join(MEASURES) + "."
            )
    for measure in reversed(MEASURES.values()):
        if measure.name in wanted:
            wanted.update(measure.of)
    found: dict[str, Figure] = {}
    for measure in MEASURES.values():
        if measure.name in wanted:
            tick = _part(task.tick, len(found), len(wanted))
            tick(0.0)
            found[measure.name] = measure.run(replace(task, figures=found, tick=tick))
    return found


def _part(tick: Tick, at: int, of: int) -> Tick:
    """What tells the share of all measures, called with the share of one."""
    return lambda share: tick((at + share) / of)
