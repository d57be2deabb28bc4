"""Local suppression where a missing cell is a value of its own: greedy classes and local search.

Every released combination needs k rows, so that blanking a row may leave too few rows behind. This
is k-anonymity by suppression (A. Meyerson and R. Williams, "On the complexity of optimal
k-anonymity", PODS 2004), which is NP-hard. The greedy step visits costs in ascending order. At each
cost, failing combinations form a class if together they have k rows, or if rows of larger classes
can be blanked, too, and that costs less than the next cost. With several demands, each is repaired
in turn until all hold: cells are only blanked, so this ends. The improvement step moves rows to
cheaper classes, and removes classes that are near each other to form them anew.

Two sets of rows whose classes all have k rows have this property together. So large tables are
solved in blocks.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dbanon.methods.suppression_problem import (
    Demand,
    Integers,
    Plan,
    Problem,
    blank_columns,
    row_ids,
)

# The most pairs of a combination and a mask in a block.
_MAX_PAIRS = 4_000_000
# The most rounds of the improvement step in all, and without an improvement, and its work in pairs.
_MAX_ROUNDS, _MAX_IDLE_ROUNDS, _MAX_WORK = 2_000, 200, 1_000_000_000
# Rows that can join a class: the cost of each, their combination and mask, and the new mask.
_Donor = tuple[float, tuple[int, int], int]


def search_category_plan(
    problem: Problem,
    bound: float = 0.0,
    deadline: float = math.inf,
    tick: Callable[[float], None] = lambda share: None,
    max_rounds: int = _MAX_ROUNDS,
) -> Plan:
    """Search a cheap plan by greedy classes and an improvement step.

    The table must have as many rows as the largest k.

    Parameters
    ----------
    bound : a lower bound of the cost; the search ends when it is reached.
    deadline : the time limit of the improvement, in seconds of the monotonic clock. Without one,
        the plan does not depend on the speed of the machine.
    tick : called with the share done, 0 to 1; an exception from it ends the search.
    max_rounds : the most rounds of the improvement step; 0 for greedy classes alone.
    """
    n_combos = max(1, _MAX_PAIRS // len(problem.masks_by_cost))
    if len(problem.combos) <= n_combos:
        return _search_block(problem, bound, deadline, tick, max_rounds)
    # Neighbours in this order differ in the cheapest columns.
    columns = np.argsort(problem.prices, kind="stable")
    order = np.lexsort([problem.combos[:, column] for column in columns])
    n_blocks = -(-len(order) // n_combos)
    needed_rows = max(demand.k for demand in problem.demands)
    plan: Plan = {}
    blocks = _cut_blocks(order, problem.sizes, n_blocks, needed_rows)
    for number, block in enumerate(blocks):
        part = Problem(problem.combos[block], problem.sizes[block], problem.demands, problem.prices)

        def block_tick(share: float, number: int = number) -> None:
            tick((number + share) / len(blocks))

        for (combo, mask), n in _search_block(part, 0.0, deadline, block_tick, max_rounds).items():
            plan[int(block[combo]), mask] = n
    return plan


def _cut_blocks(
    order: Integers, sizes: Integers, n_blocks: int, needed_rows: int
) -> list[Integers]:
    """Cut combinations into blocks, each with the needed number of rows."""
    blocks: list[Integers] = []
    for block in np.array_split(order, n_blocks):
        if blocks and min(sizes[block].sum(), sizes[blocks[-1]].sum()) < needed_rows:
            blocks[-1] = np.concatenate([blocks[-1], block])
        else:
            blocks.append(block)
    return blocks


def _search_block(
    problem: Problem,
    bound: float,
    deadline: float,
    tick: Callable[[float], None],
    max_rounds: int,
) -> Plan:
    progress = _Progress(tick)
    state = _ClassTable(problem, progress)
    rng = np.random.default_rng(0)
    state.repair()
    state.move_to_cheaper_classes()
    work_per_round = 10 * state.patterns[0].size
    n_rounds = min(max_rounds, _MAX_WORK // work_per_round)
    best, n_idle_rounds = state.plan(), 0
    for number in range(n_rounds):
        progress.report((1 + number) / (1 + n_rounds))
        if problem.cost(best) <= bound or time.monotonic() > deadline:
            break
        n_idle_rounds += 1
        if n_idle_rounds > _MAX_IDLE_ROUNDS:
            break
        for key, n in state.choose_neighbouring_rows(best, rng):
            state.add(key, -n)
            state.add((key[0], 0), n)
        state.repair(rng)
        state.move_to_cheaper_classes()
        candidate = state.plan()
        if problem.cost(candidate) <= problem.cost(best):
            if problem.cost(candidate) < problem.cost(best):
                n_idle_rounds = 0
            best = candidate
        else:
            state.assign(best)
    return best


class _Progress:
    """Reports the share that is done, and repeats it in long steps."""

    def __init__(self, tick: Callable[[float], None]) -> None:
        self._tick, self._share = tick, 0.0

    def report(self, share: float) -> None:
        """Report a share."""
        self._share = share
        self._tick(share)

    def repeat(self) -> None:
        """Report the last share again, so that a long step can be ended."""
        self._tick(self._share)


class _ClassTable:
    """Rows by combination and mask, and the number of rows of each pattern of values.

    A *pattern* is what a mask leaves of a combination in the columns of a demand, as a number.

    Parameters
    ----------
    patterns : for each demand, int64 (u, masks), the pattern of each combination and mask.
    """

    def __init__(self, problem: Problem, progress: _Progress) -> None:
        self.problem, self.progress = problem, progress
        self.masks = np.array(problem.masks_by_cost)
        self.index_of_mask = {int(mask): index for index, mask in enumerate(self.masks)}
        u, n_masks = len(problem.combos), len(self.masks)
        is_valid = (self.masks[None, :] & ~problem.present[:, None]) == 0
        self.costs = np.where(is_valid, problem.mask_costs[self.masks], math.inf)
        codes = blank_columns(np.repeat(problem.combos, n_masks, axis=0), np.tile(self.masks, u))
        self.patterns = [
            row_ids(codes, demand.columns).reshape(u, n_masks) for demand in problem.demands
        ]
        self.rows: dict[tuple[int, int], int] = {}
        self.counts: list[Integers] = []
        self.assign({})

    def assign(self, plan: Plan) -> None:
        """Set all rows by a plan."""
        intact = self.problem.sizes.copy()
        for (combo, _), n in plan.items():
            intact[combo] -= n
        self.rows = {(combo, 0): int(intact[combo]) for combo in np.flatnonzero(intact).tolist()}
        for (combo, mask), n in plan.items():
            self.rows[combo, self.index_of_mask[mask]] = n
        keys = np.array(list(self.rows), np.int64).reshape(-1, 2)
        sizes = np.fromiter(self.rows.values(), np.int64, len(self.rows))
        self.counts = []
        for patterns in self.patterns:
            counts = np.zeros(int(patterns.max()) + 1, np.int64)
            np.add.at(counts, patterns[keys[:, 0], keys[:, 1]], sizes)
            self.counts.append(counts)

    def plan(self) -> Plan:
        """Return the rows with a blank cell."""
        return {
            (combo, int(self.masks[index])): n for (combo, index), n in self.rows.items() if index
        }

    def add(self, key: tuple[int, int], n: int) -> None:
        """Add ``n`` rows of a combination and the index of a mask; negative to remove rows."""
        for patterns, counts in zip(self.patterns, self.counts, strict=True):
            counts[patterns[key]] += n
        self.rows[key] = self.rows.get(key, 0) + n
        if not self.rows[key]:
            del self.rows[key]

    def repair(self, rng: np.random.Generator | None = None) -> None:
        """Blank cells until all demands hold; with ``rng``, some patterns are tried late."""
        is_changed = True
        while is_changed:
            is_changed = False
            for number, demand in enumerate(self.problem.demands):
                counts = self.counts[number]
                if ((counts > 0) & (counts < demand.k)).any():
                    _DemandRepair(self, number, demand, rng).run()
                    is_changed = True

    def move_to_cheaper_classes(self) -> None:
        """Move rows to a cheaper class of k rows or more, where their own class can spare them."""
        blanked = [key for key in self.rows if key[1]]
        for combo, index in sorted(blanked, key=lambda key: -self.costs[key]):
            costs = self.costs[combo]
            is_open = costs < costs[index]
            n = self.rows[combo, index]
            # Either all rows leave and their classes remain valid or end, or only spare rows do.
            all_can_leave, spare = np.ones(len(costs), np.bool_), np.full(len(costs), n)
            for demand, patterns, counts in zip(
                self.problem.demands, self.patterns, self.counts, strict=True
            ):
                targets, n_class = patterns[combo], int(counts[patterns[combo, index]])
                leaves = targets != patterns[combo, index]
                is_open &= ~leaves | (counts[targets] >= demand.k)
                if n < n_class < n + demand.k:
                    all_can_leave &= ~leaves
                spare[leaves] = np.minimum(spare[leaves], max(n_class - demand.k, 0))
            movable = np.where(all_can_leave, n, spare)
            options = np.flatnonzero(is_open & (movable > 0))
            if len(options):
                best = int(options[np.argmin(costs[options])])
                n_moved = int(movable[best])
                self.add((combo, index), -n_moved)
                self.add((combo, best), n_moved)

    def choose_neighbouring_rows(
        self, plan: Plan, rng: np.random.Generator
    ) -> list[tuple[tuple[int, int], int]]:
        """Choose all rows of a few classes with blank cells, near a random one."""
        keys = [(combo, self.index_of_mask[mask]) for combo, mask in plan]
        combos = np.array([combo for combo, _ in keys])
        start = self.problem.combos[combos[rng.integers(len(combos))]]
        differs = self.problem.combos[combos] != start
        distances = (differs * self.problem.prices).sum(axis=1) + rng.random(len(combos))
        chosen = np.argsort(distances)[: int(rng.integers(2, 13))].tolist()
        patterns = self.patterns[0]
        classes = {int(patterns[keys[index]]) for index in chosen}
        return [(key, self.rows[key]) for key in keys if int(patterns[key]) in classes]


class _DemandRepair:
    """Blanks cells of the rows that miss one demand, at the least cost of each row first."""

    def __init__(
        self,
        table: _ClassTable,
        number: int,
        demand: Demand,
        rng: np.random.Generator | None,
    ) -> None:
        self._table, self._k, self._demand_mask = table, demand.k, demand.mask
        self._patterns, self._costs = table.patterns[number], table.costs
        # The rows of each pattern in the table, which pending rows are taken out of.
        self._stock = table.counts[number]
        self._delays = np.zeros(len(self._stock))
        if rng is not None:
            self._delays[rng.random(len(self._stock)) < 0.3] = rng.random()
        self._units: list[tuple[int, int]] = []
        self._sizes = np.zeros(0, np.int64)
        self._is_pending = np.zeros(0, np.bool_)
        failing = (self._stock > 0) & (self._stock < demand.k)
        self._add_units([key for key in table.rows if failing[self._patterns[key]]])

    def _add_units(self, keys: list[tuple[int, int]]) -> None:
        """Take rows out of their classes, and list all masks that they may get instead."""
        self._units += keys
        sizes = np.array([self._table.rows[key] for key in keys], np.int64)
        self._sizes = np.concatenate([self._sizes, sizes])
        self._is_pending = np.concatenate([self._is_pending, np.ones(len(keys), np.bool_)])
        combo, index = np.array(self._units, np.int64).reshape(-1, 2).T
        for key, n in zip(keys, sizes.tolist(), strict=True):
            self._table.add(key, -n)
        costs = self._costs[combo] - self._costs[combo, index][:, None]
        is_option = self._is_option(index[:, None], np.arange(costs.shape[1])[None, :])
        unit, option = np.nonzero(is_option & np.isfinite(costs))
        visit_costs = costs[unit, option]
        visit_costs *= 1 + self._delays[self._patterns[combo[unit], option]]
        order = np.argsort(visit_costs, kind="stable")
        self._unit, self._option = unit[order], option[order]
        self._visit_cost, self._cost = visit_costs[order], costs[self._unit, self._option]
        self._pattern = self._patterns[combo[self._unit], self._option]

    def run(self) -> None:
        """Repair all rows."""
        levels = np.unique(np.round(self._table.problem.mask_costs[self._table.masks], 9))
        levels = np.append(levels, math.inf)
        for level, next_level in pairwise(levels):
            entries = self._entries(level)
            while len(entries):
                self._table.progress.repeat()
                self._form_classes(entries)
                self._table.progress.repeat()
                self._blank_spare_rows(self._entries(level), level, next_level)
                n_before, entries = len(entries), self._entries(level)
                if len(entries) == n_before:
                    break
        self._blank_completely()

    def _entries(self, level: float) -> Integers:
        """Return the options of pending rows that cost at most ``level`` per row."""
        end = int(np.searchsorted(self._visit_cost, level + 1e-9, side="right"))
        return np.flatnonzero(self._is_pending[self._unit[:end]])

    def _group(self, entries: Integers) -> tuple[Integers, Integers, Integers]:
        """Sort entries by pattern; returns them, and the first and last position of each group."""
        entries = entries[np.argsort(self._pattern[entries], kind="stable")]
        patterns = self._pattern[entries]
        starts = np.flatnonzero(np.diff(patterns, prepend=-1))
        return entries, starts, np.append(starts[1:], len(entries))

    def _assign(self, entries: Integers) -> None:
        for entry in entries.tolist():
            unit = int(self._unit[entry])
            self._is_pending[unit] = False
            key = self._units[unit][0], int(self._option[entry])
            self._table.add(key, int(self._sizes[unit]))

    def _form_classes(self, entries: Integers) -> None:
        """Form classes of pending rows that together have k rows, the cheapest per row first."""
        entries, starts, ends = self._group(entries)
        if not len(entries):
            return
        sizes = self._sizes[self._unit[entries]]
        n_rows = np.add.reduceat(sizes, starts)
        costs = np.add.reduceat(sizes * self._cost[entries], starts)
        stock = self._stock[self._pattern[entries[starts]]]
        feasible = np.flatnonzero(n_rows + stock >= self._k)
        order = np.lexsort([-n_rows[feasible], costs[feasible] / n_rows[feasible]])
        for group in feasible[order].tolist():
            members = entries[starts[group] : ends[group]]
            members = members[self._is_pending[self._unit[members]]]
            n_members = int(self._sizes[self._unit[members]].sum())
            if n_members + self._stock[self._pattern[entries[starts[group]]]] >= self._k:
                self._assign(members)

    def _blank_spare_rows(self, entries: Integers, level: float, next_level: float) -> None:
        """Complete classes with intact rows of larger classes, if that costs less than waiting."""
        entries, starts, ends = self._group(entries)
        if not len(entries):
            return
        donors = self._list_donors(self._pattern[entries[starts]], level)
        offers: list[tuple[float, int]] = []
        patterns = self._pattern[entries[starts]].tolist()
        for group in [group for group, pattern in enumerate(patterns) if pattern in donors]:
            members = entries[starts[group] : ends[group]]
            cost_per_row, chosen = self._price_class(members, donors)
            if chosen and cost_per_row <= next_level:
                offers.append((cost_per_row, group))
        for _, group in sorted(offers):
            members = entries[starts[group] : ends[group]]
            cost_per_row, chosen = self._price_class(members, donors)
            if not chosen or cost_per_row > next_level:
                continue
            for key, option, n in chosen:
                self._table.add(key, -n)
                self._table.add((key[0], option), n)
            self._assign(members[self._is_pending[self._unit[members]]])

    def _list_donors(self, patterns: Integers, level: float) -> dict[int, list[_Donor]]:
        """List the rows of classes of more than k that can join others, by pattern."""
        is_target = np.zeros(len(self._stock), np.bool_)
        is_target[patterns] = True
        keys = np.array(list(self._table.rows), np.int64).reshape(-1, 2)
        keys = keys[self._stock[self._patterns[keys[:, 0], keys[:, 1]]] > self._k]
        row, option = np.nonzero(is_target[self._patterns[keys[:, 0]]])
        combo, index = keys[row].T
        costs = self._costs[combo, option] - self._costs[combo, index]
        usable = self._is_option(index, option) & (costs <= level + 1e-9)
        usable &= self._patterns[combo, option] != self._patterns[combo, index]
        donors = defaultdict[int, list[_Donor]](list)
        for entry in np.flatnonzero(usable).tolist():
            key = int(combo[entry]), int(index[entry])
            pattern = int(self._patterns[combo[entry], option[entry]])
            donors[pattern].append((float(costs[entry]), key, int(option[entry])))
        for options in donors.values():
            options.sort()
        return donors

    def _is_option(self, index: Integers, option: Integers) -> NDArray[np.bool_]:
        """Return whether masks, by index, add only columns of the demand to others."""
        old, new = self._table.masks[index], self._table.masks[option]
        is_option: NDArray[np.bool_] = (old & ~new == 0) & (new & ~old & ~self._demand_mask == 0)
        return is_option

    def _price_class(
        self, members: Integers, donors: dict[int, list[_Donor]]
    ) -> tuple[float, list[tuple[tuple[int, int], int, int]]]:
        """Return the cost of a class per pending row, and each donor's key, new mask and rows.

        There are no donors if they do not suffice.
        """
        members = members[self._is_pending[self._unit[members]]]
        if not len(members):
            return math.inf, []
        sizes = self._sizes[self._unit[members]]
        pattern = int(self._pattern[members[0]])
        cost = float((sizes * self._cost[members]).sum())
        n_needed = self._k - int(sizes.sum()) - int(self._stock[pattern])
        chosen: list[tuple[tuple[int, int], int, int]] = []
        spared = defaultdict[int, int](int)
        spared_of_key = defaultdict[tuple[int, int], int](int)
        for price, key, option in donors.get(pattern, []):
            source = int(self._patterns[key])
            n_spare = int(self._stock[source]) - self._k - spared[source]
            n = min(n_needed, n_spare, self._table.rows.get(key, 0) - spared_of_key[key])
            if n > 0:
                spared[source] += n
                spared_of_key[key] += n
                chosen.append((key, option, n))
                cost += n * price
                n_needed -= n
            if n_needed <= 0:
                return cost / float(sizes.sum()), chosen
        return math.inf, []

    def _blank_completely(self) -> None:
        """Blank all columns of the demand in pending rows, and in small classes up to k rows."""
        pattern = -1
        for unit in np.flatnonzero(self._is_pending).tolist():
            pattern = self._blank_row(self._units[unit], int(self._sizes[unit]))
        self._is_pending[:] = False
        while pattern >= 0 and self._stock[pattern] < self._k:
            sizes = np.where(self._stock > 0, self._stock, np.iinfo(np.int64).max)
            sizes[pattern] = np.iinfo(np.int64).max
            smallest = int(sizes.argmin())
            for key, n in list(self._table.rows.items()):
                if self._patterns[key] == smallest:
                    self._table.add(key, -n)
                    self._blank_row(key, n)

    def _blank_row(self, key: tuple[int, int], n: int) -> int:
        """Add rows with all columns of the demand blank; returns their pattern."""
        present = int(self._table.problem.present[key[0]])
        mask = int(self._table.masks[key[1]]) | self._demand_mask & present
        new_key = key[0], self._table.index_of_mask[mask]
        self._table.add(new_key, n)
        return int(self._patterns[new_key])
