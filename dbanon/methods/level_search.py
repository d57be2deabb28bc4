"""Choose the levels of global recoding, for which labels and NULLs together lose least.

Combinations of levels are visited by a lower bound of their loss: first that of the labels alone.
Then each row that is too rare must lose its cheapest cell, and two cells where no single one is
enough. Only combinations whose bound is below the least loss so far get a plan of cells, by
``local_suppression``; in large tables, only the plan of the best one is improved. The search stops
after a number of steps, so that the result does not depend on the machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import inf, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.errors import InvalidParameter
from dbanon.methods.local_suppression import local_suppression
from dbanon.methods.registry import Tick, tick_of_part
from dbanon.methods.suppression_category import search_category_plan
from dbanon.methods.suppression_problem import Demand, Problem, distinct_rows, row_ids
from dbanon.spaces.cells import MISSING, space_of_codes
from dbanon.spaces.levels import Combination, LevelSpace

_MAX_COMBINATIONS = 2**22
# The most rows grouped while looking at combinations, and the most pairs of a row and a mask in
# plans. Both end the search, but not in the middle of a plan.
_MAX_GROUPED_ROWS, _MAX_PAIRS = 400_000_000, 10_000_000
# In tables of more records, plans that are only compared are not improved.
_MAX_IMPROVED_RECORDS = 5_000


class LevelTable:
    """The distinct rows of a table, and their codes and losses on all levels.

    Parameters
    ----------
    strata : int64 (n,), the stratum of each record.
    max_cells : the largest number of cells to blank.

    Attributes
    ----------
    top : the highest level of each attribute.
    shape : the number of levels of each attribute.
    loss_bound : float64 with this shape, the loss of the labels of all records alone.
    """

    def __init__(
        self, space: LevelSpace, k: int, strata: NDArray[np.int64], max_cells: int
    ) -> None:
        self.k, self.max_cells = k, max_cells
        self.n_records, self._names = space.mixed.n_records, space.mixed.names
        self._stratum_of_record = strata
        d = len(self._names)
        self.top = space.heights()
        self.shape = tuple(height + 1 for height in self.top)
        if prod(self.shape) > _MAX_COMBINATIONS:
            raise InvalidParameter(
                f"There are {prod(self.shape)} combinations of levels, more than"
                f" {_MAX_COMBINATIONS}.",
                hint="Name fewer quasi-identifiers, or give hierarchies of fewer levels.",
            )
        groups, losses = zip(*map(space.groups, range(d)), strict=True)
        self._root_costs = space.mixed.root_costs.astype(np.float64)
        valid = np.ones((self.n_records, d), np.bool_) if space.valid is None else space.valid
        # The loss of a cell that has a value, by attribute and level.
        self._mean_losses = [
            level_losses / max(int(count), 1)
            for level_losses, count in zip(losses, valid.sum(axis=0), strict=True)
        ]
        finest = [_number(groups[a][0], valid[:, a]) for a in range(d)]
        stratum_codes = np.unique(strata, return_inverse=True)[1].reshape(-1).astype(np.int32)
        rows, self.sizes, self._row_of_record = distinct_rows(
            np.column_stack([*finest, stratum_codes])
        )
        self.strata = rows[:, -1]
        first_records = np.unique(self._row_of_record, return_index=True)[1]
        self._codes = [
            [_number(codes[first_records], valid[first_records, a]) for codes in groups[a]]
            for a in range(d)
        ]
        self.loss_bound = np.zeros(self.shape)
        for attribute, level_losses in enumerate(losses):
            axis = [-1 if a == attribute else 1 for a in range(d)]
            self.loss_bound += np.asarray(level_losses, np.float64).reshape(axis)

    def codes(self, levels: Combination) -> NDArray[np.int32]:
        """The codes of distinct rows at these levels, and their stratum, int32 (u, d + 1)."""
        columns = [codes[level] for codes, level in zip(self._codes, levels, strict=True)]
        return np.column_stack([*columns, self.strata])

    def codes_of_records(self, levels: Combination) -> NDArray[np.int32]:
        """The codes of all records at these levels, int32 (n, d), with ``MISSING`` for NULL."""
        codes: NDArray[np.int32] = self.codes(levels)[self._row_of_record, :-1]
        return codes

    def prices(self, levels: Combination) -> NDArray[np.float64]:
        """What a cell of each attribute that becomes NULL loses beyond its label, float64 (d,)."""
        losses = [float(mean[level]) for mean, level in zip(self._mean_losses, levels, strict=True)]
        prices: NDArray[np.float64] = np.maximum(self._root_costs - np.array(losses), 0.0)
        return prices

    def suppress_cells(
        self, levels: Combination, rng: np.random.Generator, tick: Tick
    ) -> NDArray[np.int32]:
        """Label all records by local suppression at these levels, in each stratum; int32 (n,)."""
        codes = self.codes_of_records(levels)
        root_costs = np.rint(self.prices(levels)).astype(np.int64)
        labels, n_classes, n_done = np.empty(len(codes), np.int32), 0, 0
        for stratum in np.unique(self._stratum_of_record).tolist():
            records = np.flatnonzero(self._stratum_of_record == stratum)
            partition = local_suppression(
                space_of_codes(codes[records], root_costs, self._names),
                self.k,
                tick=tick_of_part(tick, n_done / len(codes), len(records) / len(codes)),
                rng=rng,
                importance="",
            )
            labels[records] = partition.labels + np.int32(n_classes)
            n_classes, n_done = n_classes + partition.n_classes, n_done + len(records)
        return labels

    def count_blank_cells(
        self, levels: Combination, labels: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Count, by attribute, the values that become NULL as their class differs; int64 (d,)."""
        codes, partition = self.codes_of_records(levels), Partition(labels)
        grouped = codes[partition.members]
        smallest = np.minimum.reduceat(grouped, partition.starts)
        differs = smallest != np.maximum.reduceat(grouped, partition.starts)
        counts: NDArray[np.int64] = (differs[labels] & (codes != MISSING)).sum(axis=0)
        return counts

    def count_rows(self, codes: NDArray[np.int32], columns: Sequence[int]) -> NDArray[np.int64]:
        """For each distinct row, count the records equal to it in these columns, int64 (u,)."""
        ids = row_ids(codes, columns)
        return np.bincount(ids, self.sizes).astype(np.int64)[ids]


