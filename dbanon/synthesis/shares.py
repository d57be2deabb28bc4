"""How epsilon is divided, from public figures alone: rows, columns and epsilon."""

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
# The range of every column in whole numbers.
GRID = 2**20
MOST_COLUMNS = 64
MOST_BINS = 32
# Of epsilon, where columns are released with their dependence.
MARGINS, SELECTION, COUNTS, RESIDUALS = 0.40, 0.10, 0.35, 0.15
# Noise on the mean of a quarter of the rows, as a share of the range: what is refused, and from
# where there is some to spare for the dependence.
TOO_LARGE, _SMALL = 0.05, 0.02
# A class of a margin has noise of a fiftieth of the range, or less where that needs no class; and,
# as a share of the range, no more than so much of its share of the rows: else noise stays as it is,
# however large epsilon is, where most values lie in a small part of the range.
NOISE_OF_CLASS = 50
_NOISE_OF_SHARE = 1 / 2
# With quantiles: what sums of ranks have of a margin, with more noise a class; edges and the counts
# between them share the rest. Measured on MAGIC and Census; any shares keep the promise.
_OF_RANKS, _OF_EDGES, _OF_BETWEEN = 0.70, 0.15, 0.15
_NOISE_BESIDE_EDGES = 25
# Values of a column on a line are counted where each has so many rows for each noise of scale
# 1 / epsilon: with fewer, sums of ranks lose less.
_LEAST_ROWS = 4
_DEEPEST = 8
# So that what is paid stays below epsilon in floating-point numbers.
_SLACK = 1 + 1e-12


@dataclass(frozen=True)
class Edges:
    """Of quantiles by halving.

    Parameters
    ----------
    depth : how often rows are halved.
    choice_scale, count_scale : of the noise on the scores of an edge, and on the rows between.
    """

    depth: int
    choice_scale: float
    count_scale: float

    def price(self, account: Accounting, noise: Noise) -> float:
        """What they cost for one column: a choice at a sensitivity of 2 each level, and counts."""
        level = account.choice_price(noise, self.choice_scale, 2)
        return self.depth * level + account.count_price(noise, self.count_scale)


