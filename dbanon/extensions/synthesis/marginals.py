"""dp_marginals: a graphical model of noisy counts for adaptively chosen pairs of columns.

Neighbours are two tables of n rows that differ in one row. n, the bounds, the amount (of epsilon or
rho) and the columns are public; everything else depends on the data only through noise:

1. Shares of the amount, bin sizes and rounds, from public figures (``divide_amount``).
2. For columns with listed values or few integers, noisy counts of these values (``margins``); for
   other columns, noisy counts of ranges, finer where rows are (``histogram``).
3. In each round the exponential mechanism chooses a pair of columns by how far its counts are from
   the model's, less the expected effect of noise. The pair's counts get noise, and the model is
   refitted to all noisy counts (``estimation``). Pairs that would grow the model beyond
   ``MAX_CELLS`` are skipped.
4. n rows are drawn from the model (``junction``) by points that fill the space evenly (``sobol``),
   and values of each bin by their noisy shares.

A score is an integer, in fractions of a row: expected counts are rounded before the comparison, so
one row moves it by at most two rows' worth of fractions. The price of all draws is computed before
the first one. If no pair is left, fewer draws are made, never more. With Gaussian noise, rounds
after an uninformative one get twice the amount, and there are fewer.

Source: R. McKenna, B. Mullins, D. Sheldon and G. Miklau, "AIM: an adaptive and iterative mechanism
for differentially private synthetic data", VLDB 2022. There tables may have three columns, and
noisy counts determine the number of rounds in all cases.

Cost: O(p^2 n) for counts, and in each round some tens of passes over the model's cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import InvalidParameter, NoiseTooLarge, TooFewRecords, pluralize
from dbanon.extensions.synthesis.accounting import ACCOUNTINGS, Accounting
from dbanon.extensions.synthesis.dependence import count_two_way, spread_rows_evenly
from dbanon.extensions.synthesis.domains import OTHER_LABEL, assign_bins
from dbanon.extensions.synthesis.estimation import NoisyTable, fit_model, reconcile_tables
from dbanon.extensions.synthesis.histogram import (
    HistogramMargin,
    HistogramShares,
    count_rows_to_noise,
    divide_histogram,
    divide_smoothly,
    measure_histogram,
)
from dbanon.extensions.synthesis.junction import (
    Floats,
    JunctionTree,
    count_cells,
    find_maximal_cliques,
)
from dbanon.extensions.synthesis.margins import (
    CategoricalMargin,
    GridMargin,
    Margin,
    count_rows_per_leaf,
    group_adjacent_values,
    project_to_simplex,
    round_to_values,
)
from dbanon.extensions.synthesis.noise import Noise
from dbanon.extensions.synthesis.shares import GRID
from dbanon.extensions.synthesis.sobol import draw_even_points
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.synthesis import PURE

MAX_COLUMNS = 32
# Limit of the noise on the mean of a quarter of the rows, as a share of the range. No such mean is
# measured: the limit is on the noise. Counts tolerate four times as much of it as the sums of
# ``dp_ranks``: up to the limit, columns are nearer than those of plain noisy histograms. The
# description warns of noise above ``_LARGE_MEAN_NOISE``.
_MAX_MEAN_NOISE, _LARGE_MEAN_NOISE = 0.20, 0.10
# Limit on the model's cells, over all cliques, which bounds its time.
MAX_CELLS = 200_000
_MAX_BINS = 32
# The share of the amount for margins. Here and below, the key is True for the accounting ``pure``,
# False for ``zcdp``. These figures are tuned on Adult, MAGIC, Census and two generated tables.
_MARGINS_SHARE = {True: 0.40, False: 0.45}
# The number of values of a column whose noise determines its share; ranges of a numeric column are
# adapted to the noise.
_MAX_WEIGHTED_VALUES = 24
# The values of a numeric column are counted, not their ranges, if there are at least so many rows
# per value, relative to the noise. Levels of ranges cost more than one count with Laplace noise.
_MIN_ROWS_PER_VALUE = {True: 6, False: 20}
# No row gets the leaf for unlisted values if its noisy count is below so many standard deviations.
_MIN_OTHER = 1.0
# A range of a histogram is divided into so many parts along a smooth density.
_PARTS_PER_RANGE = 8
# Of the amount of a round, the share for choosing its pair.
_CHOICE_SHARE = 0.10
# The fewest and most rounds per column. Gaussian noise on a table grows only with the square root
# of the number of rounds, so there are more if there are many rows: one per column for each
# ``_ROWS_PER_ROUND``, in standard deviations of the noise that one count with all of the amount
# would have.
_ROUNDS_PER_COLUMN = {True: (4 / 3, 4 / 3), False: (4 / 3, 8 / 3)}
_ROWS_PER_ROUND = 2000
# A round is idle if its noisy counts are no farther from the model than this, relative to the noise
# that they have. Later rounds then get twice the amount each. With Laplace noise, whose rounds are
# few, this gains nothing.
_IDLE_DISTANCE = {True: 0.0, False: 1.15}
# Minimum rows per cell of a table, relative to its noise, if rows were spread evenly.
_MIN_ROWS_TO_NOISE = 5
# The share of a table's noise that is subtracted from its score; the fit removes the rest.
_NOISE_PENALTY = 0.5
# The number that one row counts as in a score, so that fractions of a row are integers.
_UNITS_PER_ROW = 16
# Maximum steps of the fit in each round, and of the final fit, which then matches single columns.
_ROUND_STEPS, _FINAL_STEPS, _FINAL_SWEEPS = 40, 300, 2
# Smallest share of a bin in the model, whose logarithm must be finite, and smallest variance.
_MIN_SHARE, _MIN_VARIANCE = 1e-6, 1e-6


@dataclass(frozen=True)
class AmountShares:
    """How an amount is divided over the steps, and the resulting noise scales.

    Parameters
    ----------
    n, p : number of rows (or persons) and columns.
    amount : epsilon or rho, according to ``accounting_name``.
    trees : the public values of each column; None for a numeric one.
    n_values : number of values of each numeric column whose values are counted; else 0.
    n_positions : number of different values of each numeric column, in the table's integers.
    max_bins : maximum number of bins of a numeric column; columns with listed values may have up to
        twice as many. 1 if columns are released as independent.
    rounds : maximum number of rounds, each of which counts a table of two columns.
    round_amount : the amount for one round; later ones may get more, if there are fewer.
    leaf_scales : noise scale for the counts of the values of each column.
    histogram_shares : how the histograms of numeric columns are measured, for columns whose values
        are not counted.
    """

    n: int
    p: int
    amount: float
    accounting_name: str
    trees: tuple[Hierarchy | None, ...]
    n_values: tuple[int, ...]
    n_positions: tuple[int, ...]
    max_bins: int
    rounds: int
    round_amount: float
    leaf_scales: tuple[float, ...]
    histogram_shares: tuple[HistogramShares, ...]

    @property
    def accounting(self) -> Accounting:
        """The accounting that determines prices and noise."""
        return ACCOUNTINGS[self.accounting_name]

    def counts_values(self, j: int) -> bool:
        """Return whether the margin of column ``j`` is counts of all its values."""
        return self.trees[j] is not None or self.n_values[j] > 0

    def limit_bins(self, j: int) -> int:
        """Return the maximum number of bins of column ``j``; it may have fewer values."""
        return self.max_bins if self.trees[j] is None else min(2 * self.max_bins, _MAX_BINS)

    def price(self, noise: Noise) -> float:
        """The maximum price of all draws."""
        return self.price_margins(noise) + self.rounds * self.price_round(noise, self.round_amount)

    def price_margins(self, noise: Noise) -> float:
        """The price of the margins of all columns."""
        return sum(
            self.accounting.count_price(noise, self.leaf_scales[j])
            if self.counts_values(j)
            else self.histogram_shares[j].price(self.accounting, noise)
            for j in range(self.p)
        )

    def price_round(self, noise: Noise, round_amount: float) -> float:
        """The price of a round for an amount: of choosing a pair, and of its counts."""
        choice_scale, count_scale = scale_round(self.accounting, round_amount)
        choice_price = self.accounting.choice_price(noise, choice_scale, 2 * _UNITS_PER_ROW)
        return choice_price + self.accounting.count_price(noise, count_scale)

    def require_affordable(self, noise: Noise) -> None:
        """Check that all draws cost no more than the amount; raises AssertionError."""
        total = self.price(noise)
        if not total <= self.amount:
            raise AssertionError(f"all draws cost {total}, more than {self.amount}")

    @property
    def description(self) -> tuple[str, ...]:
        """A description of the method, in sentences."""
        mean_noise = estimate_mean_noise(self.n, self.p, self.amount, self.accounting)
        if mean_noise <= _LARGE_MEAN_NOISE:
            return self._describe_steps()
        return (
            *self._describe_steps(),
            f"Noise is large, {mean_noise:.0%} of the range on the mean of a quarter of the rows:"
            " counts of single columns are far off, too.",
        )

    def _describe_steps(self) -> tuple[str, ...]:
        """Describe the measured counts, in sentences."""
        if self.p == 1:
            return ("One column: there is nothing to depend on.",)
        if not self.rounds:
            return ("Columns are independent in the release: the budget and rows are too few.",)
        distribution = "Laplace" if self.accounting_name == PURE else "Gaussian"
        margins = []
        histograms = [
            shares for j, shares in enumerate(self.histogram_shares) if not self.counts_values(j)
        ]
        if len(histograms) < self.p:
            n_columns = pluralize(self.p - len(histograms), "column")
            margins.append(f"Margins of {n_columns}: counts of all values.")
        if histograms:
            min_depth = min(shares.min_depth for shares in histograms)
            max_depth = max(shares.depth for shares in histograms)
            levels = pluralize(max_depth, "level")
            if min_depth < max_depth:
                levels = f"{min_depth} to {levels}"
            margins.append(
                f"Margins of {pluralize(len(histograms), 'column')}: counts of ranges, finer where"
                f" rows are, at {levels}."
            )
        return (
            *margins,
            f"Dependence: a graphical model of up to {self.rounds} two-way counts of up to"
            f" {self.max_bins} bins a numeric column, with discrete {distribution} noise.",
        )


def divide_amount(
    n: int,
    amount: float,
    accounting_name: str,
    trees: Sequence[Hierarchy | None],
    n_values: Sequence[int],
) -> AmountShares:
    """Divide an amount over the columns of n rows.

    Parameters
    ----------
    amount : epsilon or rho, according to ``accounting_name``, ``pure`` or ``zcdp``.
    trees : the public values of each column, None for a numeric one.
    n_values : number of equidistant values of each numeric column; 0 if it has none.

    Raises
    ------
    InvalidParameter : there are too many columns, or none.
    TooFewRecords : there are fewer than four rows.
    NoiseTooLarge : the release would be mostly noise.
    """
    p, accounting, is_pure = len(trees), ACCOUNTINGS[accounting_name], accounting_name == PURE
    if not 1 <= p <= MAX_COLUMNS:
        raise InvalidParameter(
            f"dp_marginals takes 1 to {MAX_COLUMNS} columns, not {p}.",
            hint='Leave out columns, or use `method="dp_ranks"`.',
        )
    if n < 4:
        raise TooFewRecords(f"There are {n} rows, and a margin needs four.")
    relative_noise = estimate_mean_noise(n, p, amount, accounting)
    if relative_noise > _MAX_MEAN_NOISE:
        raise NoiseTooLarge(
            f"Noise for {p} columns would be {relative_noise:.0%} of the range on the mean of a"
            f" quarter of {n} rows; at most {_MAX_MEAN_NOISE:.0%} is allowed.",
            hint=f"Release {math.ceil(n * relative_noise / _MAX_MEAN_NOISE)} rows or more, raise"
            " `epsilon`, or leave out columns.",
        )
    n_pairs = p * (p - 1) // 2
    rows_to_noise = count_rows_to_noise(n, accounting, amount)
    fewest, most = _ROUNDS_PER_COLUMN[is_pure]
    rounds_per_column = min(max(rows_to_noise / _ROWS_PER_ROUND, fewest), most)
    rounds = min(round(rounds_per_column * p), n_pairs)
    round_amount = amount * (1 - _MARGINS_SHARE[is_pure]) / max(rounds, 1)
    _, count_scale = scale_round(accounting, round_amount)
    # A table of two numeric columns has up to max_bins² cells.
    max_bins = math.floor(
        math.sqrt(n / (_MIN_ROWS_TO_NOISE * accounting.mean_magnitude(count_scale)))
    )
    max_bins = min(max_bins, _MAX_BINS) if rounds else 1
    if max_bins < 2:
        max_bins, rounds = 1, 0
    margin_amounts = _divide_over_columns(
        amount * (_MARGINS_SHARE[is_pure] if rounds else 1.0), is_pure, trees, n_values
    )
    leaf_scales = tuple(map(accounting.count_scale, margin_amounts))
    return AmountShares(
        n=n,
        p=p,
        amount=amount,
        accounting_name=accounting_name,
        trees=tuple(trees),
        n_values=tuple(
            n_column_values
            if tree is None
            and n_column_values * _MIN_ROWS_PER_VALUE[is_pure] * accounting.mean_magnitude(scale)
            <= n
            else 0
            for tree, n_column_values, scale in zip(trees, n_values, leaf_scales, strict=True)
        ),
        n_positions=tuple(n_column_values or GRID + 1 for n_column_values in n_values),
        max_bins=max_bins,
        rounds=rounds,
        round_amount=round_amount,
        leaf_scales=leaf_scales,
        histogram_shares=tuple(
            divide_histogram(n, accounting, column_amount) for column_amount in margin_amounts
        ),
    )


def estimate_mean_noise(n: int, p: int, amount: float, accounting: Accounting) -> float:
    """Estimate the noise on the mean of n / 4 rows of one of p columns, as a share of its range."""
    # One row moves the sum of these rows by at most the range, 1.
    return 4 * accounting.sum_scale(amount / p, 1) / n


def scale_round(accounting: Accounting, round_amount: float) -> tuple[float, float]:
    """Compute the noise scales of a round: for scores, and for the counts of a table."""
    return (
        accounting.choice_scale(round_amount * _CHOICE_SHARE, 2 * _UNITS_PER_ROW),
        accounting.count_scale(round_amount * (1 - _CHOICE_SHARE)),
    )


def _divide_over_columns(
    amount: float,
    is_pure: bool,
    trees: Sequence[Hierarchy | None],
    n_values: Sequence[int],
) -> list[float]:
    """Divide the amount for margins so that they are off by the least in all.

    The total variation of a margin is in proportion to its number of values, and to the noise on
    each: to 1 / epsilon, or 1 / sqrt(rho).
    """
    exponent = 1 / 2 if is_pure else 2 / 3
    weights = [
        min(_MAX_WEIGHTED_VALUES, (n_column_values or GRID) if tree is None else tree.n_leaves)
        ** exponent
        for tree, n_column_values in zip(trees, n_values, strict=True)
    ]
    return [amount * weight / sum(weights) for weight in weights]


def dp_marginals(
    columns: NDArray[np.int64], amount_shares: AmountShares, noise: Noise, rng: np.random.Generator
) -> Floats:
    """Generate synthetic rows, float64 (p, n), from columns of integers.

    Parameters
    ----------
    columns : int64 (p, n), column by column: from 0 to ``GRID``, or leaf indices.
    amount_shares : how the amount is divided over p columns of n rows.
    noise : the mechanisms that add noise. Rows are computed from their results and public figures.
    rng : for draws from the noisy model.
    """
    amount_shares.require_affordable(noise)
    margins = [_measure_margin(j, column, amount_shares, noise) for j, column in enumerate(columns)]
    codes = np.array([m.locate(column, rng)[0] for m, column in zip(margins, columns, strict=True)])
    column_tables = [_tabulate_bins(j, margin, amount_shares) for j, margin in enumerate(margins)]
    drawn_codes, drawn_offsets = (
        _PairSelection(codes, column_tables, amount_shares)
        .run(noise)
        .draw_rows(amount_shares.n, rng)
    )
    values = np.array(
        [
            margin.to_values(column_codes, spread_rows_evenly(column_codes, offsets, rng))
            for margin, column_codes, offsets in zip(
                margins, drawn_codes, drawn_offsets, strict=True
            )
        ]
    )
    # The outermost ranges of whole numbers end half a number beyond the bounds.
    return values.clip(0, GRID)


def _measure_margin(
    j: int, column: NDArray[np.int64], amount_shares: AmountShares, noise: Noise
) -> Margin:
    """Measure the noisy margin of a column."""
    accounting, tree, n_values = (
        amount_shares.accounting,
        amount_shares.trees[j],
        amount_shares.n_values[j],
    )
    if tree is None and not n_values:
        return _measure_histogram_margin(j, column, amount_shares, noise)
    leaves = column if tree is not None else round_to_values(column, n_values)
    n_leaves = n_values if tree is None else tree.n_leaves
    counts = accounting.add_noise(
        noise, count_rows_per_leaf(leaves, n_leaves), amount_shares.leaf_scales[j]
    )
    if tree is None:
        shares = _estimate_shares(counts, amount_shares.n)
        return GridMargin(
            CategoricalMargin(
                shares, group_adjacent_values(shares, min(amount_shares.limit_bins(j), n_values))
            )
        )
    # Most tables have no unlisted value. If noise explains the count of these, its rows would be
    # noise, and so would be all counts of two columns that have this leaf.
    other = tree.positions.get(OTHER_LABEL)
    deviation = math.sqrt(accounting.variance(amount_shares.leaf_scales[j]))
    is_noise = other is not None and n_leaves > 2 and counts[other] < _MIN_OTHER * deviation
    unused_leaf = other if is_noise else None
    shares = _estimate_shares(counts, amount_shares.n, unused_leaf)
    margin = CategoricalMargin(shares, assign_bins(tree, shares, amount_shares.limit_bins(j)))
    return margin if unused_leaf is None else margin.without_leaf(unused_leaf)


def _estimate_shares(
    counts: NDArray[np.int64], n: int, unused_leaf: int | None = None
) -> NDArray[np.float64]:
    """Estimate the share of n rows with each leaf, float64 (L,).

    Parameters
    ----------
    counts : noisy counts, int64 (L,).
    unused_leaf : a leaf that no row gets, so that its count is ignored; None for none.
    """
    is_used = np.ones(len(counts), bool)
    if unused_leaf is not None:
        is_used[unused_leaf] = False
    shares = np.zeros(len(counts))
    shares[is_used] = project_to_simplex(counts[is_used].astype(np.float64), 1.0 * n) / n
    return shares


def _measure_histogram_margin(
    j: int, column: NDArray[np.int64], amount_shares: AmountShares, noise: Noise
) -> HistogramMargin:
    """Measure the margin of a numeric column with too many values to count each."""
    n, n_positions = amount_shares.n, amount_shares.n_positions[j]
    has_equidistant_values = n_positions <= GRID
    histogram = measure_histogram(
        round_to_values(column, n_positions) if has_equidistant_values else column,
        n_positions,
        amount_shares.histogram_shares[j],
        amount_shares.accounting,
        noise,
    )
    shares, edges = histogram.rows / n, histogram.edges.astype(np.float64)
    if has_equidistant_values:
        # A range begins and ends in the middle between two values, which numbers are rounded to.
        edges = (edges - 0.5) * GRID / (n_positions - 1)
    bins = group_adjacent_values(shares, min(amount_shares.limit_bins(j), len(shares)))
    bin_variance = histogram.estimate_bin_variance(bins)
    edges, shares = divide_smoothly(edges, shares, _PARTS_PER_RANGE)
    return HistogramMargin(n, edges, shares, np.repeat(bins, _PARTS_PER_RANGE), bin_variance)


def _tabulate_bins(j: int, margin: Margin, amount_shares: AmountShares) -> NoisyTable:
    """Tabulate one column's bins: sums of noisy counts. The variance is the mean over the bins."""
    bin_shares = margin.bin_shares
    if isinstance(margin, HistogramMargin):
        # A bin that has all rows has no noise.
        variance = margin.bin_variance or _MIN_VARIANCE
    else:
        # Variances of counts add up.
        count_variance = amount_shares.accounting.variance(amount_shares.leaf_scales[j])
        variance = count_variance * margin.n_counts / bin_shares.size
    return NoisyTable((j,), bin_shares * amount_shares.n, variance)


