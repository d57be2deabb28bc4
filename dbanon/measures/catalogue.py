"""The catalogue of measures of a release. Each measure follows those whose figures it uses."""

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
from dbanon.measures.figure import EvaluationTask, Figure, Measure, Tick
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


def evaluate(task: EvaluationTask, names: Iterable[str] | None = None) -> dict[str, Figure]:
    """Compute the figures of measures, and of those they depend on; returns figures by name.

    Parameters
    ----------
    names : the names of the measures; None for all.

    Raises
    ------
    InvalidParameter : a measure is unknown.
    """
    requested = set(MEASURES if names is None else names)
    for name in requested:
        if name not in MEASURES:
            raise InvalidParameter(
                f'There is no measure "{name}".', hint="Known: " + ", ".join(MEASURES) + "."
            )
    # A measure follows those it depends on, so one pass from the end adds indirect ones, too.
    for measure in reversed(MEASURES.values()):
        if measure.name in requested:
            requested.update(measure.depends_on)
    figures: dict[str, Figure] = {}
    for measure in MEASURES.values():
        if measure.name in requested:
            tick = _scale_progress(task.tick, index=len(figures), total=len(requested))
            tick(0.0)
            figures[measure.name] = measure.run(replace(task, figures=figures, tick=tick))
    return figures


def _scale_progress(tick: Tick, index: int, total: int) -> Tick:
    """Return a callback for one of several measures that reports the progress of all of them."""
    return lambda progress: tick((index + progress) / total)
