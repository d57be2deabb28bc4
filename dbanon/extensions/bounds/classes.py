"""Class prices: the best possible certificate, computed by column generation.

The linear program covers every record exactly once with fractions of classes of k records, at the
least total SSE. Its dual prices are a certificate once no class costs less than the prices of its
records. There are far too many classes to list, so the program starts with a few (those of existing
partitions and of near neighbours). Given their prices, the kernel ``Pricing`` searches all classes
of k for cheaper ones by branch and bound. These are added and the program is solved again.

For k = 3 the prices are improved by *tolls*: a class that has two or three records of certain
triples pays a toll, and may cost less than its prices by that much (see the module ``tolls``).

The duals of few classes oscillate. We therefore price the midpoint between them and the best
certificate so far: P. Wentges, "Weighted Dantzig-Wolfe decomposition for linear mixed-integer
programming", International Transactions in Operational Research 4 (1997).

Every interrupted search still yields a certificate. The seed of a class is its record with the
highest price. Let m(i) <= 0 be a lower bound of the reduced costs of all classes with seed i. Then
prices y(i) + m(i) are a certificate: in a class S with seed s they add up to at most y(S) + m(s),
which is at most SSE(S). The kernel returns m(i), rounded down, even for seeds it had no time for.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.extensions.bounds.program import OPTIMALITY_GAP, Program
from dbanon.extensions.bounds.tolls import (
    K_WITH_TOLLS,
    MAX_CACHED_DISTANCES,
    SubsetRowDuals,
    TripleSearch,
    empty_duals,
    find_violated_triples,
)
from dbanon.kernels import Neighbours, Pricing
from dbanon.methods.registry import Tick

# A relative safety margin, far above the rounding error of the sums below and of the losses that
# are compared with bounds.
SLACK = 2.0**-40


def relative_error(terms: int) -> float:
    """Bound the relative error of a sum of ``terms`` products of non-negative numbers."""
    # Generous: each operation errs by at most 2^-53, and a sum has two operations per term.
    return float((terms + 64) * 2.0**-50)


def round_down(values: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Compute lower bounds of the exact values, which are sums of ``terms`` terms."""
    return np.asarray(values - (SLACK + relative_error(terms)) * np.abs(values))


