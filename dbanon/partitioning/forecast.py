"""Forecast the CPU seconds for clustering, before any record is read.

Forecasts exclude reading, privacy models, recoding and writing. They hold for k = 5 on the machine
named in benchmarks/results/forecast.md; a larger k takes less time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dbanon.job.policy import Policy
from dbanon.methods import METHODS, find_method
from dbanon.methods.forecast import (
    MethodForecast,
    PowerLaw,
    Shape,
    describe_seconds,
    round_to_two_digits,
)
from dbanon.methods.registry import Method
from dbanon.partitioning.blocks import Blocks

# Forecasts of refinements, by ``Method.refine`` and ``Policy.refine``. Those of ``thorough`` are
# scaled from ``fast`` by the numbers of steps and rounds of both. Those for mixed attributes lie
# between the measured extremes.
REFINEMENT_FORECASTS: Mapping[str, Mapping[str, MethodForecast]] = {
    "points": {
        "pass": MethodForecast(
            PowerLaw(seconds=0.3, records=1.1, attributes=0.89),
            PowerLaw(seconds=0.36, records=1.17, attributes=2.17, trees=1.82, categories=3.6),
        ),
        "fast": MethodForecast(
            PowerLaw(seconds=2.6, records=1.0, attributes=0.6),
            PowerLaw(seconds=1.5, records=1.37, attributes=1.85, trees=1.73, categories=2.51),
        ),
        "thorough": MethodForecast(
            PowerLaw(seconds=200.0, records=1.0, attributes=0.35),
            PowerLaw(seconds=200.0, records=1.0, attributes=1.0),
        ),
    },
    "generalized": {
        "pass": MethodForecast(
            mixed=PowerLaw(seconds=7.3, records=1.0, attributes=0.5, trees=-0.6, categories=0.75)
        ),
        "fast": MethodForecast(
            mixed=PowerLaw(
                seconds=2.6,
                records=1.03,
                attributes=0.0,
                trees=1.0,
                categories=4.2,
                distinct_exponent=0.0,
            )
        ),
        "thorough": MethodForecast(mixed=PowerLaw(seconds=4300.0, records=0.9, attributes=1.9)),
    },
}
# Refining few records, or a small block, takes at least this many seconds. The keys are those of
# ``REFINEMENT_FORECASTS``.
MIN_SECONDS = {("points", "fast"): 0.3, ("points", "thorough"): 20.0}


@dataclass(frozen=True)
class ClusteringSeconds:
    """CPU seconds for clustering: those of the method alone, and those of the refinement."""

    method: float
    refinement: float

    @property
    def seconds(self) -> float:
        """CPU seconds for method and refinement."""
        return self.method + self.refinement

    def to_dict(self) -> dict[str, float]:
        """Return the seconds in total and for the refinement, rounded to two digits."""
        return {
            "seconds": round_to_two_digits(self.seconds),
            "refinement_seconds": round_to_two_digits(self.refinement),
        }

    def __str__(self) -> str:
        """Describe the seconds in words."""
        return describe_seconds(self.seconds, self.refinement)


def forecast(
    policy: Policy, n_records: int, shape: Shape, distinct_share: float = 1.0
) -> ClusteringSeconds | None:
    """Forecast the seconds for a policy; None if its options were not measured.

    Parameters
    ----------
    shape : the number of attributes of each kind.
    distinct_share : the number of distinct records as a share of all records; 1 if unknown.
    """
    method = find_method(policy.method)
    power_law = _power_law(method, shape)
    # Methods were measured with their default options only.
    if power_law is None or dict(policy.options) != method.check_options({}):
        return None
    n_blocks = count_blocks(policy, n_records)
    seconds = n_blocks * power_law.seconds_of(n_records / n_blocks, shape, distinct_share)
    refinement_seconds = forecast_refinement(policy, n_records, shape, distinct_share)
    return None if refinement_seconds is None else ClusteringSeconds(seconds, refinement_seconds)


def forecast_refinement(
    policy: Policy, n_records: int, shape: Shape, distinct_share: float = 1.0
) -> float | None:
    """Forecast the seconds for the policy's refinement; 0 if it has none, None if unknown.

    Parameters
    ----------
    shape : the number of attributes of each kind.
    distinct_share : the number of distinct records as a share of all records; 1 if unknown.
    """
    kind, effort = find_method(policy.method).refine, policy.refine
    if effort is None or kind is None:
        return 0.0
    if policy.refine_iterations is not None:
        return None  # Refinements were measured with the default number of iterations only.
    forecasts = REFINEMENT_FORECASTS[kind][effort]
    power_law = forecasts.mixed if shape.is_mixed else forecasts.numbers
    if power_law is None:
        return None
    n_blocks = count_blocks(policy, n_records)
    min_seconds = MIN_SECONDS.get((kind, effort), 0.0)
    seconds = n_blocks * max(
        power_law.seconds_of(n_records / n_blocks, shape, distinct_share), min_seconds
    )
    return seconds if policy.refine_seconds is None else min(seconds, policy.refine_seconds)


def fastest_method(
    names: Iterable[str],
    n_records: int,
    shape: Shape,
    max_seconds: float,
    distinct_share: float = 1.0,
) -> str:
    """Return the first of these methods that takes at most ``max_seconds``.

    If none does, returns the fastest of all methods.

    Parameters
    ----------
    names : names of methods, in order of preference.
    shape : the number of attributes of each kind.
    distinct_share : the number of distinct records as a share of all records; 1 if unknown.
    """

    def seconds(name: str) -> float:
        power_law = _power_law(find_method(name), shape)
        return (
            float("inf")
            if power_law is None
            else power_law.seconds_of(n_records, shape, distinct_share)
        )

    for name in names:
        if seconds(name) <= max_seconds:
            return name
    # Methods that only take numbers are no alternative for attributes with categories, and those
    # that choose levels for the whole table lose much more than others.
    supported = [
        method.name
        for method in METHODS.values()
        if (method.takes_categories or not shape.is_mixed)
        and not method.result_type.sees_all_strata
    ]
    return min(supported, key=seconds)


def _power_law(method: Method, shape: Shape) -> PowerLaw | None:
    """Return a method's power law; None if it is unknown or the method takes fewer attributes."""
    if shape.is_mixed:
        return method.forecast.mixed
    max_attributes = method.max_attributes or shape.numbers
    return None if max_attributes < shape.numbers else method.forecast.numbers


def count_blocks(policy: Policy, n_records: int) -> int:
    """Return the number of blocks that the policy cuts so many records into; 1 without blocks."""
    blocks = Blocks.of(policy)
    return 1 if blocks is None else blocks.block_count_for(n_records) or 1
