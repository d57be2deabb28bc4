"""Forecast the error of synthetic rows before any epsilon is spent.

The error is the mean total variation of all tables of two columns, in cells: listed values, and ten
cells of numbers. It has these parts, each computed from the shares of the budget that the methods
themselves plan, and from the cells of a table:

- *noise*: a count of noise with mean magnitude m is off by about m (1 - exp(-r / m)) if it has r
  rows, since estimates are not negative and their sum is known.
- *bins*: what a counted table loses because a method counts fewer bins than there are cells. Within
  a bin, columns are taken to be independent.
- *pairs that are not counted*: these lose a part of their dependence, the total variation from
  independent columns. A model of other pairs explains the rest.

The counted pairs are the ones with the most dependence, as if they were chosen without noise. Parts
are independent, so their squares add up. Rows are spread by the counts, so drawing them adds
little.

The factors below were fitted to measured errors of the tables of
``benchmarks/synthesis_forecast.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.synthetic_rows import (
    CHOICE_EPSILON,
    DELTA,
    EPSILONS,
    MAX_CELLS,
    MAX_ERROR,
    CellColumn,
    ErrorForecast,
    Remedies,
    SyntheticForecast,
)
from dbanon.errors import DbanonError
from dbanon.extensions.synthesis import marginals
from dbanon.extensions.synthesis.accounting import Accounting
from dbanon.extensions.synthesis.junction import count_cells, find_maximal_cliques
from dbanon.extensions.synthesis.shares import (
    GRID,
    EpsilonShares,
    divide_epsilon,
    require_column_count,
)
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.concentrated import Cost
from dbanon.job.synthesis import (
    CONCENTRATED,
    DP_MARGINALS,
    DP_RANKS,
    PURE,
    QUANTILES,
    RANKS,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Pair = tuple[int, int]

# Rows relative to noise from which on the levels of a histogram count different ranges.
_ROWS_TO_DIVIDE = 100
# Noise on a margin of ``dp_marginals``, relative to its counts: two-way counts remove some.
_MARGIN_FACTOR = 0.88
# Noise on a cell of a counted table, relative to that of a count: the fit removes some.
_FIT_FACTOR = 0.85
# The part of the dependence that pairs lose which are not counted, of each method.
_LOST_IN_MODEL, _LOST_IN_TREE = 0.75, 0.63
# The part of a column's range in which most of its rows are, for sums of ranks.
_OCCUPIED_RANGE = 0.73
# The loss within groups of consecutive ranks, relative to their share of the rows.
_GROUP_FACTOR = 0.31
# Values tried for remedies.
_EPSILON_STEPS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
_VALUES_STEPS = (20, 10, 8, 6, 5, 4, 3, 2)


@dataclass(frozen=True, eq=False)
class PairTable:
    """A table of two columns.

    Parameters
    ----------
    shares : the share of the rows in each cell, float64.
    dependence : its total variation from independent columns with the same margins.
    """

    shares: Floats
    dependence: float


class CellTables:
    """All tables of two columns of a sample of n units.

    Parameters
    ----------
    n : number of units.
    columns : the columns of the sample.
    trees : the listed values of each column, None for numbers; built if not passed, which takes a
        while if lists are long.
    """

    def __init__(
        self,
        n: int,
        columns: Sequence[CellColumn],
        trees: Sequence[Hierarchy | None] | None = None,
    ) -> None:
        self.n, self.columns = n, tuple(columns)
        self.trees = tuple(map(_build_flat_tree, columns) if trees is None else trees)
        self._tabulated: dict[Pair, PairTable] = {}

    @cached_property
    def pairs(self) -> Mapping[Pair, PairTable]:
        """The tables of all pairs of columns."""
        p = len(self.columns)
        for a in range(p):
            for b in range(a + 1, p):
                if (a, b) not in self._tabulated:
                    self._tabulated[a, b] = self._tabulate(a, b)
        return self._tabulated

    @property
    def independent_error(self) -> float:
        """The mean dependence of all pairs; 0 if there is one column."""
        return _mean([table.dependence for table in self.pairs.values()])

    def select(self, indices: Sequence[int]) -> CellTables:
        """The tables of some of the columns, in ascending order of their indices."""
        selected = CellTables(
            self.n, [self.columns[j] for j in indices], [self.trees[j] for j in indices]
        )
        for a, first in enumerate(indices):
            for b in range(a + 1, len(indices)):
                selected._tabulated[a, b] = self.pairs[first, indices[b]]
        return selected

    def coarsen(self, max_values: int) -> CellTables:
        """The tables of columns of at most so many values, similar or rare ones put together."""
        return CellTables(self.n, [_coarsen_column(column, max_values) for column in self.columns])

    def _tabulate(self, a: int, b: int) -> PairTable:
        first, second = self.columns[a].codes, self.columns[b].codes
        m, width = len(first), int(second.max()) + 1
        counts = np.bincount(first * width + second, minlength=(int(first.max()) + 1) * width)
        shares = counts.reshape(-1, width) / m
        independent = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        distance = float(np.abs(shares - independent).sum()) / 2
        # A sample has more dependence by chance than all rows.
        chance = float(np.sqrt(2 * independent * (1 - independent) / np.pi).sum()) / 2
        dependence = math.sqrt(max(distance**2 - chance**2 * (1 / m - 1 / self.n), 0.0))
        return PairTable(shares, dependence)


def forecast_synthetic_rows(n: int, columns: Sequence[CellColumn]) -> SyntheticForecast:
    """Forecast the errors of all methods; see ``dbanon.advice.synthetic_rows``."""
    tables = CellTables(n, columns)
    errors = [
        forecast
        for epsilon in EPSILONS
        for forecast in (*_forecast_pure(tables, epsilon), _forecast_with_delta(tables, epsilon))
    ]
    candidates = [
        error for error in errors if error.delta is None and error.epsilon == CHOICE_EPSILON
    ]
    best = _find_best(candidates)
    return SyntheticForecast(
        n_columns=len(columns),
        errors=tuple(errors),
        independent=tables.independent_error,
        best=best,
        remedies=None if _is_enough(best) else _find_remedies(tables),
    )


def _find_best(forecasts: Sequence[ErrorForecast]) -> ErrorForecast | None:
    """Find the forecast of the least error; None if all methods refuse."""
    possible = [forecast for forecast in forecasts if forecast.two_way is not None]
    return min(possible, key=lambda forecast: forecast.two_way or 0.0, default=None)


def _is_enough(best: ErrorForecast | None) -> bool:
    return best is not None and best.two_way is not None and best.two_way <= MAX_ERROR


def _find_remedies(tables: CellTables) -> Remedies:
    """Find what brings the error down to ``MAX_ERROR``, by changing one thing at a time."""

    def is_enough(changed: CellTables, epsilon: float = CHOICE_EPSILON) -> bool:
        return _is_enough(_find_best(list(_forecast_pure(changed, epsilon))))

    p = len(tables.columns)
    by_values = sorted(range(p), key=lambda j: (_count_values(tables.columns[j]), j))
    most_values = max(map(_count_values, tables.columns))
    return Remedies(
        epsilon=next((e for e in _EPSILON_STEPS if is_enough(tables, e)), None),
        # More columns are not always worse, so this is the first number of columns found.
        n_columns=next(
            (m for m in _list_column_steps(p) if is_enough(tables.select(sorted(by_values[:m])))),
            None,
        ),
        n_values=next(
            (m for m in _VALUES_STEPS if m < most_values and is_enough(tables.coarsen(m))), None
        ),
    )


def _list_column_steps(p: int) -> list[int]:
    """List numbers of columns to try, descending from below p to 2, about ten of them."""
    step = max((p - 2) // 10, 1)
    return list(range(p - 1, 1, -step))


def _count_values(column: CellColumn) -> int:
    return column.n_values or GRID


def _coarsen_column(column: CellColumn, max_values: int) -> CellColumn:
    if _count_values(column) <= max_values:
        return column
    bins = _assign_cells(column, max_values)
    codes = bins[column.codes]
    shares = np.bincount(codes) / len(codes)
    return CellColumn(codes, shares, len(shares), is_listed=True)


def _forecast_pure(tables: CellTables, epsilon: float) -> Iterator[ErrorForecast]:
    """Forecast all methods without delta."""
    for margins in (RANKS, QUANTILES):
        options = {} if margins == RANKS else {"margins": margins}
        empty = ErrorForecast(DP_RANKS, options, epsilon, None)
        yield _forecast(empty, partial(_forecast_ranks, tables, epsilon, margins))
    empty = ErrorForecast(DP_MARGINALS, {}, epsilon, None)
    yield _forecast(empty, partial(_forecast_marginals, tables, Cost(epsilon)))


def _forecast_with_delta(tables: CellTables, epsilon: float) -> ErrorForecast:
    empty = ErrorForecast(DP_MARGINALS, {"accounting": CONCENTRATED}, epsilon, DELTA)
    return _forecast(empty, partial(_forecast_marginals, tables, Cost(epsilon, DELTA)))


def _forecast(empty: ErrorForecast, compute: Callable[[], tuple[float, float]]) -> ErrorForecast:
    """Add the errors to a forecast, or the code of the method's refusal."""
    try:
        one_way, two_way = compute()
    except DbanonError as error:
        return replace(empty, refusal=error.code)
    return replace(empty, one_way=one_way, two_way=two_way)


