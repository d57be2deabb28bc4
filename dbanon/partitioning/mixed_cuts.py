"""Cut records with categories into blocks, between two values of one attribute.

Principal directions mean little for values without an order, so borders are searched between
values. Some attributes suit better than others: similar records usually have the same sex, but
rarely the same of 5,000 postcodes, so a border between the sexes separates few similar records. Of
all borders that leave blocks of about the intended size, the best one separates the fewest pairs of
near records per bit of information. The information is the entropy of the side that a record is on.
Pairs are taken from a sample. All numeric attributes together count as one attribute, whose values
are the coordinates along their first principal direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.mixed import Axis

# Largest and smallest allowed size of a block, as multiples of the mean size.
MAX_SIZE_RATIO, MIN_SIZE_RATIO = 1.3, 0.5

# Near pairs consist of a query (a record whose neighbours are searched) and one of its nearest
# neighbours among the candidates, a sample of the records. After a cut, each side reuses the pairs
# that lie within it; if there are fewer than ``_MIN_PAIRS``, they are searched again, with fewer
# queries.
_N_CANDIDATES, _N_NEIGHBOURS = 10_000, 5
_N_QUERIES_OF_TABLE, _N_QUERIES_OF_PART = 2_000, 250
_MIN_PAIRS = 250

# Number of distances computed at a time.
_DISTANCES_PER_BATCH = 1 << 21

# Added per position to squared distances, so that equal ones are ordered by position.
_TIE_BREAK = 1e-13


@dataclass(frozen=True)
class Border:
    """A cut between two values.

    Parameters
    ----------
    direction : float64 (p,), the direction that the cut is across.
    coordinate : the smallest coordinate, along the direction, of the records that are not below.
    n_blocks_below : the number of blocks for the records below the cut.
    cost : the share of near pairs that the cut separates, per bit of information.
    """

    direction: NDArray[np.float64]
    coordinate: float
    n_blocks_below: int
    cost: float


@dataclass(frozen=True, eq=False)
class MixedCuts:
    """Finds the best cuts of points, some of whose columns have hierarchies.

    Parameters
    ----------
    axes : the axis of each of the p columns of the points.
    levels : by index of a column with a hierarchy, the ancestor of each leaf at each height, int64
        (H, L), as ``ancestors_by_height`` returns them.
    mean_size : the mean number of records per block.
    principal_direction : returns the first principal direction, float64 (q,), of points, float64
        (n, q).
    """

    axes: tuple[Axis, ...]
    levels: dict[int, NDArray[np.int64]]
    mean_size: float
    principal_direction: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    @classmethod
    def of(
        cls,
        axes: tuple[Axis, ...],
        mean_size: float,
        principal_direction: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ) -> MixedCuts | None:
        """Build the search for these axes; None if no axis of positive width has a hierarchy."""
        trees = {
            column_index: axis.tree for column_index, axis in enumerate(axes) if axis.width > 0
        }
        levels = {
            column_index: ancestors_by_height(tree)
            for column_index, tree in trees.items()
            if tree is not None
        }
        return cls(axes, levels, mean_size, principal_direction) if levels else None

    def find_near_pairs(
        self,
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        earlier_pairs: NDArray[np.int64] | None,
    ) -> NDArray[np.int64]:
        """Find pairs of near records, int64 (m, 2), among some of the points.

        Parameters
        ----------
        points : float64 (N, p), all points.
        records : int64 (n,), the positions of the points to search.
        earlier_pairs : int64 (m, 2), the pairs found before the last cut that lie within these
            records; None before the first cut.
        """
        if earlier_pairs is not None and len(earlier_pairs) >= _MIN_PAIRS:
            return earlier_pairs
        candidates = records[:: max(len(records) // _N_CANDIDATES, 1)]
        n_queries = _N_QUERIES_OF_TABLE if earlier_pairs is None else _N_QUERIES_OF_PART
        queries = np.arange(0, len(candidates), max(len(candidates) // n_queries, 1))
        queries_per_batch = max(_DISTANCES_PER_BATCH // len(candidates), 1)
        pairs = [
            self._nearest_pairs(points[candidates], queries[start : start + queries_per_batch])
            for start in range(0, len(queries), queries_per_batch)
        ]
        return candidates[np.concatenate(pairs)]

    def _nearest_pairs(
        self, points: NDArray[np.float64], queries: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Find pairs of a query and one of its nearest neighbours among all points, int64 (m, 2).

        Parameters
        ----------
        queries : positions of some of the points, int64 (q,).
        """
        squared_distances = np.tile(np.arange(len(points)) * _TIE_BREAK, (len(queries), 1))
        for column_index, axis in enumerate(self.axes):
            column = points[:, column_index]
            if column_index in self.levels:
                leaves = self._find_leaves(column_index, column)
                # The distance of two leaves is the width times the height of their common ancestor
                # over that of the root. Squares are summed by height, as (h + 1)² - h² = 2h + 1.
                root_height = len(self.levels[column_index])
                for height, nodes in enumerate(self.levels[column_index][:, leaves]):
                    weight = axis.width**2 * (2 * height + 1) / root_height**2
                    squared_distances += weight * (nodes != nodes[queries, None])
            # A column with a hierarchy but without width adds nothing.
            elif axis.tree is None:
                squared_distances += np.square(column - column[queries, None])
        squared_distances[np.arange(len(queries)), queries] = np.inf
        n_neighbours = min(_N_NEIGHBOURS, len(points) - 1)
        nearest = np.argpartition(squared_distances, max(n_neighbours - 1, 0), axis=1)[
            :, :n_neighbours
        ]
        return np.column_stack([np.repeat(queries, n_neighbours), nearest.reshape(-1)])

    def _find_leaves(
        self, column_index: int, coordinates: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Return the leaf of each coordinate of a column with a hierarchy, int64."""
        # The coordinates of leaves are evenly spaced from 0 to the width of the axis.
        n_steps = max(self.levels[column_index].shape[1] - 1, 1)
        leaves: NDArray[np.int64] = np.rint(
            coordinates / self.axes[column_index].width * n_steps
        ).astype(np.int64)
        return leaves

    def find_best_border(
        self,
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        pairs: NDArray[np.int64],
        n_blocks: int,
    ) -> Border | None:
        """Find the best cut of some of the points; None if no cut leaves blocks of allowed sizes.

        Parameters
        ----------
        points : float64 (N, p), all points.
        records : int64 (n,), the positions of the points to cut.
        pairs : int64 (m, 2), pairs of near records among these points.
        n_blocks : the number of blocks to cut these points into.
        """
        borders = [
            border
            for direction in self._directions(points, records)
            if (border := self._find_border_across(direction, points, records, pairs, n_blocks))
            is not None
        ]
        return min(borders, key=lambda border: border.cost, default=None)

    def _directions(
        self, points: NDArray[np.float64], records: NDArray[np.int64]
    ) -> Iterator[NDArray[np.float64]]:
        """Yield the directions that may be cut across, float64 (p,) each."""
        number_columns = np.flatnonzero([axis.tree is None for axis in self.axes])
        if len(number_columns):
            direction = np.zeros(len(self.axes))
            direction[number_columns] = self.principal_direction(
                points[np.ix_(records, number_columns)]
            )
            yield direction
        for column_index in self.levels:
            direction = np.zeros(len(self.axes))
            direction[column_index] = 1.0
            yield direction

    def _find_border_across(
        self,
        direction: NDArray[np.float64],
        points: NDArray[np.float64],
        records: NDArray[np.int64],
        pairs: NDArray[np.int64],
        n_blocks: int,
    ) -> Border | None:
        """Find the best border across a direction, as ``find_best_border`` does across all."""
        values, counts = np.unique(
            coordinates_along(points, records, direction), return_counts=True
        )
        n_below = np.cumsum(counts)[:-1]
        n_above = len(records) - n_below
        n_blocks_below = np.clip(np.rint(n_blocks * n_below / len(records)), 1, n_blocks - 1)
        size_ratios = (
            np.array([n_below / n_blocks_below, n_above / (n_blocks - n_blocks_below)])
            / self.mean_size
        )
        # A block needs at least one record, whatever the ratio.
        min_ratio = max(MIN_SIZE_RATIO, 1 / self.mean_size)
        is_allowed = (size_ratios.max(axis=0) <= MAX_SIZE_RATIO) & (
            size_ratios.min(axis=0) >= min_ratio
        )
        if not is_allowed.any():
            return None
        value_indices = np.sort(
            np.searchsorted(values, coordinates_along(points, pairs, direction)), axis=1
        ).T
        # A border separates the pairs of which the smaller value is below it and the larger is not.
        n_separated_pairs = np.bincount(value_indices[0], minlength=len(values)).cumsum()
        n_separated_pairs -= np.bincount(value_indices[1], minlength=len(values)).cumsum()
        shares = np.array([n_below, n_above]) / len(records)
        bits = -(shares * np.log2(shares)).sum(axis=0)
        # Add one pair, so that among borders that separate none, the one with more bits is best.
        cost = np.where(is_allowed, (n_separated_pairs[:-1] + 1) / (len(pairs) + 1) / bits, np.inf)
        best = int(np.argmin(cost))
        return Border(
            direction,
            float(values[best + 1]),
            int(n_blocks_below[best]),
            float(cost[best]),
        )


def coordinates_along(
    points: NDArray[np.float64], records: NDArray[np.int64], direction: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return coordinates of points along a direction, float64, in the shape of ``records``.

    Terms are added in column order. A linear algebra library would round the same point's sum
    differently depending on the number of points, which could move a record across a cut.
    """
    coordinates = np.zeros(records.shape)
    for column_index, factor in enumerate(direction.tolist()):
        if factor:
            coordinates += points[records, column_index] * factor
    return coordinates


def ancestors_by_height(tree: Hierarchy) -> NDArray[np.int64]:
    """Return the ancestor that represents each leaf at each height, int64 (H, L).

    Row h holds, for each of the L leaves, its highest ancestor whose height is at most h, or the
    leaf itself. H is the height of the root.
    """
    nodes = tree.leaves.astype(np.int64)
    levels: list[NDArray[np.int64]] = []
    for height in range(tree.height):
        while (is_low := tree.heights[parents := tree.parents[nodes]] <= height).any():
            nodes = np.where(is_low, parents, nodes)
        levels.append(nodes)
    return np.array(levels, np.int64).reshape(tree.height, tree.n_leaves)
