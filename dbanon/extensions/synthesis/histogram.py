"""The histogram of a numeric column, with ranges as fine as its noise and its rows allow.

Levels of noisy counts: the first level has equal ranges of the column, and each range of a level is
divided for the next one into as many equal parts as its noisy count allows. The ranges of a level
partition the column, so that one row is in exactly one of them, and replacing the row changes two
counts by 1: in the range that it leaves and in the one that it enters, if these differ. Where a
level divides depends on the noisy counts of the level before only. Each level is thus one use of
noise for a table of counts, whatever the ranges are. With Laplace noise, a column whose rows are
spread over the first level has only one more level, which gets what all later levels would share.
The noisy counts of the first level decide this, and the price is the same.

The counts of all levels are then reconciled: each range gets the weighted least squares estimate
from its own count and those of its parts. The parts of a range are moved towards an even density,
as far as noise may explain that they are not even, and share the rows of the range, none with less
than 0 rows. The number of rows is public.

Sources: M. Hay, V. Rastogi, G. Miklau and D. Suciu, "Boosting the accuracy of differentially
private histograms through consistency", VLDB 2010, whose two passes these are, for a tree whose
ranges have any number of parts; and W. Qardaji, W. Yang and N. Li, "Differentially private grids
for geospatial data", ICDE 2013, for the number of parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.synthesis.accounting import Accounting, PureAccounting
from dbanon.extensions.synthesis.noise import Noise

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Ranges of the first level: at least ``_MIN_CELLS``, and up to ``_CELLS`` if there are few rows or
# ``_MAX_CELLS`` if there are many, one for each ``_ROWS_PER_CELL`` of them. These rows are in
# standard deviations of the noise that one level with all of the amount would have.
_MIN_CELLS, _CELLS, _MAX_CELLS, _ROWS_PER_CELL = 4, 16, 32, 32
# The most levels, and the fewest rows for each number of levels from two, in standard deviations of
# the noise of the first level.
_MIN_ROWS_TO_NOISE = (10, 10, 30)
# The rows for each part of a range, in standard deviations of the noise on a part: fewer if there
# are few rows, up to a ``_PARTS``-th of all.
_MIN_PART, _MAX_PART, _PARTS = 6.0, 14.0, 16
# Rows are spread if no range of the first level has more than this share of them, by noisy counts.
# Equal parts of each range are then fine enough, and further levels would only add noise. A part
# has more rows than one of several levels, because no other level adds to its count.
_MAX_SPREAD_SHARE, _MIN_SPREAD_PART, _MAX_SPREAD_PART = 1 / 3, 12.0, 42.0
# A level divides ranges into about this many parts at most, in proportion to which time grows.
_MAX_PARTS = 2048
# A run of ranges whose rows are below so many standard deviations counts as empty.
_MIN_RUN = 4.0


@dataclass(frozen=True)
class HistogramShares:
    """How the histogram of a numeric column is measured, from public figures.

    Parameters
    ----------
    n_cells : number of ranges of the first level; fewer if the column has fewer values.
    scales : noise scale of the counts of each level.
    rows_per_part : by level from the second, the number of noisy rows for each part that a range of
        the level before is divided into.
    two_levels : what to measure instead if the first level, which is the same, shows that rows are
        spread; None to measure all levels in any case.
    """

    n_cells: int
    scales: tuple[float, ...]
    rows_per_part: tuple[int, ...]
    two_levels: HistogramShares | None = None

    @property
    def depth(self) -> int:
        """The maximum number of levels."""
        return len(self.scales)

    @property
    def min_depth(self) -> int:
        """The minimum number of levels."""
        return self.depth if self.two_levels is None else self.two_levels.depth

    def price(self, accounting: Accounting, noise: Noise) -> float:
        """The maximum price for one column: a table of counts per level."""
        price = sum(accounting.count_price(noise, scale) for scale in self.scales)
        if self.two_levels is None:
            return price
        return max(price, self.two_levels.price(accounting, noise))


def divide_histogram(n: int, accounting: Accounting, amount: float) -> HistogramShares:
    """Choose the levels of the histogram of n rows for an amount of epsilon or rho."""
    depth = 1 + len(_MIN_ROWS_TO_NOISE)
    while (
        depth > 1
        and count_rows_to_noise(n, accounting, amount * _divide_over_levels(depth, accounting)[0])
        < _MIN_ROWS_TO_NOISE[depth - 2]
    ):
        depth -= 1
    amounts = [amount * share for share in _divide_over_levels(depth, accounting)]
    rows_to_noise = count_rows_to_noise(n, accounting, amount)
    n_cells = min(max(math.floor(rows_to_noise / _ROWS_PER_CELL), _CELLS), _MAX_CELLS)
    n_cells = max(
        min(math.floor(count_rows_to_noise(n, accounting, amounts[0])), n_cells), _MIN_CELLS
    )

    def share_out(amounts: Sequence[float], min_part: float, max_part: float) -> HistogramShares:
        part = count_rows_to_noise(n, accounting, amounts[-1]) / _PARTS
        part = min(max(part, min_part), max_part)
        return HistogramShares(
            n_cells=n_cells,
            scales=tuple(map(accounting.count_scale, amounts)),
            rows_per_part=tuple(
                math.ceil(
                    max(part * n / count_rows_to_noise(n, accounting, level_amount), n / _MAX_PARTS)
                )
                for level_amount in amounts[1:]
            ),
        )

    shares = share_out(amounts, _MIN_PART, _MAX_PART)
    # Gaussian noise grows only with the root of the number of levels, so fewer would gain nothing.
    if depth <= 2 or not isinstance(accounting, PureAccounting):
        return shares
    two_amounts = (amounts[0], amount - amounts[0])
    return replace(shares, two_levels=share_out(two_amounts, _MIN_SPREAD_PART, _MAX_SPREAD_PART))


def _divide_over_levels(depth: int, accounting: Accounting) -> list[float]:
    """Return the share of the amount for each level, more than for the one before.

    That is as many times more as half of an amount increases the standard deviation of the noise: 2
    times with Laplace noise, and its square root with Gaussian noise.
    """
    variances = [accounting.variance(accounting.count_scale(amount)) for amount in (0.5, 1.0)]
    growth = math.sqrt(variances[0] / variances[1])
    weights = [growth**level for level in range(depth)]
    return [weight / sum(weights) for weight in weights]


def count_rows_to_noise(n: int, accounting: Accounting, amount: float) -> float:
    """Return n in standard deviations of the noise on counts that cost ``amount``."""
    return n / math.sqrt(accounting.variance(accounting.count_scale(amount)))


@dataclass(frozen=True, eq=False)
class HistogramLevel:
    """One level of a histogram.

    Parameters
    ----------
    n_parts : number of parts of each range of the level before, int64.
    counts : the noisy count of each range of this level.
    variance : the variance of their noise.
    """

    n_parts: Ints
    counts: Floats
    variance: float

    @property
    def first_parts(self) -> Ints:
        """The index of the first part of each range of the level before."""
        return np.cumsum(self.n_parts) - self.n_parts


@dataclass(frozen=True, eq=False)
class Histogram:
    """The estimated rows in ranges of a column.

    Parameters
    ----------
    edges : int64 (m + 1,), ascending. Range i has the positions from edge i to below edge i + 1.
    rows : the estimated number of rows in each range, float64 (m,), 0 or more.
    parents : the range of the level before that each range is a part of, int64 (m,).
    parent_variances : the variance of the estimate of each of those, float64.
    part_variance : the variance of a range's estimate among the parts of one parent.
    """

    edges: Ints
    rows: Floats
    parents: Ints
    parent_variances: Floats
    part_variance: float

    def estimate_bin_variance(self, bins: Ints) -> float:
        """Estimate the variance of the rows in a bin, as the mean over the bins.

        Parameters
        ----------
        bins : the bin of each range, int64 (m,), ascending from 0.
        """
        n_parents = len(self.parent_variances)
        # A bin may have all or some of the parts of a parent.
        pairs, n_parts = np.unique(bins * n_parents + self.parents, return_counts=True)
        parents = pairs % n_parents
        fractions = n_parts / np.bincount(self.parents)[parents]
        variances = (
            n_parts * (1 - fractions) * self.part_variance
            + fractions**2 * self.parent_variances[parents]
        )
        return float(variances.sum()) / (int(bins[-1]) + 1)


def measure_histogram(
    positions: Ints,
    n_positions: int,
    shares: HistogramShares,
    accounting: Accounting,
    noise: Noise,
) -> Histogram:
    """Measure the histogram of a column.

    Parameters
    ----------
    positions : int64 (n,), from 0 to below ``n_positions``.
    shares : the number of levels and the scale of their noise.
    """
    sorted_positions = np.sort(positions)
    edges = np.array([0, n_positions], np.int64)
    n_parts = np.array([min(shares.n_cells, n_positions)], np.int64)
    levels: list[HistogramLevel] = []
    widths: list[Ints] = []
    while len(levels) < shares.depth:
        scale = shares.scales[len(levels)]
        edges = divide_ranges(edges, n_parts)
        widths.append(np.diff(edges))
        counts = np.diff(np.searchsorted(sorted_positions, edges)).astype(np.int64)
        noisy = accounting.add_noise(noise, counts, scale)
        variance = accounting.variance(scale)
        levels.append(HistogramLevel(n_parts, noisy.astype(np.float64), variance))
        is_spread = len(levels) == 1 and noisy.max() <= _MAX_SPREAD_SHARE * len(positions)
        if is_spread and shares.two_levels is not None:
            shares = shares.two_levels
        if len(levels) < shares.depth:
            n_parts = np.clip(noisy // shares.rows_per_part[len(levels) - 1], 1, widths[-1])
    estimates, variances = combine_upwards(levels)
    estimates = [
        shrink_to_even(estimates[i], variances[i], ranges.first_parts, widths[i].astype(np.float64))
        for i, ranges in enumerate(levels)
    ]
    return Histogram(
        edges=edges,
        rows=share_downwards(levels, estimates, variances, 1.0 * len(positions)),
        parents=np.repeat(np.arange(len(levels[-1].n_parts)), levels[-1].n_parts),
        # The number of all rows is known.
        parent_variances=variances[-2] if len(levels) > 1 else np.zeros(1),
        part_variance=levels[-1].variance,
    )


def divide_ranges(edges: Ints, n_parts: Ints) -> Ints:
    """Divide ranges into parts of equal width, up to rounding; return all edges, int64.

    Parameters
    ----------
    edges : int64 (m + 1,), ascending.
    n_parts : number of parts of each range, int64 (m,), at most its width.
    """
    part_of_range = np.arange(n_parts.sum()) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    widths = np.repeat(np.diff(edges), n_parts)
    starts = np.repeat(edges[:-1], n_parts) + part_of_range * widths // np.repeat(n_parts, n_parts)
    return np.append(starts, edges[-1]).astype(np.int64)


def combine_upwards(levels: Sequence[HistogramLevel]) -> tuple[list[Floats], list[Floats]]:
    """Combine the count of each range with the sum of the estimates of its parts.

    Returns
    -------
    estimates, variances : by level.
    """
    estimates = [level.counts.copy() for level in levels]
    variances = [np.full(len(level.counts), level.variance) for level in levels]
    for i in range(len(levels) - 2, -1, -1):
        first_parts = levels[i + 1].first_parts
        sums = np.add.reduceat(estimates[i + 1], first_parts)
        sum_variances = np.add.reduceat(variances[i + 1], first_parts)
        # Each is weighted inversely to its variance.
        weights = sum_variances / (sum_variances + levels[i].variance)
        estimates[i] = weights * estimates[i] + (1 - weights) * sums
        variances[i] = weights * levels[i].variance
    return estimates, variances


def shrink_to_even(
    estimates: Floats, variances: Floats, first_parts: Ints, widths: Floats
) -> Floats:
    """Move the parts of each range towards an even density, as far as noise may explain theirs.

    The sum of the parts stays. The fewer standard deviations they are from an even density, the
    more they move: to it, if that is what noise alone would make.

    Parameters
    ----------
    estimates, variances, widths : of all parts, float64 (m,).
    first_parts : the index of the first part of each range, int64.

    Source: W. James and C. Stein, "Estimation with quadratic loss", 1961.
    """
    n_parts = np.diff(np.append(first_parts, len(estimates)))

    def repeat_sums(values: Floats) -> Floats:
        return np.repeat(np.add.reduceat(values, first_parts), n_parts)

    even = repeat_sums(estimates) * widths / repeat_sums(widths)
    square_distances = repeat_sums(np.square(estimates - even))
    # The sum of the parts is given, which is one degree of freedom less.
    noise = repeat_sums(variances) * (1 - 3 / np.repeat(n_parts, n_parts)).clip(0.0)
    noise_share = np.divide(
        noise, square_distances, out=np.ones_like(noise), where=square_distances > noise
    )
    return np.where(
        np.repeat(n_parts, n_parts) > 3, even + (1 - noise_share) * (estimates - even), estimates
    )


def find_occupied(estimates: Floats, variances: Floats) -> NDArray[np.bool_]:
    """Find the ranges that have rows: runs of positive estimates that are hardly noise alone.

    Without this, noise would put some rows in each of many empty ranges, far from all others.
    """
    is_positive = estimates > 0
    run = np.cumsum(np.diff(is_positive, prepend=False))
    rows, row_variances = np.bincount(run, estimates), np.bincount(run, variances)
    is_occupied: NDArray[np.bool_] = is_positive & (rows > _MIN_RUN * np.sqrt(row_variances))[run]
    return is_occupied if is_occupied.any() else np.ones(len(estimates), np.bool_)


def share_downwards(
    levels: Sequence[HistogramLevel],
    estimates: Sequence[Floats],
    variances: Sequence[Floats],
    total: float,
) -> Floats:
    """Share the rows of each range among its parts; return those of the last level's ranges.

    Parameters
    ----------
    estimates, variances : of the ranges of each level.
    total : the known number of all rows.
    """
    occupied = np.flatnonzero(find_occupied(estimates[0], variances[0]))
    rows = np.zeros(len(estimates[0]))
    rows[occupied] = share_rows(estimates[0][occupied], variances[0][occupied], total)
    for level, level_estimates, level_variances in zip(
        levels[1:], estimates[1:], variances[1:], strict=True
    ):
        first_parts = level.first_parts
        part_rows = np.repeat(rows, level.n_parts)
        for index in np.flatnonzero(level.n_parts > 1).tolist():
            parts = slice(first_parts[index], first_parts[index] + level.n_parts[index])
            part_rows[parts] = share_rows(
                level_estimates[parts], level_variances[parts], float(rows[index])
            )
        rows = part_rows
    return rows


def share_rows(estimates: Floats, variances: Floats, total: float) -> Floats:
    """Find the non-negative numbers of sum ``total`` nearest to estimates, by least squares.

    Parameters
    ----------
    estimates, variances : float64 (m,); a difference counts inversely to its variance.
    """
    if total <= 0:
        return np.zeros(len(estimates))
    # Each positive result is its estimate less ``excess`` times its variance.
    ratios = estimates / variances
    order = np.argsort(-ratios)
    excesses = (np.cumsum(estimates[order]) - total) / np.cumsum(variances[order])
    # The first one always qualifies, also if ``total`` is lost in rounding.
    excess = excesses[np.flatnonzero(ratios[order] >= excesses)[-1]]
    rows: Floats = (estimates - excess * variances).clip(0.0)
    return rows


def divide_smoothly(edges: Floats, shares: Floats, n_parts: int) -> tuple[Floats, Floats]:
    """Divide ranges into equal parts, whose shares of the rows follow a smooth density.

    The shares of whole ranges stay. Between edges, the share of the rows below a position is a
    cubic polynomial, whose slope at an edge is between the densities of the two ranges there.

    Parameters
    ----------
    edges : float64 (m + 1,), ascending.
    shares : share of the rows in each range, float64 (m,).
    n_parts : number of parts of each range.

    Returns
    -------
    edges, shares : of all parts, float64 (m * n_parts + 1,) and (m * n_parts,).

    Source: F. N. Fritsch and J. Butland, "A method for constructing local monotone piecewise cubic
    interpolants", SIAM J. Sci. Stat. Comput. 5 (1984).
    """
    widths = np.diff(edges)
    densities = shares / widths
    before, after = densities[:-1], densities[1:]
    # A weighted harmonic mean: 0 next to a range without rows.
    weights = (1 + widths[1:] / (widths[:-1] + widths[1:])) / 3
    means = weights * after + (1 - weights) * before
    inner_slopes = np.divide(before * after, means, out=np.zeros_like(means), where=means > 0)
    slopes = np.concatenate([densities[:1], inner_slopes, densities[-1:]])
    t = np.arange(n_parts + 1) / n_parts
    # By range and position in it, in shares of the rows: a Hermite polynomial.
    below = (
        np.outer(shares, t**2 * (3 - 2 * t))
        + np.outer(widths * slopes[:-1], t * (1 - t) ** 2)
        - np.outer(widths * slopes[1:], t**2 * (1 - t))
    )
    part_shares = np.diff(below, axis=1).clip(0.0).reshape(-1)
    part_edges = (edges[:-1, None] + np.outer(widths, t[:-1])).reshape(-1)
    return np.append(part_edges, edges[-1]), part_shares


@dataclass(frozen=True, eq=False)
class HistogramMargin:
    """The margin of a numeric column whose bins consist of adjacent ranges.

    Parameters
    ----------
    n : number of rows.
    edges : float64 (m + 1,), ascending.
    shares : share of the rows in each range, float64 (m,), summing to 1.
    bins : the bin of each range, int64 (m,), ascending from 0.
    bin_variance : the variance of the number of rows in a bin.
    """

    n: int
    edges: Floats
    shares: Floats
    bins: Ints
    bin_variance: float

    @property
    def cumulative_shares(self) -> Floats:
        """The share of the rows below each edge, float64 (m + 1,)."""
        return np.append(0.0, np.cumsum(self.shares)).clip(0.0, 1.0)

    @property
    def _first_ranges(self) -> Ints:
        """The first range of each bin, and the number of ranges."""
        return np.append(np.searchsorted(self.bins, np.arange(self.bins[-1] + 1)), len(self.bins))

    @property
    def bin_shares(self) -> Floats:
        """See ``Margin``."""
        return np.diff(self.cumulative_shares[self._first_ranges])

    @property
    def n_counts(self) -> int:
        """See ``Margin``: one per range."""
        return len(self.bins)

    def locate(self, column: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """See ``Margin``."""
        # Each value lies between two edges, so all its rows are in one bin.
        del rng
        edges = self.edges[self._first_ranges]
        codes = np.searchsorted(edges[1:-1], column, side="right").astype(np.int64)
        return codes, ((column - edges[codes]) / np.diff(edges)[codes]).clip(0.0, 1.0)

    def to_values(self, codes: Ints, offsets: Floats) -> Floats:
        """See ``Margin``; even in a bin without rows."""
        first = self._first_ranges
        # By bin: the share of the rows below it, and its lower edge; last, the ends of all bins.
        cumulative, edges = self.cumulative_shares[first], self.edges[first]
        low, high, shares = edges[codes], edges[codes + 1], np.diff(cumulative)[codes]
        values = np.interp(cumulative[codes] + offsets * shares, self.cumulative_shares, self.edges)
        return np.where(
            shares * self.n < 1, low + offsets * (high - low), values.clip(low, high)
        ).astype(np.float64)
