"""Where records with categories are cut into blocks: between two values of one attribute.

A principal direction says little of values without an order. Records that are alike mostly have the
same sex, and seldom the same of 5,000 places, so that a border between the sexes parts few of them.
Of all borders that leave blocks of about the wanted size, the one is taken that parts the fewest
pairs of near records for each bit that the side tells. Pairs are those of a sample. Numbers are one
attribute here: their first principal direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.mixed import Axis

# A block may have so many times the records of the mean one, and has to have such a part of them.
MOST, LEAST = 1.3, 0.5

# The nearest of some records are looked for among so many: of more records of a table than of a
# part of it, where pairs have become too few.
_AMONG, _NEAREST = 10_000, 5
_OF_TABLE, _OF_PART = 2_000, 250
_FEWEST_PAIRS = 250

# Of distances looked at in one go.
_CELLS = 1 << 21

# What makes equal distances differ, by far less than others do.
_APART = 1e-13


@dataclass(frozen=True)
class Border:
    """A cut between two values.

    Parameters
    ----------
    direction : float64 (p,).
    border : the place along it of the first records that are not below.
    below : the number of blocks below.
    parted : the share of near pairs that it parts, for each bit.
    """

    direction: NDArray[np.float64]
    border: float
    below: int
    parted: float


@dataclass(frozen=True, eq=False)
class MixedCuts:
    """How points are cut whose axes are these.

    Parameters
    ----------
    axes : of each of the p columns of the points.
    levels : of each that has a hierarchy its ``levels_of``.
    size : the records of the mean block.
    principal : the first principal direction of points, float64 (n, q), as float64 (q,).
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
        """Those of axes; None where none that counts has a hierarchy."""
        trees = {at: axis.tree for at, axis in enumerate(axes) if axis.width > 0}
        levels = {at: levels_of(tree) for at, tree in trees.items() if tree is not None}
        return cls(axes, levels, size, principal) if levels else None

    def near(
        self,
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        larger_pairs: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Pairs of near records, int64 (m, 2), of a part of the points.

        Parameters
        ----------
        records : int64 (n,), the part.
        known : those of a larger part that are in it; None where this is the largest.
        """
        if larger_pairs is not None and len(larger_pairs) >= _FEWEST_PAIRS:
            return larger_pairs
        among = records[:: max(len(records) // _AMONG, 1)]
        n_queries = _OF_TABLE if larger_pairs is None else _OF_PART
        queries = np.arange(0, len(among), max(len(among) // n_queries, 1))
        at_once = max(_CELLS // len(among), 1)
        pairs = [
            self._nearest(points[among], queries[start : start + at_once])
            for start in range(0, len(queries), at_once)
        ]
        return among[np.concatenate(pairs)]

    def _nearest(
        self, points: NDArray[np.float64], queries: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Pairs of some records, int64 (q,), and their nearest among these points."""
        squares = np.tile(np.arange(len(points)) * _APART, (len(queries), 1))
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
        count = min(_NEAREST, len(points) - 1)
        nearest = np.argpartition(squares, max(count - 1, 0), axis=1)[:, :count]
        return np.column_stack([np.repeat(queries, count), nearest.reshape(-1)])

    def _leaves(self, at: int, places: NDArray[np.float64]) -> NDArray[np.int64]:
        steps = max(self.levels[at].shape[1] - 1, 1)
        leaves: NDArray[np.int64] = np.rint(places / self.axes[at].width * steps).astype(np.int64)
        return leaves

    def best(
        self,
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        pairs: NDArray[np.int64],
        n_blocks: int,
    ) -> Border | None:
        """The best cut of a part of the points into so many blocks; None without a good one.

        Parameters
        ----------
        records : int64 (n,), the part.
        pairs : int64 (m, 2), near records of it.
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
        """What may be cut across, float64 (p,)."""
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
        """The best border across a direction that leaves blocks of a good size."""
        values, counts = np.unique(along(points, records, direction), return_counts=True)
        low = np.cumsum(counts)[:-1]
        high = len(records) - low
        below = np.clip(np.rint(n_blocks * low / len(records)), 1, n_blocks - 1)
        sizes = np.array([low / below, high / (n_blocks - below)]) / self.size
        least = max(LEAST, 1 / self.size)
        good = (sizes.max(axis=0) <= MOST) & (sizes.min(axis=0) >= least)
        if not good.any():
            return None
        ends = np.sort(np.searchsorted(values, along(points, pairs, direction)), axis=1).T
        passed = np.bincount(ends[0], minlength=len(values)).cumsum()
        passed -= np.bincount(ends[1], minlength=len(values)).cumsum()
        shares = np.array([low, high]) / len(records)
        bits = -(shares * np.log2(shares)).sum(axis=0)
        # One more than were seen: of borders that part nothing the one that tells more is better.
        parted = np.where(good, (passed[:-1] + 1) / (len(pairs) + 1) / bits, np.inf)
        at = int(np.argmin(parted))
        return Border(direction, float(values[at + 1]), int(below[at]), float(parted[at]))


def along(
    points: NDArray[np.float64], records: NDArray[np.int64], direction: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The place of some of the points along a direction, float64, of the shape of ``records``.

    Sums in the order of columns: those of a linear algebra library depend on how many points there
    are, and a record would not go where it went.
    """
    places = np.zeros(records.shape)
    for at, share in enumerate(direction.tolist()):
        if share:
            places += points[records, at] * share
    return places


def levels_of(tree: Hierarchy) -> NDArray[np.int64]:
    """For each height below the root's the highest node up to it above each leaf, int64 (H, L)."""
    nodes = tree.leaves.astype(np.int64)
    levels: list[NDArray[np.int64]] = []
    for height in range(tree.height):
        while (low := tree.heights[parents := tree.parents[nodes]] <= height).any():
            nodes = np.where(low, parents, nodes)
        levels.append(nodes)
    return np.array(levels, np.int64).reshape(tree.height, tree.n_leaves)
