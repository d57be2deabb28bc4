"""Forecast of the CPU seconds for clustering, before a record is read.

Excludes reading, privacy models, recoding and writing. Applies to the machine named in
benchmarks/results/forecast.md and to k = 5; a larger k takes less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dbanon.job.policy import Policy
from dbanon.methods import METHODS, find_method
from dbanon.methods.forecast import MethodForecast, PowerLaw, Shape, in_words, two_digits
from dbanon.methods.registry import Method
from dbanon.partitioning.blocks import Blocks

# Of refinements, as ``Method.refine`` and ``Policy.refine`` name them; those of ``thorough`` by how
# many more steps and rounds it has than ``fast``. Mixed ones are between the extremes of what was
# measured, and ``fast`` of generalization is what 100,000 records took, too, on an earlier day.
REFINEMENT_FORECASTS: Mapping[str, Mapping[str, MethodForecast]] = {
    "points": {
        "pass": MethodForecast(
            PowerLaw(0.3, 1.1, 0.89), PowerLaw(0.36, 1.17, 2.17, trees=1.82, categories=3.6)
        ),
        "fast": MethodForecast(
            PowerLaw(2.6, 1.0, 0.6), PowerLaw(1.5, 1.37, 1.85, trees=1.73, categories=2.51)
        ),
        "thorough": MethodForecast(PowerLaw(200.0, 1.0, 0.35), PowerLaw(200.0, 1.0, 1.0)),
    },
    "generalized": {
        "pass": MethodForecast(mixed=PowerLaw(7.3, 1.0, 0.5, trees=-0.6, categories=0.75)),
        "fast": MethodForecast(
            mixed=PowerLaw(2.6, 1.03, 0.0, trees=1.0, categories=4.2, different=0.0)
        ),
        "thorough": MethodForecast(mixed=PowerLaw(4300.0, 0.9, 1.9)),
    },
}
# Refinements of few records do at least so much, in seconds, those of a block, too.
LEAST = {("points", "fast"): 0.3, ("points", "thorough"): 20.0}


@dataclass(frozen=True)
class ClusteringSeconds:
    """CPU seconds for clustering, by method and refinement."""

    method: float
    refinement: float

    @property
    def seconds(self) -> float:
        """CPU seconds of both."""
        return self.method + self.refinement

    def to_dict(self) -> dict[str, float]:
        """As plain values, with two digits."""
        return {
            "seconds": two_digits(self.seconds),
            "refinement_seconds": two_digits(self.refinement),
        }

    def __str__(self) -> str:
        """In words."""
        return in_words(self.seconds, self.refinement)


def forecast(
    policy: Policy, n: int, shape: Shape, different: float = 1.0
) -> ClusteringSeconds | None:
    """The forecast for a policy on n records; None if that was not measured.

    Parameters
    ----------
    different : the share of the records that differs from all others before; 1 where not known.
    """
    method = find_method(policy.method)
    power = _power(method, shape)
    if power is None or dict(policy.options) != method.checked_options({}):
        return None
    blocks = Blocks.of(policy)
    parts = 1 if blocks is None else blocks.block_count_for(n) or 1
    seconds = parts * power.seconds_of(n / parts, shape, different)
    refined = _refinement_seconds(policy, method, n, shape, parts, different)
    return None if refined is None else ClusteringSeconds(seconds, refined)


def fastest_method(
    names: Iterable[str], n: int, shape: Shape, limit: float, different: float = 1.0
) -> str:
    """The first of these methods that takes no more than so many seconds.

    Where none does, the one of all methods that takes the least. ``different`` as of ``forecast``.
    """

    def seconds(name: str) -> float:
        power = _power(find_method(name), shape)
        return float("inf") if power is None else power.seconds_of(n, shape, different)

    for name in names:
        if seconds(name) <= limit:
            return name
    # Methods on points release other values than the common ones.
    fitting = [name for name in METHODS if not shape.is_mixed or find_method(name).takes_categories]
    return min(fitting, key=seconds)


def _power(method: Method, shape: Shape) -> PowerLaw | None:
    """The forecast of a method for such attributes; None also if it does not support them."""
    if shape.is_mixed:
        return method.forecast.mixed
    most = method.max_attributes or shape.numbers
    return None if most < shape.numbers else method.forecast.numbers


def _refinement_seconds(
    policy: Policy, method: Method, n: int, shape: Shape, parts: int, different: float
) -> float | None:
    """Seconds of the policy's refinement; 0 if it has none, None if unknown."""
    kind, effort = method.refine, policy.refine
    if effort is None or kind is None:
        return 0.0
    if policy.refine_iterations is not None:
        return None
    forecasts = REFINEMENT_FORECASTS[kind][effort]
    power = forecasts.mixed if shape.is_mixed else forecasts.numbers
    if power is None:
        return None
    least = LEAST.get((kind, effort), 0.0)
    seconds = parts * max(power.seconds_of(n / parts, shape, different), least)
    return seconds if policy.refine_seconds is None else min(seconds, policy.refine_seconds)