def _forecast_marginals(tables: CellTables, cost: Cost) -> tuple[float, float]:
    """Forecast the errors of ``dp_marginals`` in tables of one and of two columns."""
    n, columns, is_pure = tables.n, tables.columns, cost.delta is None
    shares = marginals.divide_amount(
        n,
        cost.epsilon if is_pure else cost.rho,
        PURE if is_pure else CONCENTRATED,
        tables.trees,
        [0 if column.is_listed else column.n_values for column in columns],
    )
    accounting = shares.accounting
    errors, n_bins = [], []
    for j, column in enumerate(columns):
        magnitude = accounting.mean_magnitude(shares.leaf_scales[j])
        if shares.counts_values(j):
            magnitude *= math.sqrt(_count_values_per_cell(column))
        else:
            magnitude = _estimate_histogram_noise(
                n, accounting, magnitude, shares.histogram_shares[j].depth
            )
        errors.append(_noise_error(_MARGIN_FACTOR * magnitude, n, column.shares))
        n_bins.append(min(shares.limit_bins(j), _count_values(column)))
    magnitude = 0.0
    if shares.rounds:
        _, count_scale = marginals.scale_round(accounting, shares.round_amount)
        magnitude = accounting.mean_magnitude(count_scale)
    counted_pairs = _choose_pairs(tables, shares.rounds, n_bins, magnitude)
    return _mean(errors), _combine_errors(
        tables,
        errors,
        n_bins,
        counted_pairs,
        magnitude,
        _LOST_IN_MODEL if counted_pairs else 1.0,
    )


