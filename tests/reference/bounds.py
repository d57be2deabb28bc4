"""Independent checks that prices are a certificate.

On small sets, all classes of k to 2k-1 records are enumerated in exact fractions. On larger ones, a
plain slow search prices the classes: full rows of distances in numpy, and a bound that ignores the
distances between records still to be added.
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
    """Sums of squares about the mean, of the given points.

    All of them are integer multiples of one power of two: adding integers takes a tenth of the time
    of adding fractions.
    """

    def __init__(self, points: Floats) -> None:
        ratios = [[float(value).as_integer_ratio() for value in row] for row in points]
        self.unit = max(below for row in ratios for _, below in row)
        rows = [[above * (self.unit // below) for above, below in row] for row in ratios]
        self._squares = [sum(value * value for value in row) for row in rows]
        self._columns = list(zip(*rows, strict=True))

    def apart(self, members: Sequence[int]) -> int:
        """The sum of squares, times the number of members, in squared units."""
        total = len(members) * sum([self._squares[i] for i in members])
        return total - sum([sum([column[i] for i in members]) ** 2 for column in self._columns])

    def sse(self, members: Sequence[int]) -> Fraction:
        """The sum of squares."""
        return Fraction(self.apart(members), len(members) * self.unit**2)


def exact_sse(points: Floats, members: tuple[int, ...]) -> Fraction:
    """The sum of squares about the mean, of the given points."""
    return Exact(points[list(members)]).sse(range(len(members)))


def require_prices(points: Floats, k: int, prices: Sequence[Fraction]) -> None:
    """No class of k to 2k-1 records loses less than its prices."""
    n, exact = len(points), Exact(points)
    denominator = math.lcm(*(price.denominator for price in prices))
    numerators = [price.numerator * (denominator // price.denominator) for price in prices]
    for size in range(k, min(2 * k, n + 1)):
        unit = size * exact.unit**2
        for members in itertools.combinations(range(n), size):
            price_sum = sum([numerators[i] for i in members])
            assert price_sum * unit <= exact.apart(members) * denominator, members


def toll_of(members: tuple[int, ...], tolls: Mapping[tuple[int, ...], Toll]) -> Toll | int:
    """The cost of a class: the dual values of all triples with two or three of its records."""
    records = set(members)
    return sum(toll for triple, toll in tolls.items() if len(records.intersection(triple)) >= 2)


def least_loss(points: Floats, k: int) -> Fraction:
    """The least SSE of all partitions into classes of k to 2k-1 records, by subsets."""
    n, exact = len(points), Exact(points)
    sizes = range(k, min(2 * k, n + 1))
    unit = math.lcm(*sizes)
    best: dict[int, int] = {0: 0}
    # By first record: each class as a bit set, and its cost.
    costs: dict[int, list[tuple[int, int]]] = {}
    for size in sizes:
        for members in itertools.combinations(range(n), size):
            cost = exact.apart(members) * (unit // size)
            costs.setdefault(1 << members[0], []).append((sum(1 << i for i in members), cost))
    for subset in range(1, 1 << n):
        candidates = [
            best[subset ^ class_bits] + cost
            for class_bits, cost in costs.get(subset & -subset, ())
            if class_bits & subset == class_bits and subset ^ class_bits in best
        ]
        if candidates:
            best[subset] = min(candidates)
    return Fraction(best[(1 << n) - 1], unit * exact.unit**2)


def least_reduced_cost(
    points: Floats,
    k: int,
    prices: Floats,
    threshold: float = np.inf,
    tolls: Mapping[tuple[int, ...], float] = NO_TOLLS,
) -> float:
    """The least of SSE minus prices over all classes of k records, by another search.

    With tolls, which are added, over all classes of k to 2k-1 records.

    Parameters
    ----------
    threshold : search only for values below it; returned if there are none.
    """
    n = len(points)
    apart = np.zeros((n, n))
    for column in points.T:
        apart += np.square(column[:, None] - column[None, :])
    least = threshold
    falling = np.argsort(-prices, kind="stable")
    for size in range(k, 2 * k if tolls else k + 1):
        search = _Search(apart, size, prices, _by_record(tolls))
        for index, seed in enumerate(falling):
            # Only records after the seed: each class is found from its record with the highest
            # price.
            later = falling[index + 1 :]
            if len(later) >= size - 1:
                least = search.least_from([int(seed)], later, apart[seed], least)
    return float(least)


def _by_record(tolls: Mapping[tuple[int, ...], float]) -> dict[int, dict[tuple[int, ...], float]]:
    tolls_of_record: dict[int, dict[tuple[int, ...], float]] = {}
    for triple, toll in tolls.items():
        for record in triple:
            tolls_of_record.setdefault(record, {})[triple] = toll
    return tolls_of_record


@dataclass(frozen=True)
class _Search:
    """Branch and bound for the cheapest class of a size."""

    apart: Floats
    size: int
    prices: Floats
    tolls: Mapping[int, Mapping[tuple[int, ...], float]]

    def least_from(
        self,
        chosen: list[int],
        later: NDArray[np.int64],
        sum_public_distances: Floats,
        least: float,
    ) -> float:
        """The least value of a class that extends the chosen records by later ones."""
        inside = self.apart[np.ix_(chosen, chosen)].sum() / 2
        base = inside / self.size - self.prices[chosen].sum()
        missing = self.size - len(chosen)
        gain = sum_public_distances[later] / self.size - self.prices[later]
        order = np.argsort(gain, kind="stable")
        later, gain = later[order], gain[order]
        for first in range(len(later) - missing + 1):
            if base + gain[first : first + missing].sum() >= least:
                break
            record = int(later[first])
            if missing == 1:
                least = min(least, base + gain[first] + self._toll(chosen, record))
                continue
            new_sums = sum_public_distances + self.apart[record]
            least = self.least_from([*chosen, record], later[first + 1 :], new_sums, least)
        return least

    def _toll(self, chosen: list[int], record: int) -> float:
        members = (*chosen, record)
        near = {t: toll for i in members for t, toll in self.tolls.get(i, {}).items()}
        return toll_of(members, near)


def fitted(
    points: Floats, classes: NDArray[np.int32], prices: Floats, spread: float, sweeps: int
) -> tuple[Floats, Floats]:
    """Prices by iterative proportional fitting, and the excess of each class's prices over its SSE.

    Each record in turn is covered once by the classes that hold it, or more often at a price of 0.
    """
    members = points[classes]
    costs = np.square(members - members.mean(axis=1, keepdims=True)).sum(axis=(1, 2))
    prices = prices.copy()
    holds = [np.flatnonzero((classes == record).any(axis=1)) for record in range(len(points))]
    for _ in range(sweeps):
        for record, class_ids in enumerate(holds):
            if len(class_ids):
                excess = (prices[classes[class_ids]].sum(axis=1) - costs[class_ids]) / spread
                log_use = np.logaddexp.reduce(excess)
                prices[record] = max(prices[record] - spread * log_use, 0.0)
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
