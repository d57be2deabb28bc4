"""Prices for many records: proportional fitting and pricing for class sizes 2, 3, …, k.

The program is that of ``classes.py``, without its solver. The kernel ``Fitting`` solves a smoothed
version for prices, and ``Gathering`` quickly finds most classes that cost less than their prices.
Both may err: only ``Pricing`` establishes the certificate, as in ``classes.py``: prices y(i) + m(i)
where m(i) <= 0 is a lower bound of the reduced costs of all classes with seed i.

``Pricing`` visits every class of r records from its seed. The certificate for classes of r - 1
bounds the cost of the other r - 1 records: their squared distances add up to (r - 1) SSE, which is
at least r - 1 times their prices. So each size speeds up the next.

A certificate y for classes of r, times r (k - 1)/(k (r - 1)), is one for classes of k > r. A class
S of k has C(k, r) subclasses T of r records. Each of its pairs is in C(k - 2, r - 2) of them, each
record in C(k - 1, r - 1). With r SSE(T) for the squared distances of the pairs of T,

    C(k - 2, r - 2) k SSE(S) = sum of r SSE(T) >= sum of r y(T) = r C(k - 1, r - 1) y(S)

and C(k - 1, r - 1)/C(k - 2, r - 2) = (k - 1)/(r - 1). So smaller sizes yield a certificate for k
when time runs out.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.bounds.classes import round_down
from dbanon.kernels import Fitting, Gathering, Kernel, Neighbours, Pricing
from dbanon.methods.registry import Tick

Floats = NDArray[np.float64]
Classes = NDArray[np.int32]  # (m, r), distinct rows in ascending order

# How much the program is smoothed, as shares of the cost of a class: one value per round.
# While gathering classes of the last size:
_FINAL_SPREADS = (0.05, 0.03, 0.02, 0.01)
# While gathering classes of earlier sizes:
_EARLY_SPREADS = (0.05,)
# While pricing:
_PRICING_SPREADS = (0.01, 0.005, 0.0025)
# Passes of proportional fitting over all records.
_SWEEPS = 80
# The program hardly uses classes that cost this many spreads more than their prices. Beyond the
# first limit they are dropped from the pool; beyond the second, nothing is searched around them.
_SPREADS_TO_KEEP, _SPREADS_TO_SEARCH = 30.0, 6.0
# Violations that are smaller than this share of the cost of a class are ignored.
_MIN_VIOLATION_TO_GATHER, _MIN_VIOLATION = 1e-4, 1e-7
# The most classes returned per seed and round.
_CLASSES_PER_SEED = 3
# The most steps of the search from one seed, about a nanosecond each.
_EFFORT = 2**20
# Pricing stops once the relative gap between certificate and prices is this small.
_PRICING_GAP = 1e-3
# Stop before larger sizes if a search reaches less than this share of the bound it started from:
# too many searches were cut short.
_MIN_PROGRESS = 0.9
# Above this size there are usually too many classes.
_MAX_SEARCHED_SIZE = 6
# Records are ordered by proximity, down to groups of this size.
_GROUP_SIZE = 32
# A class costs about this many times what its nearest neighbours suggest.
_COST_FACTOR = 1.5


def fit_prices(
    points: Floats, k: int, prices: Floats, deadline: float, tick: Tick
) -> tuple[Floats, bool]:
    """Compute prices, float64 (n,), and whether the computation finished in time.

    Parameters
    ----------
    points : float64 (n, p), C order; n is above k.
    prices : a certificate to improve, float64 (n,).
    deadline : the time limit, in seconds of the monotonic clock.
    """
    order = _order_by_proximity(points)
    search = _SizeSearch(np.ascontiguousarray(points[order]), k, deadline, tick)
    is_complete = search.search_sizes()
    new_prices = np.empty_like(prices)
    new_prices[order] = scale_prices(search.prices, search.size, k)
    return (new_prices if math.fsum(new_prices) > math.fsum(prices) else prices), is_complete


def scale_prices(prices: Floats, size: int, k: int) -> Floats:
    """Convert a certificate for classes of ``size`` to one for k, rounded down, float64 (n,)."""
    if size == k:
        return prices
    return round_down(prices * (size * (k - 1)) / (k * (size - 1)), 3)


class _OutOfTimeError(Exception):
    """The deadline has passed; results so far remain valid."""


@dataclass(frozen=True)
class _Pool:
    """The classes in the program.

    Parameters
    ----------
    permanent_classes : classes that are never dropped.
    classes : all classes, including permanent ones.
    """

    permanent_classes: Classes
    classes: Classes

    def with_changes(self, is_used: NDArray[np.bool_], *cheap_classes: Classes) -> _Pool:
        """Return a pool of the used classes, the permanent ones, and new ones.

        Parameters
        ----------
        is_used : bool (m,), True for each of ``classes`` to keep.
        cheap_classes : the new classes, which cost less than their prices.
        """
        return _Pool(
            self.permanent_classes,
            _remove_duplicates(
                np.concatenate([self.classes[is_used], self.permanent_classes, *cheap_classes])
            ),
        )


class _SizeSearch:
    """A search for certificates for classes of 2 records, of 3, and so on."""

    def __init__(self, points: Floats, k: int, deadline: float, tick: Tick) -> None:
        self._points, self._k, self._deadline, self._tick = points, k, deadline, tick
        n = len(points)
        # Set by ``search_sizes``: each record and its nearest neighbours, and their distances.
        self._neighbours, self._distances = np.zeros((n, 1), np.int32), np.zeros((n, 0))
        # For ``Pricing``: a row for each smaller size, with size times the certified prices.
        self._subclass_bounds = np.zeros((0, n))
        self.prices, self.size = np.zeros(n), 2

    def search_sizes(self) -> bool:
        """Compute certificates for classes of 2, 3, … k records; False if time ran out.

        Stops before k if too many searches are cut short, see ``_MIN_PROGRESS``.
        """
        points = self._points
        n = len(points)
        try:
            kernel = Neighbours(points, min(self._k, n - 1), keep=True)
            self._run(kernel)
            neighbour_ids = kernel.ids().reshape(n, -1)
            self._neighbours = np.column_stack([np.arange(n, dtype=np.int32), neighbour_ids])
            self._distances = np.column_stack(
                [np.square(points[neighbour] - points).sum(axis=1) for neighbour in neighbour_ids.T]
            )
            for size in range(2, self._k + 1):
                self.prices, self.size = scale_prices(self.prices, self.size, size), size
                scaled_bound = math.fsum(self.prices)
                if self._search_size(size) < _MIN_PROGRESS * scaled_bound:
                    break
                self._subclass_bounds = np.concatenate(
                    [self._subclass_bounds, round_down(size * self.prices, 1)[None]]
                )
        except _OutOfTimeError:
            return False
        return True

    def _search_size(self, size: int) -> float:
        """Improve the prices for a class size; returns the best sum of certified prices."""
        # The prices of the method ``neighbours``, see ``certificate.py``.
        prices = self._distances[:, : size - 1].sum(axis=1) / (2 * size)
        cost = _COST_FACTOR * size * float(prices.mean())
        if not cost > 0:
            return 0.0  # Nearest neighbours coincide.
        pool, prices = self._gather(size, prices, cost)
        # ``Pricing`` can also use the sums of distances to near records; zeros are always valid.
        best_sum, no_near_sums = -math.inf, np.zeros(len(prices))
        for spread in _PRICING_SPREADS if self._may_be_final(size) else _PRICING_SPREADS[:1]:
            prices, excess = self._fit(pool, prices, spread * cost)
            kernel = Pricing(
                self._points,
                size,
                prices,
                no_near_sums,
                self._subclass_bounds,
                -_MIN_VIOLATION * cost,
                _CLASSES_PER_SEED,
                _EFFORT,
                np.zeros((0, 2), np.int32),  # No pairs of records with tolls.
                np.zeros(0),
            )
            self._run(kernel)
            # ``least`` returns m(i), see the module's docstring.
            certified_prices = round_down(prices + kernel.least(), 1)
            best_sum = max(best_sum, math.fsum(certified_prices))
            if math.fsum(certified_prices) > math.fsum(self.prices):
                self.prices = certified_prices
            if math.fsum(certified_prices) > (1 - _PRICING_GAP) * math.fsum(prices):
                break
            cheap_classes = kernel.classes().reshape(-1, size)
            # ``excess`` is prices minus cost: keep classes that cost little more than their prices.
            pool = pool.with_changes(excess > -_SPREADS_TO_KEEP * spread * cost, cheap_classes)
        return best_sum

    def _may_be_final(self, size: int) -> bool:
        """Whether the prices of this size may be the result rather than help the next size."""
        if size == self._k:
            return True
        return self._k > _MAX_SEARCHED_SIZE and size + 1 >= _MAX_SEARCHED_SIZE

    def _gather(self, size: int, prices: Floats, cost: float) -> tuple[_Pool, Floats]:
        """Gather initial classes, and compute prices close to their costs."""
        pool = self._build_near_pool(size)
        centers = self._points
        for spread in _FINAL_SPREADS if self._may_be_final(size) else _EARLY_SPREADS:
            prices, excess = self._fit(pool, prices, spread * cost)
            # Search around the classes that the program uses. If the pool has only its permanent
            # classes (then both arrays are the same), search around all records instead.
            if pool.permanent_classes is not pool.classes:
                candidates = pool.classes[excess > -_SPREADS_TO_SEARCH * spread * cost]
                centers = self._compute_means(candidates)
            kernel = Gathering(
                self._points, size, prices, centers, -_MIN_VIOLATION_TO_GATHER * cost
            )
            self._run(kernel)
            cheap_classes = kernel.classes().reshape(-1, size)
            pool = pool.with_changes(excess > -_SPREADS_TO_KEEP * spread * cost, cheap_classes)
        return pool, prices

    def _build_near_pool(self, size: int) -> _Pool:
        """Combine each record with its nearest neighbours, and with the next one swapped in."""
        neighbours = self._neighbours
        nearest_classes = _remove_duplicates(neighbours[:, :size])
        if neighbours.shape[1] == size:
            return _Pool(nearest_classes, nearest_classes)
        one_more = neighbours[:, : size + 1]
        variants = [np.delete(one_more, position, axis=1) for position in range(1, size + 1)]
        return _Pool(
            nearest_classes, _remove_duplicates(np.concatenate([nearest_classes, *variants]))
        )

    def _compute_means(self, classes: Classes) -> Floats:
        """Compute the mean of each class, float64 (m, p)."""
        means = np.zeros((len(classes), self._points.shape[1]))
        for members in classes.T:
            means += self._points[members]
        means /= classes.shape[1]
        return means

    def _fit(self, pool: _Pool, prices: Floats, spread: float) -> tuple[Floats, Floats]:
        """Improve prices, float64 (n,), so that the classes of the pool cost about their prices.

        Also returns the excess of each class, float64 (m,): the prices of its records minus its
        cost.

        Parameters
        ----------
        spread : how much the program is smoothed, in units of the cost.
        """
        kernel = Fitting(self._points, pool.classes, prices, spread, _SWEEPS)
        self._run(kernel)
        return kernel.prices(), kernel.excess()

    def _run(self, kernel: Kernel) -> None:
        """Run a kernel to its end; raises _OutOfTimeError."""
        done = False
        while not done:
            if time.monotonic() > self._deadline:
                raise _OutOfTimeError
            done = kernel.step()
            self._tick(kernel.progress)


def _remove_duplicates(classes: Classes) -> Classes:
    """Return the distinct classes, each with its records in ascending order."""
    return np.unique(np.sort(classes, axis=1), axis=0).astype(np.int32)


def _order_by_proximity(points: Floats) -> NDArray[np.int64]:
    """Order the records such that near ones stay together, int64 (n,)."""
    order = np.arange(len(points))
    ranges = [(0, len(points))]
    while ranges:
        begin, end = ranges.pop()
        if end - begin <= _GROUP_SIZE:
            continue
        group = points[order[begin:end]]
        widest_column = group[:, np.argmax(group.max(axis=0) - group.min(axis=0))]
        order[begin:end] = order[begin:end][np.argsort(widest_column, kind="stable")]
        middle = (begin + end) // 2
        ranges += [(begin, middle), (middle, end)]
    return order