def _estimate_histogram_noise(
    n: int, accounting: Accounting, magnitude: float, depth: int
) -> float:
    """Estimate the noise on a cell of numbers, in rows.

    Parameters
    ----------
    magnitude : mean noise on a count of one level that has all of the column's amount.
    depth : number of levels. Factors were fitted with levels that share the amount evenly.
    """
    level_magnitude = magnitude * accounting.count_scale(1 / depth) / accounting.count_scale(1.0)
    # With few rows, all levels count the same ranges, so that their noise averages out.
    equal_levels = math.exp(-n / level_magnitude / _ROWS_TO_DIVIDE)
    return level_magnitude * math.pow(depth, -equal_levels / 2)


def _choose_pairs(
    tables: CellTables, rounds: int, n_bins: Sequence[int], magnitude: float
) -> set[Pair]:
    """Choose the pairs that ``dp_marginals`` counts, by its score of independent columns."""

    def score(pair: Pair) -> float:
        a, b = pair
        return 2 * tables.n * tables.pairs[pair].dependence - magnitude * n_bins[a] * n_bins[b] / 2

    chosen_pairs: list[Pair] = []
    columns = [(j,) for j in range(len(n_bins))]
    for pair in sorted(tables.pairs, key=score, reverse=True):
        if len(chosen_pairs) == rounds:
            break
        cliques = find_maximal_cliques([*columns, *chosen_pairs, pair], n_bins)
        if sum(count_cells(clique, n_bins) for clique in cliques) <= marginals.MAX_CELLS:
            chosen_pairs.append(pair)
    return set(chosen_pairs)


def _forecast_ranks(tables: CellTables, epsilon: float, margins: str) -> tuple[float, float]:
    """Forecast the errors of ``dp_ranks`` in tables of one and of two columns."""
    n, columns = tables.n, tables.columns
    require_column_count(len(columns))
    shares = divide_epsilon(
        n,
        len(columns),
        epsilon,
        tables.trees,
        margins,
        [0 if column.is_listed else column.n_values for column in columns],
    )
    errors = []
    for j, column in enumerate(columns):
        if shares.has_counts[j]:
            magnitude = shares.leaf_scale * math.sqrt(_count_values_per_cell(column))
            errors.append(_noise_error(magnitude, n, column.shares))
        else:
            # Noise moves the ends of all cells, and thus all rows if it is large.
            error = len(column.shares) * _estimate_rank_noise(shares) / n / 2
            error += _GROUP_FACTOR * shares.values_per_sum / n
            errors.append(1 - math.exp(-error))
    n_bins = [min(shares.n_bins, _count_values(column)) for column in columns]
    counted_pairs = _find_strongest_tree(tables) if shares.has_dependence else set()
    return _mean(errors), _combine_errors(
        tables,
        errors,
        n_bins,
        counted_pairs,
        shares.count_scale,
        _LOST_IN_TREE if counted_pairs else 1.0,
    )


def _estimate_rank_noise(shares: EpsilonShares) -> float:
    """Estimate the noise on a cell of numbers, in rows."""
    # The noise on the mean of a group, as a share of the range. It moves both ends of a cell.
    mean_noise = shares.margin_scale / GRID / shares.values_per_sum
    rank_noise = shares.n * math.sqrt(2) * mean_noise / _OCCUPIED_RANGE
    if shares.edge_shares is None:
        return rank_noise
    return min(rank_noise, shares.edge_shares.count_scale)


