"""The problem of local suppression, and the masks and plans that its searches work with.

Rows with the same values are one *combination*. A *mask* is a set of columns, as bits: bit c is
column c. A *plan* says how many rows of a combination lose the cells of a mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass

Codes = NDArray[np.int32]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
# Rows to blank, by combination and mask; masks are not 0, numbers of rows are positive.
Plan = dict[tuple[int, int], int]

_MAX_ID = 2**62


@dataclass(frozen=True)
class Demand:
    """A set of key columns whose combined values at least ``k`` rows must share.

    Parameters
    ----------
    columns : indices of the key columns, ascending.
    k : the smallest number of rows.
    """

    columns: tuple[int, ...]
    k: int

    @property
    def mask(self) -> int:
        """The columns as bits."""
        return sum(1 << column for column in self.columns)


@dataclass(frozen=True, eq=False)
class Problem:
    """Combinations of key values, the demands on them, and the price of each column's cells.

    Parameters
    ----------
    combos : int32 (u, m), distinct rows of codes; -1 is missing.
    sizes : int64 (u,), the number of rows of each combination.
    demands : what must hold for every row.
    prices : float64 (m,), the cost of blanking a cell of each column.
    """

    combos: Codes
    sizes: Integers
    demands: tuple[Demand, ...]
    prices: Floats

    @cached_property
    def mask_costs(self) -> Floats:
        """The cost of blanking all cells of each mask in a row, float64 (2 ** m,)."""
        masks = np.arange(1 << len(self.prices))
        costs = np.zeros(len(masks))
        for column, price in enumerate(self.prices):
            costs += price * (masks >> column & 1)
        return costs

    @cached_property
    def present(self) -> Integers:
        """The columns that each combination has a value in, as a mask, int64 (u,)."""
        return present_masks(self.combos)

    @cached_property
    def masks_by_cost(self) -> list[int]:
        """All masks of columns that a demand mentions, cheapest first, then fewest columns."""
        used = np.bitwise_or.reduce([demand.mask for demand in self.demands], initial=0)
        masks = [mask for mask in range(1 << len(self.prices)) if mask & ~int(used) == 0]
        return sorted(masks, key=lambda mask: (self.mask_costs[mask], mask.bit_count(), mask))

    def cost(self, plan: Plan) -> float:
        """Return the cost of a plan."""
        return float(sum(n * self.mask_costs[mask] for (_, mask), n in plan.items()))


def blank_columns(codes: Codes, masks: Integers) -> Codes:
    """Return a copy of codes (t, m) with -1 in the columns of each row's mask, int64 (t,)."""
    columns = np.arange(codes.shape[1])
    return np.where(masks[:, None] >> columns & 1, np.int32(-1), codes)


def present_masks(codes: Codes) -> Integers:
    """Return the columns with a value, as a mask, int64 (t,)."""
    present = np.zeros(len(codes), np.int64)
    for column in range(codes.shape[1]):
        present |= (codes[:, column] >= 0).astype(np.int64) << column
    return present


def row_ids(codes: Codes, columns: Sequence[int]) -> Integers:
    """Number the rows such that rows have equal numbers if these columns are equal, int64 (t,).

    The numbers are small enough to count rows by ``np.bincount``.
    """
    ids, n_ids = np.zeros(len(codes), np.int64), 1
    for column in columns:
        values = codes[:, column]
        n_values = int(values.max(initial=-1)) + 2
        if n_ids > _MAX_ID // n_values:
            ids, n_ids = _compress(ids)
        ids = ids * n_values + (values + 1)
        n_ids *= n_values
    if n_ids > 4 * len(codes) + 1024:
        ids, n_ids = _compress(ids)
    return ids


def _compress(ids: Integers) -> tuple[Integers, int]:
    """Renumber ids from 0 without gaps; also returns how many there are."""
    distinct, inverse = np.unique(ids, return_inverse=True)
    return inverse.reshape(-1).astype(np.int64), len(distinct)


def distinct_rows(codes: Codes) -> tuple[Codes, Integers, Integers]:
    """Return distinct rows (u, m), their numbers of rows (u,) and each row's index (n,)."""
    ids = row_ids(codes, range(codes.shape[1]))
    _, first, inverse, sizes = np.unique(
        ids, return_index=True, return_inverse=True, return_counts=True
    )
    return codes[first], sizes.astype(np.int64), inverse.reshape(-1).astype(np.int64)


def row_masks(plan: Plan, index: Integers, sizes: Integers) -> Integers:
    """Return the columns that each row loses, as masks, int64 (n,): of equal rows, the first do.

    Parameters
    ----------
    index : int64 (n,), the combination of each row.
    sizes : int64 (u,), the number of rows of each combination.
    """
    masks = np.zeros(len(index), np.int64)
    rows_by_combo = np.argsort(index, kind="stable")
    next_row = np.cumsum(sizes) - sizes
    for (combo, mask), n_rows in sorted(plan.items()):
        masks[rows_by_combo[next_row[combo] : next_row[combo] + n_rows]] = mask
        next_row[combo] += n_rows
    return masks
