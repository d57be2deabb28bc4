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
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dbanon.bounds.program import NEAR_ENOUGH, Programs
from dbanon.data.partition import Partition
from dbanon.kernels import Neighbours, Pricing
from dbanon.methods.registry import Tick

Floats = NDArray[np.float64]
Classes = NDArray[np.int32]  # (m, k)

# Classes that cost so little less than the mean price are none.
_THRESHOLD = 1e-7
# How many classes a seed gives a round.
_WANTED = 3
# The steps of a search from one seed, about a nanosecond each: at first, and at most.
_EFFORT, _MOST_EFFORT = 2**22, 2**27
# Of how many classes of k a larger one is made at most.
_MOST_PARTS = 300


def class_prices(
    points: Floats,
    k: int,
    start: Sequence[Partition],
    prices: Floats,
    programs: Programs,
    ends: float,
    tick: Tick,
) -> tuple[Floats, bool]:
    """Prices, float64 (n,), and whether they are the best there are, but for a hundred-thousandth.

    Parameters
    ----------
    start : partitions into classes of k or more, one at least.
    prices : a certificate.
    ends : when to end, of the monotonic clock.
    """
    pool = _Pool(points, programs)
    pool.add(np.concatenate([part for one in start for part in _parts(one, k)]))
    near, bars = _near(points, k, tick)
    pool.add(near)
    best, bound, effort = prices, math.fsum(prices), _EFFORT
    while True:
        solved = pool.program.solve(ends)
        if solved is None:
            return best, False
        found, value = solved
        if value - bound <= NEAR_ENOUGH * abs(value):
            return best, True
        between = (best + found) / 2
        threshold = -_THRESHOLD * abs(value) / len(points)
        kernel = Pricing(points, k, between, bars, threshold, _WANTED, effort)
        while not kernel.step():
            tick(kernel.progress)
            if time.monotonic() > ends:
                return best, False
        better = between + kernel.least()
        if math.fsum(better) > bound:
            best, bound = better, math.fsum(better)
            pool.add(kernel.classes().reshape(-1, k))
        elif not pool.add(kernel.classes().reshape(-1, k)):
            # Of seeds that were not looked into to the end too much was said to be possible.
            if effort >= _MOST_EFFORT:
                return best, False
            effort *= 4


class _Pool:
    """The classes that the program knows."""

    def __init__(self, points: Floats, programs: Programs) -> None:
        self.program = programs(len(points), 1.0, 1.0)
        self._points = points
        self._known: set[bytes] = set()

    def add(self, classes: Classes) -> int:
        """Add those that are new; tells how many."""
        classes = np.sort(classes, axis=1).astype(np.int32)
        new = []
        for number, one in enumerate(classes):
            name = one.tobytes()
            if name not in self._known:
                self._known.add(name)
                new.append(number)
        if new:
            members = self._points[classes[new]]
            costs = np.square(members - members.mean(axis=1, keepdims=True)).sum(axis=(1, 2))
            self.program.add(classes[new], costs, math.inf)
        return len(new)


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