class _Candidate(NamedTuple):
    """A combination of levels, and a lower bound of its loss; the least loss sorts first.

    Parameters
    ----------
    is_tight : whether the bound knows which single cells are enough.
    """

    bound: float
    levels: Combination
    is_tight: bool = False


def choose_levels(
    table: LevelTable, excluded: set[Combination], rng: np.random.Generator, tick: Tick
) -> tuple[Combination, int]:
    """Return the combination of least loss, and how many combinations were left.

    If no combination needs as few cells as allowed, this is the top of the lattice, where only
    records that are NULL in different attributes differ.
    """
    best = _Candidate(inf, table.top)
    order = np.argsort(table.loss_bound, axis=None, kind="stable")
    fails = np.zeros(table.shape, np.bool_)
    candidates: list[_Candidate] = []
    n_grouped = n_pairs = 0
    position = 0
    while position < len(order) or candidates:
        progress = min(1.0, max(n_grouped / _MAX_GROUPED_ROWS, n_pairs / _MAX_PAIRS))
        tick(progress)

        # Long steps report no share of their own, only that they go on.
        def repeat_progress(_: float, progress: float = progress) -> None:
            tick(progress)

        next_bound = inf
        if position < len(order):
            next_levels = tuple(map(int, np.unravel_index(order[position], table.shape)))
            next_bound = float(table.loss_bound[next_levels])
        least_bound = min(next_bound, candidates[0].bound if candidates else inf)
        if least_bound >= best.bound:
            break
        if n_grouped > _MAX_GROUPED_ROWS or n_pairs > _MAX_PAIRS:
            n_unvisited = len(order) - position - int(fails.reshape(-1)[order[position:]].sum())
            return best.levels, n_unvisited + len(candidates)
        if next_bound <= least_bound:
            position += 1
            if fails[next_levels] or next_levels in excluded:
                continue
            n_grouped += len(table.sizes)
            loss = _bound_of_rare_rows(table, next_levels)
            if loss is None:
                # All combinations below this one in the lattice have as many rare rows, or more.
                fails[tuple(slice(level + 1) for level in next_levels)] = True
            elif loss < best.bound:
                heapq.heappush(candidates, _Candidate(loss, next_levels))
            continue
        candidate = heapq.heappop(candidates)
        if not candidate.is_tight:
            n_grouped += len(table.sizes) * len(table.shape)
            loss = _bound_of_single_cells(table, candidate.levels, repeat_progress)
            if loss is not None and loss < best.bound:
                heapq.heappush(candidates, _Candidate(loss, candidate.levels, is_tight=True))
            continue
        loss, n = _plan_loss(table, candidate.levels, rng, repeat_progress)
        n_pairs += n
        if (loss, candidate.levels) < (best.bound, best.levels):
            best = _Candidate(loss, candidate.levels)
    return best.levels, 0


