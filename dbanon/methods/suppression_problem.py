"""The problem of local suppression, and the row counts that its searches work with.

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

    def release(self, plan: Plan) -> ReleasedRows:
        """Return the combinations after blanking; those without a remaining row are left out."""
        blanked = sorted(plan)
        combo = np.array([key[0] for key in blanked], np.int64)
        mask = np.array([key[1] for key in blanked], np.int64)
        n_rows = np.array([plan[key] for key in blanked], np.int64)
        intact = self.sizes.copy()
        np.subtract.at(intact, combo, n_rows)
        rows = np.flatnonzero(intact)
        combo = np.concatenate([rows, combo])
        mask = np.concatenate([np.zeros(len(rows), np.int64), mask])
        codes = blank_columns(self.combos[combo], mask)
        return ReleasedRows(combo, mask, np.concatenate([intact[rows], n_rows]), codes)


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """Rows after blanking, with those of the same combination and mask in one entry.

    Parameters
    ----------
    combo, mask, sizes : int64 (t,), the combination, the blanked columns, and the number of rows.
    codes : int32 (t, m), the remaining values; -1 is missing.
    """

    combo: Integers
    mask: Integers
    sizes: Integers
    codes: Codes


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


def mask_columns(mask: int) -> list[int]:
    """Return the columns of a mask, ascending."""
    return [column for column in range(mask.bit_length()) if mask >> column & 1]


def difference_masks(left: Codes, right: Codes) -> Integers:
    """Return the columns where rows differ and both have a value, as masks, int64 (l, r)."""
    differences = np.zeros((len(left), len(right)), np.int64)
    for column in range(left.shape[1]):
        a, b = left[:, column, None], right[None, :, column]
        differences |= ((a != b) & (a >= 0) & (b >= 0)).astype(np.int64) << column
    return differences


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


def count_agreeing(
    queries: Codes,
    population: Codes,
    sizes: Integers,
    columns: Sequence[int],
    *,
    missing_agrees: bool = True,
) -> Integers:
    """Count the rows of a population that agree with each query, int64 (q,).

    Rows agree if they have the same values in all columns where both have one.

    Parameters
    ----------
    queries : int32 (q, m); -1 is missing.
    population : int32 (u, m); -1 is missing.
    sizes : int64 (u,), the number of rows that each row of the population stands for.
    columns : the columns to compare.
    missing_agrees : False if a missing value of the population agrees with no value of a query.
    """
    counts = np.zeros(len(queries), np.int64)
    mask = sum(1 << column for column in columns)
    query_present = present_masks(queries) & mask
    present = present_masks(population) & mask
    groups = [(int(value), np.flatnonzero(present == value)) for value in np.unique(present)]
    for query_value in np.unique(query_present):
        query_rows = np.flatnonzero(query_present == query_value)
        members: dict[int, list[Integers]] = {}
        for value, rows in groups:
            if missing_agrees or not int(query_value) & ~value:
                members.setdefault(int(query_value) & value, []).append(rows)
        for common, parts in members.items():
            rows = np.concatenate(parts)
            stacked = np.concatenate([population[rows], queries[query_rows]])
            ids = row_ids(stacked, mask_columns(common))
            totals = np.bincount(ids[: len(rows)], sizes[rows], minlength=int(ids.max()) + 1)
            counts[query_rows] += totals[ids[len(rows) :]].astype(np.int64)
    return counts


def cheapest_own_masks(
    problem: Problem, *, missing_agrees: bool
) -> tuple[Integers, NDArray[np.bool_]]:
    """Find each combination's cheapest mask that leaves values which enough originals share.

    The masks are optimal: they are tried in order of cost. Also returns which combinations need
    one, bool (u,); the masks, int64 (u,), are 0 for the others.

    Parameters
    ----------
    missing_agrees : False if a missing value of an original agrees with no value of the others.
    """
    masks = np.zeros(len(problem.combos), np.int64)
    pending = np.arange(len(problem.combos))
    failing = np.zeros(len(problem.combos), np.bool_)
    for mask in problem.masks_by_cost:
        candidates = pending[problem.present[pending] & mask == mask]
        if not len(candidates):
            continue
        for demand in problem.demands:
            columns = [column for column in demand.columns if not mask >> column & 1]
            counts = count_agreeing(
                problem.combos[candidates],
                problem.combos,
                problem.sizes,
                columns,
                missing_agrees=missing_agrees,
            )
            candidates = candidates[counts >= demand.k]
        masks[candidates] = mask
        pending = np.setdiff1d(pending, candidates, assume_unique=True)
        if mask == 0:
            failing[pending] = True
        if not len(pending):
            break
    return masks, failing