def _find_strongest_tree(tables: CellTables) -> set[Pair]:
    """Find the tree of all columns with the most dependence."""
    component = list(range(len(tables.columns)))
    tree = set()
    for a, b in sorted(tables.pairs, key=lambda pair: -tables.pairs[pair].dependence):
        if component[a] != component[b]:
            tree.add((a, b))
            joined = component[b]
            component = [component[a] if c == joined else c for c in component]
    return tree


def _combine_errors(
    tables: CellTables,
    errors: Sequence[float],
    n_bins: Sequence[int],
    counted_pairs: set[Pair],
    magnitude: float,
    lost_part: float,
) -> float:
    """Return the mean error of all tables of two columns; of one column's if it is the only one.

    Parameters
    ----------
    errors : the error of each column.
    n_bins : number of bins of each column in counted tables.
    counted_pairs : the pairs that are counted.
    magnitude : the mean noise on a count of such a table.
    lost_part : the part of the dependence that other pairs lose.
    """
    if len(errors) == 1:
        return errors[0]
    results = []
    for (a, b), table in tables.pairs.items():
        if (a, b) in counted_pairs:
            columns = (tables.columns[a], tables.columns[b])
            squares = _square_counted_error(
                tables.n, table.shares, columns, (n_bins[a], n_bins[b]), magnitude
            )
        else:
            squares = (lost_part * table.dependence) ** 2
        results.append(min(math.sqrt(errors[a] ** 2 + errors[b] ** 2 + squares), 1.0))
    return _mean(results)


def _square_counted_error(
    n: int,
    cell_shares: Floats,
    columns: tuple[CellColumn, CellColumn],
    n_bins: Pair,
    magnitude: float,
) -> float:
    """Return the squared error of a counted table from noise and from bins wider than cells."""
    rows, cols = (
        _assign_cells(column, n_column_bins)[: cell_shares.shape[axis]]
        for axis, (column, n_column_bins) in enumerate(zip(columns, n_bins, strict=True))
    )
    bins = np.zeros((int(rows.max()) + 1, int(cols.max()) + 1))
    np.add.at(bins, (rows[:, None], cols[None, :]), cell_shares)
    margins = cell_shares.sum(axis=1), cell_shares.sum(axis=0)
    # Within a bin, rows are spread by the margins.
    row_parts = margins[0] / np.bincount(rows, margins[0])[rows].clip(1e-12)
    col_parts = margins[1] / np.bincount(cols, margins[1])[cols].clip(1e-12)
    spread = bins[rows[:, None], cols[None, :]] * row_parts[:, None] * col_parts
    bin_error = float(np.abs(spread - cell_shares).sum()) / 2
    # Several counts in a cell have more noise together.
    counts_per_cell = max(n_bins[0] / bins.shape[0], 1.0) * max(n_bins[1] / bins.shape[1], 1.0)
    noise = _noise_error(_FIT_FACTOR * magnitude * math.sqrt(counts_per_cell), n, bins)
    return bin_error**2 + noise**2


def _assign_cells(column: CellColumn, n_bins: int) -> Ints:
    """Assign each cell of a column to a bin, int64, from 0; at most ``n_bins`` bins."""
    n_cells = min(len(column.shares), MAX_CELLS)
    if n_bins >= n_cells:
        return np.arange(n_cells)
    if column.is_listed:
        # Values with the most rows have bins of their own.
        return np.minimum(np.arange(n_cells), n_bins - 1)
    midpoints = np.cumsum(column.shares) - column.shares / 2
    bins = (midpoints * n_bins).astype(np.int64).clip(0, n_bins - 1)
    return np.unique(bins, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _noise_error(magnitude: float, n: int, shares: Floats) -> float:
    """Return the total variation that noise on counts causes.

    Parameters
    ----------
    magnitude : mean absolute value of the noise on the rows of a cell.
    shares : the share of the n rows in each cell.
    """
    if magnitude <= 0:
        return 0.0
    return magnitude / n * float((1 - np.exp(-n / magnitude * shares)).sum()) / 2


def _count_values_per_cell(column: CellColumn) -> float:
    """Return the number of counts that a cell sums up."""
    return 1.0 if column.is_listed else max(column.n_values / len(column.shares), 1.0)


def _build_flat_tree(column: CellColumn) -> Hierarchy | None:
    """Build the tree of a column of listed values; None for numbers."""
    if not column.is_listed:
        return None
    # A value that is in no list is ``other``.
    n_leaves = column.n_values + 1
    return Hierarchy(["*", *map(str, range(n_leaves))], [-1, *[0] * n_leaves])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
