"""Prices by classes: the best that a certificate can be, found by column generation.

The linear program takes classes of k records so often that every record is taken once, at the least
sum of SSE. Its prices are a certificate once no class costs less than its prices. There are far too
many classes to list. So a few are (those of partitions at hand, and of near neighbours), and with
the prices of these the kernel ``Pricing`` looks for classes that cost less, by branch and bound
over all classes of k. They are added, and all begins anew.

Prices of a few classes jump. What is priced is therefore half way between them and the best
certificate so far, which has no lack: P. Wentges, "Weighted Dantzig-Wolfe decomposition for linear
mixed-integer programming", International Transactions in Operational Research 4 (1997).

A certificate at any stop: let m(i) <= 0 be at most the least reduced cost of the classes whose seed
is i, their member of the highest price. Prices y(i) + m(i) are a certificate, for in a class S with
seed s the prices add up to y(S) + m(s) at most, which is at most SSE(S). The kernel tells m(i) also
of seeds that it was too little time for, and rounds it down.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dbanon.bounds.program import NEAR_ENOUGH, Program
from dbanon.bounds.tolls import MOST, SIZE, Around, Tolls, no_tolls, taken_too_often
from dbanon.data.partition import Partition
from dbanon.kernels import Neighbours, Pricing
from dbanon.methods.registry import Tick

# Far more than the rounding of a few operations, and of the measures that bounds stand beside.
SLACK = 2.0**-40


def error_of(terms: int) -> float:
    """The relative error of a sum of so many products of numbers that are 0 or more, and more."""
    return float((terms + 64) * 2.0**-50)


def lowered(values: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Below the exact values, whose terms were so many."""
    return np.asarray(values - (SLACK + error_of(terms)) * np.abs(values))


def raised(values: NDArray[np.float64], terms: int) -> NDArray[np.float64]:
    """Above the exact values, whose terms were so many."""
    return -lowered(-values, terms)


class Pool:
    """A program that takes every record once, by classes.

    Parameters
    ----------
    points : float64 (n, p).
    """

    def __init__(self, points: Floats) -> None:
        self.program = Program(len(points), 1.0, 1.0)
        self.triples = no_tolls().triples
        self._points = points
        self._classes: list[tuple[int, ...]] = []
        self._known: set[tuple[int, ...]] = set()
        self._triples: set[tuple[int, ...]] = set()
        self._cuts_of: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)

    def add(self, classes: Iterable[Iterable[int]]) -> int:
        """Add classes of any sizes that are new; tells how many."""
        new = []
        for one in classes:
            name = tuple(sorted(map(int, one)))
            if name not in self._known:
                self._known.add(name)
                new.append(name)
        if not new:
            return 0
        self._classes += new
        rows = [(*one, *self._rows_of(one)) for one in new]
        starts = np.cumsum([0, *(len(one) for one in rows[:-1])]).astype(np.int32)
        costs = np.array([self._cost(one) for one in new])
        flat = np.fromiter((row for one in rows for row in one), np.int32)
        self.program.add(flat, starts, costs, math.inf)
        return len(new)

    def cut(self) -> int:
        """Limit triples that the last solution takes more often than once; tells how many."""
        if len(self._triples) * len(self._points) >= MOST:
            return 0
        found = taken_too_often(self._classes, self.program.taken(), self._triples)
        if not found:
            return 0
        columns: dict[tuple[int, ...], list[int]] = {triple: [] for triple in found}
        of_pair: defaultdict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
        for triple in found:
            for two in combinations(triple, 2):
                of_pair[two].append(triple)
                self._cuts_of[two].append(len(self._points) + len(self._triples))
            self._triples.add(triple)
        for number, one in enumerate(self._classes):
            held = {triple for two in combinations(one, 2) for triple in of_pair.get(two, ())}
            for triple in held:
                columns[triple].append(number)
        taken = list(columns.values())
        starts = np.cumsum([0, *(len(one) for one in taken[:-1])]).astype(np.int32)
        self.program.limit(np.concatenate(taken).astype(np.int32), starts)
        self.triples = np.concatenate([self.triples, np.array(found, np.int32)])
        return len(found)

    def _rows_of(self, one: tuple[int, ...]) -> set[int]:
        """The rows of the triples of which a class holds two or three records."""
        if not self._cuts_of:
            return set()
        return {row for two in combinations(one, 2) for row in self._cuts_of.get(two, ())}

    def _cost(self, one: tuple[int, ...]) -> float:
        members = self._points[list(one)]
        return float(np.square(members - members.mean(axis=0)).sum())


Floats = NDArray[np.float64]
Classes = NDArray[np.int32]  # (m, k)

