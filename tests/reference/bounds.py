"""Whether prices are a certificate, asked by other means than those that made them.

On small sets all classes of k to 2k-1 records are tried, in exact fractions. On larger ones classes
are priced by a search that is plain and slow: whole rows of distances in numpy, and a bound without
any distance between records that are still to come.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def exact_sse(points: Floats, members: tuple[int, ...]) -> Fraction:
    """The sum of squares about the mean, of the points as they are."""
    total = Fraction(0)
    for j in range(points.shape[1]):
        values = [Fraction(float(points[i, j])) for i in members]
        total += sum(v * v for v in values) - sum(values) ** 2 / len(values)
    return total


def dearest_exactly(points: Floats, k: int, prices: Floats) -> Fraction:
    """The least of SSE minus prices over all classes of k to 2k-1 records."""
    exact = [Fraction(float(price)) for price in prices]
    return min(
        exact_sse(points, members) - sum(exact[i] for i in members)
        for size in range(k, min(2 * k, len(points) + 1))
        for members in itertools.combinations(range(len(points)), size)
    )


def least_loss(points: Floats, k: int) -> Fraction:
    """The least SSE of all partitions into classes of k to 2k-1 records, by subsets."""
    n = len(points)
    best: dict[int, Fraction] = {0: Fraction(0)}
    costs = {
        sum(1 << i for i in members): exact_sse(points, members)
        for size in range(k, min(2 * k, n + 1))
        for members in itertools.combinations(range(n), size)
    }
    for taken in range(1, 1 << n):
        lowest = taken & -taken
        found = [
            best[taken ^ one] + cost
            for one, cost in costs.items()
            if one & lowest and one & taken == one and taken ^ one in best
        ]
        if found:
            best[taken] = min(found)
    return best[(1 << n) - 1]


def dearest(points: Floats, k: int, prices: Floats, enough: float = np.inf) -> float:
    """The least of SSE minus prices over all classes of k records, by another search.

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
    for place, seed in enumerate(falling):
        # Those behind the seed only: every class has one member of the highest price.
        rest = falling[place + 1 :]
        if len(rest) >= k - 1:
            least = _from(apart, k, prices, [int(seed)], rest, apart[seed], least)
    return float(least)


def _from(
    apart: Floats, k: int, prices: Floats, chosen: list[int], rest: NDArray[np.int64],
    together: Floats, least: float,
) -> float:  # fmt: skip
    """The least found by adding to the chosen some of the rest, one after the other."""
    inside = apart[np.ix_(chosen, chosen)].sum() / 2
    base = inside / k - prices[chosen].sum()
    missing = k - len(chosen)
    gain = together[rest] / k - prices[rest]
    if missing == 1:
        return float(min(least, base + gain.min(initial=np.inf)))
    order = np.argsort(gain, kind="stable")
    rest, gain = rest[order], gain[order]
    for first in range(len(rest) - missing + 1):
        if base + gain[first : first + missing].sum() >= least:
            break
        one = int(rest[first])
        after = rest[first + 1 :]
        least = _from(apart, k, prices, [*chosen, one], after, together + apart[one], least)
    return least
