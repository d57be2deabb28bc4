"""dp_marginals: a graphical model of noisy counts, of pairs of columns that are chosen one by one.

Neighbours are two tables of the same n rows that differ in one row. n, bounds, the amount and the
columns are public, and all else depends on the data by noise alone:

1. Shares of the amount, sizes of bins and rounds, from public figures (``divide``).
2. For each column counts of its public values or of its few whole numbers with noise; of others
   noisy quantiles, the rows between them, and sums of order statistics (``edges``, ``margins``).
3. In each round the exponential mechanism chooses a pair of columns by how far its counts are from
   those of the model, less what noise would make of it; its counts get noise, and the model is
   fitted anew to all noisy counts (``estimation``). A pair is left out where the model would have
   more than ``MOST_CELLS``.
4. n rows drawn of the model (``junction``), and of each bin values by their noisy shares.

A score is a whole number, in parts of a row: what is expected is rounded before it meets counts, so
that one row moves it by the parts of two rows. The price of all draws is asked before the first
one. Fewer draws are possible, where no pair is left; more are not.

Source: R. McKenna, B. Mullins, D. Sheldon and G. Miklau, "AIM: an adaptive and iterative mechanism
for differentially private synthetic data", VLDB 2022. Its rounds are as many as its noisy counts
say, and have tables of three columns, too; here there is a fixed number of pairs.
Cost: O(p^2 n) for counts, and for each round some tens of passes over the model's cells.
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
from dbanon.synthesis.dependence import even, two_way
from dbanon.synthesis.domains import bins_of
from dbanon.synthesis.edges import Parted, edge_quantiles, noisy_parts
from dbanon.synthesis.estimation import Measured, fitted
from dbanon.synthesis.junction import Floats, JunctionTree, cells, maximal_cliques
from dbanon.synthesis.margins import (
    Listed,
    Margin,
    Steps,
    beside_each_other,
    counts_of_leaves,
    projected,
    quantiles_of_sums,
    steps_of,
    sums_of_ranks,
)
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import GRID, NOISE_OF_CLASS, TOO_LARGE, Edges, edges_of

MOST_COLUMNS = 32
# Of the model, over all its cliques: so its time is bounded, whatever is chosen.
MOST_CELLS = 200_000
_MOST_BINS = 32
# Of the amount: margins, and choices among what rounds have. Noise of a table with Gaussian noise
# grows with the root of the rounds alone, so there are more of them. Measured on Adult.
_MARGINS = {True: 0.40, False: 0.20}
_CHOICE = 0.10
_ROUNDS = {True: 4 / 3, False: 8 / 3}
# A cell of a table has as many rows as this, for each row of its noise, if all have the same.
_ROWS_OF_CELL = 8
# How much of the noise of a table counts against it: the fit takes a part of it away.
_AGAINST = 0.5
# Of the margin of a column on a line: edges of its parts, the counts between them; the rest is for
# sums of ranks, which tell how far the outermost values go. Measured on MAGIC and normal data.
_EDGES, _BETWEEN = 0.50, 0.42
# Parts of a row in which scores are counted.
_UNIT = 16
# Steps of a fit in a round, and of the last one.
_STEPS, _LAST_STEPS = 40, 300
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Division:
    """What each step may spend, and the noise that it needs for that.

    Parameters
    ----------
    n, p : rows (or persons) and columns.
    amount : epsilon or rho, by ``accounting``.
    trees : the public values of each column; None where it is on a line.
    counted : how many values each column on a line has, where each of them is counted; else 0.
    bins : of each column at most; 1 where columns are released as if independent.
    rounds : tables of two columns.
    class_size : order statistics in one sum.
    edges : of columns on a line; None with one bin, which has all rows.
    leaf_scale, sum_scale, choice_scale, count_scale : of the noise on counts of values, on sums of
        order statistics, on scores, on tables.
    """

    n: int
    p: int
    amount: float
    accounting: str
    trees: tuple[Hierarchy | None, ...]
    counted: tuple[int, ...]
    bins: int
    rounds: int
    class_size: int
    leaf_scale: float
    sum_scale: float
    edges: Edges | None
    choice_scale: float
    count_scale: float

    @property
    def account(self) -> Accounting:
        """What prices and noise are by."""
        return ACCOUNTINGS[self.accounting]

    @property
    def by_counts(self) -> int:
        """How many columns have counts of all their values for a margin."""
        pairs = zip(self.trees, self.counted, strict=True)
        return sum(tree is not None or many > 0 for tree, many in pairs)

    def price(self, noise: Noise) -> float:
        """What all draws cost together."""
        account = self.account
        margin = account.sum_price(noise, self.sum_scale, GRID)
        if self.edges is not None:
            margin += self.edges.price(account, noise)
        spent = self.by_counts * account.count_price(noise, self.leaf_scale)
        spent += (self.p - self.by_counts) * margin
        if self.rounds:
            choice = account.choice_price(noise, self.choice_scale, 2 * _UNIT)
            spent += self.rounds * (choice + account.count_price(noise, self.count_scale))
        return spent

    def require_paid(self, noise: Noise) -> None:
        """Check that all draws cost no more than the amount; raises AssertionError."""
        spent = self.price(noise)
        if not spent <= self.amount:
            raise AssertionError(f"all draws cost {spent}, more than {self.amount}")

    @property
    def description(self) -> tuple[str, ...]:
        """How it is made."""
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
    """How an amount is divided over columns of n rows.

    Parameters
    ----------
    amount : epsilon or rho, by ``accounting``, ``pure`` or ``zcdp``.
    trees : the public values of each column, None where it is on a line.
    values : how many values each column on a line has, or 0.

    Raises
    ------
    InvalidParameter : there are too many columns, or none.
    TooFewRecords : fewer than four rows.
    NoiseTooLarge : nothing would be left but noise.
    """
    p, account, pure = len(trees), ACCOUNTINGS[accounting], accounting == PURE
    if not 1 <= p <= MOST_COLUMNS:
        raise InvalidParameter(
            f"dp_marginals takes 1 to {MOST_COLUMNS} columns, not {p}.",
            hint="Method dp_ranks takes more.",
        )
    if n < 4:
        raise TooFewRecords(f"There are {n} rows, and a margin needs four.")
    of_quarter = 4 * account.sum_scale(amount / p, 1) / n
    if of_quarter > TOO_LARGE:
        raise NoiseTooLarge(
            f"Noise for {p} columns would be {of_quarter:.0%} of the range on the mean of a quarter"
            f" of {n} rows; at most {TOO_LARGE:.0%} is taken.",
            hint=f"It would do: {math.ceil(n * of_quarter / TOO_LARGE)} rows, a larger `epsilon`,"
            " or fewer columns.",
        )
    pairs = p * (p - 1) // 2
    rounds = min(round(_ROUNDS[pure] * p), pairs)
    rest = amount * (1 - _MARGINS[pure]) / max(rounds, 1)
    count_scale = account.count_scale(rest * (1 - _CHOICE))
    bins = math.floor(math.sqrt(n / (_ROWS_OF_CELL * account.magnitude(count_scale))))
    bins = min(bins, _MOST_BINS) if rounds else 1
    if bins < 2:
        bins, rounds = 1, 0
    of_margin = amount / p * (_MARGINS[pure] if rounds else 1.0)
    leaf_scale = account.count_scale(of_margin)
    edges, of_sums = None, of_margin
    if bins > 1:
        edges = edges_of(n, account, _EDGES * of_margin, _BETWEEN * of_margin)
        of_sums *= 1 - _EDGES - _BETWEEN
    sum_scale = account.sum_scale(of_sums, GRID)
    return Division(
        n=n,
        p=p,
        amount=amount,
        accounting=accounting,
        trees=tuple(trees),
        counted=tuple(
            many if tree is None and many * 2 * leaf_scale <= n else 0
            for tree, many in zip(trees, values, strict=True)
        ),
        bins=bins,
        rounds=rounds,
        class_size=min(max(math.ceil(NOISE_OF_CLASS * sum_scale / GRID), 1), n // 4),
        leaf_scale=leaf_scale,
        sum_scale=sum_scale,
        edges=edges,
        choice_scale=account.choice_scale(rest * _CHOICE, 2 * _UNIT),
        count_scale=count_scale,
    )


def dp_marginals(
    grid: NDArray[np.int64], division: Division, noise: Noise, rng: np.random.Generator
) -> Floats:
    """Synthetic rows, float64 (p, n), of columns of whole numbers.

    Parameters
    ----------
    grid : int64 (p, n), a column after the other: from 0 to ``GRID``, or places of leaves.
    division : of the amount.
    noise : what may see the data.
    rng : for what is drawn of noisy figures.
    """
    division.require_paid(noise)
    margins = [_margin(j, column, division, noise) for j, column in enumerate(grid)]
    codes = np.array([m.spots(column, rng)[0] for m, column in zip(margins, grid, strict=True)])
    ones = [_bins(j, margin, division) for j, margin in enumerate(margins)]
    drawn = _Selection(codes, ones, division).run(noise).rows(division.n, rng)
    return np.array(
        [margin.at(code, even(code, rng)) for margin, code in zip(margins, drawn, strict=True)]
    )


def _margin(j: int, column: NDArray[np.int64], division: Division, noise: Noise) -> Margin:
    """The noisy margin of a column."""
    account, tree, many = division.account, division.trees[j], division.counted[j]
    if tree is None and not many:
        sums = sums_of_ranks(column, division.class_size)
        noisy = account.noisy(noise, sums, division.sum_scale)
        by_ranks = quantiles_of_sums(noisy, division.n, division.class_size, division.bins)
        if division.edges is None:
            return by_ranks
        parts = noisy_parts(column, division.edges, account, noise)
        of_ranks = account.variance(division.sum_scale / division.class_size)
        bins = beside_each_other(parts.shares, min(division.bins, len(parts.shares)))
        return Parted(parts, bins, edge_quantiles(parts, by_ranks, of_ranks, division.bins))
    places = column if tree is not None else steps_of(column, many)
    leaves = many if tree is None else tree.n_leaves
    counts = account.noisy(noise, counts_of_leaves(places, leaves), division.leaf_scale)
    shares = projected(counts.astype(np.float64), 1.0 * division.n) / division.n
    if tree is None:
        return Steps(Listed(shares, beside_each_other(shares, min(division.bins, many))))
    return Listed(shares, bins_of(tree, shares, min(2 * division.bins, _MOST_BINS)))


def _bins(j: int, margin: Margin, division: Division) -> Measured:
    """How many rows the bins of a column have: sums of counts, whose noise adds up.

    Of one bin it is public: it has all rows.
    """
    of_count = division.account.variance(division.leaf_scale)
    if isinstance(margin, Parted):
        of_count = margin.parts.variance
    odds = margin.odds
    return Measured((j,), odds * division.n, of_count * margin.counts / odds.size)


class _Selection:
    """Rounds of choosing, counting and fitting.

    Parameters
    ----------
    codes : the bin of each row in each column, int64 (p, n).
    ones : the noisy counts of the bins of each column.
    """

    def __init__(
        self, codes: NDArray[np.int64], ones: Sequence[Measured], division: Division
    ) -> None:
        self._codes, self._division = codes, division
        self._measured = list(ones)
        self._sizes = [one.counts.size for one in ones]
        self._base = [np.log(np.maximum(one.counts / division.n, _LEAST_SHARE)) for one in ones]
        self._counted: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._potentials: list[Floats] = []
        self._fit(_STEPS)

    def run(self, noise: Noise) -> _Selection:
        """All rounds, and the last fit."""
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
            of_noise = account.variance(division.count_scale)
            of_pair = noisy.reshape(counts.shape).astype(np.float64)
            self._measured.append(Measured(pair, of_pair, of_noise))
            self._fit(_STEPS)
        self._fit(_LAST_STEPS)
        return self

    def rows(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """The bins of n rows, int64 (p, n)."""
        return self._tree.rows(self._beliefs, n, rng)

    def _fit(self, steps: int) -> None:
        cliques = maximal_cliques([one.columns for one in self._measured], self._sizes)
        self._tree = JunctionTree(cliques, self._sizes)
        self._beliefs, self._potentials = fitted(
            self._tree, self._measured, self._base, self._division.n, self._potentials, steps=steps
        )

    def _candidates(self) -> list[tuple[int, int]]:
        """Pairs that are not counted yet, and that the model has room for; data does not matter."""
        known = [one.columns for one in self._measured]
        found = []
        for a in range(self._division.p):
            for b in range(a + 1, self._division.p):
                if (a, b) in known:
                    continue
                cliques = maximal_cliques([*known, (a, b)], self._sizes)
                if sum(cells(clique, self._sizes) for clique in cliques) <= MOST_CELLS:
                    found.append((a, b))
        return found

    def _score(self, pair: tuple[int, int], shares: Floats) -> int:
        """How much counts of a pair would tell: one row moves it by the parts of two rows."""
        expected = np.rint(_UNIT * self._division.n * shares).astype(np.int64)
        apart = int(np.abs(_UNIT * self._counts(pair) - expected).sum())
        magnitude = self._division.account.magnitude(self._division.count_scale)
        return apart - round(_UNIT * _AGAINST * magnitude * shares.size)

    def _counts(self, pair: tuple[int, int]) -> NDArray[np.int64]:
        if pair not in self._counted:
            a, b = pair
            sizes = (self._sizes[a], self._sizes[b])
            self._counted[pair] = two_way(self._codes[a], self._codes[b], sizes)
        return self._counted[pair]
