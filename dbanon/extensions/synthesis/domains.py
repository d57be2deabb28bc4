"""Public domains of columns: bounds for numbers, dates and times, or a list of values.

Numbers, dates and times are mapped to the integers from 0 (the low bound) to ``GRID`` (the high
bound), and synthetic positions in between are mapped back to values. Text, enumerated types and
booleans have a hierarchy, whose leaves are the possible values. The list must be public knowledge,
never the values in the data. Unlisted values become the leaf ``other``, so that no value can make a
run fail or appear in the release.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray, AnyDtype
from dbanon.extensions.synthesis.shares import GRID
from dbanon.hierarchy.tree import Hierarchy


@dataclass(frozen=True)
class NumericDomain:
    """The public domain of a column of numbers, dates or times.

    Parameters
    ----------
    name : the column's name.
    dtype : integer, floating-point, or ``datetime64``.
    low, high : bounds; for dates and times in units of the type since 1970.
    null_as : the replacement for NULL and NaN; None if the type has no NULL.
    is_logarithmic : whether to compare logarithms, for columns with a few large values.
    """

    name: str
    dtype: AnyDtype
    low: float
    high: float
    null_as: float | None = None
    is_logarithmic: bool = False

    @property
    def tree(self) -> None:
        """Always None: the domain is not a list of values."""
        return

    @property
    def is_discrete(self) -> bool:
        """Whether the type is one of integers, dates or times."""
        return self.dtype.kind != "f"

    @property
    def n_values(self) -> int:
        """Number of equidistant values, which may be counted; 0 if not equidistant, or too many."""
        if (
            not self.is_discrete
            or self.is_logarithmic
            or not (self.low.is_integer() and self.high.is_integer())
        ):
            return 0
        n_values = int(self.high) - int(self.low) + 1
        return n_values if n_values <= GRID else 0

    def encode(self, values: AnyArray, nulls: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """Clip values to the bounds, float64 (n,); ``nulls``, bool (n,), are replaced."""
        if self.dtype.kind == "M":
            values = values.astype(self.dtype).astype(np.int64)
        numbers = np.array(values, np.float64)
        is_missing = np.isnan(numbers) if nulls is None else np.isnan(numbers) | nulls
        numbers[is_missing] = self.low if self.null_as is None else self.null_as
        return numbers.clip(self.low, self.high)

    def aggregate_persons(
        self, values: AnyArray, person_ids: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the mean value of each person, float64 (n_persons,).

        Parameters
        ----------
        person_ids : int64 (n,), the person of each value, numbered from 0.
        """
        means: NDArray[np.float64] = np.bincount(person_ids, values) / np.bincount(person_ids)
        return means

    def to_grid(self, values: AnyArray) -> NDArray[np.int64]:
        """Map values between the bounds to integers from 0 to ``GRID``, int64 (n,)."""
        low, high = self._to_scale(np.array([self.low, self.high]))
        share = (self._to_scale(values) - low) / (high - low)
        return np.array(np.rint(share * GRID).clip(0, GRID), np.int64)

    def from_grid(self, grid: NDArray[np.float64]) -> AnyArray:
        """Map positions between 0 and ``GRID`` to values of the column's type, (n,)."""
        low, high = self._to_scale(np.array([self.low, self.high]))
        numbers = low + grid / GRID * (high - low)
        if self.is_logarithmic:
            numbers = np.expm1(numbers) if self.low == 0 else np.exp(numbers)
        if self.is_discrete:
            numbers = np.rint(numbers).clip(np.ceil(self.low), np.floor(self.high))
            return np.array(numbers, np.int64).astype(self.dtype)
        return np.array(numbers.clip(self.low, self.high), self.dtype)

    def contains_all(self, values: AnyArray) -> bool:
        """Return whether all values are between the bounds and not NULL."""
        if self.dtype.kind == "M":
            values = values.astype(np.int64)
        numbers = np.asarray(values, np.float64)
        # The type may round a bound, as float32 does.
        low, high = (np.float64(self._round_to_type(bound)) for bound in (self.low, self.high))
        return bool(((numbers >= low) & (numbers <= high)).all())

    def _to_scale(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Take logarithms if ``is_logarithmic`` is set; log(x + 1) if the low bound is 0."""
        if not self.is_logarithmic:
            return numbers
        logarithms: NDArray[np.float64] = np.log1p(numbers) if self.low == 0 else np.log(numbers)
        return logarithms

    def _round_to_type(self, bound: float) -> AnyArray | float:
        return np.array(bound).astype(self.dtype) if self.dtype.kind == "f" else bound


OTHER_LABEL = "other"
BOOLEAN_HIERARCHY = Hierarchy(["*", "false", "true"], [-1, 0, 0])


@dataclass(frozen=True)
class CategoricalDomain:
    """The public domain of a column with a list of values.

    Parameters
    ----------
    name : the column's name.
    dtype : objects or ``U`` for text, or boolean.
    tree : the hierarchy, whose leaves are the values.
    null_as : index of the leaf that replaces NULL; None if the type has no NULL.
    other_leaf : index of the leaf for unlisted values; 0 if the type cannot hold any.
    """

    name: str
    dtype: AnyDtype
    tree: Hierarchy
    null_as: int | None = None
    other_leaf: int = 0

    @property
    def low(self) -> float:
        """Index of the first leaf."""
        return 0.0

    @property
    def high(self) -> float:
        """Index of the last leaf."""
        return self.tree.n_leaves - 1.0

    @property
    def n_values(self) -> int:
        """Always 0: the values are not on a numeric scale."""
        return 0

    @property
    def labels(self) -> tuple[str, ...]:
        """All possible released values, in order."""
        return tuple(self.tree.positions)

    def encode(self, values: AnyArray, nulls: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """Map values to leaf indices, int64 (n,); ``nulls``, bool (n,), are replaced."""
        if self.dtype.kind == "b":
            # Nullable boolean columns are read as numbers with NaN.
            truths = np.nan_to_num(np.asarray(values, np.float64)) != 0
            leaves = np.array(truths, np.int64)
        else:
            positions, other_leaf = self.tree.positions, self.other_leaf
            leaves = np.array(
                [
                    positions.get(v, other_leaf) if isinstance(v, str) else other_leaf
                    for v in values.tolist()
                ],
                np.int64,
            )
        if nulls is not None:
            leaves[nulls] = self.other_leaf if self.null_as is None else self.null_as
        return leaves

    def aggregate_persons(
        self, values: AnyArray, person_ids: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The most frequent leaf of each person, int64 (n_persons,); the first one among ties."""
        person_leaves, n_rows = np.unique(
            person_ids * self.tree.n_leaves + values, return_counts=True
        )
        leaf_persons, leaf = np.divmod(person_leaves, self.tree.n_leaves)
        order = np.lexsort((leaf, -n_rows, leaf_persons))
        most_frequent: NDArray[np.int64] = leaf[order][
            np.unique(leaf_persons[order], return_index=True)[1]
        ]
        return most_frequent

    def to_grid(self, values: AnyArray) -> NDArray[np.int64]:
        """Return leaf indices unchanged."""
        return values.astype(np.int64)

    def from_grid(self, grid: NDArray[np.float64]) -> AnyArray:
        """Map leaf indices to values of the column's type, (n,)."""
        leaves = grid.astype(np.int64)
        if self.dtype.kind == "b":
            return np.array(leaves == 1)
        # Not the column's own dtype: a listed value may be longer than all values of the column.
        return np.array(self.labels, "U" if self.dtype.kind == "U" else object)[leaves]

    def contains_all(self, values: AnyArray) -> bool:
        """Return whether all values are leaves."""
        if self.dtype.kind == "b":
            return values.dtype.kind == "b"
        return all(value in self.tree.positions for value in values.tolist())


def add_other_leaf(tree: Hierarchy) -> Hierarchy:
    """Return the tree with a leaf ``other``, added below the root if it is missing."""
    if OTHER_LABEL in tree.positions:
        return tree
    return Hierarchy([*tree.labels, OTHER_LABEL], [*tree.parents.tolist(), 0])


def assign_bins(tree: Hierarchy, weights: NDArray[np.float64], max_bins: int) -> NDArray[np.int64]:
    """Assign each leaf to a bin, int64 (L,), from 0; at most ``max_bins`` bins.

    Cuts the tree at the deepest level with few enough nodes. If that leaves some bins unused, the
    heaviest leaves get one each. The number of bins does not depend on ``weights``, float64 (L,),
    which must be noisy.
    """
    nodes = tree.leaves.astype(np.int64)
    for depth in range(tree.height - 1, -1, -1):
        if len(np.unique(nodes)) <= max_bins:
            break
        nodes = np.where(tree.depths[nodes] > depth, tree.parents[nodes], nodes)
    bins = np.unique(nodes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    bin_sizes = np.bincount(bins).tolist()
    for leaf in np.argsort(-weights, kind="stable").tolist():
        if len(bin_sizes) < max_bins and bin_sizes[bins[leaf]] > 1:
            bin_sizes[bins[leaf]] -= 1
            bins[leaf] = len(bin_sizes)
            bin_sizes.append(1)
    return bins
