"""Cuts of records with categories into blocks: between two values of one attribute.

A principal direction says little about values without an order. Similar records usually have the
same sex, but rarely the same one of 5,000 places, so a border between the sexes separates few of
them. Of all borders that leave blocks of about the intended size, the best one separates the fewest
pairs of near records per bit of information about a record, which is the entropy of its side. Pairs
are taken from a sample. All numeric attributes count as one here: their first principal direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.mixed import Axis

# Largest and smallest size of a block, as multiples of the mean size.
MOST_OF_MEAN, LEAST_OF_MEAN = 1.3, 0.5

# Near pairs are some records with their nearest neighbours among candidates. A part of the table
# reuses the pairs of the larger part; if they are too few, it searches again for fewer records.
_CANDIDATES, _NEIGHBOURS = 10_000, 5
_QUERIES_OF_TABLE, _QUERIES_OF_PART = 2_000, 250
_FEWEST_PAIRS = 250

# Number of distances computed at a time.
_DISTANCES_PER_BATCH = 1 << 21

# Added per position to squared distances, so that equal ones are ordered by position.
_TIE_BREAK = 1e-13


@dataclass(frozen=True)
class Border:
    """A cut between two values.

    Parameters
    ----------
    direction : float64 (p,).
    border : the coordinate along the direction of the first records that are not below the cut.
    below : the number of blocks below.
    parted : the share of near pairs that it separates, per bit.
    """

    direction: NDArray[np.float64]
    border: float
    below: int
    parted: float


@dataclass(frozen=True, eq=False)
class MixedCuts:
    """Finds the best cut of points with these axes.

    Parameters
    ----------
    axes : the axis of each of the p columns of the points.
    levels : the result of ``ancestors_by_height`` by column, for columns with a hierarchy.
    size : the mean number of records per block.
    principal : returns the first principal direction, float64 (q,), of points, float64 (n, q).
    """

    axes: tuple[Axis, ...]
    levels: dict[int, NDArray[np.int64]]
    size: float
    principal: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    @classmethod
    def of(
        cls,
        axes: tuple[Axis, ...],
        size: float,
        principal: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> MixedCuts | None:
        """Build the cuts for these axes; None if no axis of positive width has a hierarchy."""
        trees = {at: axis.tree for at, axis in enumerate(axes) if axis.width > 0}
        levels = {at: ancestors_by_height(tree) for at, tree in trees.items() if tree is not None}
        return cls(axes, levels, size, principal) if levels else None

    def find_near_pairs(
        self,
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        larger_pairs: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Pairs of near records, int64 (m, 2), in a part of the points.

        Parameters
        ----------
        records : int64 (n,), the part.
        larger_pairs : the pairs of a larger part that are in this one; None for all records.
        """
        if larger_pairs is not None and len(larger_pairs) >= _FEWEST_PAIRS:
            return larger_pairs
        candidates = records[:: max(len(records) // _CANDIDATES, 1)]
        n_queries = _QUERIES_OF_TABLE if larger_pairs is None else _QUERIES_OF_PART
        queries = np.arange(0, len(candidates), max(len(candidates) // n_queries, 1))
        per_batch = max(_DISTANCES_PER_BATCH // len(candidates), 1)
        pairs = [
            self._nearest(points[candidates], queries[start : start + per_batch])
            for start in range(0, len(queries), per_batch)
        ]
        return candidates[np.concatenate(pairs)]

    def _nearest(
        self, points: NDArray[np.float64], queries: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Pairs of some of the points, int64 (q,), and their nearest neighbours among all."""
        squares = np.tile(np.arange(len(points)) * _TIE_BREAK, (len(queries), 1))
        for at, axis in enumerate(self.axes):
            column = points[:, at]
            if at in self.levels:
                leaves = self._leaves(at, column)
                height = len(self.levels[at])
                for step, nodes in enumerate(self.levels[at][:, leaves]):
                    weight = axis.width**2 * (2 * step + 1) / height**2
                    squares += weight * (nodes != nodes[queries, None])
            elif axis.tree is None:
                squares += np.square(column - column[queries, None])
        squares[np.arange(len(queries)), queries] = np.inf
        count = min(_NEIGHBOURS, len(points) - 1)
        nearest = np.argpartition(squares, max(count - 1, 0), axis=1)[:, :count]
        return np.column_stack([np.repeat(queries, count), nearest.reshape(-1)])

    def _leaves(self, at: int, places: NDArray[np.float64]) -> NDArray[np.int64]:
        steps = max(self.levels[at].shape[1] - 1, 1)
        leaves: NDArray[np.int64] = np.rint(places / self.axes[at].width * steps).astype(np.int64)
        return leaves

    def find_best_border(
        self,
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        pairs: NDArray[np.int64],
        n_blocks: int,
    ) -> Border | None:
        """The best cut of a part of the points into this many blocks; None if no size fits.

        Parameters
        ----------
        records : int64 (n,), the part.
        pairs : int64 (m, 2), near records in it.
        """
        borders = [
            border
            for direction in self._directions(points, records)
            if (border := self._border(direction, points, records, pairs, n_blocks)) is not None
        ]
        return min(borders, key=lambda border: border.parted, default=None)

    def _directions(
        self, points: NDArray[np.float64], records: NDArray[np.int64]
    ) -> Iterator[NDArray[np.float64]]:
        """The directions that may be cut across, float64 (p,) each."""
        numbers = np.flatnonzero([axis.tree is None for axis in self.axes])
        if len(numbers):
            direction = np.zeros(len(self.axes))
            direction[numbers] = self.principal(points[np.ix_(records, numbers)])
            yield direction
        for at in self.levels:
            direction = np.zeros(len(self.axes))
            direction[at] = 1.0
            yield direction

    def _border(
        self,
        direction: NDArray[np.float64],
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        pairs: NDArray[np.int64],
        n_blocks: int,
    ) -> Border | None:
        """The best border across a direction, among those that leave blocks of allowed sizes."""
        values, counts = np.unique(
            coordinates_along(points, records, direction), return_counts=True
        )
        n_below = np.cumsum(counts)[:-1]
        n_above = len(records) - n_below
        below = np.clip(np.rint(n_blocks * n_below / len(records)), 1, n_blocks - 1)
        sizes = np.array([n_below / below, n_above / (n_blocks - below)]) / self.size
        least = max(LEAST_OF_MEAN, 1 / self.size)
        good = (sizes.max(axis=0) <= MOST_OF_MEAN) & (sizes.min(axis=0) >= least)
        if not good.any():
            return None
        ends = np.sort(
            np.searchsorted(values, coordinates_along(points, pairs, direction)), axis=1
        ).T
        passed = np.bincount(ends[0], minlength=len(values)).cumsum()
        passed -= np.bincount(ends[1], minlength=len(values)).cumsum()
        shares = np.array([n_below, n_above]) / len(records)
        bits = -(shares * np.log2(shares)).sum(axis=0)
        # Add one pair, so that of borders that separate none, the one with more bits is better.
        parted = np.where(good, (passed[:-1] + 1) / (len(pairs) + 1) / bits, np.inf)
        at = int(np.argmin(parted))
        return Border(direction, float(values[at + 1]), int(below[at]), float(parted[at]))


def coordinates_along(
    points: NDArray[np.float64], records: NDArray[np.int64], direction: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The coordinates of some points along a direction, float64, in the shape of ``records``.

    Terms are added in the order of columns: the sums of a linear algebra library depend on the
    number of points, so a record could change sides.
    """
    places = np.zeros(records.shape)
    for at, share in enumerate(direction.tolist()):
        if share:
            places += points[records, at] * share
    return places


def ancestors_by_height(tree: Hierarchy) -> NDArray[np.int64]:
    """The highest ancestor of each leaf up to each height below the root's, int64 (H, L)."""
    nodes = tree.leaves.astype(np.int64)
    levels: list[NDArray[np.int64]] = []
    for height in range(tree.height):
        while (low := tree.heights[parents := tree.parents[nodes]] <= height).any():
            nodes = np.where(low, parents, nodes)
        levels.append(nodes)
    return np.array(levels, np.int64).reshape(tree.height, tree.n_leaves)
