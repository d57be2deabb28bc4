"""Rows after blanking, and how many rows agree where a missing cell agrees with every value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.methods.suppression_problem import (
    Codes,
    Integers,
    Plan,
    Problem,
    blank_columns,
    present_masks,
    row_ids,
)


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


def release_plan(problem: Problem, plan: Plan) -> ReleasedRows:
    """Return the combinations after blanking; those without a remaining row are left out."""
    blanked = sorted(plan)
    combo = np.array([key[0] for key in blanked], np.int64)
    mask = np.array([key[1] for key in blanked], np.int64)
    n_rows = np.array([plan[key] for key in blanked], np.int64)
    intact = problem.sizes.copy()
    np.subtract.at(intact, combo, n_rows)
    rows = np.flatnonzero(intact)
    combo = np.concatenate([rows, combo])
    mask = np.concatenate([np.zeros(len(rows), np.int64), mask])
    codes = blank_columns(problem.combos[combo], mask)
    return ReleasedRows(combo, mask, np.concatenate([intact[rows], n_rows]), codes)


def difference_masks(left: Codes, right: Codes) -> Integers:
    """Return the columns where rows differ and both have a value, as masks, int64 (l, r)."""
    differences = np.zeros((len(left), len(right)), np.int64)
    for column in range(left.shape[1]):
        a, b = left[:, column, None], right[None, :, column]
        differences |= ((a != b) & (a >= 0) & (b >= 0)).astype(np.int64) << column
    return differences


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
            ids = row_ids(stacked, _mask_columns(common))
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


def _mask_columns(mask: int) -> list[int]:
    """Return the columns of a mask, ascending."""
    return [column for column in range(mask.bit_length()) if mask >> column & 1]