@dataclass(frozen=True)
class Shares:
    """What each step may spend, and the noise that it needs for that.

    Parameters
    ----------
    n, p : rows (or persons) and columns.
    epsilon : in all.
    trees : the public values of each column; None where it is on a line.
    counted : how many values each column on a line has, where each of them is counted; else 0.
    bins : of each column, for two-way counts; 1 where columns are released as if independent.
    class_size : order statistics in one sum of a margin.
    margin_scale, leaf_scale, choice_scale, count_scale, residual_scale : of the noise on such sums,
        on the counts of values, on the scores of pairs, on two-way counts, and on how often two
        columns agree in what the tree leaves open.
    edges : of columns on a line, where margins have them.
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
    edges: Edges | None = None
    counted: tuple[int, ...] = ()

    @property
    def pairs(self) -> int:
        """How many pairs of columns there are."""
        return self.p * (self.p - 1) // 2

    @property
    def agreement_sensitivity(self) -> int:
        """By how much one row can move the agreements of all pairs together."""
        return _flips(self.p)

    @property
    def dependent(self) -> bool:
        """True where the dependence between columns is released, too."""
        return self.bins > 1

    @property
    def by_counts(self) -> tuple[bool, ...]:
        """Of each column whether its margin is counts of all its values."""
        return tuple(
            tree is not None or many > 0
            for tree, many in zip(self.trees, self.counted, strict=True)
        )

    @property
    def by_own_shares(self) -> bool:
        """Whether pairs are scored by their own shares: where margins are of both kinds.

        Nominal bins of a column on a line have not quite the shares that their names say. A score
        by those would prefer each pair with it to all pairs of listed columns.
        """
        return len(set(self.by_counts)) > 1

    @property
    def score_unit(self) -> int:
        """What a row counts in the score of a pair, so that shares of rows are whole numbers."""
        return self.n if self.by_own_shares else self.bins**2

    @property
    def score_sensitivity(self) -> int:
        """By how much one row can move the score of a pair: two counts by 1.

        Its own shares move by as much again for each of the two columns.
        """
        return (6 if self.by_own_shares else 2) * self.score_unit

    def price(self, noise: Noise) -> float:
        """What all draws cost together."""
        margin = noise.laplace_price(self.margin_scale, GRID)
        if self.edges is not None:
            margin += self.edges.price(PURE_EPSILON, noise)
        counts = sum(self.by_counts)
        spent = (self.p - counts) * margin
        spent += counts * noise.laplace_price(self.leaf_scale, 2)
        if self.dependent:
            spent += (self.p - 1) * (
                noise.choice_price(self.choice_scale, self.score_sensitivity)
                + noise.laplace_price(self.count_scale, 2)
            )
            spent += noise.laplace_price(self.residual_scale, self.agreement_sensitivity)
        return spent

    def require_paid(self, noise: Noise) -> None:
        """Check that all draws cost no more than epsilon; raises AssertionError."""
        spent = self.price(noise)
        if not spent <= self.epsilon:
            raise AssertionError(f"all draws cost {spent}, more than epsilon {self.epsilon}")


def shares(
    n: int,
    p: int,
    epsilon: float,
    trees: Sequence[Hierarchy | None] | None = None,
    margins: str = RANKS,
    values: Sequence[int] | None = None,
) -> Shares:
    """How epsilon is divided over p columns of n rows; to be called after ``require_columns``.

    Parameters
    ----------
    trees : the public values of each column, None where it is on a line; None: all are.
    margins : of columns on a line: ``ranks``, or ``quantiles``.
    values : how many values each column on a line has; 0, and None for all, where it is no number
        of a few whole steps.

    Raises
    ------
    TooFewRecords : fewer than four rows.
    NoiseTooLarge : nothing would be left but noise.
    """
    if n < 4:
        raise TooFewRecords(f"There are {n} rows, and a margin needs four.")
    if 4 * p / (n * epsilon) > TOO_LARGE:
        raise _too_large(n, p, epsilon)
    bins = 1
    if p > 1:
        bins = min(math.floor(math.sqrt(n * COUNTS * epsilon / (4 * (p - 1)))), MOST_BINS)
    if bins < 2 or p / (n // 4 * MARGINS * epsilon) > _SMALL:
        bins = 1
    of_margin = (MARGINS if bins > 1 else 1.0) * epsilon / p
    rest = epsilon / max(p - 1, 1)
    edges = None
    if margins == QUANTILES:
        edges = edges_of(n, PURE_EPSILON, _OF_EDGES * of_margin, _OF_BETWEEN * of_margin)
    of_sums = of_margin * (_OF_RANKS if edges else 1.0)
    size = math.ceil((_NOISE_BESIDE_EDGES if edges else NOISE_OF_CLASS) / of_sums)
    if edges is None:
        size = max(size, math.ceil(math.sqrt(n / (_NOISE_OF_SHARE * of_sums))))
    trees = (None,) * p if trees is None else tuple(trees)
    counted = tuple(
        many if tree is None and many * _LEAST_ROWS <= of_margin * n else 0
        for tree, many in zip(trees, values or (0,) * p, strict=True)
    )
    whole = Shares(
        n=n,
        p=p,
        epsilon=epsilon,
        trees=trees,
        bins=bins,
        class_size=min(max(size, 1), n // 4),
        margin_scale=GRID / of_sums * _SLACK,
        leaf_scale=2 / of_margin * _SLACK,
        choice_scale=0.0,
        count_scale=2 / (COUNTS * rest) * _SLACK,
        residual_scale=max(_flips(p), 1) / (RESIDUALS * epsilon) * _SLACK,
        edges=edges,
        counted=counted,
    )
    return replace(whole, choice_scale=2 * whole.score_sensitivity / (SELECTION * rest) * _SLACK)


def _flips(p: int) -> int:
    """How many pairs agree no longer, or newly, when a row changes sides in some columns.

    Those of which it changes sides in one alone: of f columns f (p - f), at most p^2 / 4.
    """
    return p * p // 4


def edges_of(n: int, account: Accounting, of_choices: float, of_counts: float) -> Edges:
    """So deep that the noise of an edge, in rows, is no more than about the rows of a part.

    Parameters
    ----------
    n : rows.
    of_choices, of_counts : what all choices of edges of a column may spend, and the counts between.
    """
    depth = 1
    while depth < _DEEPEST and 2 ** (depth + 1) * _choice(account, of_choices, depth + 1) <= n:
        depth += 1
    return Edges(
        depth=depth,
        choice_scale=_choice(account, of_choices, depth),
        count_scale=account.count_scale(of_counts),
    )


def _choice(account: Accounting, spent: float, depth: int) -> float:
    """The scale of one level of ``depth``, whose scores one row moves by 2."""
    return account.choice_scale(spent / depth, 2)


def require_columns(p: int) -> None:
    """Check the number of columns.

    Raises
    ------
    InvalidParameter : there is none, or there are too many to share one epsilon.
    """
    if not 1 <= p <= MOST_COLUMNS:
        raise InvalidParameter(f"dp_ranks takes 1 to {MOST_COLUMNS} columns, not {p}.")


def _too_large(n: int, p: int, epsilon: float) -> NoiseTooLarge:
    columns = math.floor(TOO_LARGE * n * epsilon / 4)
    fewer = f", {columns} columns" if columns else ""
    return NoiseTooLarge(
        f"Noise for {p} columns at epsilon {epsilon:g} would be {4 * p / (n * epsilon):.0%} of"
        f" the range on the mean of a quarter of {n} rows; at most {TOO_LARGE:.0%} is taken.",
        hint=f"It would do: `epsilon` {_up(4 * p / (TOO_LARGE * n))}{fewer}, or"
        f" {math.ceil(4 * p / (TOO_LARGE * epsilon))} rows.",
    )


def _up(value: float) -> str:
    """Three digits, and no less than the value."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / step) * step:.3g}"
