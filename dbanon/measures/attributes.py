"""Distances between original and released values: one class for each form of release.

Distances are those of eq. (12) and (13) of the first source, from 0 to 1 unless a released number
lies outside the column's range:

- between numbers, the difference relative to the column's range;
- between ordinal values, the difference of their ranks among the values that occur, divided by
  their number;
- between nominal values, 0 if they are equal, otherwise 1;
- between a value and a label, 0 if the label covers the value, otherwise the height from the label
  up to the lowest one that does, divided by the height of the hierarchy;
- between a value and an interval, 0 if the interval contains the value, otherwise the distance from
  it;
- 0 if either value is NULL.

Shapes: there are n records and m released rows, one per class. ``valid`` is False for NULL, whose
codes, leaves and nodes are -1.

Sources: J. Chen and J. Han, "Evaluation model for quality of k-anonymity data oriented to
microaggregation", 2010, section 2.2; for ranks, J. Domingo-Ferrer and V. Torra, "Disclosure control
methods and information loss for microdata", 2001 (but counting only one end of the range of ranks,
so that equal values have distance 0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.scales import Scale, Standardization
from dbanon.hierarchy.tree import Hierarchy

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.integer]

# Maximum number of distances between leaves and nodes to cache.
_MAX_CACHED_DISTANCES = 1 << 22


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnPair(ABC):
    """A quasi-identifier: its original values, and the released ones.

    Parameters
    ----------
    name : the name of the column.
    suppressed : bool (m,), True for rows whose value was suppressed and is NULL, which stands for
        any value; None if there are none.
    """

    name: str
    suppressed: Flags | None = None

    @property
    def original_nulls(self) -> Flags | None:
        """bool (n,), True for NULLs before release; None if there are none."""
        return None

    @property
    def released_nulls(self) -> Flags | None:
        """bool (m,), True for released NULLs; None if there are none."""
        return None

    @property
    def is_generalized(self) -> bool:
        """True if a released label or interval covers several values."""
        return False

    @property
    @abstractmethod
    def value_ids(self) -> NDArray[np.int64]:
        """int64 (n,), an id of each distinct original value; arbitrary for NULL."""

    @property
    @abstractmethod
    def released_value_ids(self) -> NDArray[np.int64]:
        """int64 (m,), an id of each distinct released value; arbitrary for NULL."""

    @property
    def parents(self) -> NDArray[np.int32] | None:
        """int32 (n_nodes,), the parent of each node of the hierarchy; None for numbers.

        The root is node 0, and its parent is -1.
        """
        return None

    @abstractmethod
    def originals_for_kernel(self, records: Index) -> AnyArray:
        """Return originals in the form that the compiled kernels compare; arbitrary for NULL.

        They are nodes of a hierarchy, int32 (r,), or intervals, float64 (r, 2).

        Parameters
        ----------
        records : int (r,), indices of the records.
        """

    @abstractmethod
    def released_for_kernel(self, rows: Index) -> AnyArray:
        """Return released values in the form that kernels compare; see ``originals_for_kernel``.

        Parameters
        ----------
        rows : int (r,), indices of the released rows.
        """

    @abstractmethod
    def distances(self, records: Index, rows: Index) -> Floats:
        """Return the distances of records from released rows; arbitrary for NULL.

        Parameters
        ----------
        records, rows : indices of records and of released rows, of shapes that numpy broadcasts
            against each other.
        """

    def distances_ignoring_nulls(self, records: Index, rows: Index) -> Floats:
        """Return the distances of records from released rows (``distances``), with 0 for NULL."""
        distances = self.distances(records, rows)
        for is_null, index in ((self.original_nulls, records), (self.released_nulls, rows)):
            if is_null is not None:
                distances = np.where(is_null[index], 0.0, distances)
        return distances


def _value_ids(values: AnyArray, is_null: Flags | None) -> NDArray[np.int64]:
    """Return an id of each distinct value, int64; arbitrary for NULL."""
    filled = values if is_null is None else np.where(is_null, values.dtype.type(0), values)
    return np.unique(filled, return_inverse=True)[1].reshape(-1).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class _NumericPair(ColumnPair):
    """Base of columns whose originals are numbers or ranks.

    Parameters
    ----------
    original : float64 (n,), numbers, or ranks of an ordinal column; arbitrary for NULL.
    scale : scale of the originals, by which distances become shares of the column's range.
    valid : bool (n,), False for originals that are NULL; None if there are none.
    released_valid : bool (m,), False for released values that are NULL; None if there are none.
    is_ordinal : True if the originals are ranks.
    ranks : ranks that occur in the table, ascending; None if the table has only these records.
    """

    original: Floats
    scale: Scale
    valid: Flags | None = None
    released_valid: Flags | None = None
    is_ordinal: bool = False
    ranks: Floats | None = None

    @cached_property
    def original_nulls(self) -> Flags | None:
        return None if self.valid is None else ~self.valid

    @cached_property
    def released_nulls(self) -> Flags | None:
        return None if self.released_valid is None else ~self.released_valid

    @cached_property
    def value_ids(self) -> NDArray[np.int64]:
        return _value_ids(self.original, self.original_nulls)

    @cached_property
    def _occurring_ranks(self) -> Floats:
        """The ranks that occur, ascending."""
        if self.ranks is not None:
            return self.ranks
        return np.unique(self.original if self.valid is None else self.original[self.valid])

    def to_coordinates(self, values: Floats) -> Floats:
        """Scale numbers to coordinates, so that the column's range is 0 to 1.

        In an ordinal column, the coordinate is the position among the ranks that occur, divided by
        their number.

        Parameters
        ----------
        values : float64 (v,), numbers or ranks.
        """
        if self.is_ordinal:
            ranks = np.searchsorted(self._occurring_ranks, values)
            return np.asarray(ranks / max(len(self._occurring_ranks), 1), np.float64)
        return Standardization.of([self.scale], "range").apply(values.reshape(-1, 1))[:, 0]

    @cached_property
    def coordinates(self) -> Floats:
        """float64 (n,), the coordinates of the originals."""
        return self.to_coordinates(self.original)

    def originals_for_kernel(self, records: Index) -> Floats:
        """Return the coordinates of originals, as intervals of width 0, float64 (r, 2)."""
        return np.repeat(self.coordinates[records][:, None], 2, axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Numbers(_NumericPair):
    """Numbers released as numbers, or ranks as ranks.

    Parameters
    ----------
    released : float64 (m,), the written values; arbitrary for NULL.
    """

    released: Floats

    @cached_property
    def released_value_ids(self) -> NDArray[np.int64]:
        return _value_ids(self.released, self.released_nulls)

    @cached_property
    def released_coordinates(self) -> Floats:
        """float64 (m,), the coordinates of released values."""
        return self.to_coordinates(self.released)

    def released_for_kernel(self, rows: Index) -> Floats:
        """Return the coordinates of released values, as intervals of width 0, float64 (r, 2)."""
        return np.repeat(self.released_coordinates[rows][:, None], 2, axis=1)

    def distances(self, records: Index, rows: Index) -> Floats:
        """Return the differences, relative to the column's range."""
        distances: Floats = np.abs(self.coordinates[records] - self.released_coordinates[rows])
        return distances


