"""Local suppression where a missing cell agrees with every value: greedy cover, search.

Blanking a cell never lowers a count here, so that any plan can be completed. A failing row reaches
k in two ways: its own cells are blanked, or other rows become *donors*, whose blank cells agree
with it. A donor serves all failing rows at the same time. The greedy cover (V. Chvátal, "A greedy
heuristic for the set-covering problem", Mathematics of Operations Research 4, 1979) takes the
donor that serves the most per cost. After each donor, the plan that blanks own cells of all rows
still failing is feasible; the cheapest of these is kept. The improvement step restores
cells that no count needs, and removes random parts of the plan and covers them anew (P. Shaw,
"Using constraint programming and local search methods to solve vehicle routing problems", 1998).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.survey.suppression_agreement import (
    ReleasedRows,
    count_agreeing,
    difference_masks,
    release_plan,
)
from dbanon.methods.suppression_problem import (
    Floats,
    Integers,
    Plan,
    Problem,
    blank_columns,
)

# The most donor candidates and failing rows that a greedy step compares.
_MAX_CANDIDATES, _MAX_FAILING = 256, 2048
# The most rounds of the improvement step in all, and without an improvement, and its work in
# compared cells.
_MAX_ROUNDS, _MAX_IDLE_ROUNDS, _MAX_WORK = 200, 50, 2_000_000_000
# Restoring checks each blank cell against all released combinations.
_MAX_RESTORE_WORK = 4_000_000_000


@dataclass(frozen=True, eq=False)
class _Failing:
    """Released combinations that miss a demand, one entry for each demand.

    Parameters
    ----------
    rows : int64 (f,), indices of released combinations.
    demand_masks : int64 (f,), the columns of the demand.
    deficits : int64 (f,), how many more rows must agree.
    weights : float64 (f,), the number of rows of each entry.
    """

    rows: Integers
    demand_masks: Integers
    deficits: Integers
    weights: Floats


def search_wildcard_plan(
    problem: Problem, own_masks: Integers, bound: float, deadline: float
) -> Plan:
    """Search a cheap plan by greedy covers and an improvement step.

    Parameters
    ----------
    own_masks : int64 (u,), for each combination a mask that suffices without any donor; 0 if the
        combination fails no demand.
    bound : a lower bound of the cost; the search ends when it is reached.
    deadline : the time limit of the improvement, in seconds of the monotonic clock.
    """
    own_plan = {
        (combo, int(own_masks[combo])): int(problem.sizes[combo])
        for combo in map(int, np.flatnonzero(own_masks))
    }
    rng = np.random.default_rng(0)
    plans = [own_plan, _cover(problem, own_masks, {}, rng, noise=0.0)]
    best = min((restore_cells(problem, plan, deadline) for plan in plans), key=problem.cost)
    work_per_round = 50 * problem.combos.size + 1
    n_idle_rounds = 0
    for _ in range(min(_MAX_ROUNDS, _MAX_WORK // work_per_round)):
        if n_idle_rounds > _MAX_IDLE_ROUNDS:
            break
        if problem.cost(best) <= bound or time.monotonic() > deadline:
            break
        candidate = _cover(problem, own_masks, _remove_part(best, rng), rng, noise=0.3)
        candidate = restore_cells(problem, candidate, deadline)
        n_idle_rounds += 1
        if problem.cost(candidate) <= problem.cost(best):
            if problem.cost(candidate) < problem.cost(best):
                n_idle_rounds = 0
            best = candidate
    return best


def _remove_part(plan: Plan, rng: np.random.Generator) -> Plan:
    """Return the plan without some random rows: one to four, or up to a third."""
    keys = sorted(plan)
    n_removed = int(rng.integers(1, max(5, len(keys) // 3)))
    remaining = dict(plan)
    for index in rng.permutation(len(keys))[:n_removed]:
        n = remaining.pop(keys[index]) - 1
        if n:
            remaining[keys[index]] = n
    return remaining


def _add_rows(plan: Plan, combo: int, mask: int, n: int) -> None:
    """Add ``n`` rows to a plan; a negative number removes rows."""
    if mask:
        plan[combo, mask] = plan.get((combo, mask), 0) + n
        if not plan[combo, mask]:
            del plan[combo, mask]


def _cover(
    problem: Problem, own_masks: Integers, plan: Plan, rng: np.random.Generator, noise: float
) -> Plan:
    """Complete a plan: add donors while they pay off, then blank own cells of failing rows.

    Parameters
    ----------
    noise : the share by which costs vary at random.
    """
    plan = dict(plan)
    for _ in range(1 + max(demand.k for demand in problem.demands)):
        released = release_plan(problem, plan)
        failing = _find_failing(problem, released)
        if not len(failing.rows):
            return plan
        if not _add_donors(problem, own_masks, released, failing, plan, rng, noise):
            break
    released = release_plan(problem, plan)
    for row in map(int, np.unique(_find_failing(problem, released).rows)):
        combo, mask, n = (
            int(array[row]) for array in (released.combo, released.mask, released.sizes)
        )
        _add_rows(plan, combo, mask, -n)
        _add_rows(plan, combo, mask | int(own_masks[combo]), n)
    return plan


def _find_failing(problem: Problem, released: ReleasedRows) -> _Failing:
    """List the released combinations that miss a demand."""
    parts: list[tuple[Integers, Integers, Integers]] = []
    for demand in problem.demands:
        counts = count_agreeing(released.codes, released.codes, released.sizes, demand.columns)
        rows = np.flatnonzero(counts < demand.k)
        parts.append((rows, np.full(len(rows), demand.mask), demand.k - counts[rows]))
    rows, demand_masks, deficits = (np.concatenate(part) for part in zip(*parts, strict=True))
    weights = released.sizes[rows].astype(np.float64)
    return _Failing(rows, demand_masks, deficits, weights)


def _choose_candidates(
    problem: Problem, released: ReleasedRows, failing: _Failing, rng: np.random.Generator
) -> Integers:
    """Choose the released combinations that agree with failing rows on the dearest cells."""
    scores = np.zeros(len(released.codes))
    for column, price in enumerate(problem.prices):
        values = released.codes[:, column]
        shares = np.bincount(values[failing.rows] + 1, failing.weights, int(values.max()) + 2)
        shares[0] = failing.weights.sum()
        scores += price * shares[values + 1]
    scores *= 1 + 0.01 * rng.random(len(scores))
    n_candidates = min(_MAX_CANDIDATES, len(scores))
    return np.sort(np.argsort(-scores, kind="stable")[:n_candidates])


def _add_donors(
    problem: Problem,
    own_masks: Integers,
    released: ReleasedRows,
    failing: _Failing,
    plan: Plan,
    rng: np.random.Generator,
    noise: float,
) -> bool:
    """Add donors to ``plan`` while they pay off; return whether there were any."""
    if len(failing.rows) > _MAX_FAILING:
        sample = np.sort(rng.choice(len(failing.rows), _MAX_FAILING, replace=False))
        scale = len(failing.rows) / _MAX_FAILING
        failing = _Failing(
            failing.rows[sample],
            failing.demand_masks[sample],
            failing.deficits[sample],
            failing.weights[sample] * scale,
        )
    candidates = _choose_candidates(problem, released, failing, rng)
    donors = _DonorTable(problem, released, failing, candidates)
    combos, masks = released.combo[failing.rows], released.mask[failing.rows]
    own_costs = failing.weights * problem.mask_costs[own_masks[combos] & ~masks]
    # Combinations that miss several demands are listed once for each, and pay once.
    is_first = np.zeros(len(combos), np.bool_)
    is_first[np.unique(failing.rows, return_index=True)[1]] = True
    factors = 1 + noise * rng.random(len(problem.mask_costs)) if noise else np.float64(1)
    costs = [float(own_costs[is_first].sum())]
    total = 0.0
    while donors.deficits.any():
        move = donors.choose(problem.mask_costs * factors)
        if move is None:
            break
        total += donors.apply(*move)
        unserved = np.unique(failing.rows[donors.deficits > 0])
        costs.append(total + float(own_costs[is_first & np.isin(failing.rows, unserved)].sum()))
    n_moves = int(np.argmin(costs))
    for combo, mask, added in donors.moves[:n_moves]:
        _add_rows(plan, combo, mask, -1)
        _add_rows(plan, combo, mask | added, 1)
    return n_moves > 0


class _DonorTable:
    """Candidate donors, and the failing rows that each would serve."""

    def __init__(
        self, problem: Problem, released: ReleasedRows, failing: _Failing, candidates: Integers
    ) -> None:
        self.deficits = failing.deficits.copy()
        self.moves: list[tuple[int, int, int]] = []
        self._problem, self._weights = problem, failing.weights
        self._combo, self._mask = released.combo[candidates], released.mask[candidates]
        self._copies = released.sizes[candidates].copy()
        differences = difference_masks(released.codes[candidates], released.codes[failing.rows])
        self._differences = differences & failing.demand_masks

    def choose(self, mask_costs: Floats) -> tuple[int, int] | None:
        """Return the candidate and the mask to blank that serve the most per cost; None if none."""
        n_masks, n_candidates = len(mask_costs), len(self._combo)
        active = np.flatnonzero(self.deficits > 0)
        differences = self._differences[:, active]
        bins = differences + n_masks * np.arange(n_candidates)[:, None]
        weights = np.broadcast_to(self._weights[active], bins.shape)
        totals = np.bincount(bins.ravel(), weights.ravel(), n_candidates * n_masks)
        served = totals.astype(np.float64).reshape(n_candidates, n_masks)
        served[:, 0] = 0.0  # These agree already.
        served[self._copies == 0] = 0.0
        for column in range(len(self._problem.prices)):
            # Add to each mask what it serves without this column.
            view = served.reshape(n_candidates, -1, 2, 1 << column)
            view[:, :, 1] += view[:, :, 0]
        served[:, 1:] /= mask_costs[1:]
        best = int(served.argmax())
        if served.flat[best] <= 0:
            return None
        return best // n_masks, best % n_masks

    def apply(self, candidate: int, mask: int) -> float:
        """Blank the cells of a mask in one row of a candidate; return the cost."""
        differences = self._differences[candidate]
        self.deficits[(differences != 0) & (differences & ~mask == 0)] -= 1
        np.maximum(self.deficits, 0, out=self.deficits)
        combo, old_mask = int(self._combo[candidate]), int(self._mask[candidate])
        self.moves.append((combo, old_mask, mask))
        # The row is a new candidate, which may lose more cells.
        self._copies[candidate] -= 1
        self._combo = np.append(self._combo, combo)
        self._mask = np.append(self._mask, old_mask | mask)
        self._copies = np.append(self._copies, 1)
        self._differences = np.vstack([self._differences, differences & ~mask])
        return float(self._problem.mask_costs[mask])


def restore_cells(problem: Problem, plan: Plan, deadline: float) -> Plan:
    """Restore blank cells that no count needs, the dearest first."""
    table = _RestoreTable(problem, plan)
    n_cells = sum(n * mask.bit_count() for (_, mask), n in plan.items())
    if n_cells * problem.combos.size > _MAX_RESTORE_WORK:
        return plan
    columns = sorted(range(len(problem.prices)), key=lambda column: -problem.prices[column])
    for combo, mask in sorted(plan, key=lambda key: -problem.mask_costs[key[1]]):
        for _ in range(plan[combo, mask]):
            if time.monotonic() > deadline:
                return table.plan
            remaining = mask
            for column in columns:
                if remaining >> column & 1 and table.restore(combo, remaining, column):
                    remaining &= ~(1 << column)
    return table.plan


class _RestoreTable:
    """Released combinations with their counts, updated when a cell is restored."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.plan = dict(plan)
        self._problem = problem
        released = release_plan(problem, plan)
        self._codes, self._sizes = released.codes, released.sizes.copy()
        keys = zip(released.combo.tolist(), released.mask.tolist(), strict=True)
        self._row_of = {key: row for row, key in enumerate(keys)}
        self._counts = [
            count_agreeing(released.codes, released.codes, released.sizes, demand.columns)
            for demand in problem.demands
        ]

    def restore(self, combo: int, mask: int, column: int) -> bool:
        """Restore a cell in one row of (combo, mask), if all demands still hold."""
        value = self._problem.combos[combo, column]
        row = self._row_of[combo, mask]
        values = self._codes[:, column]
        differing = np.flatnonzero((values >= 0) & (values != value) & (self._sizes > 0))
        differences = difference_masks(self._codes[row : row + 1], self._codes[differing])[0]
        changes: list[tuple[NDArray[np.int64], Integers, int]] = []
        for demand, counts in zip(self._problem.demands, self._counts, strict=True):
            rows = differing[:0]
            if column in demand.columns:
                rows = differing[differences & demand.mask == 0]
            n_remaining = int(counts[row] - self._sizes[rows].sum())
            if n_remaining < demand.k or (counts[rows] <= demand.k).any():
                return False
            changes.append((counts, rows, n_remaining))
        new_row = self._row_for(combo, mask & ~(1 << column))
        for index, (_, rows, n_remaining) in enumerate(changes):
            self._counts[index][rows] -= 1
            self._counts[index][new_row] = n_remaining
        self._sizes[row] -= 1
        self._sizes[new_row] += 1
        _add_rows(self.plan, combo, mask, -1)
        _add_rows(self.plan, combo, mask & ~(1 << column), 1)
        return True

    def _row_for(self, combo: int, mask: int) -> int:
        """Return the row of (combo, mask), a new one without rows if it is missing."""
        key = combo, mask
        if key not in self._row_of:
            self._row_of[key] = len(self._codes)
            codes = blank_columns(self._problem.combos[combo : combo + 1], np.array([mask]))
            self._codes = np.vstack([self._codes, codes])
            self._sizes = np.append(self._sizes, 0)
            self._counts = [np.append(counts, 0) for counts in self._counts]
        return self._row_of[key]
