"""Tolls: what a class of a certificate pays that holds two or three records of a triple.

A partition has at most one class with two records or more of a triple, so that each toll is paid
once at most: what its classes cost together is at least all prices less all tolls. Prices may be
higher then. These are the subset-row cuts of M. Jepsen, B. Petersen, S. Spoorendonk and D.
Pisinger, "Subset-row inequalities applied to the vehicle-routing problem with time windows",
Operations Research 56 (2008).

That classes of k stand for larger ones (``certificate.py``) needs a second look. With m = |S|, a
triple that is not wholly in S has two records in m - 2 of the m classes that S is without one of
them, so that

    (m - 1) (y(S) - f(S)) <= m (m - 2)/(m - 1) SSE(S) - f(S) <= (m - 1) SSE(S)

where f(S), what S pays, is of such triples alone. A class around a whole triple that has a toll is
in m of these m classes: those are looked into one by one, up to 2k - 1 records, for a class of 2k
can be cut in two and loses no more. There are few for k = 3, and tolls are for k = 3 alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Triples = NDArray[np.int32]  # (c, 3), rising

# The smallest class that tolls are for.
SIZE = 3
# A triple is taken too often where it is by so much; how many such are looked at a round, and how
# many of one record.
_TOO_OFTEN, _AT_ONCE, _OF_A_RECORD = 0.03, 300, 5
# Triples times records: their distances are kept.
MOST = 2**24
# Nothing is added for a share below this.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Tolls:
    """Triples and the tolls of classes that hold two or three of their records.

    Parameters
    ----------
    triples : int32 (c, 3), each rising, none twice.
    tolls : float64 (c,), 0 or more.
    """

    triples: Triples
    tolls: Floats

    def charged(self) -> Tolls:
        """Those above 0."""
        some = self.tolls > 0
        return Tolls(self.triples[some], self.tolls[some])

    def pairs(self) -> tuple[Triples, Floats]:
        """The pairs of the triples, int32 (3 c, 2), and the toll of each, float64 (3 c,)."""
        pairs = np.concatenate([self.triples[:, two] for two in ([0, 1], [0, 2], [1, 2])])
        return np.ascontiguousarray(pairs), np.tile(self.tolls, 3)

    def paid(self, classes: NDArray[np.integer[Any]], n: int) -> Floats:
        """What classes of n records pay, int (m, s), float64 (m,).

        All pairs in a triple pay; where it is held as a whole, two of its three pairs do not count.
        """
        paid = np.zeros(len(classes))
        if not len(self.tolls) or not len(classes):
            return paid
        ordered = np.sort(classes, axis=1).astype(np.int64)
        pairs, tolls = self.pairs()
        for group, each, width in ((pairs, tolls, 2), (self.triples, -2 * self.tolls, 3)):
            codes, place = np.unique(_codes(group.astype(np.int64), n), return_inverse=True)
            sums = np.bincount(place, each)
            for some in combinations(range(classes.shape[1]), width):
                asked = _codes(ordered[:, some], n)
                at = np.minimum(np.searchsorted(codes, asked), len(codes) - 1)
                paid += np.where(codes[at] == asked, sums[at], 0.0)
        return paid


def no_tolls() -> Tolls:
    """None at all."""
    return Tolls(np.zeros((0, SIZE), np.int32), np.zeros(0))


def _codes(groups: Ints, n: int) -> Ints:
    codes = groups[:, 0]
    for column in groups.T[1:]:
        codes = codes * n + column
    return codes


def taken_too_often(
    classes: list[tuple[int, ...]], taken: Floats, known: set[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Triples of which classes hold two or three records more often than once, the most first.

    Parameters
    ----------
    classes : rising.
    taken : float64, how often each is taken.
    known : triples that need not be told.
    """
    together: defaultdict[tuple[int, ...], float] = defaultdict(float)
    near: dict[int, set[int]] = defaultdict(set)
    for number in np.flatnonzero(taken > _NOTHING):
        share = float(taken[number])
        for two in combinations(classes[number], 2):
            together[two] += share
            near[two[0]].add(two[1])
        for three in combinations(classes[number], 3):
            together[three] -= 2 * share
    found: list[tuple[float, tuple[int, ...]]] = []
    for first, others in near.items():
        for second in others:
            for third in others & near.get(second, set()):
                triple = (first, second, third)
                often = (
                    together[first, second]
                    + together[first, third]
                    + together[second, third]
                    + together[triple]
                )
                if often > 1 + _TOO_OFTEN and triple not in known:
                    found.append((-often, triple))
    found.sort()
    chosen: list[tuple[int, ...]] = []
    times: Counter[int] = Counter()
    for _, one in found:
        if len(chosen) == _AT_ONCE:
            break
        if all(times[record] < _OF_A_RECORD for record in one):
            times.update(one)
            chosen.append(one)
    return chosen


