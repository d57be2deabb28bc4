"""What is public of a column: the bounds of numbers, dates and times, or a list of values.

Numbers, dates and times become whole numbers between the bounds, and back. Text, enumerated types
and truths have a list, by their hierarchy. The list is what anybody may know: never the values that
a column holds. What is in no list is the leaf ``other``, so that no value ends a run or adds itself
to the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.hierarchy.tree import Hierarchy
from dbanon.synthesis.shares import GRID


@dataclass(frozen=True)
class Line:
    """What is public of a column of numbers or moments.

    Parameters
    ----------
    name : the column's.
    dtype : of whole numbers, floating-point numbers or moments (``datetime64``).
    low, high : bounds; of moments in units of the type since 1970.
    null_as : what stands for NULL; None where the type holds none. NaN is NULL.
    log : True where differences are of logarithms: for columns with a few large values.
    """

    name: str
    dtype: np.dtype[Any]
    low: float
    high: float
    null_as: float | None = None
    log: bool = False

    @property
    def tree(self) -> None:
        """None: the values are no list."""
        return

    @property
    def whole(self) -> bool:
        """True where values are counted in whole units."""
        return self.dtype.kind != "f"

    @property
    def many(self) -> int:
        """How many values it has, equally far apart; 0 where they are none such, or too many."""
        if not self.whole or self.log or not (self.low.is_integer() and self.high.is_integer()):
            return 0
        many = int(self.high) - int(self.low) + 1
        return many if many <= GRID else 0

    def on_line(self, values: NDArray[Any], nulls: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """The values between the bounds, float64 (n,); ``nulls``, bool (n,), are none."""
        if self.dtype.kind == "M":
            values = values.astype(self.dtype).astype(np.int64)
        numbers = np.array(values, np.float64)
        missing = np.isnan(numbers) if nulls is None else np.isnan(numbers) | nulls
        numbers[missing] = self.low if self.null_as is None else self.null_as
        return numbers.clip(self.low, self.high)

    def of_persons(self, values: NDArray[Any], person: NDArray[np.int64]) -> NDArray[np.float64]:
        """The mean of each person's values; ``person``, int64 (n,), from 0."""
        means: NDArray[np.float64] = np.bincount(person, values) / np.bincount(person)
        return means

    def to_grid(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Values between the bounds as whole numbers from 0 to ``GRID``, int64 (n,)."""
        low, high = self._bent(np.array([self.low, self.high]))
        share = (self._bent(values) - low) / (high - low)
        return np.array(np.rint(share * GRID).clip(0, GRID), np.int64)

    def of_grid(self, grid: NDArray[np.float64]) -> NDArray[Any]:
        """Values of the column's type, (n,), from places between 0 and ``GRID``."""
        low, high = self._bent(np.array([self.low, self.high]))
        numbers = low + grid / GRID * (high - low)
        if self.log:
            numbers = np.expm1(numbers) if self.low == 0 else np.exp(numbers)
        if self.whole:
            numbers = np.rint(numbers).clip(np.ceil(self.low), np.floor(self.high))
            return np.array(numbers, np.int64).astype(self.dtype)
        return np.array(numbers.clip(self.low, self.high), self.dtype)

    def holds(self, values: NDArray[Any]) -> bool:
        """Whether all values are between the bounds, and none is NULL."""
        if self.dtype.kind == "M":
            values = values.astype(np.int64)
        numbers = np.asarray(values, np.float64)
        # The type may round a bound, as float32 does.
        low, high = (np.float64(self._typed(bound)) for bound in (self.low, self.high))
        return bool(((numbers >= low) & (numbers <= high)).all())

    def _bent(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers, or their logarithms; of whole numbers from 0 those of the next ones."""
        if not self.log:
            return numbers
        found: NDArray[np.float64] = np.log1p(numbers) if self.low == 0 else np.log(numbers)
        return found

    def _typed(self, bound: float) -> Any:
        return np.array(bound).astype(self.dtype) if self.dtype.kind == "f" else bound


OTHER = "other"
TRUTHS = Hierarchy(["*", "false", "true"], [-1, 0, 0])


@dataclass(frozen=True)
class Leaves:
    """What is public of a column of listed values.

    Parameters
    ----------
    name : the column's.
    dtype : of text (objects or ``U``), or of truths.
    tree : the hierarchy, whose leaves are the values.
    null_as : the place of the leaf that stands for NULL; None where the type holds none.
    other : the place of the leaf for what is none; 0 where the type itself holds nothing else.
    """

    name: str
    dtype: np.dtype[Any]
    tree: Hierarchy
    null_as: int | None = None
    other: int = 0

    @property
    def low(self) -> float:
        """The place of the first leaf."""
        return 0.0

    @property
    def high(self) -> float:
        """The place of the last one."""
        return self.tree.n_leaves - 1.0

    @property
    def many(self) -> int:
        """0: the values are on no line."""
        return 0

    @property
    def labels(self) -> tuple[str, ...]:
        """All that released values may be, in order."""
        return tuple(self.tree.positions)

    def on_line(self, values: NDArray[Any], nulls: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """The places of the values' leaves, int64 (n,); ``nulls``, bool (n,), are none."""
        if self.dtype.kind == "b":
            # Where the type holds NULL, truths are read as numbers and NaN.
            truths = np.nan_to_num(np.asarray(values, np.float64)) != 0
            places = np.array(truths, np.int64)
        else:
            known, other = self.tree.positions, self.other
            places = np.array(
                [known.get(v, other) if isinstance(v, str) else other for v in values.tolist()],
                np.int64,
            )
        if nulls is not None:
            places[nulls] = self.other if self.null_as is None else self.null_as
        return places

    def of_persons(self, values: NDArray[Any], person: NDArray[np.int64]) -> NDArray[np.int64]:
        """The most frequent leaf of each person, the first of several."""
        held, rows = np.unique(person * self.tree.n_leaves + values, return_counts=True)
        whose, leaf = np.divmod(held, self.tree.n_leaves)
        order = np.lexsort((leaf, -rows, whose))
        found: NDArray[np.int64] = leaf[order][np.unique(whose[order], return_index=True)[1]]
        return found

    def to_grid(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The places of leaves, as they are."""
        return values.astype(np.int64)

    def of_grid(self, grid: NDArray[np.float64]) -> NDArray[Any]:
        """Values of the column's type, (n,), from places of leaves."""
        places = grid.astype(np.int64)
        if self.dtype.kind == "b":
            return np.array(places == 1)
        # Not of the column's own width: a listed value may be longer than all that it holds.
        return np.array(self.labels, "U" if self.dtype.kind == "U" else object)[places]

    def holds(self, values: NDArray[Any]) -> bool:
        """Whether all values are leaves."""
        if self.dtype.kind == "b":
            return values.dtype.kind == "b"
        return all(value in self.tree.positions for value in values.tolist())


def with_other(tree: Hierarchy) -> Hierarchy:
    """The tree with a leaf ``other``: as it has it, else as one more below the root."""
    if OTHER in tree.positions:
        return tree
    return Hierarchy([*tree.labels, OTHER], [*tree.parents.tolist(), 0])


def bins_of(tree: Hierarchy, weights: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """The bin of each leaf, int64 (L,), from 0: as many bins as leaves, but no more than ``most``.

    The deepest cut of the tree with so few nodes; where it has fewer, the heaviest leaves of it
    are bins of their own. How many there are does not depend on ``weights``, float64 (L,), which
    must be noisy.
    """
    nodes = tree.leaves.astype(np.int64)
    for depth in range(tree.height - 1, -1, -1):
        if len(np.unique(nodes)) <= most:
            break
        nodes = np.where(tree.depths[nodes] > depth, tree.parents[nodes], nodes)
    bins = np.unique(nodes, return_inverse=True)[1].reshape(-1).astype(np.int64)
    sizes = np.bincount(bins).tolist()
    for leaf in np.argsort(-weights, kind="stable").tolist():
        if len(sizes) < most and sizes[bins[leaf]] > 1:
            sizes[bins[leaf]] -= 1
            bins[leaf] = len(sizes)
            sizes.append(1)
    return bins
