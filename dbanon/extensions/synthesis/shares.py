"""Divide epsilon over the steps of a method, by public facts only: rows, columns and epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbanon.errors import InvalidParameter, NoiseTooLarge, TooFewRecords
from dbanon.extensions.synthesis.accounting import ACCOUNTINGS, Accounting
from dbanon.extensions.synthesis.noise import Noise
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.synthesis import PURE, QUANTILES, RANKS

# The accounting of ``dp_ranks``: prices in epsilon, for Laplace noise.
PURE_EPSILON = ACCOUNTINGS[PURE]
# The range of every column is mapped to the integers from 0 to GRID.
GRID = 2**20
MAX_COLUMNS = 64
MAX_BINS = 32
# Shares of epsilon if columns are released with their dependence: for margins, for selecting pairs
# of columns, for counts of these pairs, and for agreements (the residual dependence, which these
# counts do not show). An agreement of two columns is the number of rows on the same side of the
# median in both, given their parent columns in the tree.
MARGINS_SHARE, SELECTION_SHARE, COUNTS_SHARE, RESIDUALS_SHARE = 0.40, 0.10, 0.35, 0.15
# Limits of the noise on the mean of a quarter of the rows, as a share of the range: for any
# release, and for a release of the dependence.
MAX_MEAN_NOISE, _MAX_MEAN_NOISE_WITH_DEPENDENCE = 0.05, 0.02
# A margin consists of means, each of a group of v consecutive values. The noise on such a mean is
# 1 / (epsilon v) of the range, where epsilon is that of the sums. It is at most a fiftieth, unless
# fewer than four groups would be left.
RANGE_TO_MEAN_NOISE = 50
# The noise also has a limit in proportion to the group's share of the n rows:
# 1 / (epsilon v) <= (1/2) v / n. With the fiftieth as the only limit, a larger epsilon would make
# groups smaller at the same noise, which is too large if most values lie in a small part of the
# range.
_MEAN_NOISE_TO_ROW_SHARE = 1 / 2
# If margins include quantiles, the shares of a column's epsilon for sums of order statistics, for
# the edges of intervals, and for the counts between edges. Tuned on MAGIC and Census; privacy does
# not depend on them.
_MARGIN_SUMS_SHARE, _MARGIN_EDGES_SHARE, _MARGIN_COUNTS_SHARE = 0.70, 0.15, 0.15
# As RANGE_TO_MEAN_NOISE, for these sums of order statistics.
_RANGE_TO_MEAN_NOISE_WITH_EDGES = 25
# Values of a numeric column are counted if the rows per value are at least this many times
# 1 / epsilon. With fewer rows, sums of order statistics are more accurate.
_MIN_ROWS_PER_VALUE = 4
# The most halvings of a column's range.
_MAX_DEPTH = 8
# Keeps the price below epsilon despite floating-point rounding.
_SLACK = 1 + 1e-12


@dataclass(frozen=True)
class EdgeShares:
    """How quantiles of a column are found: by halving its range, and counting between the edges.

    Parameters
    ----------
    depth : number of halvings.
    choice_scale, count_scale : noise scales for the scores of an edge, and for the row counts
        between edges.
    """

    depth: int
    choice_scale: float
    count_scale: float

    def price(self, accounting: Accounting, noise: Noise) -> float:
        """The price for one column: a choice of sensitivity 2 per level, and the counts."""
        level_price = accounting.choice_price(noise, self.choice_scale, 2)
        return self.depth * level_price + accounting.count_price(noise, self.count_scale)


@dataclass(frozen=True)
class EpsilonShares:
    """How epsilon is divided over the steps, and the resulting noise scales.

    Parameters
    ----------
    n, p : number of rows (or persons) and columns.
    epsilon : the total.
    trees : the public values of each column; None for a numeric one.
    n_values : number of values of each numeric column whose values are counted; else 0.
    n_bins : number of bins of each column in two-way counts; 1 if columns are released as
        independent.
    values_per_sum : number of consecutive order statistics that are added into one noisy sum.
    margin_scale, leaf_scale, choice_scale, count_scale, residual_scale : noise scales for such
        sums, for counts of values, for scores of pairs, for two-way counts, and for agreements.
    edge_shares : how quantiles of numeric columns are found; None if margins do not include them.
    """

    n: int
    p: int
    epsilon: float
    trees: tuple[Hierarchy | None, ...]
    n_bins: int
    values_per_sum: int
    margin_scale: float
    leaf_scale: float
    choice_scale: float
    count_scale: float
    residual_scale: float
    edge_shares: EdgeShares | None = None
    n_values: tuple[int, ...] = ()

    @property
    def n_pairs(self) -> int:
        """The number of pairs of columns."""
        return self.p * (self.p - 1) // 2

    @property
    def agreement_sensitivity(self) -> int:
        """The most that one row can move the sum of all pairs' agreement counts."""
        return _max_changed_agreements(self.p)

    @property
    def has_dependence(self) -> bool:
        """Whether the dependence between columns is released, too."""
        return self.n_bins > 1

    @property
    def has_counts(self) -> tuple[bool, ...]:
        """For each column, whether its margin is counts of all its values."""
        return tuple(
            tree is not None or n_column_values > 0
            for tree, n_column_values in zip(self.trees, self.n_values, strict=True)
        )

    @property
    def uses_own_margins(self) -> bool:
        """Whether to score a pair of columns by the margins of the pair's own counts.

        Otherwise, pairs are scored by the expected share of each bin. Own margins are needed if
        ``has_counts`` differs between columns. The bins of a numeric column have only roughly the
        expected shares, so scores by expected shares would prefer any pair with a numeric column to
        pairs of columns with listed values.
        """
        return len(set(self.has_counts)) > 1

    @property
    def score_units_per_row(self) -> int:
        """What one row counts as in scores of pairs, so that expected counts are integers."""
        return self.n if self.uses_own_margins else self.n_bins**2

    @property
    def score_sensitivity(self) -> int:
        """The most that one row can move the score of a pair: two counts change by one row each.

        If the score uses the pair's own margins, each of the two columns adds as much again.
        """
        return (6 if self.uses_own_margins else 2) * self.score_units_per_row

    def price(self, noise: Noise) -> float:
        """The total price of all draws."""
        # One row moves all sums of a column together by at most its range, ``GRID``.
        margin_price = noise.laplace_price(self.margin_scale, GRID)
        if self.edge_shares is not None:
            margin_price += self.edge_shares.price(PURE_EPSILON, noise)
        n_counted = sum(self.has_counts)
        total = (self.p - n_counted) * margin_price
        total += n_counted * noise.laplace_price(self.leaf_scale, 2)
        if self.has_dependence:
            total += (self.p - 1) * (
                noise.choice_price(self.choice_scale, self.score_sensitivity)
                + noise.laplace_price(self.count_scale, 2)
            )
            total += noise.laplace_price(self.residual_scale, self.agreement_sensitivity)
        return total

    def require_affordable(self, noise: Noise) -> None:
        """Check that all draws cost no more than epsilon; raises AssertionError."""
        total = self.price(noise)
        if not total <= self.epsilon:
            raise AssertionError(f"all draws cost {total}, more than epsilon {self.epsilon}")


