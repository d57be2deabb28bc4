"""Figure: what a measure says of a release. Measure: one entry of the catalogue of measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dbanon.errors import InvalidParameter
from dbanon.measures.pairs import Pairs

# (share done): what it raises ends the evaluation.
Tick = Callable[[float], None]


def no_tick(share: float) -> None:
    """Nobody is told, nothing ends."""
    del share


@dataclass(frozen=True)
class Figure:
    """A figure of a whole release.

    Parameters
    ----------
    value : None where it has no meaning for this table.
    columns : the figure of single columns, where there is one.
    parts : what belongs to the figure, by name.
    note : why there is no value, or what one has to know about it.
    """

    value: float | None
    columns: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Parameters:
    """What a caller may choose.

    Raises InvalidParameter where a value is out of its range.

    Parameters
    ----------
    lambdas : weights of IL_1, IL_2 and IL_3 in IL_s. The paper's text has thirds, its experiment
        these.
    taus : weights of DLD and ID in DR.
    gammas : weights of IL and DR in the score.
    interval_percents : the widths of interval disclosure.
    small : sizes of classes below which rows are counted.
    epsilon : of the security ratio, in sample standard deviations.
    sample : how many records are linked, drawn by ``seed``; None for all where that is affordable.
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
class Task:
    """One evaluation under way.

    Parameters
    ----------
    figures : those found so far, by name; a measure that is made of others finds them here.
    tick : called now and then while a measure that may take long is at work.
    """

    pairs: Pairs
    parameters: Parameters = field(default_factory=Parameters)
    figures: Mapping[str, Figure] = field(default_factory=dict)
    tick: Tick = no_tick

    def weighted(self, names: tuple[str, ...], weights: tuple[float, ...]) -> Figure:
        """A weighted sum of other figures; without value where one that counts has none."""
        total = 0.0
        for name, weight in zip(names, weights, strict=True):
            if not weight:
                continue
            found = self.figures[name]
            if found.value is None:
                return Figure(None, note=f"{name}: {found.note}")
            total += weight * found.value
        return Figure(total)


@dataclass(frozen=True)
class Measure:
    """A measure of a release.

    Parameters
    ----------
    name : ``_loss``: the higher, the more was lost; ``_risk``: the more an attacker gains.
    run : from the task to the figure.
    summary : one line for people.
    range : the values it may have, in words.
    symbol : the sign in the literature; empty where it has none.
    cost : how its time grows.
    needs : ``counts`` (class sizes), ``columns`` (each column's values before and after, in any
        order: SQL finds it from source and release alone) or ``pairs`` (which became which).
    of : the measures it is made of, which come before it in the catalogue.
    lower : True where a lower figure is the better one.
    """

    name: str
    run: Callable[[Task], Figure]
    summary: str
    range: str
    symbol: str = ""
    cost: str = "n p"
    needs: str = "pairs"
    of: tuple[str, ...] = ()
    lower: bool = True


NO_NUMBERS = "no column of numbers is released as numbers"
NO_VARIATION = "no column of numbers varies"
NOT_ALL_NUMBERS = "not all columns are numbers released as numbers"
NO_CATEGORIES = "no column is categorical"
NO_ROWS = "no row is released"
# Of a figure that is 0 or 1 by definition.
NOT_FOR_LABELS = "not meant for labels: one that covers its value is at distance 0 of it"