def _bound_of_rare_rows(table: LevelTable, levels: Combination) -> float | None:
    """Bound the loss from below: each row that is too rare loses its cheapest cell.

    Returns None if that is more cells than allowed.
    """
    codes = table.codes(levels)
    prices = _prices_of_varying(codes, table.prices(levels))
    is_rare = table.count_rows(codes, range(codes.shape[1])) < table.k
    # A row without a value in an attribute may join a class of NULLs at no cost of its own.
    is_complete = (codes[:, :-1] != MISSING).all(axis=1)
    n_losing = int(table.sizes[is_rare & is_complete].sum())
    if n_losing > table.max_cells:
        return None
    least_loss = n_losing * float(prices.min()) if n_losing else 0.0
    return float(table.loss_bound[levels]) + least_loss


def _bound_of_single_cells(table: LevelTable, levels: Combination, tick: Tick) -> float | None:
    """Bound the loss from below: a rare row loses one cell if that is enough, otherwise two.

    Returns None if that is more cells than allowed.
    """
    codes = table.codes(levels)
    prices = _prices_of_varying(codes, table.prices(levels))
    d = len(prices)
    rare_rows = np.flatnonzero(table.count_rows(codes, range(d + 1)) < table.k)
    has_value = codes[rare_rows, :d] != MISSING
    cell_prices = np.where(has_value, prices, 0.0)
    two_cheapest = np.argsort(cell_prices, axis=1, kind="stable")[:, :2]
    least_prices = np.take_along_axis(cell_prices, two_cheapest, axis=1).sum(axis=1)
    n_cells = np.take_along_axis(has_value, two_cheapest, axis=1).sum(axis=1)
    for column in np.flatnonzero(np.isfinite(prices)).tolist():
        tick(column / d)
        counts = table.count_rows(codes, [c for c in range(d + 1) if c != column])[rare_rows]
        is_cheaper = (counts >= table.k) & (cell_prices[:, column] < least_prices)
        least_prices = np.where(is_cheaper, cell_prices[:, column], least_prices)
        n_cells = np.where(counts >= table.k, np.minimum(n_cells, has_value[:, column]), n_cells)
    if int((table.sizes[rare_rows] * n_cells).sum()) > table.max_cells:
        return None
    return float(table.loss_bound[levels] + (table.sizes[rare_rows] * least_prices).sum())


def _prices_of_varying(
    codes: NDArray[np.int32], prices: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return prices, float64 (d,), infinite for attributes that are equal in all rows.

    NULL in such an attribute would make no row equal to another one.
    """
    is_varying = (codes[:, :-1] != codes[0, :-1]).any(axis=0)
    return np.where(is_varying, prices, inf)


def _plan_loss(
    table: LevelTable, levels: Combination, rng: np.random.Generator, tick: Tick
) -> tuple[float, int]:
    """Return the loss with NULLs, infinite if they are too many, and the work that it was.

    In large tables, the greedy search alone tells the combinations apart.
    """
    prices, loss = table.prices(levels), float(table.loss_bound[levels])
    if table.n_records <= _MAX_IMPROVED_RECORDS:
        counts = table.count_blank_cells(levels, table.suppress_cells(levels, rng, tick))
        n_cells, n_pairs = int(counts.sum()), table.n_records << len(prices)
        return (loss + float(counts @ prices) if n_cells <= table.max_cells else inf), n_pairs
    codes, n_cells, n_pairs = table.codes(levels), 0, 0
    for stratum in np.unique(table.strata).tolist():
        rows = np.flatnonzero(table.strata == stratum)
        problem = _state_problem(codes[rows, :-1], table.sizes[rows], prices, table.k)
        if problem is None:
            continue
        plan = search_category_plan(problem, max_rounds=0, tick=tick)
        loss += problem.cost(plan)
        n_cells += sum(n * mask.bit_count() for (_, mask), n in plan.items())
        n_pairs += len(problem.combos) << len(problem.prices)
    return (loss if n_cells <= table.max_cells else inf), n_pairs


def _state_problem(
    codes: NDArray[np.int32], sizes: NDArray[np.int64], prices: NDArray[np.float64], k: int
) -> Problem | None:
    """State the suppression of cells of a stratum as a problem; None if all its rows are equal.

    Parameters
    ----------
    codes : int32 (u, d), rows at the levels, some of them equal.
    sizes : int64 (u,), the records of each row.
    prices : float64 (d,), the price of a cell of each attribute.
    """
    varying = np.flatnonzero((codes != codes[0]).any(axis=0))
    if not len(varying):
        return None
    combos, _, index = distinct_rows(codes[:, varying])
    combo_sizes = np.bincount(index, sizes).astype(np.int64)
    return Problem(combos, combo_sizes, (Demand(tuple(range(len(varying))), k),), prices[varying])


def _number(codes: NDArray[np.int64], has_value: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Number distinct codes from 0, int32 (n,), with ``MISSING`` where there is no value."""
    numbers = np.unique(codes, return_inverse=True)[1].reshape(-1).astype(np.int32)
    return np.where(has_value, numbers, np.int32(MISSING))
