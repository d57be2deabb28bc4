"""Measures of a release, their parameters and input, and figures, which are their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dbanon.errors import InvalidParameter
from dbanon.measures.pairs import Pairs

# A callback that takes the progress, 0 to 1. An exception from it cancels the evaluation.
Tick = Callable[[float], None]


def ignore_progress(progress: float) -> None:
    """Ignore progress and never cancel."""
    del progress


@dataclass(frozen=True)
class Figure:
    """The result of a measure for a release.

    Parameters
    ----------
    value : the result; None if the measure does not apply to this table.
    columns : the result for single columns, by column, if defined.
    parts : intermediate or related results, by name.
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
    lambdas : weights of IL_1, IL_2 and IL_3 in IL_s. The text of the paper uses thirds, its
        experiment these defaults.
    taus : weights of DLD and ID in DR.
    gammas : weights of IL and DR in the score.
    interval_percents : interval widths of interval disclosure, in percent.
    small : class sizes; ``class_risk`` reports the share of rows in smaller classes for each.
    epsilon : distance threshold of the security ratio, in sample standard deviations.
    sample : number of records to link, sampled with ``seed``; None for all, unless too many.
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
    figures : previous results, by measure, for measures that depend on others.
    tick : reports the progress of long computations.
    """

    pairs: Pairs
    parameters: Parameters = field(default_factory=Parameters)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    tick: Tick = ignore_progress

    def weighted(self, names: tuple[str, ...], weights: tuple[float, ...]) -> Figure:
        """The weighted sum of the figures of other measures.

        It has no value if a figure with a weight above 0 has none.

        Parameters
        ----------
        names, weights : the measures, and the weight of each.
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
    name : a unique name. Higher figures of ``…_loss`` and ``…_risk`` mean more loss or more risk.
    run : the function that computes the figure.
    summary : a description in one line.
    range : a description of possible values.
    symbol : the symbol in the literature; empty if it has none.
    cost : the complexity, for n records, p columns and k.
    needs : the input: ``counts`` (class sizes), ``columns`` (the values of each column in any
        order, which SQL can compute from source and release) or ``pairs`` (which record became
        which row).
    depends_on : measures whose figures it uses, which precede it in the catalogue.
    lower_is_better : True if lower is better.
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
# The note on figures that are 0 or 1 by definition because labels cover their values.
NOT_FOR_LABELS = "not meant for labels: one that covers its value is at distance 0 of it"
