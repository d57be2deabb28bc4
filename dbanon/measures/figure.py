"""Base classes of measures: ``Measure``, its input and parameters, and ``Figure``, its result.

Symbols such as IL_1 and DLD are those of the paper of many measures: J. Chen and J. Han,
"Evaluation model for quality of k-anonymity data oriented to microaggregation", 2010.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dbanon.errors import InvalidParameter
from dbanon.measures.pairs import Pairs

# A callback that takes the progress, 0 to 1. If it raises an exception, the evaluation ends.
Tick = Callable[[float], None]


def ignore_progress(progress: float) -> None:
    """Ignore the progress; a tick for callers that do not show it."""
    del progress


@dataclass(frozen=True)
class Figure:
    """The result of a measure for a release.

    Parameters
    ----------
    value : the result; None if the measure does not apply to this table.
    columns : the results of single columns, by name; empty if the measure has none.
    parts : intermediate or related results, by the names that reports print.
    note : why there is no value, or a caveat.
    """

    value: float | None
    columns: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Parameters:
    """Parameters of measures.

    Raises
    ------
    InvalidParameter : a value is out of range.

    Parameters
    ----------
    lambdas : weights of IL_1, IL_2 and IL_3 (``deviation_loss``, ``moment_loss`` and
        ``structure_loss``) in IL_s (``statistics_loss``). The text of the paper uses thirds; its
        experiment uses these defaults.
    taus : weights of DLD and ID (``nearest_linkage_risk`` and ``interval_risk``) in DR
        (``disclosure_risk``).
    gammas : weights of IL and DR (``overall_loss`` and ``disclosure_risk``) in the ``score``.
    interval_percents : interval widths of ``interval_risk``, in percent of the ranks.
    small : class sizes; for each, ``class_risk`` reports the share of rows in smaller classes.
    epsilon : distance threshold of ``security_ratio``, in sample standard deviations.
    sample : number of records to link, chosen at random; None for all records, unless there are too
        many.
    seed : the seed for the sample.
    """

    lambdas: tuple[float, float, float] = (0.5, 0.0, 0.5)
    taus: tuple[float, float] = (0.5, 0.5)
    gammas: tuple[float, float] = (0.5, 0.5)
    interval_percents: tuple[float, ...] = tuple(range(1, 11))
    small: tuple[int, ...] = (2, 3, 5, 10)
    epsilon: float = 0.1
    sample: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, count in (("lambdas", 3), ("taus", 2), ("gammas", 2)):
            weights = getattr(self, name)
            if len(weights) != count or not all(weight >= 0 for weight in weights):
                raise InvalidParameter(f"{name} must be {count} weights, 0 or more.")
            if not math.isclose(sum(weights), 1, abs_tol=1e-9):
                raise InvalidParameter(f"{name} must add up to 1.")
        percents = self.interval_percents
        if not percents or not all(0 <= percent <= 100 for percent in percents):
            raise InvalidParameter("interval_percents must be numbers from 0 to 100.")
        if not all(size >= 1 for size in self.small):
            raise InvalidParameter("small must be sizes of classes, 1 or more.")
        if not 0 <= self.epsilon < math.inf:
            raise InvalidParameter("epsilon must be a number, 0 or more.")
        if self.sample is not None and self.sample < 1:
            raise InvalidParameter("sample must be a number of records, 1 or more.")
        if self.seed < 0:
            raise InvalidParameter("seed must be 0 or more.")


@dataclass(frozen=True)
class EvaluationTask:
    """The input of measures.

    Parameters
    ----------
    pairs : the originals and the released values.
    parameters : the parameters of all measures.
    figures : previous results, by measure, for measures that depend on others.
    tick : reports the progress of long computations.
    """

    pairs: Pairs
    parameters: Parameters = field(default_factory=Parameters)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    tick: Tick = ignore_progress

    def weighted_sum(self, names: tuple[str, ...], weights: tuple[float, ...]) -> Figure:
        """Compute the weighted sum of the figures of other measures.

        If a figure with a weight above 0 has no value, the sum has none; its note names the figure.

        Parameters
        ----------
        names : the names of the measures.
        weights : the weight of each measure.
        """
        total = 0.0
        for name, weight in zip(names, weights, strict=True):
            if not weight:
                continue
            figure = self.figures[name]
            if figure.value is None:
                return Figure(None, note=f"{name}: {figure.note}")
            total += weight * figure.value
        return Figure(total)


@dataclass(frozen=True)
class Measure:
    """A measure of a release.

    Parameters
    ----------
    name : a unique name. It ends in ``_loss`` or ``_risk`` only if a higher figure means more loss
        or risk.
    run : the function that computes the figure.
    summary : a description in one line.
    range : a description of the possible values.
    symbol : the symbol in the literature; empty if it has none.
    cost : the complexity, for n records, p columns and k.
    needs : the input: ``counts`` (class sizes), ``columns`` (the rows of source and release, each
        in any order) or ``pairs`` (which record became which row).
    depends_on : measures whose figures this one uses, which precede it in the catalogue.
    lower_is_better : True if a lower figure is better.
    """

    name: str
    run: Callable[[EvaluationTask], Figure]
    summary: str
    range: str
    symbol: str = ""
    cost: str = "n p"
    needs: str = "pairs"
    depends_on: tuple[str, ...] = ()
    lower_is_better: bool = True


NO_NUMBERS = "no column of numbers is released as numbers"
NO_VARIATION = "no column of numbers varies"
NOT_ALL_NUMBERS = "not all columns are numbers released as numbers"
NO_CATEGORIES = "no column is categorical"
NO_ROWS = "no row is released"
# The note on figures that are 0 or 1 by definition: labels cover the values that they stand for.
NOT_FOR_LABELS = "not meant for labels: a label that covers its value is at distance 0 from it"