class Around:
    """Classes around whole triples that have tolls: which cost less than they must."""

    def __init__(self, points: Floats) -> None:
        self._points = points
        self._rows: dict[tuple[int, ...], Floats] = {}

    def look(
        self, prices: Floats, tolls: Tolls, error: float
    ) -> tuple[Floats, list[tuple[int, ...]]]:
        """Their least reduced costs by seed, 0 at most, float64 (n,), and those below 0.

        Parameters
        ----------
        error : how much a reduced cost may be rounded up; it is taken off.
        """
        n = len(prices)
        charged = tolls.charged()
        least, found = np.zeros(n), []
        for classes in self._candidates(prices, charged, error):
            members = self._points[classes]
            costs = np.square(members - members.mean(axis=1, keepdims=True)).sum(axis=(1, 2))
            costs += charged.paid(classes, n) - prices[classes].sum(axis=1) - error
            below = costs < 0
            rows = np.arange(int(below.sum()))
            seeds = classes[below][rows, np.argmax(prices[classes[below]], axis=1)]
            np.minimum.at(least, seeds, costs[below])
            found += [tuple(sorted(map(int, one))) for one in classes[below]]
        return least, found

    def _candidates(self, prices: Floats, tolls: Tolls, error: float) -> list[Ints]:
        """Classes of 3, of 4 and of 5 that are not out of the question, each (m, size)."""
        n = len(prices)
        fours, fives = [np.zeros((0, 4), np.int64)], [np.zeros((0, 5), np.int64)]
        triples = tolls.triples.astype(np.int64)
        # What a class around a triple pays is at least what the triple pays.
        given = tolls.paid(tolls.triples, n) - prices[triples].sum(axis=1) - error
        for triple, base in zip(triples, given, strict=True):
            inside, to = self._distances(tuple(map(int, triple)))
            four = base + inside / 4 + to / 4 - prices
            four[triple] = np.inf
            fours.append(_with(triple, np.flatnonzero(four < 0)[:, None]))
            five = to / 5 - prices
            five[triple] = np.inf
            base += inside / 5
            near = np.flatnonzero(base + five + five.min() < 0)
            one, other = np.triu_indices(len(near), 1)
            pairs = np.stack([near[one], near[other]], axis=1)
            pairs = pairs[base + five[pairs].sum(axis=1) < 0]
            apart = np.square(self._points[pairs[:, 0]] - self._points[pairs[:, 1]]).sum(axis=1)
            pairs = pairs[base + five[pairs].sum(axis=1) + apart / 5 < 0]
            fives.append(_with(triple, pairs))
        return [triples, np.concatenate(fours), np.concatenate(fives)]

    def _distances(self, triple: tuple[int, ...]) -> tuple[float, Floats]:
        """The squared distances of a triple's pairs, added up, and those of each record to it."""
        to = self._rows.get(triple)
        if to is None:
            to = np.zeros(len(self._points))
            for record in triple:
                for j in range(self._points.shape[1]):
                    to += np.square(self._points[:, j] - self._points[record, j])
            self._rows[triple] = to
        return float(to[list(triple)].sum()) / 2, to


def _with(triple: Ints, others: Ints) -> Ints:
    """Classes of a triple and some others each."""
    return np.concatenate([np.broadcast_to(triple, (len(others), len(triple))), others], axis=1)
