"""dp_marginals: a graphical model of noisy counts for adaptively chosen pairs of columns.

Neighbours are two tables of n rows that differ in one row. n, the bounds, the amount and the
columns are public; everything else depends on the data only through noise:

1. Shares of the amount, bin sizes and rounds, from public figures (``divide``).
2. For each column noisy counts of its public values or its few integers; for other columns noisy
   quantiles, the rows between them, and sums of order statistics (``edges``, ``margins``).
3. In each round the exponential mechanism chooses a pair of columns by how far its counts are from
   the model's, less the expected effect of noise. The pair's counts get noise, and the model is
   refitted to all noisy counts (``estimation``). Pairs that would grow the model beyond
   ``MOST_CELLS`` are skipped.
4. n rows are drawn from the model (``junction``), and values of each bin by their noisy shares.

A score is an integer, in fractions of a row: expected counts are rounded before the comparison, so
one row moves it by the fractions of two rows. The price of all draws is computed before the first
one. If no pair is left, fewer draws are made, never more.

Source: R. McKenna, B. Mullins, D. Sheldon and G. Miklau, "AIM: an adaptive and iterative mechanism
for differentially private synthetic data", VLDB 2022. There the noisy counts determine the number
of rounds, and tables may have three columns; here the number of pairs is fixed.

Cost: O(p^2 n) for counts, and in each round some tens of passes over the model's cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter, NoiseTooLarge, TooFewRecords
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.synthesis import PURE
from dbanon.synthesis.accounting import ACCOUNTINGS, Accounting
from dbanon.synthesis.dependence import evenly_spread, two_way
from dbanon.synthesis.domains import bins_of
from dbanon.synthesis.edges import PartMargin, edge_quantiles, noisy_parts
from dbanon.synthesis.estimation import NoisyTable, fit_model
from dbanon.synthesis.junction import Floats, JunctionTree, cells, maximal_cliques
from dbanon.synthesis.margins import (
    CategoricalMargin,
    GridMargin,
    Margin,
    adjacent_bins,
    counts_of_leaves,
    nearest_steps,
    project_to_simplex,
    quantiles_of_sums,
    sums_of_ranks,
)
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import GRID, NOISE_OF_CLASS, TOO_LARGE, EdgeShares, divide_edges

MOST_COLUMNS = 32
# Limit on the model's cells, over all cliques, which bounds its time.
MOST_CELLS = 200_000
_MAX_BINS = 32
# Shares of the amount for margins, and of each round's amount for its choice. Gaussian noise on a
# table grows only with the square root of the rounds, so there are more rounds. Tuned on Adult.
_MARGINS = {True: 0.40, False: 0.20}
_CHOICE = 0.10
_ROUNDS = {True: 4 / 3, False: 8 / 3}
# Rows per cell of a table, relative to its noise, if rows were spread evenly.
_ROWS_OF_CELL = 8
# The share of a table's noise that is subtracted from its score; the fit removes the rest.
_NOISE_PENALTY = 0.5
# Shares of a numeric column's margin for edges and for the counts between them; the rest is for
# sums of ranks, which show the extent of the outermost values. Tuned on MAGIC and normal data.
_EDGES, _BETWEEN = 0.50, 0.42
# Fractions of a row in which scores are counted.
_UNIT = 16
# Steps of the fit in a round, and of the last fit.
_STEPS, _LAST_STEPS = 40, 300
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Division:
    """How an amount is divided over the steps, and the resulting noise scales.

    Parameters
    ----------
    n, p : number of rows (or persons) and columns.
    amount : epsilon or rho, according to ``accounting``.
    trees : the public values of each column; None for a numeric one.
    n_values : number of values of each numeric column whose values are counted; else 0.
    bins : maximum per column; 1 if columns are released as independent.
    rounds : number of two-column tables.
    class_size : order statistics per sum.
    edges : for numeric columns; None with a single bin, which contains all rows.
    leaf_scale, sum_scale, choice_scale, count_scale : noise scales for counts of values, sums of
        order statistics, scores, and tables.
    """

    n: int
    p: int
    amount: float
    accounting: str
    trees: tuple[Hierarchy | None, ...]
    n_values: tuple[int, ...]
    bins: int
    rounds: int
    class_size: int
    leaf_scale: float
    sum_scale: float
    edges: EdgeShares | None
    choice_scale: float
    count_scale: float

    @property
    def account(self) -> Accounting:
        """The accounting that determines prices and noise."""
        return ACCOUNTINGS[self.accounting]

    @property
    def by_counts(self) -> int:
        """The number of columns whose margins are counts of all values."""
        pairs = zip(self.trees, self.n_values, strict=True)
        return sum(tree is not None or many > 0 for tree, many in pairs)

    def price(self, noise: Noise) -> float:
        """The total price of all draws."""
        account = self.account
        margin = account.sum_price(noise, self.sum_scale, GRID)
        if self.edges is not None:
            margin += self.edges.price(account, noise)
        total = self.by_counts * account.count_price(noise, self.leaf_scale)
        total += (self.p - self.by_counts) * margin
        if self.rounds:
            choice = account.choice_price(noise, self.choice_scale, 2 * _UNIT)
            total += self.rounds * (choice + account.count_price(noise, self.count_scale))
        return total

    def require_affordable(self, noise: Noise) -> None:
        """Check that all draws cost no more than the amount; raises AssertionError."""
        total = self.price(noise)
        if not total <= self.amount:
            raise AssertionError(f"all draws cost {total}, more than {self.amount}")

    @property
    def description(self) -> tuple[str, ...]:
        """A description of the method, in sentences."""
        if self.p == 1:
            return ("One column: there is nothing to depend on.",)
        if not self.rounds:
            return ("Columns are independent in the release: the budget and rows are too few.",)
        kind = "Laplace" if self.accounting == PURE else "Gaussian"
        margins = []
        if self.by_counts:
            margins.append(f"Margins of {self.by_counts} columns: counts of their values.")
        if self.edges is not None and self.by_counts < self.p:
            parts = 2**self.edges.depth
            margins.append(
                f"Margins of {self.p - self.by_counts} columns: counts between {parts - 1} noisy"
                " quantiles, and sums of order statistics."
            )
        return (
            *margins,
            f"Dependence: a graphical model of up to {self.rounds} two-way counts of up to"
            f" {self.bins} bins a column, with discrete {kind} noise.",
        )


def divide(
    n: int,
    amount: float,
    accounting: str,
    trees: Sequence[Hierarchy | None],
    values: Sequence[int],
) -> Division:
    """Divide an amount over the columns of n rows.

    Parameters
    ----------
    amount : epsilon or rho, according to ``accounting``, ``pure`` or ``zcdp``.
    trees : the public values of each column, None for a numeric one.
    values : number of values of each numeric column, or 0.

    Raises
    ------
    InvalidParameter : there are too many columns, or none.
    TooFewRecords : there are fewer than four rows.
    NoiseTooLarge : the release would be mostly noise.
    """
    p, account, pure = len(trees), ACCOUNTINGS[accounting], accounting == PURE
    if not 1 <= p <= MOST_COLUMNS:
        raise InvalidParameter(
            f"dp_marginals takes 1 to {MOST_COLUMNS} columns, not {p}.",
            hint='Leave out columns, or use `method="dp_ranks"`.',
        )
    if n < 4:
        raise TooFewRecords(f"There are {n} rows, and a margin needs four.")
    relative_noise = 4 * account.sum_scale(amount / p, 1) / n
    if relative_noise > TOO_LARGE:
        raise NoiseTooLarge(
            f"Noise for {p} columns would be {relative_noise:.0%} of the range on the mean of a"
            f" quarter of {n} rows; at most {TOO_LARGE:.0%} is allowed.",
            hint=f"Release {math.ceil(n * relative_noise / TOO_LARGE)} rows or more, raise"
            " `epsilon`, or leave out columns.",
        )
    pairs = p * (p - 1) // 2
    rounds = min(round(_ROUNDS[pure] * p), pairs)
    remaining = amount * (1 - _MARGINS[pure]) / max(rounds, 1)
    count_scale = account.count_scale(remaining * (1 - _CHOICE))
    bins = math.floor(math.sqrt(n / (_ROWS_OF_CELL * account.magnitude(count_scale))))
    bins = min(bins, _MAX_BINS) if rounds else 1
    if bins < 2:
        bins, rounds = 1, 0
    margin_amount = amount / p * (_MARGINS[pure] if rounds else 1.0)
    leaf_scale = account.count_scale(margin_amount)
    edges, sum_amount = None, margin_amount
    if bins > 1:
        edges = divide_edges(n, account, _EDGES * margin_amount, _BETWEEN * margin_amount)
        sum_amount *= 1 - _EDGES - _BETWEEN
    sum_scale = account.sum_scale(sum_amount, GRID)
    return Division(
        n=n,
        p=p,
        amount=amount,
        accounting=accounting,
        trees=tuple(trees),
        n_values=tuple(
            many if tree is None and many * 2 * leaf_scale <= n else 0
            for tree, many in zip(trees, values, strict=True)
        ),
        bins=bins,
        rounds=rounds,
        class_size=min(max(math.ceil(NOISE_OF_CLASS * sum_scale / GRID), 1), n // 4),
        leaf_scale=leaf_scale,
        sum_scale=sum_scale,
        edges=edges,
        choice_scale=account.choice_scale(remaining * _CHOICE, 2 * _UNIT),
        count_scale=count_scale,
    )


def dp_marginals(
    grid: NDArray[np.int64], division: Division, noise: Noise, rng: np.random.Generator
) -> Floats:
    """Generate synthetic rows, float64 (p, n), from columns of integers.

    Parameters
    ----------
    grid : int64 (p, n), column by column: from 0 to ``GRID``, or leaf indices.
    division : of the amount.
    noise : the only code that sees the data.
    rng : for draws from noisy figures.
    """
    division.require_affordable(noise)
    margins = [_noisy_margin(j, column, division, noise) for j, column in enumerate(grid)]
    codes = np.array([m.locate(column, rng)[0] for m, column in zip(margins, grid, strict=True)])
    column_tables = [_bin_table(j, margin, division) for j, margin in enumerate(margins)]
    drawn_codes = _PairSelection(codes, column_tables, division).run(noise).rows(division.n, rng)
    return np.array(
        [
            margin.values_in(code, evenly_spread(code, rng))
            for margin, code in zip(margins, drawn_codes, strict=True)
        ]
    )


def _noisy_margin(j: int, column: NDArray[np.int64], division: Division, noise: Noise) -> Margin:
    """Measure the noisy margin of a column."""
    account, tree, n_values = division.account, division.trees[j], division.n_values[j]
    if tree is None and not n_values:
        sums = sums_of_ranks(column, division.class_size)
        noisy = account.noisy(noise, sums, division.sum_scale)
        by_ranks = quantiles_of_sums(noisy, division.n, division.class_size, division.bins)
        if division.edges is None:
            return by_ranks
        parts = noisy_parts(column, division.edges, account, noise)
        rank_variance = account.variance(division.sum_scale / division.class_size)
        bins = adjacent_bins(parts.shares, min(division.bins, len(parts.shares)))
        return PartMargin(
            parts, bins, edge_quantiles(parts, by_ranks, rank_variance, division.bins)
        )
    leaves = column if tree is not None else nearest_steps(column, n_values)
    n_leaves = n_values if tree is None else tree.n_leaves
    counts = account.noisy(noise, counts_of_leaves(leaves, n_leaves), division.leaf_scale)
    shares = project_to_simplex(counts.astype(np.float64), 1.0 * division.n) / division.n
    if tree is None:
        return GridMargin(
            CategoricalMargin(shares, adjacent_bins(shares, min(division.bins, n_values)))
        )
    return CategoricalMargin(shares, bins_of(tree, shares, min(2 * division.bins, _MAX_BINS)))


def _bin_table(j: int, margin: Margin, division: Division) -> NoisyTable:
    """The table of one column's bins: sums of noisy counts, whose variances add up.

    A single bin is public: it contains all rows.
    """
    count_variance = division.account.variance(division.leaf_scale)
    if isinstance(margin, PartMargin):
        count_variance = margin.parts.variance
    odds = margin.odds
    return NoisyTable((j,), odds * division.n, count_variance * margin.counts / odds.size)


class _PairSelection:
    """Rounds of choosing a pair, counting it and refitting the model.

    Parameters
    ----------
    codes : the bin of each row in each column, int64 (p, n).
    column_tables : the noisy counts of the bins of each column.
    """

    def __init__(
        self, codes: NDArray[np.int64], column_tables: Sequence[NoisyTable], division: Division
    ) -> None:
        self._codes, self._division = codes, division
        self._tables = list(column_tables)
        self._sizes = [table.counts.size for table in column_tables]
        self._base = [
            np.log(np.maximum(table.counts / division.n, _LEAST_SHARE)) for table in column_tables
        ]
        self._pair_counts: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._potentials: list[Floats] = []
        self._fit(_STEPS)

    def run(self, noise: Noise) -> _PairSelection:
        """Run all rounds and the last fit."""
        division, account = self._division, self._division.account
        for _ in range(division.rounds):
            pairs = self._candidates()
            if not pairs:
                break
            expected = self._tree.pairs(self._beliefs)
            scores = np.array([self._score(pair, expected[pair]) for pair in pairs], np.int64)
            pair = pairs[account.chosen(noise, scores, division.choice_scale)]
            counts = self._counts(pair)
            noisy = account.noisy(noise, counts.reshape(-1), division.count_scale)
            noise_variance = account.variance(division.count_scale)
            pair_counts = noisy.reshape(counts.shape).astype(np.float64)
            self._tables.append(NoisyTable(pair, pair_counts, noise_variance))
            self._fit(_STEPS)
        self._fit(_LAST_STEPS)
        return self

    def rows(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the bins of n rows, int64 (p, n)."""
        return self._tree.rows(self._beliefs, n, rng)

    def _fit(self, steps: int) -> None:
        cliques = maximal_cliques([table.columns for table in self._tables], self._sizes)
        self._tree = JunctionTree(cliques, self._sizes)
        self._beliefs, self._potentials = fit_model(
            self._tree, self._tables, self._base, self._division.n, self._potentials, steps=steps
        )

    def _candidates(self) -> list[tuple[int, int]]:
        """List uncounted pairs that the model has room for; this does not depend on the data."""
        counted = [table.columns for table in self._tables]
        candidates = []
        for a in range(self._division.p):
            for b in range(a + 1, self._division.p):
                if (a, b) in counted:
                    continue
                cliques = maximal_cliques([*counted, (a, b)], self._sizes)
                if sum(cells(clique, self._sizes) for clique in cliques) <= MOST_CELLS:
                    candidates.append((a, b))
        return candidates

    def _score(self, pair: tuple[int, int], shares: Floats) -> int:
        """How much the counts of a pair would add; one row moves it by two rows' fractions."""
        expected = np.rint(_UNIT * self._division.n * shares).astype(np.int64)
        distance = int(np.abs(_UNIT * self._counts(pair) - expected).sum())
        magnitude = self._division.account.magnitude(self._division.count_scale)
        return distance - round(_UNIT * _NOISE_PENALTY * magnitude * shares.size)

    def _counts(self, pair: tuple[int, int]) -> NDArray[np.int64]:
        if pair not in self._pair_counts:
            a, b = pair
            sizes = (self._sizes[a], self._sizes[b])
            self._pair_counts[pair] = two_way(self._codes[a], self._codes[b], sizes)
        return self._pair_counts[pair]