def round_up(values: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Compute upper bounds of the exact values, which are sums of ``terms`` terms."""
    return -round_down(-values, terms)


class Pool:
    """The classes found so far, as columns of a set-partitioning program.

    Parameters
    ----------
    points : float64 (n, p).
    """

    def __init__(self, points: Floats) -> None:
        self.program = Program(len(points), min_cover=1.0, max_cover=1.0)
        self.triples = empty_duals().triples
        self._points = points
        self._classes: list[tuple[int, ...]] = []
        self._class_keys: set[tuple[int, ...]] = set()
        self._triples: set[tuple[int, ...]] = set()
        self._cut_rows_by_pair: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)

    def add(self, classes: Iterable[Iterable[int]]) -> int:
        """Add the new ones among these classes, which may have any size; returns their number."""
        new_classes = []
        for members in classes:
            key = tuple(sorted(map(int, members)))
            if key not in self._class_keys:
                self._class_keys.add(key)
                new_classes.append(key)
        if not new_classes:
            return 0
        self._classes += new_classes
        rows_by_class = [(*members, *self._cut_rows_of(members)) for members in new_classes]
        starts = np.cumsum([0, *map(len, rows_by_class[:-1])]).astype(np.int32)
        costs = np.array([self._cost(members) for members in new_classes])
        flat_rows = np.fromiter((row for rows in rows_by_class for row in rows), np.int32)
        self.program.add(flat_rows, starts, costs, upper_bound=math.inf)
        return len(new_classes)

    def add_cuts(self) -> int:
        """Add subset-row cuts (see ``tolls``) that the last solution violates; returns how many."""
        if len(self._triples) * len(self._points) >= MAX_CACHED_DISTANCES:
            return 0
        new_triples = find_violated_triples(
            self._classes, self.program.column_values(), self._triples
        )
        if not new_triples:
            return 0
        columns: dict[tuple[int, ...], list[int]] = {triple: [] for triple in new_triples}
        triples_of_pair: defaultdict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
        for triple in new_triples:
            for pair in combinations(triple, 2):
                triples_of_pair[pair].append(triple)
                # The rows of the program are those of the records, then those of the cuts.
                self._cut_rows_by_pair[pair].append(len(self._points) + len(self._triples))
            self._triples.add(triple)
        for column, members in enumerate(self._classes):
            shared_triples = {
                triple
                for pair in combinations(members, 2)
                for triple in triples_of_pair.get(pair, ())
            }
            for triple in shared_triples:
                columns[triple].append(column)
        column_lists = list(columns.values())
        starts = np.cumsum([0, *map(len, column_lists[:-1])]).astype(np.int32)
        self.program.add_cut_rows(np.concatenate(column_lists).astype(np.int32), starts)
        self.triples = np.concatenate([self.triples, np.array(new_triples, np.int32)])
        return len(new_triples)

    def _cut_rows_of(self, members: tuple[int, ...]) -> set[int]:
        """Return the rows of the cuts whose triple shares two or three records with a class."""
        if not self._cut_rows_by_pair:
            return set()
        return {
            row for pair in combinations(members, 2) for row in self._cut_rows_by_pair.get(pair, ())
        }

    def _cost(self, members: tuple[int, ...]) -> float:
        """Return the SSE of a class."""
        member_points = self._points[list(members)]
        return float(np.square(member_points - member_points.mean(axis=0)).sum())


Floats = NDArray[np.float64]
Classes = NDArray[np.int32]  # (m, k)

# Violations that are smaller than this share of the mean price are ignored.
_MIN_VIOLATION = 1e-7
# Classes returned per seed and round.
_CLASSES_PER_SEED = 3
# Steps of the search from one seed, about a nanosecond each: initially, and at most.
_EFFORT, _MAX_EFFORT = 2**22, 2**27
# Cuts are added once the relative gap between program and certificate is this small.
_MAX_GAP_FOR_CUTS = 1e-3
# If a class has more subclasses of k records, only a cyclic selection of them is added.
_MAX_SUBCLASSES = 300


def compute_class_prices(
    points: Floats,
    k: int,
    start_partitions: Sequence[Partition],
    prices: Floats,
    deadline: float,
    tick: Tick,
) -> tuple[Floats, SubsetRowDuals, bool]:
    """Compute prices, float64 (n,), tolls, and whether they are optimal to within 1e-5.

    Parameters
    ----------
    points : float64 (n, p).
    start_partitions : at least one partition into classes of k or more records.
    prices : a certificate to improve, float64 (n,).
    deadline : the time limit, in seconds of the monotonic clock.
    """
    search = _Search(points, k, start_partitions, prices, tick)
    while True:
        solution = search.pool.program.solve(deadline)
        if solution is None:
            return *search.best, False
        duals, value = solution
        gap = (value - search.bound) / abs(value) if value else 0.0
        if k == K_WITH_TOLLS and gap <= _MAX_GAP_FOR_CUTS and search.pool.add_cuts():
            continue
        if gap <= OPTIMALITY_GAP:
            return *search.best, True
        if not search.add_cheap_classes(duals, value, deadline):
            return *search.best, False


class _Search:
    """The best certificate so far, and the classes in the program."""

    def __init__(
        self,
        points: Floats,
        k: int,
        start_partitions: Sequence[Partition],
        prices: Floats,
        tick: Tick,
    ) -> None:
        self._points, self._k, self._tick = points, k, tick
        self.pool = Pool(points)
        for partition in start_partitions:
            for classes in _generate_subclasses(partition, k):
                self.pool.add(classes)
            # With cuts, fractions of subclasses can no longer stand for a larger class, so add the
            # class itself.
            if k == K_WITH_TOLLS:
                self.pool.add(np.split(partition.members, partition.starts[1:]))
        near_classes, self._neighbour_distance_sums = _find_near_classes(points, k, tick)
        self.pool.add(near_classes)
        # ``Pricing`` takes a row of price bounds for each smaller class size; there are none here.
        self._no_subclass_bounds = np.zeros((0, len(points)))
        self._triple_search = TripleSearch(points)
        self._prices, self._tolls = prices, np.zeros(0)
        self.bound = math.fsum(prices)
        # The steps that the kernel may spend on each seed.
        self._effort = _EFFORT

    @property
    def best(self) -> tuple[Floats, SubsetRowDuals]:
        """Prices and tolls of the best certificate so far."""
        return self._prices, SubsetRowDuals(self.pool.triples[: len(self._tolls)], self._tolls)

    def add_cheap_classes(self, duals: Floats, value: float, deadline: float) -> bool:
        """Add classes that cost less than their prices; False if no progress is possible.

        Parameters
        ----------
        duals : the row duals of the program: of the n records, then of the cuts.
        value : the optimal value of the program.
        """
        n = len(self._points)
        # Price the midpoint between the duals and the best certificate, see the module's docstring.
        # The duals of the cuts are negative, and tolls are their absolute values. The best
        # certificate has no tolls for newer cuts.
        prices = (self._prices + duals[:n]) / 2
        triple_duals = np.maximum(-duals[n:], 0.0)
        triple_duals[: len(self._tolls)] += self._tolls
        tolls = SubsetRowDuals(self.pool.triples, triple_duals / 2)
        threshold = -_MIN_VIOLATION * abs(value) / n
        kernel = Pricing(
            self._points,
            self._k,
            prices,
            self._neighbour_distance_sums,
            self._no_subclass_bounds,
            threshold,
            _CLASSES_PER_SEED,
            self._effort,
            *tolls.select_positive().pairs(),  # The pairs of triples, and their tolls.
        )
        while not kernel.step():
            self._tick(kernel.progress)
            if time.monotonic() > deadline:
                return False
        # Far above the rounding error of a reduced cost: the search below does nothing without
        # tolls, so k is 3 where it matters, and its classes have at most 2k - 1 = 5 records.
        error = SLACK * (np.abs(prices).max() - threshold)
        least_around_triples, triple_classes = self._triple_search.find_violations(
            prices, tolls, error
        )
        # ``least`` returns m(i), the lower bound of the reduced costs, for each seed.
        certified_prices = prices + np.minimum(kernel.least(), least_around_triples)
        n_new_classes = self.pool.add(kernel.classes().reshape(-1, self._k)) + self.pool.add(
            triple_classes
        )
        bound = math.fsum(certified_prices) - math.fsum(tolls.duals)
        if bound > self.bound:
            self._prices, self._tolls, self.bound = certified_prices, tolls.duals, bound
        elif not n_new_classes:
            # Seeds whose search was cut short have bounds that are too low: search longer.
            if self._effort >= _MAX_EFFORT:
                return False
            self._effort *= 4
        return True


def _generate_subclasses(partition: Partition, k: int) -> Iterator[Classes]:
    """Yield subclasses of k records of each class; every record is in equally many of them."""
    for members in np.split(partition.members, partition.starts[1:]):
        class_size = len(members)
        if math.comb(class_size, k) <= _MAX_SUBCLASSES:
            yield np.array(list(combinations(members, k)), np.int32)
        else:
            yield members[(np.arange(class_size)[:, None] + np.arange(k)) % class_size].astype(
                np.int32
            )


def _find_near_classes(points: Floats, k: int, tick: Tick) -> tuple[Classes, Floats]:
    """Find classes of near records, and each record's squared distances to k - 2 neighbours.

    Combines each record with its k - 1 nearest neighbours, and with the k-th in place of one of
    them. The distances to the k - 2 nearest neighbours are added up, float64 (n,).
    """
    n = len(points)
    n_neighbours = min(k, n - 1)
    kernel = Neighbours(points, n_neighbours, keep=True)
    while not kernel.step():
        tick(kernel.progress)
    neighbourhoods = np.column_stack([np.arange(n), kernel.ids().reshape(n, n_neighbours)])
    if n_neighbours < k:
        classes = neighbourhoods
    else:
        classes = np.concatenate(
            [np.delete(neighbourhoods, position, axis=1) for position in range(1, k + 1)]
        )
    offsets = points[neighbourhoods[:, 1 : k - 1]] - points[:, None, :]
    return classes.astype(np.int32), np.square(offsets).sum(axis=(1, 2))