# Classes that cost so little less than the mean price are none.
_THRESHOLD = 1e-7
# How many classes a seed gives a round.
_WANTED = 3
# The steps of a search from one seed, about a nanosecond each: at first, and at most.
_EFFORT, _MOST_EFFORT = 2**22, 2**27
# Tolls are asked for where the certificate is so near to the program, relatively.
_NEAR_CUTS = 1e-3
# Of how many classes of k a larger one is made at most.
_MOST_PARTS = 300


def class_prices(
    points: Floats,
    k: int,
    start: Sequence[Partition],
    prices: Floats,
    ends: float,
    tick: Tick,
) -> tuple[Floats, Tolls, bool]:
    """Prices, float64 (n,), tolls, and whether they are the best there are, nearly.

    Parameters
    ----------
    start : partitions into classes of k or more, one at least.
    prices : a certificate.
    ends : when to end, of the monotonic clock.
    """
    search = _Search(points, k, start, prices, tick)
    while True:
        solved = search.pool.program.solve(ends)
        if solved is None:
            return *search.best, False
        found, value = solved
        gap = (value - search.bound) / abs(value) if value else 0.0
        if k == SIZE and gap <= _NEAR_CUTS and search.pool.cut():
            continue
        if gap <= NEAR_ENOUGH:
            return *search.best, True
        if not search.price(found, value, ends):
            return *search.best, False


class _Search:
    """The best certificate so far, and the classes that the program knows."""

    def __init__(
        self,
        points: Floats,
        k: int,
        start: Sequence[Partition],
        prices: Floats,
        tick: Tick,
    ) -> None:
        self._points, self._k, self._tick = points, k, tick
        self.pool = Pool(points)
        for one in start:
            for part in _parts(one, k):
                self.pool.add(part)
            if k == SIZE:
                self.pool.add(np.split(one.members, one.starts[1:]))
        near, self._bars = _near(points, k, tick)
        self.pool.add(near)
        self._no_inner = np.zeros((0, len(points)))
        self._around = Around(points)
        self._prices, self._tolls = prices, np.zeros(0)
        self.bound = math.fsum(prices)
        self._effort = _EFFORT

    @property
    def best(self) -> tuple[Floats, Tolls]:
        """Prices and tolls."""
        return self._prices, Tolls(self.pool.triples[: len(self._tolls)], self._tolls)

    def price(self, found: Floats, value: float, ends: float) -> bool:
        """Look for classes that cost less than what the program found; False to end the search."""
        n = len(self._points)
        prices = (self._prices + found[:n]) / 2
        each = np.maximum(-found[n:], 0.0)
        each[: len(self._tolls)] += self._tolls
        tolls = Tolls(self.pool.triples, each / 2)
        threshold = -_THRESHOLD * abs(value) / n
        kernel = Pricing(
            self._points, self._k, prices, self._bars, self._no_inner, threshold, _WANTED,
            self._effort, *tolls.charged().pairs(),
        )  # fmt: skip
        while not kernel.step():
            self._tick(kernel.progress)
            if time.monotonic() > ends:
                return False
        # Far more than the rounding of a class of five and its distances.
        error = SLACK * (np.abs(prices).max() - threshold)
        least, around = self._around.look(prices, tolls, error)
        better = prices + np.minimum(kernel.least(), least)
        new = self.pool.add(kernel.classes().reshape(-1, self._k)) + self.pool.add(around)
        bound = math.fsum(better) - math.fsum(tolls.tolls)
        if bound > self.bound:
            self._prices, self._tolls, self.bound = better, tolls.tolls, bound
        elif not new:
            # Of seeds that were not looked into to the end too much was said to be possible.
            if self._effort >= _MOST_EFFORT:
                return False
            self._effort *= 4
        return True


def _parts(partition: Partition, k: int) -> Iterator[Classes]:
    """Classes of k that make up those of a partition: taken in equal shares they take each once."""
    for members in np.split(partition.members, partition.starts[1:]):
        size = len(members)
        if math.comb(size, k) <= _MOST_PARTS:
            yield np.array(list(combinations(members, k)), np.int32)
        else:
            yield members[(np.arange(size)[:, None] + np.arange(k)) % size].astype(np.int32)


def _near(points: Floats, k: int, tick: Tick) -> tuple[Classes, Floats]:
    """Classes of near records, and the sums of the squared distances to the k - 2 nearest others.

    Each record with its nearest others, and with one more of them instead of another one.
    """
    n = len(points)
    count = min(k, n - 1)
    kernel = Neighbours(points, count, keep=True)
    while not kernel.step():
        tick(kernel.progress)
    around = np.column_stack([np.arange(n), kernel.ids().reshape(n, count)])
    if count < k:
        classes = around
    else:
        classes = np.concatenate([np.delete(around, place, axis=1) for place in range(1, k + 1)])
    apart = points[around[:, 1 : k - 1]] - points[:, None, :]
    return classes.astype(np.int32), np.square(apart).sum(axis=(1, 2))
