"""How an original value and a released one are apart: one class for each way of releasing.

The distance is that of EM4ADOM's eq. (12) and (13), 0 to 1 unless a released number lies outside of
the column: numbers by the column's range, ordinal values by their places among those that occur,
nominal ones 0 or 1. A label that covers the value is at distance 0 of it; else what has to be
climbed, or the gap to the interval. Where either is NULL the distance is 0.

Shapes: n records and m released rows, each of which stands for a class. An original NULL is not
valid; codes, leaves and nodes of NULL are -1.

Sources: J. Chen and J. Han, "Evaluation model for quality of k-anonymity data oriented to
microaggregation", 2010, section 2.2; J. Domingo-Ferrer and V. Torra, "Disclosure control methods
and information loss for microdata", 2001, for places (one end counts: equal values are at 0).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.scales import Scale, Standardization
from dbanon.hierarchy.tree import Hierarchy

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[Any]

# Up to so many distances of leaves and nodes are kept.
_TABLED = 1 << 22


@dataclass(frozen=True, eq=False, kw_only=True)
class Column(ABC):
    """One quasi-identifier as it was and as it is released.

    Parameters
    ----------
    suppressed : bool (m,), which released values are NULL where originals are not, and so stand for
        any value; None for none.
    """

    name: str
    suppressed: Flags | None = None

    @property
    def missing(self) -> Flags | None:
        """bool (n,), which originals are NULL; None for none."""
        return None

    @property
    def withheld(self) -> Flags | None:
        """bool (m,), which released values are NULL; None for none."""
        return None

    @property
    def covers(self) -> bool:
        """True when a released value stands for several: a label above the leaves, an interval."""
        return False

    @property
    @abstractmethod
    def kinds(self) -> NDArray[np.int64]:
        """int64 (n,), a number for each different original value; NULL may have any."""

    @property
    @abstractmethod
    def released_kinds(self) -> NDArray[np.int64]:
        """int64 (m,), a number for each different released value; NULL may have any."""

    @property
    def parents(self) -> NDArray[np.int32] | None:
        """int32 (nodes,), the hierarchy that values are nodes of, as ``Hierarchy.parents``; None
        where they are numbers."""
        return None

    @abstractmethod
    def of_records(self, records: Index) -> NDArray[Any]:
        """What ``gap`` compares of some originals, (r,): nodes, int32, or where numbers begin and
        end, float64 (r, 2). Anything where NULL."""

    @abstractmethod
    def of_rows(self, rows: Index) -> NDArray[Any]:
        """The same of some released rows."""

    @abstractmethod
    def gap(self, records: Index, rows: Index) -> Floats:
        """The distance of original records from released rows, of the shape of both together."""

    def apart(self, records: Index, rows: Index) -> Floats:
        """As ``gap``, but 0 where a value is NULL."""
        found = self.gap(records, rows)
        for missing, at in ((self.missing, records), (self.withheld, rows)):
            if missing is not None:
                found = np.where(missing[at], 0.0, found)
        return found


def _same(values: NDArray[Any], missing: Flags | None) -> NDArray[np.int64]:
    filled = values if missing is None else np.where(missing, values.dtype.type(0), values)
    return np.unique(filled, return_inverse=True)[1].reshape(-1).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class _OfNumbers(Column):
    """What columns that were numbers share.

    Parameters
    ----------
    original : float64 (n,); anything where not valid. Ranks of an ordinal column.
    scale : of the originals.
    valid, released_valid : bool (n,) and bool (m,); None for everywhere.
    ordinal : True for ranks.
    ranks : those that occur in the table, ascending; None for those of these records.
    """

    original: Floats
    scale: Scale
    valid: Flags | None = None
    released_valid: Flags | None = None
    ordinal: bool = False
    ranks: Floats | None = None

    @cached_property
    def missing(self) -> Flags | None:
        return None if self.valid is None else ~self.valid

    @cached_property
    def withheld(self) -> Flags | None:
        return None if self.released_valid is None else ~self.released_valid

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        return _same(self.original, self.missing)

    @cached_property
    def _ladder(self) -> Floats:
        """The ranks that occur, ascending."""
        if self.ranks is not None:
            return self.ranks
        return np.unique(self.original if self.valid is None else self.original[self.valid])

    def places(self, values: Floats) -> Floats:
        """Where numbers stand: 0 to 1 for those of the column, by its range or by their places."""
        if self.ordinal:
            places = np.searchsorted(self._ladder, values) / max(len(self._ladder), 1)
            return np.asarray(places, np.float64)
        return Standardization.of([self.scale], "range").apply(values.reshape(-1, 1))[:, 0]

    @cached_property
    def placed(self) -> Floats:
        """float64 (n,), where the originals stand."""
        return self.places(self.original)

    def of_records(self, records: Index) -> Floats:
        """Where they stand, twice."""
        return np.repeat(self.placed[records][:, None], 2, axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Numbers(_OfNumbers):
    """Numbers released as numbers, or ranks as ranks.

    Parameters
    ----------
    released : float64 (m,), as written; anything where not valid.
    """

    released: Floats

    @cached_property
    def released_kinds(self) -> NDArray[np.int64]:
        return _same(self.released, self.withheld)

    @cached_property
    def placed_released(self) -> Floats:
        """float64 (m,), where the released values stand."""
        return self.places(self.released)

    def of_rows(self, rows: Index) -> Floats:
        """Where they stand, twice."""
        return np.repeat(self.placed_released[rows][:, None], 2, axis=1)

    def gap(self, records: Index, rows: Index) -> Floats:
        """The width between both, of the column's."""
        found: Floats = np.abs(self.placed[records] - self.placed_released[rows])
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Intervals(_OfNumbers):
    """Numbers or ranks released as intervals. Their ends count as inside.

    Parameters
    ----------
    low, high : float64 (m,); anything where not valid.
    """

    low: Floats
    high: Floats

    @cached_property
    def released_kinds(self) -> NDArray[np.int64]:
        ends = (_same(self.low, self.withheld), _same(self.high, self.withheld))
        return ends[0] * (int(ends[1].max(initial=0)) + 1) + ends[1]

    @property
    def covers(self) -> bool:
        return bool((self.low < self.high).any())

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        return self.places(self.low), self.places(self.high)

    def of_rows(self, rows: Index) -> Floats:
        """Where their ends stand."""
        low, high = self._ends
        return np.column_stack((low[rows], high[rows]))

    def gap(self, records: Index, rows: Index) -> Floats:
        """How far outside the value lies, of the column's width."""
        low, high = self._ends
        at = self.placed[records]
        found: Floats = np.maximum(np.maximum(low[rows] - at, at - high[rows]), 0.0)
        return found

    @cached_property
    def width(self) -> Floats:
        """float64 (m,), the share of the column's range that each interval has: 0 to 1."""
        if self.scale.constant:
            return np.zeros(len(self.low))
        small = [np.ldexp(ends, -self.scale.exponent) for ends in (self.low, self.high)]
        spread = np.ldexp(self.scale.most, -self.scale.exponent) - np.ldexp(
            self.scale.least, -self.scale.exponent
        )
        return np.asarray(np.clip((small[1] - small[0]) / spread, 0.0, 1.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Coded(Column):
    """What columns of codes share.

    Parameters
    ----------
    original, released : int32 (n,) and (m,), codes; -1 where NULL.
    """

    original: NDArray[np.int32]
    released: NDArray[np.int32]

    @cached_property
    def missing(self) -> Flags | None:
        return _none_if_nowhere(self.original < 0)

    @cached_property
    def withheld(self) -> Flags | None:
        return _none_if_nowhere(self.released < 0)

    @property
    def kinds(self) -> NDArray[np.int64]:
        """The codes."""
        return np.asarray(self.original, np.int64) + 1

    @property
    def released_kinds(self) -> NDArray[np.int64]:
        """The codes."""
        return np.asarray(self.released, np.int64) + 1


@dataclass(frozen=True, eq=False, kw_only=True)
class Categories(_Coded):
    """Nominal values released as nominal values, by the codes of one dictionary."""

    @cached_property
    def parents(self) -> NDArray[np.int32]:
        """All values right below the root."""
        last = max(self.original.max(initial=-1), self.released.max(initial=-1))
        found = np.zeros(int(last) + 2, np.int32)
        found[0] = -1
        return found

    def of_records(self, records: Index) -> NDArray[np.int32]:
        """The nodes behind the root."""
        return np.asarray(self.original[records] + 1, np.int32)

    def of_rows(self, rows: Index) -> NDArray[np.int32]:
        """The nodes behind the root."""
        return np.asarray(self.released[rows] + 1, np.int32)

    def gap(self, records: Index, rows: Index) -> Floats:
        """1 where they differ."""
        found: Floats = (self.original[records] != self.released[rows]).astype(np.float64)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes(_Coded):
    """Values released as labels of a hierarchy, whose leaves they are.

    Parameters
    ----------
    original : positions of leaves.
    released : nodes.
    """

    tree: Hierarchy

    @property
    def covers(self) -> bool:
        return bool(self.tree.heights[self.released[self.released >= 0]].any())

    @property
    def parents(self) -> NDArray[np.int32]:
        """Those of the hierarchy."""
        return self.tree.parents

    def of_records(self, records: Index) -> NDArray[np.int32]:
        """The leaves' nodes."""
        return np.asarray(self.tree.leaves[self.original[records]], np.int32)

    def of_rows(self, rows: Index) -> NDArray[np.int32]:
        """The nodes."""
        return np.asarray(self.released[rows], np.int32)

    def _climbed(self, leaves: Index, nodes: Index) -> Floats:
        above = self.tree.ancestors(self.tree.leaves[leaves], nodes)
        heights = self.tree.heights
        found: Floats = (heights[above] - heights[nodes]) / max(int(heights[0]), 1)
        return found

    @cached_property
    def _known(self) -> tuple[NDArray[np.int64], Floats] | None:
        """Which of the released nodes each row has, and the distances of all leaves from these."""
        nodes, at = np.unique(np.maximum(self.released, 0), return_inverse=True)
        if len(nodes) * self.tree.n_leaves > _TABLED:
            return None
        leaves = np.arange(self.tree.n_leaves)
        shape = (len(leaves), len(nodes))
        pairs = (np.broadcast_to(leaves[:, None], shape), np.broadcast_to(nodes, shape))
        return at.reshape(-1), self._climbed(*pairs)

    def gap(self, records: Index, rows: Index) -> Floats:
        """The height of their common ancestor above the label, of the tree's height."""
        leaves = np.maximum(self.original[records], 0)
        if self._known is not None:
            at, distances = self._known
            return _crossed(distances, leaves, at[rows])
        leaves, nodes = np.broadcast_arrays(leaves, np.maximum(self.released[rows], 0))
        return self._climbed(leaves, nodes)


def _crossed(table: Floats, first: Index, second: Index) -> Floats:
    """``table[first, second]``, faster where one is a column and the other a row of indices."""
    if first.ndim == second.ndim == 2:
        if first.shape[1] == second.shape[0] == 1:
            return np.asarray(np.take(table[first[:, 0]], second[0], axis=1))
        if first.shape[0] == second.shape[1] == 1:
            return np.asarray(np.take(table.T[second[:, 0]], first[0], axis=1))
    found: Floats = table[first, second]
    return found


def _none_if_nowhere(flags: Flags) -> Flags | None:
    return flags if flags.any() else None