def divide_epsilon(
    n: int,
    p: int,
    epsilon: float,
    trees: Sequence[Hierarchy | None] | None = None,
    margins: str = RANKS,
    n_values: Sequence[int] | None = None,
) -> EpsilonShares:
    """Divide epsilon over p columns of n rows; call ``require_column_count`` first.

    Parameters
    ----------
    trees : the public values of each column, None for a numeric one; None if all are numeric.
    margins : how numeric columns are measured: ``ranks`` by sums of order statistics, ``quantiles``
        by these and by noisy quantiles.
    n_values : number of values of each numeric column; 0 unless its values are a few integers. None
        if it is 0 for all columns.

    Raises
    ------
    TooFewRecords : there are fewer than four rows.
    NoiseTooLarge : the release would be mostly noise.
    """
    if n < 4:
        raise TooFewRecords(f"There are {n} rows, and a margin needs four.")
    # The noise on the mean of n / 4 rows of a column with epsilon / p, as a share of its range.
    if 4 * p / (n * epsilon) > MAX_MEAN_NOISE:
        raise _too_large_noise_error(n, p, epsilon)
    n_bins = 1
    if p > 1:
        # At least twice as many rows per pair of bins as the scale of the noise on their count.
        n_bins = min(math.floor(math.sqrt(n * COUNTS_SHARE * epsilon / (4 * (p - 1)))), MAX_BINS)
    if n_bins < 2 or p / (n // 4 * MARGINS_SHARE * epsilon) > _MAX_MEAN_NOISE_WITH_DEPENDENCE:
        n_bins = 1
    margin_epsilon = (MARGINS_SHARE if n_bins > 1 else 1.0) * epsilon / p
    pair_epsilon = epsilon / max(p - 1, 1)
    edge_shares = None
    if margins == QUANTILES:
        edge_shares = divide_edges(
            n,
            PURE_EPSILON,
            _MARGIN_EDGES_SHARE * margin_epsilon,
            _MARGIN_COUNTS_SHARE * margin_epsilon,
        )
    sum_epsilon = margin_epsilon * (_MARGIN_SUMS_SHARE if edge_shares else 1.0)
    values_per_sum = math.ceil(
        (_RANGE_TO_MEAN_NOISE_WITH_EDGES if edge_shares else RANGE_TO_MEAN_NOISE) / sum_epsilon
    )
    if edge_shares is None:
        values_per_sum = max(
            values_per_sum, math.ceil(math.sqrt(n / (_MEAN_NOISE_TO_ROW_SHARE * sum_epsilon)))
        )
    trees = (None,) * p if trees is None else tuple(trees)
    n_counted_values = tuple(
        n_column_values
        if tree is None and n_column_values * _MIN_ROWS_PER_VALUE <= margin_epsilon * n
        else 0
        for tree, n_column_values in zip(trees, n_values or (0,) * p, strict=True)
    )
    shares_of_epsilon = EpsilonShares(
        n=n,
        p=p,
        epsilon=epsilon,
        trees=trees,
        n_bins=n_bins,
        values_per_sum=min(max(values_per_sum, 1), n // 4),
        margin_scale=GRID / sum_epsilon * _SLACK,
        leaf_scale=2 / margin_epsilon * _SLACK,
        choice_scale=0.0,  # Set below: it depends on ``score_sensitivity``.
        count_scale=2 / (COUNTS_SHARE * pair_epsilon) * _SLACK,
        residual_scale=max(_max_changed_agreements(p), 1) / (RESIDUALS_SHARE * epsilon) * _SLACK,
        edge_shares=edge_shares,
        n_values=n_counted_values,
    )
    return replace(
        shares_of_epsilon,
        choice_scale=2
        * shares_of_epsilon.score_sensitivity
        / (SELECTION_SHARE * pair_epsilon)
        * _SLACK,
    )


def _max_changed_agreements(p: int) -> int:
    """Return the most pairs whose agreement can change when a row changes sides in some columns.

    A pair changes if the row changes sides in exactly one of its columns. For f columns these are
    f (p - f) pairs.
    """
    return p * p // 4


def divide_edges(
    n: int, accounting: Accounting, choice_budget: float, count_budget: float
) -> EdgeShares:
    """Choose the depth so that the noise of an edge is at most about the rows of an interval.

    Parameters
    ----------
    n : number of rows.
    choice_budget, count_budget : a column's amount of epsilon or rho for all choices of edges, and
        for the counts.
    """
    depth = 1
    while (
        depth < _MAX_DEPTH
        and 2 ** (depth + 1) * _choice_scale(accounting, choice_budget, depth + 1) <= n
    ):
        depth += 1
    return EdgeShares(
        depth=depth,
        choice_scale=_choice_scale(accounting, choice_budget, depth),
        count_scale=accounting.count_scale(count_budget),
    )


def _choice_scale(accounting: Accounting, budget: float, depth: int) -> float:
    """Return the noise scale of one of ``depth`` levels. One row moves its scores by at most 2."""
    return accounting.choice_scale(budget / depth, 2)


def require_column_count(p: int) -> None:
    """Check the number of columns.

    Raises
    ------
    InvalidParameter : there is none, or there are too many to share one epsilon.
    """
    if not 1 <= p <= MAX_COLUMNS:
        raise InvalidParameter(f"dp_ranks takes 1 to {MAX_COLUMNS} columns, not {p}.")


def _too_large_noise_error(n: int, p: int, epsilon: float) -> NoiseTooLarge:
    """Build the error with the epsilon, the number of columns or the rows that would suffice."""
    max_columns = math.floor(MAX_MEAN_NOISE * n * epsilon / 4)
    columns_alternative = f", {max_columns} columns" if max_columns else ""
    return NoiseTooLarge(
        f"Noise for {p} columns at epsilon {epsilon:g} would be {4 * p / (n * epsilon):.0%} of"
        f" the range on the mean of a quarter of {n} rows; at most {MAX_MEAN_NOISE:.0%} is"
        " allowed.",
        hint=f"One of these suffices: `epsilon` {_round_up(4 * p / (MAX_MEAN_NOISE * n))}"
        f"{columns_alternative}, or {math.ceil(4 * p / (MAX_MEAN_NOISE * epsilon))} rows.",
    )


def _round_up(value: float) -> str:
    """Round up to three significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / step) * step:.3g}"