class _PairSelection:
    """Rounds of choosing a pair, counting it and refitting the model.

    Parameters
    ----------
    codes : the bin of each row in each column, int64 (p, n).
    column_tables : the noisy counts of the bins of each column.
    amount_shares : how the amount is divided.
    """

    def __init__(
        self,
        codes: NDArray[np.int64],
        column_tables: Sequence[NoisyTable],
        amount_shares: AmountShares,
    ) -> None:
        self._codes, self._amount_shares = codes, amount_shares
        self._tables = list(column_tables)
        self._n_bins = [table.counts.size for table in column_tables]
        self._pair_counts: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._potentials: list[Floats] = []
        self._fit(_ROUND_STEPS)

    def run(self, noise: Noise) -> _PairSelection:
        """Run all rounds and the last fit, and return this selection with the fitted model.

        How many rounds there are depends on the noisy counts; what they cost together does not.
        """
        shares = self._amount_shares
        round_amount, remaining = shares.round_amount, shares.rounds * shares.round_amount
        max_price = shares.amount - shares.price_margins(noise)
        price = 0.0
        while remaining > 0 and (pairs := self._list_candidates()):
            if len(pairs) == 1 or remaining < 1.5 * round_amount:
                # The last round gets the remainder.
                round_amount = remaining
            remaining = max(remaining - round_amount, 0.0)
            price += shares.price_round(noise, round_amount)
            if not price <= max_price:
                raise AssertionError(f"all rounds cost {price}, more than {max_price}")
            if self._run_round(pairs, round_amount, noise):
                round_amount *= 2
        self._fit(_FINAL_STEPS, _FINAL_SWEEPS)
        return self

    def _run_round(
        self, pairs: Sequence[tuple[int, int]], round_amount: float, noise: Noise
    ) -> bool:
        """Choose a pair, count it and fit the model; return whether the round was idle."""
        shares, accounting = self._amount_shares, self._amount_shares.accounting
        choice_scale, count_scale = scale_round(accounting, round_amount)
        magnitude = accounting.mean_magnitude(count_scale)
        expected = self._tree.compute_pair_tables(self._beliefs)
        scores = [self._score(pair, expected[pair], magnitude) for pair in pairs]
        pair = pairs[accounting.choose(noise, np.array(scores, np.int64), choice_scale)]
        counts = self._count_pair(pair)
        noisy = accounting.add_noise(noise, counts.reshape(-1), count_scale)
        pair_counts = noisy.reshape(counts.shape).astype(np.float64)
        self._tables.append(NoisyTable(pair, pair_counts, accounting.variance(count_scale)))
        self._fit(_ROUND_STEPS)
        distance = float(np.abs(pair_counts - shares.n * expected[pair]).sum())
        return distance < _IDLE_DISTANCE[shares.accounting_name == PURE] * magnitude * counts.size

    def draw_rows(self, n: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
        """Draw the bins of n rows, int64 (p, n), and offsets in them, 0 to 1, float64 (p, n)."""
        points = draw_even_points(self._amount_shares.p, n, rng)
        return self._tree.draw_rows(self._beliefs, points)

    def _fit(self, max_steps: int, n_sweeps: int = 0) -> None:
        """Fit the model to all tables, starting from the potentials of the last fit."""
        cliques = find_maximal_cliques([table.columns for table in self._tables], self._n_bins)
        self._tree = JunctionTree(cliques, self._n_bins)
        n = self._amount_shares.n
        tables = reconcile_tables(self._tables, n)
        log_bin_shares = [
            np.log(np.maximum(table.counts / n, _MIN_SHARE))
            for table in tables[: self._amount_shares.p]
        ]
        self._beliefs, self._potentials = fit_model(
            self._tree,
            tables,
            log_bin_shares,
            n,
            self._potentials,
            max_steps=max_steps,
            n_sweeps=n_sweeps,
        )

    def _list_candidates(self) -> list[tuple[int, int]]:
        """List uncounted pairs that keep the model within ``MAX_CELLS``, whatever the data."""
        counted = [table.columns for table in self._tables]
        candidates = []
        for a in range(self._amount_shares.p):
            for b in range(a + 1, self._amount_shares.p):
                if (a, b) in counted:
                    continue
                cliques = find_maximal_cliques([*counted, (a, b)], self._n_bins)
                if sum(count_cells(clique, self._n_bins) for clique in cliques) <= MAX_CELLS:
                    candidates.append((a, b))
        return candidates

    def _score(self, pair: tuple[int, int], shares: Floats, magnitude: float) -> int:
        """Estimate how much the counts of a pair would improve the model, in fractions of a row.

        One row moves it by at most ``2 * _UNITS_PER_ROW``.

        Parameters
        ----------
        shares : the share of the rows in each cell that the model expects.
        magnitude : the mean absolute noise on a count.
        """
        # Both counts are in units of which ``_UNITS_PER_ROW`` make a row.
        expected = np.rint(_UNITS_PER_ROW * self._amount_shares.n * shares).astype(np.int64)
        distance = int(np.abs(_UNITS_PER_ROW * self._count_pair(pair) - expected).sum())
        return distance - round(_UNITS_PER_ROW * _NOISE_PENALTY * magnitude * shares.size)

    def _count_pair(self, pair: tuple[int, int]) -> NDArray[np.int64]:
        """Count the rows for each pair of bins of two columns, without noise; cached."""
        if pair not in self._pair_counts:
            a, b = pair
            sizes = (self._n_bins[a], self._n_bins[b])
            self._pair_counts[pair] = count_two_way(self._codes[a], self._codes[b], sizes)
        return self._pair_counts[pair]
