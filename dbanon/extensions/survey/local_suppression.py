"""Local suppression: blank few cells, such that at least k rows share each combination of keys.

Three rules say which rows share the values of a row with missing cells; see ``suppress_cells``.
Every plan that is feasible by ``category`` is feasible by ``own_wildcard``, and every such plan is
feasible by ``wildcard``.

Sources: M. Templ, A. Kowarik and B. Meindl, "Statistical disclosure control for micro-data using
the R package sdcMicro", Journal of Statistical Software 67 (2015), section 4.2, for the problem and
the counts; A. Gionis, A. Mazza and T. Tassa, "k-Anonymization revisited", ICDE 2008, for the rules:
``own_wildcard`` is their (k, 1)-anonymity.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.errors import InvalidParameter, RecountFailed
from dbanon.extensions.survey.suppression_agreement import (
    cheapest_own_masks,
)
from dbanon.extensions.survey.suppression_bound import bound_wildcard_cost
from dbanon.extensions.survey.suppression_program import (
    ProgramResult,
    has_solver,
    solve_category_plan,
    solve_wildcard_plan,
)
from dbanon.extensions.survey.suppression_recount import MissingRule, recount_rows
from dbanon.extensions.survey.suppression_wildcard import search_wildcard_plan
from dbanon.methods.local_suppression import MAX_COLUMNS
from dbanon.methods.suppression_category import search_category_plan
from dbanon.methods.suppression_problem import (
    Demand,
    Plan,
    Problem,
    distinct_rows,
    row_masks,
)


@dataclass(frozen=True, eq=False)
class Suppression:
    """Cells to blank, and how far their cost may be from the least possible.

    Parameters
    ----------
    blanked : bool (n, m), True for cells to blank. Cells that were missing are False.
    counts_by_column : int64 (m,), the number of cells to blank.
    cost : the sum of the prices of these cells.
    lower_bound : no choice of cells that meets all demands costs less.
    exact : True if the cost is the least possible.
    achieved_counts : for each demand, int64 (n,), how many rows share the released values of each
        row by the rule; all at least k. The first demand is that on all columns.
    n_exposed_rows : the number of rows whose released values agree with fewer than k original rows
        for some demand. Only the rule ``wildcard`` leaves such rows.
    """

    blanked: NDArray[np.bool_]
    counts_by_column: NDArray[np.int64]
    cost: float
    lower_bound: float
    exact: bool
    achieved_counts: tuple[NDArray[np.int64], ...]
    n_exposed_rows: int

    @property
    def gap(self) -> float:
        """By what share the cost exceeds the lower bound; infinite if only the bound is 0."""
        if self.lower_bound > 0:
            return self.cost / self.lower_bound - 1
        return 0.0 if self.cost <= 0 else math.inf


def suppress_cells(
    codes: NDArray[np.int32],
    k: int,
    *,
    missing: MissingRule,
    also_k: Sequence[tuple[Sequence[int], int]] = (),
    weights: ArrayLike | None = None,
    order: Sequence[int] | None = None,
    seconds: float = 20.0,
) -> Suppression:
    """Choose cells to blank, of least cost, such that k rows share each row's key values.

    Parameters
    ----------
    codes : int32 (n, m), the key columns as codes from 0; -1 is missing. At most 12 columns.
    k : how many rows must share the values of all columns; 1 demands nothing.
    missing : which rows share the values of a row with missing cells.

        - ``wildcard``: released rows that agree in all columns where both have a value. This is the
          count of sdcMicro. It protects little where few cells are blanked: k - 1 rows without any
          value agree with every other row, so (k - 1) m cells always suffice. All other rows may
          then stay unique; ``n_exposed_rows`` counts those.
        - ``own_wildcard``: original rows that agree. The result meets ``wildcard``, too, leaves no
          exposed row, and is exact for tables of any size.
        - ``category``: released rows with the same values, and missing ones in the same columns.

    also_k : further demands: columns, and how many rows must share their values.
    weights : float64 (m,), the price of a cell of each column, positive; 1 by default.
    order : all columns, those to be spared first. Prices are then m for the first, to 1 for the
        last. Excludes ``weights``.
    seconds : time limit of the improvement and, separately, of the exact search.

    Raises
    ------
    InvalidParameter : an argument is outside of its range, or the table has fewer rows than k.
    RecountFailed : the recount contradicts the search, which would be a defect.
    """
    _check_codes(codes)
    if missing not in get_args(MissingRule):
        raise InvalidParameter(
            "missing is not a rule of counting.",
            hint="Set missing to 'wildcard', 'own_wildcard' or 'category'.",
        )
    m = codes.shape[1]
    demands = _read_demands(codes, k, also_k)
    combos, sizes, index = distinct_rows(codes)
    problem = Problem(combos, sizes, demands, _read_prices(m, weights, order))
    plan, bound = _search(problem, missing, seconds)
    cost = problem.cost(plan)
    masks = row_masks(plan, index, sizes)
    blanked = (masks[:, None] >> np.arange(m) & 1).astype(np.bool_)
    released = np.where(blanked, np.int32(-1), codes)
    achieved, exposed = [], np.zeros(len(codes), np.bool_)
    for demand in demands:
        counts = recount_rows(released, codes, demand.columns, missing)
        if (counts < demand.k).any():
            raise RecountFailed("The recount finds fewer than k rows after local suppression.")
        achieved.append(counts)
        if missing == "wildcard":
            supports = recount_rows(released, codes, demand.columns, "own_wildcard")
            exposed |= supports < demand.k
    return Suppression(
        blanked=blanked,
        counts_by_column=blanked.sum(axis=0).astype(np.int64),
        cost=cost,
        lower_bound=min(bound, cost),
        exact=cost <= bound * (1 + 1e-9),
        achieved_counts=tuple(achieved),
        n_exposed_rows=int(exposed.sum()),
    )


def _search(problem: Problem, missing: MissingRule, seconds: float) -> tuple[Plan, float]:
    """Return a plan, and a lower bound of the cost of all plans."""
    own_masks, failing = cheapest_own_masks(problem, missing_agrees=missing != "category")
    own_plan = {
        (int(combo), int(own_masks[combo])): int(problem.sizes[combo])
        for combo in np.flatnonzero(own_masks)
    }
    if missing == "own_wildcard" or (missing == "wildcard" and not own_plan):
        return own_plan, problem.cost(own_plan)
    solve = solve_wildcard_plan if missing == "wildcard" else solve_category_plan
    if missing == "wildcard":
        bound = _round_up(problem, bound_wildcard_cost(problem, np.flatnonzero(failing)))
        plan = search_wildcard_plan(problem, own_masks, bound, time.monotonic() + seconds)
    else:
        # Rows that share a pattern of remaining values agree with it, so each row needs its mask.
        bound = _round_up(problem, problem.cost(own_plan))
        plan = search_category_plan(problem, bound, time.monotonic() + seconds)
    cost = problem.cost(plan)
    if bound < cost and has_solver():
        result: ProgramResult = solve(problem, cost, time.monotonic() + seconds)
        bound = max(bound, _round_up(problem, result.bound))
        if result.plan is not None and problem.cost(result.plan) <= cost:
            return result.plan, problem.cost(result.plan)
    return plan, bound


def _round_up(problem: Problem, bound: float) -> float:
    """Round a bound up to the next possible cost, if all prices are whole numbers."""
    bound *= 1 - 1e-9
    if (problem.prices == np.rint(problem.prices)).all():
        return float(math.ceil(bound - 1e-6))
    return bound


def _check_codes(codes: NDArray[np.int32]) -> None:
    if codes.ndim != 2 or codes.dtype != np.int32 or not codes.size or codes.min() < -1:
        raise InvalidParameter(
            "codes is not an int32 array of rows and columns with codes from -1.",
            hint="Code each column from 0, with -1 for missing values, and convert it to np.int32.",
        )
    if codes.shape[1] > MAX_COLUMNS:
        raise InvalidParameter(
            f"Local suppression takes at most {MAX_COLUMNS} key columns, not {codes.shape[1]}.",
            hint=f"Choose the {MAX_COLUMNS} columns that an attacker most likely knows.",
        )


def _read_demands(
    codes: NDArray[np.int32], k: int, also_k: Sequence[tuple[Sequence[int], int]]
) -> tuple[Demand, ...]:
    """Check all demands; returns that on all columns first."""
    n, m = codes.shape
    demands = []
    for columns, needed in ((range(m), k), *also_k):
        distinct = tuple(sorted(set(columns)))
        if not distinct or len(distinct) < len(columns) or distinct[0] < 0 or distinct[-1] >= m:
            raise InvalidParameter(
                "also_k has a set of columns that is empty, repeats a column or names no column.",
                hint=f"Name each column by its index, from 0 to {m - 1}.",
            )
        if needed < 1 or needed > n:
            raise InvalidParameter(
                f"k is {needed}, and the table has {n} rows.",
                hint=f"Set k to a number from 1 to {n}.",
            )
        demands.append(Demand(distinct, int(needed)))
    return tuple(demands)


def _read_prices(
    m: int, weights: ArrayLike | None, order: Sequence[int] | None
) -> NDArray[np.float64]:
    """Return the price of a cell of each column, float64 (m,)."""
    if order is not None:
        if weights is not None or sorted(order) != list(range(m)):
            raise InvalidParameter(
                "order does not name each column exactly once, or there are weights, too.",
                hint=f"List the indices 0 to {m - 1}, the most important column first.",
            )
        prices = np.empty(m)
        prices[list(order)] = np.arange(m, 0, -1)
        return prices
    prices = np.ones(m) if weights is None else np.asarray(weights, np.float64)
    if prices.shape != (m,) or not np.isfinite(prices).all() or (prices <= 0).any():
        raise InvalidParameter(
            "weights are not a positive number for each column.",
            hint=f"Give {m} positive numbers; a larger one spares the cells of its column.",
        )
    return prices
