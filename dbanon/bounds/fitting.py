"""Prices of many records: classes of 2, of 3, and on to k, by proportional fitting and by pricing.

The program is that of ``classes.py``, without its solver. Prices come from the kernel ``Fitting``,
which smooths the program. Classes that cost less than their prices come from ``Gathering``, which
is quick and misses some. What ``Pricing`` says in the end is the certificate, as there: prices
y(i) + m(i), m(i) <= 0 being at most the least reduced cost of the classes whose seed is i. Nothing
that the first two say has to be right.

``Pricing`` looks at every class of r records from its seed. What the other r - 1 cost among each
other is at least what the certificate of classes of r - 1 says: their squared distances add up to
(r - 1) SSE, which is (r - 1) times their prices or more. So each size makes the next one quick.

A certificate y of classes of r, times r (k - 1)/(k (r - 1)), is one of classes of k > r. A class S
of k has C(k, r) parts T of r records. Each of its pairs is in C(k - 2, r - 2) of them, each record
in C(k - 1, r - 1). With r SSE(T) for the squared distances of the pairs of T,

    C(k - 2, r - 2) k SSE(S) = sum of r SSE(T) >= sum of r y(T) = r C(k - 1, r - 1) y(S)

and C(k - 1, r - 1)/C(k - 2, r - 2) = (k - 1)/(r - 1). So what was found is of use where time ends.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.bounds.classes import lowered
from dbanon.kernels import Fitting, Gathering, Kernel, Neighbours, Pricing
from dbanon.methods.registry import Tick

Floats = NDArray[np.float64]
Classes = NDArray[np.int32]  # (m, r), each rising, none twice

# Spreads of the smoothed program, as shares of what a class costs: while classes are gathered, for
# the last size and for those before it, and while they are priced.
_LAST, _BEFORE, _PRICED = (0.05, 0.03, 0.02, 0.01), (0.05,), (0.01, 0.005, 0.0025)
_SWEEPS = 80
# Classes that cost so many spreads more than their prices are as good as never taken: they are not
# listed again, or no others are looked for around them.
_LISTED, _AROUND = 30.0, 6.0
# Reduced costs that are nothing, as shares of what a class costs.
_GATHERED, _THRESHOLD = 1e-4, 1e-7
# How many classes a seed gives a round, and the steps of a search from it, about a nanosecond each.
_WANTED, _EFFORT = 3, 2**20
# Pricing ends where the certificate is so near to the prices that it is of, relatively.
_NEAR_ENOUGH = 1e-3
# Larger classes are not worth a search where one of this size found so much less than was known:
# too many classes are left that there was no time to look into.
_WORTH = 0.9
# Of larger classes there are mostly too many.
_ALL_LOOKED_INTO = 6
# Records that lie together are numbered together, to groups of so many.
_GROUP = 32
# What is nearest says what a class costs, but for about this.
_DEARER = 1.5


def fitted_prices(
    points: Floats, k: int, prices: Floats, ends: float, tick: Tick
) -> tuple[Floats, bool]:
    """Prices, float64 (n,), and whether there was time for all that could make them better.

    Parameters
    ----------
    points : float64 (n, p), C order, more than k.
    prices : a certificate.
    ends : when to end, of the monotonic clock.
    """
    order = _near_order(points)
    search = _Sizes(np.ascontiguousarray(points[order]), k, ends, tick)
    complete = search.look()
    found = np.empty_like(prices)
    found[order] = scaled(search.prices, search.size, k)
    return (found if math.fsum(found) > math.fsum(prices) else prices), complete


def scaled(prices: Floats, size: int, k: int) -> Floats:
    """A certificate of classes of k from one of classes of ``size``, rounded down, float64 (n,)."""
    if size == k:
        return prices
    return lowered(prices * (size * (k - 1)) / (k * (size - 1)), 3)


class _TimeIsOverError(Exception):
    """What was found until now is all."""


@dataclass(frozen=True)
class _Pool:
    """Classes that the program knows; some are never left out."""

    kept: Classes
    classes: Classes

    def renewed(self, taken: NDArray[np.bool_], *more: Classes) -> _Pool:
        """Those that are taken, those that are kept, and more."""
        return _Pool(self.kept, _distinct(np.concatenate([self.classes[taken], self.kept, *more])))


class _Sizes:
    """Certificates of classes of 2, of 3 and so on."""

    def __init__(self, points: Floats, k: int, ends: float, tick: Tick) -> None:
        self._points, self._k, self._ends, self._tick = points, k, ends, tick
        n = len(points)
        self._around, self._apart = np.zeros((n, 1), np.int32), np.zeros((n, 0))
        self._inner = np.zeros((0, n))
        self.prices, self.size = np.zeros(n), 2

    def look(self) -> bool:
        """Find certificates of sizes to k that are worth a search; False where time ended it."""
        points = self._points
        n = len(points)
        try:
            kernel = Neighbours(points, min(self._k, n - 1), keep=True)
            self._run(kernel)
            ids = kernel.ids().reshape(n, -1)
            self._around = np.column_stack([np.arange(n, dtype=np.int32), ids])
            self._apart = np.column_stack(
                [np.square(points[other] - points).sum(axis=1) for other in ids.T]
            )
            for size in range(2, self._k + 1):
                self.prices, self.size = scaled(self.prices, self.size, size), size
                known = math.fsum(self.prices)
                if self._search(size) < _WORTH * known:
                    break
                self._inner = np.concatenate([self._inner, lowered(size * self.prices, 1)[None]])
        except _TimeIsOverError:
            return False
        return True

    def _search(self, size: int) -> float:
        """Look for better prices than those known; tells the sum of those found."""
        prices = self._apart[:, : size - 1].sum(axis=1) / (2 * size)
        cost = _DEARER * size * float(prices.mean())
        if not cost > 0:
            return 0.0  # The nearest cost nothing.
        pool, prices = self._gathered(size, prices, cost)
        best, bar = -math.inf, np.zeros(len(prices))
        for spread in _PRICED if self._wanted(size) else _PRICED[:1]:
            prices, excess = self._fit(pool, prices, spread * cost)
            kernel = Pricing(
                self._points, size, prices, bar, self._inner, -_THRESHOLD * cost, _WANTED, _EFFORT,
                np.zeros((0, 2), np.int32), np.zeros(0),
            )  # fmt: skip
            self._run(kernel)
            found = lowered(prices + kernel.least(), 1)
            best = max(best, math.fsum(found))
            if math.fsum(found) > math.fsum(self.prices):
                self.prices = found
            if math.fsum(found) > (1 - _NEAR_ENOUGH) * math.fsum(prices):
                break
            new = kernel.classes().reshape(-1, size)
            pool = pool.renewed(excess > -_LISTED * spread * cost, new)
        return best

    def _wanted(self, size: int) -> bool:
        """Whether the size's prices may be the answer, and not only help the next size."""
        return size == self._k or self._k > _ALL_LOOKED_INTO <= size + 1

    def _gathered(self, size: int, prices: Floats, cost: float) -> tuple[_Pool, Floats]:
        """Classes to begin with, and prices that they cost nearly."""
        pool = self._near(size)
        centres = self._points
        for spread in _LAST if self._wanted(size) else _BEFORE:
            prices, excess = self._fit(pool, prices, spread * cost)
            if pool.kept is not pool.classes:
                some = pool.classes[excess > -_AROUND * spread * cost]
                centres = self._means(some)
            kernel = Gathering(self._points, size, prices, centres, -_GATHERED * cost)
            self._run(kernel)
            new = kernel.classes().reshape(-1, size)
            pool = pool.renewed(excess > -_LISTED * spread * cost, new)
        return pool, prices

    def _near(self, size: int) -> _Pool:
        """Each record with its nearest others, and with the next one in place of one of them."""
        around = self._around
        kept = _distinct(around[:, :size])
        if around.shape[1] == size:
            return _Pool(kept, kept)
        wide = around[:, : size + 1]
        others = [np.delete(wide, place, axis=1) for place in range(1, size + 1)]
        return _Pool(kept, _distinct(np.concatenate([kept, *others])))

    def _means(self, classes: Classes) -> Floats:
        means = np.zeros((len(classes), self._points.shape[1]))
        for members in classes.T:
            means += self._points[members]
        means /= classes.shape[1]
        return means

    def _fit(self, pool: _Pool, prices: Floats, spread: float) -> tuple[Floats, Floats]:
        kernel = Fitting(self._points, pool.classes, prices, spread, _SWEEPS)
        self._run(kernel)
        return kernel.prices(), kernel.excess()

    def _run(self, kernel: Kernel) -> None:
        done = False
        while not done:
            if time.monotonic() > self._ends:
                raise _TimeIsOverError
            done = kernel.step()
            self._tick(kernel.progress)


def _distinct(classes: Classes) -> Classes:
    """Each class once, its records rising."""
    return np.unique(np.sort(classes, axis=1), axis=0).astype(np.int32)


def _near_order(points: Floats) -> NDArray[np.int64]:
    """The records so that those which lie together follow each other, int64 (n,)."""
    order = np.arange(len(points))
    waiting = [(0, len(points))]
    while waiting:
        begin, end = waiting.pop()
        if end - begin <= _GROUP:
            continue
        part = points[order[begin:end]]
        widest = part[:, np.argmax(part.max(axis=0) - part.min(axis=0))]
        order[begin:end] = order[begin:end][np.argsort(widest, kind="stable")]
        middle = (begin + end) // 2
        waiting += [(begin, middle), (middle, end)]
    return order