@dataclass(frozen=True, eq=False, kw_only=True)
class Intervals(_NumericPair):
    """Numbers or ranks released as closed intervals.

    Parameters
    ----------
    low, high : float64 (m,), the ends of each interval; arbitrary for NULL.
    """

    low: Floats
    high: Floats

    @cached_property
    def released_value_ids(self) -> NDArray[np.int64]:
        low_ids = _value_ids(self.low, self.released_nulls)
        high_ids = _value_ids(self.high, self.released_nulls)
        return low_ids * (int(high_ids.max(initial=0)) + 1) + high_ids

    @property
    def is_generalized(self) -> bool:
        return bool((self.low < self.high).any())

    @cached_property
    def _interval_coordinates(self) -> tuple[Floats, Floats]:
        """The coordinates of the lower and the upper ends, float64 (m,) each."""
        return self.to_coordinates(self.low), self.to_coordinates(self.high)

    def released_for_kernel(self, rows: Index) -> Floats:
        """Return the coordinates of the intervals' ends, float64 (r, 2)."""
        low, high = self._interval_coordinates
        return np.column_stack((low[rows], high[rows]))

    def distances(self, records: Index, rows: Index) -> Floats:
        """Return the distances of values from intervals, relative to the column's range."""
        low, high = self._interval_coordinates
        coordinates = self.coordinates[records]
        distances: Floats = np.maximum(
            np.maximum(low[rows] - coordinates, coordinates - high[rows]), 0.0
        )
        return distances

    @cached_property
    def width(self) -> Floats:
        """float64 (m,), the width of each interval relative to the column's range, 0 to 1."""
        if self.scale.is_constant:
            return np.zeros(len(self.low))
        # Scaling by a power of two avoids overflow.
        low, high = (np.ldexp(ends, -self.scale.exponent) for ends in (self.low, self.high))
        spread = np.ldexp(self.scale.most, -self.scale.exponent) - np.ldexp(
            self.scale.least, -self.scale.exponent
        )
        return np.asarray(np.clip((high - low) / spread, 0.0, 1.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class _CodedPair(ColumnPair):
    """Base of columns of codes.

    Parameters
    ----------
    original, released : int32 (n,) and (m,), codes; -1 for NULL.
    """

    original: NDArray[np.int32]
    released: NDArray[np.int32]

    @cached_property
    def original_nulls(self) -> Flags | None:
        return _none_if_all_false(self.original < 0)

    @cached_property
    def released_nulls(self) -> Flags | None:
        return _none_if_all_false(self.released < 0)

    @property
    def value_ids(self) -> NDArray[np.int64]:
        """The codes, plus 1."""
        return np.asarray(self.original, np.int64) + 1

    @property
    def released_value_ids(self) -> NDArray[np.int64]:
        """The codes, plus 1."""
        return np.asarray(self.released, np.int64) + 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Categories(_CodedPair):
    """Nominal values released as nominal values, with the same codes."""

    @cached_property
    def parents(self) -> NDArray[np.int32]:
        """A hierarchy in which all values are children of the root, node 0."""
        largest_code = max(self.original.max(initial=-1), self.released.max(initial=-1))
        parents = np.zeros(int(largest_code) + 2, np.int32)
        parents[0] = -1
        return parents

    def originals_for_kernel(self, records: Index) -> NDArray[np.int32]:
        """Return the nodes of original values, int32 (r,): their codes plus 1."""
        return np.asarray(self.original[records] + 1, np.int32)

    def released_for_kernel(self, rows: Index) -> NDArray[np.int32]:
        """Return the nodes of released values, int32 (r,): their codes plus 1."""
        return np.asarray(self.released[rows] + 1, np.int32)

    def distances(self, records: Index, rows: Index) -> Floats:
        """Return 1 for values that differ, and 0 for equal ones."""
        distances: Floats = (self.original[records] != self.released[rows]).astype(np.float64)
        return distances


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes(_CodedPair):
    """Leaves of a hierarchy released as its labels.

    Parameters
    ----------
    original : int32 (n,), leaf positions; -1 for NULL.
    released : int32 (m,), nodes; -1 for NULL.
    tree : the hierarchy.
    """

    tree: Hierarchy

    @property
    def is_generalized(self) -> bool:
        return bool(self.tree.heights[self.released[self.released >= 0]].any())

    @property
    def parents(self) -> NDArray[np.int32]:
        """The parents of the hierarchy's nodes."""
        return self.tree.parents

    def originals_for_kernel(self, records: Index) -> NDArray[np.int32]:
        """Return the nodes of the leaves, int32 (r,)."""
        return np.asarray(self.tree.leaves[self.original[records]], np.int32)

    def released_for_kernel(self, rows: Index) -> NDArray[np.int32]:
        """Return the nodes of the labels, int32 (r,)."""
        return np.asarray(self.released[rows], np.int32)

    def _climbed_heights(self, leaves: Index, nodes: Index) -> Floats:
        """Return the height from each node up to its common ancestor with the leaf.

        Heights are relative to the tree's height.

        Parameters
        ----------
        leaves, nodes : leaf positions and nodes, of the same shape.
        """
        ancestors = self.tree.common_ancestors(self.tree.leaves[leaves], nodes)
        heights = self.tree.heights
        distances: Floats = (heights[ancestors] - heights[nodes]) / max(int(heights[0]), 1)
        return distances

    @cached_property
    def _cached_distances(self) -> tuple[NDArray[np.int64], Floats] | None:
        """Distances of all leaves from all d released nodes; None if there are too many.

        The first array, int64 (m,), is the index of each row's node among the d nodes. The second,
        float64 (n_leaves, d), holds the distances.
        """
        nodes, node_of_row = np.unique(np.maximum(self.released, 0), return_inverse=True)
        if len(nodes) * self.tree.n_leaves > _MAX_CACHED_DISTANCES:
            return None
        leaves = np.arange(self.tree.n_leaves)
        shape = (len(leaves), len(nodes))
        heights = self._climbed_heights(
            np.broadcast_to(leaves[:, None], shape), np.broadcast_to(nodes, shape)
        )
        return node_of_row.reshape(-1), heights

    def distances(self, records: Index, rows: Index) -> Floats:
        """Return the heights from labels to common ancestors, relative to the tree's height."""
        leaves = np.maximum(self.original[records], 0)
        if self._cached_distances is not None:
            node_of_row, distances = self._cached_distances
            return _lookup_pairs(distances, leaves, node_of_row[rows])
        leaves, nodes = np.broadcast_arrays(leaves, np.maximum(self.released[rows], 0))
        return self._climbed_heights(leaves, nodes)


def _lookup_pairs(table: Floats, first: Index, second: Index) -> Floats:
    """Return ``table[first, second]``; faster if one of them is a column and the other a row."""
    if first.ndim == second.ndim == 2:
        if first.shape[1] == second.shape[0] == 1:
            return np.asarray(np.take(table[first[:, 0]], second[0], axis=1))
        if first.shape[0] == second.shape[1] == 1:
            return np.asarray(np.take(table.T[second[:, 0]], first[0], axis=1))
    values: Floats = table[first, second]
    return values


def _none_if_all_false(flags: Flags) -> Flags | None:
    """Return the flags, or None if none is True."""
    return flags if flags.any() else None
