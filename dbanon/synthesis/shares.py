"""Divide epsilon by public figures alone: rows, columns and epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dbanon.errors import InvalidParameter, NoiseTooLarge, TooFewRecords
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.synthesis import PURE, QUANTILES, RANKS
from dbanon.synthesis.accounting import ACCOUNTINGS, Accounting
from dbanon.synthesis.noise import Noise

PURE_EPSILON = ACCOUNTINGS[PURE]
# Every column's range is mapped to integers from 0 to this.
GRID = 2**20
MAX_COLUMNS = 64
MAX_BINS = 32
# Shares of epsilon if columns are released with their dependence.
MARGINS, SELECTION, COUNTS, RESIDUALS = 0.40, 0.10, 0.35, 0.15
# Noise on the mean of a quarter of the rows, as a share of the range: the limit for any release,
# and the limit for releasing the dependence.
TOO_LARGE, _SMALL_NOISE = 0.05, 0.02
# A class of a margin has noise of at most a fiftieth of the range. Its noise, as a share of the
# range, is also limited relative to its share of the rows: otherwise a large epsilon would not
# reduce the noise when most values lie in a small part of the range.
NOISE_OF_CLASS = 50
_NOISE_OF_SHARE = 1 / 2
# With quantiles, the shares of a margin for sums of ranks, which get more noise per class, for
# edges, and for the counts between them. Tuned on MAGIC and Census; privacy does not depend on
# them.
_RANKS_SHARE, _EDGES_SHARE, _COUNTS_SHARE = 0.70, 0.15, 0.15
_NOISE_BESIDE_EDGES = 25
# Values of a numeric column are counted if there are this many rows per value for each unit of
# noise of scale 1 / epsilon; with fewer rows, sums of ranks are more accurate.
_MIN_ROWS_PER_VALUE = 4
_MAX_DEPTH = 8
# Keeps the price below epsilon despite floating-point rounding.
_SLACK = 1 + 1e-12


@dataclass(frozen=True)
class EdgeShares:
    """Shares for quantiles by halving.

    Parameters
    ----------
    depth : number of halvings.
    choice_scale, count_scale : noise scales for the scores of an edge, and for the rows between.
    """

    depth: int
    choice_scale: float
    count_scale: float

    def price(self, account: Accounting, noise: Noise) -> float:
        """Price for one column: a choice of sensitivity 2 per level, and the counts."""
        level = account.choice_price(noise, self.choice_scale, 2)
        return self.depth * level + account.count_price(noise, self.count_scale)


@dataclass(frozen=True)
class Shares:
    """How epsilon is divided over the steps, and the resulting noise scales.

    Parameters
    ----------
    n, p : number of rows (or persons) and columns.
    epsilon : the total.
    trees : the public values of each column; None for a numeric one.
    n_values : number of values of each numeric column whose values are counted; else 0.
    bins : bins of each column in two-way counts; 1 if columns are released as independent.
    class_size : order statistics per sum of a margin.
    margin_scale, leaf_scale, choice_scale, count_scale, residual_scale : noise scales for such
        sums, counts of values, scores of pairs, two-way counts, and agreements of pairs beyond the
        tree.
    edges : for numeric columns, if margins include quantiles.
    """

    n: int
    p: int
    epsilon: float
    trees: tuple[Hierarchy | None, ...]
    bins: int
    class_size: int
    margin_scale: float
    leaf_scale: float
    choice_scale: float
    count_scale: float
    residual_scale: float
    edges: EdgeShares | None = None
    n_values: tuple[int, ...] = ()

    @property
    def pairs(self) -> int:
        """The number of pairs of columns."""
        return self.p * (self.p - 1) // 2

    @property
    def agreement_sensitivity(self) -> int:
        """The most that one row can move the agreements of all pairs together."""
        return _max_flips(self.p)

    @property
    def dependent(self) -> bool:
        """True if the dependence between columns is released, too."""
        return self.bins > 1

    @property
    def has_counts(self) -> tuple[bool, ...]:
        """For each column, whether its margin is counts of all its values."""
        return tuple(
            tree is not None or many > 0
            for tree, many in zip(self.trees, self.n_values, strict=True)
        )

    @property
    def scores_own_margins(self) -> bool:
        """Whether to score pairs by their own margins, which is needed with margins of both kinds.

        The bins of a numeric column have only roughly equal shares. Scoring by nominal shares would
        prefer any pair with a numeric column to pairs of listed columns.
        """
        return len(set(self.has_counts)) > 1

    @property
    def score_unit(self) -> int:
        """What a row counts in the score of a pair, so that expected shares are integers."""
        return self.n if self.scores_own_margins else self.bins**2

    @property
    def score_sensitivity(self) -> int:
        """The most that one row can move the score of a pair: two counts by 1.

        Own margins add as much again for each of the two columns.
        """
        return (6 if self.scores_own_margins else 2) * self.score_unit

    def price(self, noise: Noise) -> float:
        """The total price of all draws."""
        margin = noise.laplace_price(self.margin_scale, GRID)
        if self.edges is not None:
            margin += self.edges.price(PURE_EPSILON, noise)
        counts = sum(self.has_counts)
        total = (self.p - counts) * margin
        total += counts * noise.laplace_price(self.leaf_scale, 2)
        if self.dependent:
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


def shares(
    n: int,
    p: int,
    epsilon: float,
    trees: Sequence[Hierarchy | None] | None = None,
    margins: str = RANKS,
    values: Sequence[int] | None = None,
) -> Shares:
    """Divide epsilon over p columns of n rows; call ``require_columns`` first.

    Parameters
    ----------
    trees : the public values of each column, None for a numeric one; None if all are numeric.
    margins : for numeric columns: ``ranks``, or ``quantiles``.
    values : number of values of each numeric column; 0, or None for all, if they are not a few
        integers.

    Raises
    ------
    TooFewRecords : there are fewer than four rows.
    NoiseTooLarge : the release would be mostly noise.
    """
    if n < 4:
        raise TooFewRecords(f"There are {n} rows, and a margin needs four.")
    if 4 * p / (n * epsilon) > TOO_LARGE:
        raise _too_large(n, p, epsilon)
    bins = 1
    if p > 1:
        bins = min(math.floor(math.sqrt(n * COUNTS * epsilon / (4 * (p - 1)))), MAX_BINS)
    if bins < 2 or p / (n // 4 * MARGINS * epsilon) > _SMALL_NOISE:
        bins = 1
    margin_epsilon = (MARGINS if bins > 1 else 1.0) * epsilon / p
    pair_epsilon = epsilon / max(p - 1, 1)
    edges = None
    if margins == QUANTILES:
        edges = divide_edges(
            n, PURE_EPSILON, _EDGES_SHARE * margin_epsilon, _COUNTS_SHARE * margin_epsilon
        )
    sum_epsilon = margin_epsilon * (_RANKS_SHARE if edges else 1.0)
    size = math.ceil((_NOISE_BESIDE_EDGES if edges else NOISE_OF_CLASS) / sum_epsilon)
    if edges is None:
        size = max(size, math.ceil(math.sqrt(n / (_NOISE_OF_SHARE * sum_epsilon))))
    trees = (None,) * p if trees is None else tuple(trees)
    counted = tuple(
        many if tree is None and many * _MIN_ROWS_PER_VALUE <= margin_epsilon * n else 0
        for tree, many in zip(trees, values or (0,) * p, strict=True)
    )
    shares_of_epsilon = Shares(
        n=n,
        p=p,
        epsilon=epsilon,
        trees=trees,
        bins=bins,
        class_size=min(max(size, 1), n // 4),
        margin_scale=GRID / sum_epsilon * _SLACK,
        leaf_scale=2 / margin_epsilon * _SLACK,
        choice_scale=0.0,
        count_scale=2 / (COUNTS * pair_epsilon) * _SLACK,
        residual_scale=max(_max_flips(p), 1) / (RESIDUALS * epsilon) * _SLACK,
        edges=edges,
        n_values=counted,
    )
    return replace(
        shares_of_epsilon,
        choice_scale=2 * shares_of_epsilon.score_sensitivity / (SELECTION * pair_epsilon) * _SLACK,
    )


def _max_flips(p: int) -> int:
    """The most pairs whose agreement can change when a row changes sides in some columns.

    Pairs change if the row changes sides in exactly one column: f (p - f) for f columns.
    """
    return p * p // 4


def divide_edges(
    n: int, account: Accounting, choice_amount: float, count_amount: float
) -> EdgeShares:
    """Choose the depth so that the noise of an edge is at most about the rows of a part.

    Parameters
    ----------
    n : number of rows.
    choice_amount, count_amount : a column's amount for all choices of edges, and for the counts.
    """
    depth = 1
    while (
        depth < _MAX_DEPTH
        and 2 ** (depth + 1) * _choice_scale(account, choice_amount, depth + 1) <= n
    ):
        depth += 1
    return EdgeShares(
        depth=depth,
        choice_scale=_choice_scale(account, choice_amount, depth),
        count_scale=account.count_scale(count_amount),
    )


def _choice_scale(account: Accounting, amount: float, depth: int) -> float:
    """The choice scale of one of ``depth`` levels; one row moves its scores by 2."""
    return account.choice_scale(amount / depth, 2)


def require_columns(p: int) -> None:
    """Check the number of columns.

    Raises
    ------
    InvalidParameter : there is none, or there are too many to share one epsilon.
    """
    if not 1 <= p <= MAX_COLUMNS:
        raise InvalidParameter(f"dp_ranks takes 1 to {MAX_COLUMNS} columns, not {p}.")


def _too_large(n: int, p: int, epsilon: float) -> NoiseTooLarge:
    columns = math.floor(TOO_LARGE * n * epsilon / 4)
    fewer = f", {columns} columns" if columns else ""
    return NoiseTooLarge(
        f"Noise for {p} columns at epsilon {epsilon:g} would be {4 * p / (n * epsilon):.0%} of"
        f" the range on the mean of a quarter of {n} rows; at most {TOO_LARGE:.0%} is allowed.",
        hint=f"It would do: `epsilon` {_round_up(4 * p / (TOO_LARGE * n))}{fewer}, or"
        f" {math.ceil(4 * p / (TOO_LARGE * epsilon))} rows.",
    )


def _round_up(value: float) -> str:
    """Round up to three significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / step) * step:.3g}"
