"""Whether prices are a certificate, asked by other means than those that made them.

On small sets all classes of k to 2k-1 records are tried, in exact fractions. On larger ones classes
are priced by a search that is plain and slow: whole rows of distances in numpy, and a bound without
any distance between records that are still to come.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Toll = TypeVar("Toll", Fraction, float)
NO_TOLLS: Mapping[tuple[int, ...], Any] = MappingProxyType({})


class Exact:
    """Sums of squares about the mean, of the points as they are.

    All of them are multiples of one power of two, and counted in it: whole numbers are added in a
    tenth of the time of fractions.
    """

    def __init__(self, points: Floats) -> None:
        ratios = [[float(value).as_integer_ratio() for value in row] for row in points]
        self.unit = max(below for row in ratios for _, below in row)
        rows = [[above * (self.unit // below) for above, below in row] for row in ratios]
        self._squares = [sum(value * value for value in row) for row in rows]
        self._columns = list(zip(*rows, strict=True))

    def apart(self, members: Sequence[int]) -> int:
        """The sum of squares, times the number of members, in squared units."""
        whole = len(members) * sum([self._squares[i] for i in members])
        return whole - sum([sum([column[i] for i in members]) ** 2 for column in self._columns])

    def sse(self, members: Sequence[int]) -> Fraction:
        """The sum of squares."""
        return Fraction(self.apart(members), len(members) * self.unit**2)


def exact_sse(points: Floats, members: tuple[int, ...]) -> Fraction:
    """The sum of squares about the mean, of the points as they are."""
    return Exact(points[list(members)]).sse(range(len(members)))


def require_prices(points: Floats, k: int, prices: Sequence[Fraction]) -> None:
    """No class of k to 2k-1 records loses less than its prices."""
    n, exact = len(points), Exact(points)
    below = math.lcm(*(price.denominator for price in prices))
    whole = [price.numerator * (below // price.denominator) for price in prices]
    for size in range(k, min(2 * k, n + 1)):
        unit = size * exact.unit**2
        for members in itertools.combinations(range(n), size):
            asked = sum([whole[i] for i in members])
            assert asked * unit <= exact.apart(members) * below, members


def toll_of(members: tuple[int, ...], tolls: Mapping[tuple[int, ...], Toll]) -> Toll | int:
    """What a class pays: the toll of each triple of which it holds two records or three."""
    held = set(members)
    return sum(each for triple, each in tolls.items() if len(held.intersection(triple)) >= 2)


def least_loss(points: Floats, k: int) -> Fraction:
    """The least SSE of all partitions into classes of k to 2k-1 records, by subsets."""
    n, exact = len(points), Exact(points)
    sizes = range(k, min(2 * k, n + 1))
    unit = math.lcm(*sizes)
    best: dict[int, int] = {0: 0}
    # By their first record the classes, as bits, and what they cost.
    costs: dict[int, list[tuple[int, int]]] = {}
    for size in sizes:
        for members in itertools.combinations(range(n), size):
            cost = exact.apart(members) * (unit // size)
            costs.setdefault(1 << members[0], []).append((sum(1 << i for i in members), cost))
    for taken in range(1, 1 << n):
        found = [
            best[taken ^ one] + cost
            for one, cost in costs.get(taken & -taken, ())
            if one & taken == one and taken ^ one in best
        ]
        if found:
            best[taken] = min(found)
    return Fraction(best[(1 << n) - 1], unit * exact.unit**2)


def dearest(
    points: Floats,
    k: int,
    prices: Floats,
    enough: float = np.inf,
    tolls: Mapping[tuple[int, ...], float] = NO_TOLLS,
) -> float:
    """The least of SSE minus prices over all classes of k records, by another search.

    With tolls, which are added, over all classes of k to 2k-1 records.

    Parameters
    ----------
    enough : what is not below it is not looked for; the answer is this where nothing is.
    """
    n = len(points)
    apart = np.zeros((n, n))
    for column in points.T:
        apart += np.square(column[:, None] - column[None, :])
    least = enough
    falling = np.argsort(-prices, kind="stable")
    for size in range(k, 2 * k if tolls else k + 1):
        search = _Search(apart, size, prices, _by_record(tolls))
        for place, seed in enumerate(falling):
            # Those behind the seed only: every class has one member of the highest price.
            rest = falling[place + 1 :]
            if len(rest) >= size - 1:
                least = search.least_from([int(seed)], rest, apart[seed], least)
    return float(least)


def _by_record(tolls: Mapping[tuple[int, ...], float]) -> dict[int, dict[tuple[int, ...], float]]:
    found: dict[int, dict[tuple[int, ...], float]] = {}
    for triple, each in tolls.items():
        for record in triple:
            found.setdefault(record, {})[triple] = each
    return found


@dataclass(frozen=True)
class _Search:
    """For the least of all classes of a size."""

    apart: Floats
    size: int
    prices: Floats
    tolls: Mapping[int, Mapping[tuple[int, ...], float]]

    def least_from(
        self, chosen: list[int], rest: NDArray[np.int64], together: Floats, least: float
    ) -> float:
        """The least found by adding to the chosen some of the rest, one after the other."""
        inside = self.apart[np.ix_(chosen, chosen)].sum() / 2
        base = inside / self.size - self.prices[chosen].sum()
        missing = self.size - len(chosen)
        gain = together[rest] / self.size - self.prices[rest]
        order = np.argsort(gain, kind="stable")
        rest, gain = rest[order], gain[order]
        for first in range(len(rest) - missing + 1):
            if base + gain[first : first + missing].sum() >= least:
                break
            one = int(rest[first])
            if missing == 1:
                least = min(least, base + gain[first] + self._toll(chosen, one))
                continue
            both = together + self.apart[one]
            least = self.least_from([*chosen, one], rest[first + 1 :], both, least)
        return least

    def _toll(self, chosen: list[int], one: int) -> float:
        members = (*chosen, one)
        near = {t: each for i in members for t, each in self.tolls.get(i, {}).items()}
        return toll_of(members, near)


def fitted(
    points: Floats, classes: NDArray[np.int32], prices: Floats, spread: float, sweeps: int
) -> tuple[Floats, Floats]:
    """Prices by iterative proportional fitting, and what each class's prices exceed its SSE by.

    One record after the other is taken once by its classes, or oftener at a price of 0.
    """
    members = points[classes]
    costs = np.square(members - members.mean(axis=1, keepdims=True)).sum(axis=(1, 2))
    prices = prices.copy()
    holds = [np.flatnonzero((classes == record).any(axis=1)) for record in range(len(points))]
    for _ in range(sweeps):
        for record, some in enumerate(holds):
            if len(some):
                excess = (prices[classes[some]].sum(axis=1) - costs[some]) / spread
                taken = np.logaddexp.reduce(excess)
                prices[record] = max(prices[record] - spread * taken, 0.0)
    return prices, prices[classes].sum(axis=1) - costs


def gathered(points: Floats, k: int, prices: Floats, centre: Floats, turns: int) -> tuple[int, ...]:
    """The k records of the least squared distance to a centre less price, then to their mean."""
    before: NDArray[np.int64] = np.zeros(0, np.int64)
    for _ in range(turns):
        values = np.square(points - centre).sum(axis=1) - prices
        now = np.sort(np.argsort(values, kind="stable")[:k])
        if np.array_equal(now, before):
            break
        before, centre = now, points[now].mean(axis=0)
    return tuple(map(int, before))
