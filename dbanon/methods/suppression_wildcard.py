"""Local suppression where NULL agrees with every value: optimal, one row at a time.

Two rows agree if they have the same values in all columns where both have one. Every released row
must agree with at least k rows of the source, which is (k, 1)-anonymity. Rows do not depend on each
other, so the cheapest set of cells of each row makes the cheapest release. The released rows meet
the count of sdcMicro, too: rows that agree with a source row also agree with its released row.

If only rows that have the same values as a row count, the same search gives a lower bound of the
cells where NULL is a value of its own. All rows of a class have the values that it is released
with, so k rows of the source share them.

Sources: A. Gionis, A. Mazza and T. Tassa, "k-Anonymization revisited", ICDE 2008, for (k, 1)-
anonymity; M. Templ, A. Kowarik and B. Meindl, "Statistical disclosure control for micro-data using
the R package sdcMicro", Journal of Statistical Software 67 (2015), section 4.2, for the count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.methods.suppression_problem import (
    Codes,
    Demand,
    Integers,
    Problem,
    distinct_rows,
    row_ids,
)

# The most pairs of a mask and a combination that the search for a lower bound visits.
_MAX_BOUND_PAIRS = 40_000_000


def search_own_masks(
    problem: Problem,
    *,
    missing_agrees: bool = True,
    tick: Callable[[float], None] = lambda share: None,
    max_masks: int | None = None,
) -> tuple[Integers, NDArray[np.bool_]]:
    """Find each combination's cheapest mask that leaves values which enough rows share.

    The masks are tried in order of cost. Returns them, int64 (u,), and which combinations have none
    yet, bool (u,): none of them without ``max_masks``, if the table has as many rows as each k.

    Parameters
    ----------
    missing_agrees : False if a missing value of a row agrees with no value of the others.
    tick : called with the share done, 0 to 1; an exception from it ends the search.
    max_masks : the number of masks to try; None for all.
    """
    masks = np.zeros(len(problem.combos), np.int64)
    is_pending = np.ones(len(problem.combos), np.bool_)
    for mask in problem.masks_by_cost[:max_masks]:
        candidates = np.flatnonzero(is_pending & (problem.present & mask == mask))
        for demand in problem.demands:
            if not len(candidates):
                break
            tick(1 - is_pending.mean())
            columns = [column for column in demand.columns if not mask >> column & 1]
            counts = _count_agreeing(problem, candidates, columns, missing_agrees=missing_agrees)
            candidates = candidates[counts >= demand.k]
        masks[candidates] = mask
        is_pending[candidates] = False
        if not is_pending.any():
            break
    return masks, is_pending


def count_least_cells(codes: Codes, demands: Sequence[Demand], *, missing_agrees: bool) -> int:
    """Count cells that every release needs to suppress: a lower bound.

    It is the least number if NULL agrees with every value, unless the table is so large that the
    search ends early.

    Parameters
    ----------
    codes : int32 (n, m), at least one column; -1 is missing.
    demands : what must hold for every row.
    missing_agrees : True if NULL agrees with every value, False if it is a value of its own.
    """
    combos, sizes, _ = distinct_rows(codes)
    problem = Problem(combos, sizes, tuple(demands), np.ones(codes.shape[1]))
    max_masks = max(1, _MAX_BOUND_PAIRS // len(combos))
    masks, is_pending = search_own_masks(
        problem, missing_agrees=missing_agrees, max_masks=max_masks
    )
    cells = problem.mask_costs[masks]
    if is_pending.any():
        # Masks that were not tried cost at least as much as the first of them.
        untried_masks = problem.masks_by_cost[max_masks:]
        cells[is_pending] = problem.mask_costs[untried_masks[0]] if untried_masks else 0
    return int((cells * sizes).sum())


def _count_agreeing(
    problem: Problem, queries: Integers, columns: Sequence[int], *, missing_agrees: bool
) -> Integers:
    """Count the rows that agree with some combinations in some columns, int64 (q,).

    Parameters
    ----------
    queries : int64 (q,), the combinations to count for.
    missing_agrees : False if a missing value of a row agrees with no value of the others.
    """
    combos, sizes = problem.combos, problem.sizes
    counts = np.zeros(len(queries), np.int64)
    mask = sum(1 << column for column in columns)
    present = problem.present & mask
    groups = [(int(value), np.flatnonzero(present == value)) for value in np.unique(present)]
    for query_value in np.unique(present[queries]).tolist():
        positions = np.flatnonzero(present[queries] == query_value)
        # Rows that are compared with the queries in the same columns.
        members: dict[int, list[Integers]] = {}
        for value, rows in groups:
            if missing_agrees or not query_value & ~value:
                members.setdefault(query_value & value, []).append(rows)
        for common, parts in members.items():
            rows = np.concatenate(parts)
            stacked = np.concatenate([combos[rows], combos[queries[positions]]])
            ids = row_ids(stacked, [column for column in columns if common >> column & 1])
            totals = np.bincount(ids[: len(rows)], sizes[rows], minlength=int(ids.max()) + 1)
            counts[positions] += totals[ids[len(rows) :]].astype(np.int64)
    return counts
