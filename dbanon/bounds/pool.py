"""The classes that a linear program knows, and the triples that it takes once at most."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dbanon.bounds.program import Program
from dbanon.bounds.subset_duals import MOST, no_tolls, taken_too_often

Floats = NDArray[np.float64]


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
