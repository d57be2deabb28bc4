"""Where records with categories are cut into blocks: between two values of one attribute.

A principal direction says little of values without an order. Records that are alike have most often
the same sex and seldom the same of 5,000 places, so that a border between the values of an
attribute that has few parts the fewest of them. Each cut is where the mean squared distance of two
records falls most, of this attribute and within the sides, for each bit that the side tells: as in
regression trees (L. Breiman et al., CART, 1984), whose borders lie anywhere, while these leave
blocks of about the wanted size. Numbers are one attribute here: their first principal direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.mixed import Axis

# A block may have so many times the records of the mean one, and has to have such a part of them.
MOST, LEAST = 1.3, 0.5


@dataclass(frozen=True)
class Border:
    """A cut between two values.

    Parameters
    ----------
    direction : float64 (p,).
    border : the place along it of the first records that are not below.
    below : the number of blocks below.
    gain : by how much the mean squared distance falls, for each bit.
    """

    direction: NDArray[np.float64]
    border: float
    below: int
    gain: float


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
    ) -> MixedCuts:
        """Those of axes, of which some have a hierarchy."""
        trees = {at: axis.tree for at, axis in enumerate(axes) if axis.width > 0}
        levels = {at: levels_of(tree) for at, tree in trees.items() if tree is not None}
        return cls(axes, levels, size, principal)

    def best(self, points: NDArray[np.float64], wanted: int) -> Border | None:
        """The best cut of some points, float64 (n, p), into so many blocks; None without any."""
        found = [border for border in self._borders(points, wanted) if border is not None]
        return max(found, key=lambda border: border.gain, default=None)

    def _borders(self, points: NDArray[np.float64], wanted: int) -> Iterator[Border | None]:
        """The best one of each attribute, of numbers together."""
        numbers = [at for at, axis in enumerate(self.axes) if axis.tree is None]
        if numbers:
            direction = np.zeros(len(self.axes))
            direction[numbers] = self.principal(points[:, numbers])
            along = np.zeros(len(points))
            # As a record's place is found later on: column by column.
            for column, share in zip(points.T, direction, strict=True):
                along += column * share
            values, counts = np.unique(along, return_counts=True)
            within = _within_number(values - along.mean(), counts)
            yield self._border(direction, values, counts, within, wanted)
        for at, levels in self.levels.items():
            width = self.axes[at].width
            values, counts = np.unique(points[:, at], return_counts=True)
            leaves = np.rint(values / width * max(levels.shape[1] - 1, 1)).astype(np.int64)
            nodes = levels[:, leaves]
            below, above = (_within_tree(nodes[:, ::s], counts[::s]) * width**2 for s in (1, -1))
            direction = np.zeros(len(self.axes))
            direction[at] = 1.0
            yield self._border(direction, values, counts, (below, above[::-1]), wanted)

    def _border(
        self,
        direction: NDArray[np.float64],
        values: NDArray[np.float64],
        counts: NDArray[np.int64],
        within: tuple[NDArray[np.float64], NDArray[np.float64]],
        wanted: int,
    ) -> Border | None:
        """The best border between the values, float64 (v,), that leaves blocks of a good size.

        Parameters
        ----------
        counts : int64 (v,), of each.
        within : float64 (v,), squared distances of all pairs of records up to each value; from it.
        """
        n = int(counts.sum())
        low = np.cumsum(counts)[:-1]
        high = n - low
        below = np.clip(np.rint(wanted * low / n), 1, wanted - 1)
        sizes = np.array([low / below, high / (wanted - below)]) / self.size
        good = (sizes.max(axis=0) <= MOST) & (sizes.min(axis=0) >= max(LEAST, 1 / self.size))
        if not good.any():
            return None
        shares = np.array([low, high]) / n
        bits = -(shares * np.log2(shares)).sum(axis=0)
        left = (within[0][:-1] / low + within[1][1:] / high) / n
        gains = np.where(good, (within[0][-1] / n**2 - left) / bits, -np.inf)
        at = int(np.argmax(gains))
        return Border(direction, float(values[at + 1]), int(below[at]), float(gains[at]))


def levels_of(tree: Hierarchy) -> NDArray[np.int64]:
    """For each height below the root's the highest node up to it above each leaf, int64 (H, L)."""
    nodes = tree.leaves.astype(np.int64)
    found: list[NDArray[np.int64]] = []
    for height in range(tree.height):
        while (low := tree.heights[parents := tree.parents[nodes]] <= height).any():
            nodes = np.where(low, parents, nodes)
        found.append(nodes)
    return np.array(found, np.int64).reshape(tree.height, tree.n_leaves)


def _within_number(
    values: NDArray[np.float64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Squared distances of all pairs of records up to each value, and from it, float64 (v,)."""

    def up_to(values: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
        n, sums, squares = (np.cumsum(counts * values**power) for power in (0, 1, 2))
        found: NDArray[np.float64] = 2 * np.maximum(n * squares - sums**2, 0)
        return found

    return up_to(values, counts), up_to(values[::-1], counts[::-1])[::-1]


def _within_tree(nodes: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Squared distances of all pairs of records up to each value, float64 (v,); of a width of 1.

    Two of them are as far apart as the height at which they meet, over that of the tree.

    Parameters
    ----------
    nodes : int64 (H, v), of each height the node of each value; equal ones are beside one another.
    counts : int64 (v,), the records of each value.
    """
    before = np.cumsum(counts) - counts
    pairs = np.square(before + counts, dtype=np.float64)
    found = np.zeros(len(counts))
    for height, own in enumerate(nodes):
        first = np.append(True, own[1:] != own[:-1])
        alike = before - before[np.maximum.accumulate(np.where(first, np.arange(len(own)), 0))]
        together = np.cumsum(counts * (2.0 * alike + counts))
        found += ((height + 1) ** 2 - height**2) * (pairs - together)
    return found / max(len(nodes), 1) ** 2


def has_trees(axes: Sequence[Axis]) -> bool:
    """Whether some of the axes that count have a hierarchy."""
    return any(axis.tree is not None and axis.width > 0 for axis in axes)
