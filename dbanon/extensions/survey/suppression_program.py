"""Exact local suppression by integer programs, solved by HiGHS (installed by the extra ``bound``).

A variable counts the rows of a combination that lose the cells of a mask. Constraints are added
lazily: the program is solved, the release it describes is counted, and the constraints of the
combinations that fail are added. Each program is a relaxation, so its bound holds for all plans,
and a release without a failing combination is optimal.

- Missing cells as wildcards: a combination i whose rows lose mask A, of which d rows more have to
  agree, needs d rows of other combinations j that lose all columns where j still differs from i
  (a set multicover).
- Missing cells as a category: a pattern of remaining values has no row, or k rows or more.

Q. Huangfu and J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical
Programming Computation 10 (2018).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from dbanon.extensions.survey.suppression_agreement import (
    count_agreeing,
    difference_masks,
    release_plan,
)
from dbanon.methods.suppression_problem import (
    Demand,
    Integers,
    Plan,
    Problem,
    blank_columns,
    row_ids,
)

# The most variables for which a program is attempted, and the most coefficients that it may get.
# Each constraint of the wildcard program has up to all variables.
_MAX_WILDCARD_VARIABLES, _MAX_CATEGORY_VARIABLES = 4_000, 60_000
_MAX_COEFFICIENTS = 2_000_000


@dataclass(frozen=True)
class ProgramResult:
    """The result of an exact search.

    Parameters
    ----------
    plan : an optimal plan; None if time ran out before the search finished.
    bound : a lower bound of the cost of any plan.
    """

    plan: Plan | None
    bound: float


def has_solver() -> bool:
    """Return whether HiGHS is installed."""
    return find_spec("highspy") is not None


class _IntegerProgram:
    """Non-negative integer variables of least cost, with rows that are added between solves."""

    def __init__(self, costs: Iterable[float], upper_bounds: Iterable[int]) -> None:
        # The public class ``Highs`` prints a banner as it is created; its base does not.
        from highspy import HighsVarType
        from highspy._core import _Highs

        self._solver = _Highs()
        self._integer = HighsVarType.kInteger
        for name, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", 0),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 1e-7),
        ):
            self._solver.setOptionValue(name, value)
        self.n_variables = self.n_coefficients = 0
        for cost, upper_bound in zip(costs, upper_bounds, strict=True):
            self.add_variable(cost, upper_bound)

    def add_variable(self, cost: float, upper_bound: int) -> int:
        """Add a variable; returns its index."""
        index = self.n_variables
        empty = np.zeros(0, np.int32)
        self._solver.addCol(cost, 0.0, float(upper_bound), 0, empty, np.zeros(0))
        self._solver.changeColIntegrality(index, self._integer)
        self.n_variables += 1
        return index

    def add_row(self, terms: dict[int, float], low: float, high: float = math.inf) -> None:
        """Require that a weighted sum of variables, by their index, is between two limits."""
        columns = np.fromiter(terms, np.int32, len(terms))
        values = np.fromiter(terms.values(), np.float64, len(terms))
        self._solver.addRow(low, high, len(terms), columns, values)
        self.n_coefficients += len(terms)

    def solve(self, deadline: float) -> tuple[Integers | None, float]:
        """Return optimal values, None if time ran out, and a lower bound of the cost."""
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0:
            return None, 0.0
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds_left)
        self._solver.run()
        bound = float(self._solver.getInfo().mip_dual_bound)
        bound = max(bound, 0.0) if math.isfinite(bound) else 0.0
        if self._solver.modelStatusToString(self._solver.getModelStatus()) != "Optimal":
            return None, bound
        values = np.array(self._solver.getSolution().col_value)
        return np.rint(values).astype(np.int64), bound


class _PlanProgram:
    """The variables of a plan, and the rows that make it use each row of the table once."""

    def __init__(self, problem: Problem, keys: list[tuple[int, int]], max_cost: float) -> None:
        self.problem, self.keys = problem, keys
        self.index_of = {key: index for index, key in enumerate(keys)}
        costs = [float(problem.mask_costs[mask]) for _, mask in keys]
        self.program = _IntegerProgram(costs, [int(problem.sizes[combo]) for combo, _ in keys])
        terms: dict[int, dict[int, float]] = {}
        for index, (combo, _) in enumerate(keys):
            terms.setdefault(combo, {})[index] = 1.0
        for combo, row in terms.items():
            size = float(problem.sizes[combo])
            self.program.add_row(row, size, size)
        objective = {index: cost for index, cost in enumerate(costs) if cost}
        self.program.add_row(objective, 0.0, max_cost)
        self._switches: dict[int, int] = {}

    def switch(self, index: int) -> int:
        """Return a variable that is 1 if a variable of the plan is not 0."""
        size = float(self.problem.sizes[self.keys[index][0]])
        if size == 1:
            return index
        if index not in self._switches:
            variable = self.program.add_variable(0.0, 1)
            self.program.add_row({index: 1.0, variable: -size}, -math.inf, 0.0)
            self._switches[index] = variable
        return self._switches[index]

    def solve(self, deadline: float) -> tuple[Plan | None, float]:
        """Return the optimal plan of the rows so far, None if time ran out, and its bound."""
        values, bound = self.program.solve(deadline)
        if values is None:
            return None, bound
        plan = {
            key: int(value)
            for key, value in zip(self.keys, values, strict=False)
            if value and key[1]
        }
        return plan, bound


def _list_keys(problem: Problem) -> list[tuple[int, int]]:
    """List each combination with each mask of its values, 0 included."""
    return [
        (combo, mask)
        for combo, present in enumerate(problem.present.tolist())
        for mask in problem.masks_by_cost
        if mask & ~present == 0
    ]


def solve_wildcard_plan(problem: Problem, max_cost: float, deadline: float) -> ProgramResult:
    """Find an optimal plan if missing cells agree with every value.

    Parameters
    ----------
    max_cost : the cost of a feasible plan.
    deadline : the time limit, in seconds of the monotonic clock.
    """
    if len(problem.combos) * len(problem.masks_by_cost) > _MAX_WILDCARD_VARIABLES:
        return ProgramResult(None, 0.0)
    keys = _list_keys(problem)
    program = _PlanProgram(problem, keys, max_cost)
    differences = difference_masks(problem.combos, problem.combos)
    best_bound, seen = 0.0, set[tuple[int, int, Demand]]()
    plan: Plan | None = {}
    while plan is not None:
        released = release_plan(problem, plan)
        is_feasible = True
        for demand in problem.demands:
            counts = count_agreeing(released.codes, released.codes, released.sizes, demand.columns)
            for row in np.flatnonzero(counts < demand.k):
                combo, mask = int(released.combo[row]), int(released.mask[row])
                is_feasible = False
                if (combo, mask, demand) not in seen:
                    seen.add((combo, mask, demand))
                    remaining = differences[combo] & demand.mask & ~mask
                    _require_donors(program, combo, mask, demand.k, remaining)
        if is_feasible:
            return ProgramResult(plan, problem.cost(plan))
        if program.program.n_coefficients > _MAX_COEFFICIENTS:
            break
        plan, bound = program.solve(deadline)
        best_bound = max(best_bound, bound)
    return ProgramResult(None, best_bound)


def _require_donors(
    program: _PlanProgram, combo: int, mask: int, k: int, remaining: Integers
) -> None:
    """Require enough donors where rows of ``combo`` lose the cells of ``mask``.

    Parameters
    ----------
    remaining : int64 (u,), the columns where each combination still differs.
    """
    deficit = k - int(program.problem.sizes[remaining == 0].sum())
    terms: dict[int, float] = {
        index: 1.0
        for index, (donor, donor_mask) in enumerate(program.keys)
        if remaining[donor] and int(remaining[donor]) & ~donor_mask == 0
    }
    switch = program.switch(program.index_of[combo, mask])
    terms[switch] = terms.get(switch, 0.0) - deficit
    program.program.add_row(terms, 0.0)


def solve_category_plan(problem: Problem, max_cost: float, deadline: float) -> ProgramResult:
    """Find an optimal plan if missing cells are a value of their own.

    The parameters are those of ``solve_wildcard_plan``.
    """
    if len(problem.combos) * len(problem.masks_by_cost) > _MAX_CATEGORY_VARIABLES:
        return ProgramResult(None, 0.0)
    keys, patterns = _supported_patterns(problem)
    program = _PlanProgram(problem, keys, max_cost)
    best_bound = 0.0
    plan: Plan | None = {}
    added: list[set[int]] = [set() for _ in problem.demands]
    while plan is not None:
        n_rows = np.zeros(len(keys), np.int64)
        for (combo, mask), n in plan.items():
            n_rows[program.index_of[combo, mask]] = n
            n_rows[program.index_of[combo, 0]] -= n
        for combo, size in enumerate(problem.sizes.tolist()):
            n_rows[program.index_of[combo, 0]] += size
        is_feasible = True
        for demand, ids, patterns_added in zip(problem.demands, patterns, added, strict=True):
            counts = np.bincount(ids, n_rows)
            for pattern in np.flatnonzero((counts > 0) & (counts < demand.k)).tolist():
                is_feasible = False
                if pattern not in patterns_added:
                    patterns_added.add(pattern)
                    _require_class(program, np.flatnonzero(ids == pattern), demand.k)
        if is_feasible:
            return ProgramResult(plan, problem.cost(plan))
        if program.program.n_coefficients > _MAX_COEFFICIENTS:
            break
        plan, bound = program.solve(deadline)
        best_bound = max(best_bound, bound)
    return ProgramResult(None, best_bound)


def _supported_patterns(problem: Problem) -> tuple[list[tuple[int, int]], list[Integers]]:
    """List combinations and masks whose remaining values k rows can share.

    Also returns the pattern that each leaves of each demand's columns, by number. Those of mask 0
    are always listed, so that a plan can be counted.
    """
    keys = _list_keys(problem)
    combo = np.array([key[0] for key in keys], np.int64)
    mask = np.array([key[1] for key in keys], np.int64)
    codes = blank_columns(problem.combos[combo], mask)
    is_supported = np.ones(len(keys), np.bool_)
    patterns = []
    for demand in problem.demands:
        ids = row_ids(codes, demand.columns)
        patterns.append(ids)
        # A combination reaches a pattern of some demand by several masks; count its rows once.
        pairs = np.unique(ids * len(problem.sizes) + combo)
        owner, member = pairs // len(problem.sizes), pairs % len(problem.sizes)
        support = np.bincount(owner, problem.sizes[member], minlength=int(ids.max()) + 1)
        is_supported &= support[ids] >= demand.k
    listed = np.flatnonzero(is_supported | (mask == 0))
    return [keys[index] for index in listed.tolist()], [ids[listed] for ids in patterns]


def _require_class(program: _PlanProgram, members: Integers, k: int) -> None:
    """Require that the variables of a pattern are all 0, or add up to k rows or more."""
    is_used = program.program.add_variable(0.0, 1)
    terms = {int(index): 1.0 for index in members}
    program.program.add_row({**terms, is_used: -float(k)}, 0.0)
    for index in members.tolist():
        size = float(program.problem.sizes[program.keys[index][0]])
        program.program.add_row({index: 1.0, is_used: -size}, -math.inf, 0.0)
