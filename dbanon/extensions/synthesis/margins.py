"""The noisy margin of one column: its quantiles, or the shares of its public values.

Changing one row moves the order statistics of a column in one direction, by at most the range in
total. So all sums of consecutive order statistics together move by at most the range, however many
sums there are. Counts of listed values move by at most 2: one falls by 1, one rises by 1.

The range of a numeric column is mapped to the integers from 0 to ``GRID``. Values of a column with
a list are leaves of a hierarchy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.synthesis.domains import assign_bins
from dbanon.extensions.synthesis.noise import Noise
from dbanon.extensions.synthesis.shares import GRID, EpsilonShares
from dbanon.hierarchy.tree import Hierarchy


class Margin(Protocol):
    """A column's distribution as estimated from noisy figures."""

    @property
    def bin_shares(self) -> NDArray[np.float64]:
        """The expected share of rows in each bin, float64 (bins,)."""

    @property
    def n_counts(self) -> int:
        """The number of noisy counts that the bins sum up; 0 for bins of equal shares."""

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the bin of each value, int64 (n,), and its offset in the bin, 0 to 1.

        Both depend only on the value, noisy figures and ``rng``, which spreads equal values.
        """

    def to_values(
        self, codes: NDArray[np.int64], offsets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Convert bins and offsets in them, 0 to 1, to values, float64 (n,)."""


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A quantile function, interpolated between values at some shares of the rows.

    Parameters
    ----------
    shares, values : float64 (m,), both ascending.
    n_bins : number of bins with equal shares of the rows.
    """

    shares: NDArray[np.float64]
    values: NDArray[np.float64]
    n_bins: int

    @property
    def bin_shares(self) -> NDArray[np.float64]:
        """See ``Margin``."""
        return np.full(self.n_bins, 1 / self.n_bins)

    @property
    def n_counts(self) -> int:
        """See ``Margin``."""
        return 0

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See ``Margin``."""
        # If many rows have the same value, it covers a range of shares. Among equal values,
        # ``interp`` returns the last share; with all signs reversed, the first.
        last_share = np.interp(column, self.values, self.shares)
        first_share = -np.interp(-column, -self.values[::-1], -self.shares[::-1])
        last_share[column >= self.values[-1]] = 1.0
        first_share[column <= self.values[0]] = 0.0
        row_shares = first_share + rng.random(len(column)) * (last_share - first_share)
        positions = row_shares * self.n_bins
        codes = np.minimum(positions.astype(np.int64), self.n_bins - 1)
        return codes, (positions - codes).clip(0.0, 1.0)

    def to_values(
        self, codes: NDArray[np.int64], offsets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See ``Margin``."""
        return self.interpolate((codes + offsets) / self.n_bins)

    def interpolate(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values at these shares of the rows, 0 to 1."""
        return np.interp(shares, self.shares, self.values)


@dataclass(frozen=True, eq=False)
class CategoricalMargin:
    """The shares of listed values.

    Parameters
    ----------
    shares : the share of the rows with each leaf, float64 (L,), summing to 1.
    bins : the bin of each leaf, int64 (L,).
    n_unused_leaves : number of leaves that no row gets, whose noisy counts are not in ``shares``.
    """

    shares: NDArray[np.float64]
    bins: NDArray[np.int64]
    n_unused_leaves: int = 0

    @property
    def bin_shares(self) -> NDArray[np.float64]:
        """See ``Margin``."""
        bin_shares = np.zeros(int(self.bins.max()) + 1)
        np.add.at(bin_shares, self.bins, self.shares)
        return bin_shares

    @property
    def n_counts(self) -> int:
        """See ``Margin``."""
        return len(self.bins) - self.n_unused_leaves

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See ``Margin``; the leaves of a bin are adjacent, each as wide as its share."""
        offsets, widths = np.zeros(len(self.bins)), np.zeros(len(self.bins))
        for bin_ in range(int(self.bins.max()) + 1):
            leaves = np.flatnonzero(self.bins == bin_)
            weights = self._weigh_leaves(leaves)
            cumulative = np.cumsum(weights)
            offsets[leaves], widths[leaves] = (
                (cumulative - weights) / cumulative[-1],
                weights / cumulative[-1],
            )
        return self.bins[column], offsets[column] + rng.random(len(column)) * widths[column]

    def without_leaf(self, leaf: int) -> CategoricalMargin:
        """Put a leaf that no row gets in the bin of the leaf with the most rows."""
        bins = self.bins.copy()
        bins[leaf] = bins[self.shares.argmax()]
        bins = np.unique(bins, return_inverse=True)[1].reshape(-1).astype(np.int64)
        return CategoricalMargin(self.shares, bins, self.n_unused_leaves + 1)

    def _weigh_leaves(self, leaves: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the shares of a bin's leaves; equal weights if the bin is empty."""
        weights = self.shares[leaves]
        return weights if weights.any() else np.ones_like(weights)

    def to_values(
        self, codes: NDArray[np.int64], offsets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See ``Margin``; draws the leaves of a bin by their shares, uniformly if it is empty."""
        leaf_codes = np.empty(len(codes))
        for bin_ in range(int(self.bins.max()) + 1):
            rows, leaves = np.flatnonzero(codes == bin_), np.flatnonzero(self.bins == bin_)
            cumulative = np.cumsum(self._weigh_leaves(leaves))
            indices = np.searchsorted(cumulative[:-1], offsets[rows] * cumulative[-1], side="right")
            leaf_codes[rows] = leaves[indices]
        return leaf_codes


def measure_categorical_margin(
    column: NDArray[np.int64], tree: Hierarchy, epsilon_shares: EpsilonShares, noise: Noise
) -> CategoricalMargin:
    """Measure the margin of a column of leaf indices of ``tree``, int64 (n,)."""
    leaf_shares = _measure_leaf_shares(column, tree.n_leaves, epsilon_shares, noise)
    return CategoricalMargin(leaf_shares, assign_bins(tree, leaf_shares, epsilon_shares.n_bins))


def _measure_leaf_shares(
    column: NDArray[np.int64], n_values: int, epsilon_shares: EpsilonShares, noise: Noise
) -> NDArray[np.float64]:
    noisy = noise.laplace(count_rows_per_leaf(column, n_values), epsilon_shares.leaf_scale)
    return project_to_simplex(noisy.astype(np.float64), 1.0 * epsilon_shares.n) / epsilon_shares.n


@dataclass(frozen=True, eq=False)
class GridMargin:
    """The shares of the values of a numeric column with a few values, equidistant on the grid.

    Parameters
    ----------
    value_margin : the shares of the values; each bin has adjacent values.
    """

    value_margin: CategoricalMargin

    @property
    def bin_shares(self) -> NDArray[np.float64]:
        """See ``Margin``."""
        return self.value_margin.bin_shares

    @property
    def n_counts(self) -> int:
        """See ``Margin``."""
        return self.value_margin.n_counts

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See ``Margin``."""
        return self.value_margin.locate(round_to_values(column, len(self.value_margin.bins)), rng)

    def to_values(
        self, codes: NDArray[np.int64], offsets: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See ``Margin``."""
        return (
            self.value_margin.to_values(codes, offsets) * GRID / (len(self.value_margin.bins) - 1)
        )


def round_to_values(column: NDArray[np.int64], n_values: int) -> NDArray[np.int64]:
    """Return the index of the nearest of ``n_values`` equidistant values, int64 (n,).

    ``column`` has integers from 0 to ``GRID``, int64 (n,).
    """
    return np.rint(column * (n_values - 1) / GRID).astype(np.int64)


def measure_grid_margin(
    column: NDArray[np.int64], n_values: int, epsilon_shares: EpsilonShares, noise: Noise
) -> GridMargin:
    """Measure the margin of a column of ``n_values`` values between 0 and ``GRID``, int64 (n,)."""
    value_shares = _measure_leaf_shares(
        round_to_values(column, n_values), n_values, epsilon_shares, noise
    )
    return GridMargin(
        CategoricalMargin(
            value_shares, group_adjacent_values(value_shares, min(epsilon_shares.n_bins, n_values))
        )
    )


def group_adjacent_values(weights: NDArray[np.float64], n_bins: int) -> NDArray[np.int64]:
    """Group adjacent values into bins of similar weight, int64 (m,), ascending; no bin is empty.

    Parameters
    ----------
    weights : float64 (m,), which must be noisy.
    n_bins : number of bins, at most m.
    """
    midpoints = np.cumsum(weights) - weights / 2
    bins_by_weight = (midpoints / weights.sum() * n_bins).astype(np.int64)
    indices, m = np.arange(len(weights)), len(weights)
    # Each bin needs at least one value, so keep enough values for the bins that follow.
    bins_by_weight = np.clip(
        bins_by_weight, n_bins - (m - indices), np.minimum(indices, n_bins - 1)
    )
    bins_of_values: NDArray[np.int64] = bins_by_weight
    for i in range(1, m):
        previous_bin = bins_of_values[i - 1]
        bins_of_values[i] = min(max(bins_by_weight[i], previous_bin), previous_bin + 1)
    return bins_of_values


def count_rows_per_leaf(column: NDArray[np.int64], n_leaves: int) -> NDArray[np.int64]:
    """Count the rows with each leaf, int64 (n_leaves,), including leaves without rows."""
    return np.bincount(column, minlength=n_leaves).astype(np.int64)


def sum_order_statistics(column: NDArray[np.int64], values_per_sum: int) -> NDArray[np.int64]:
    """Sum ``values_per_sum`` consecutive order statistics at a time, int64.

    The last sum includes the remainder.
    """
    sums: NDArray[np.int64] = np.add.reduceat(
        np.sort(column), _list_sum_starts(len(column), values_per_sum)
    )
    return sums


def measure_quantiles(
    column: NDArray[np.int64], epsilon_shares: EpsilonShares, noise: Noise
) -> Quantiles:
    """Measure the quantiles of a column of integers from 0 to ``GRID``, int64 (n,)."""
    # ``margin_scale`` is the scale of the noise on such sums, ``leaf_scale`` on counts of values.
    noisy = noise.laplace(
        sum_order_statistics(column, epsilon_shares.values_per_sum), epsilon_shares.margin_scale
    )
    return estimate_quantiles(
        noisy, len(column), epsilon_shares.values_per_sum, epsilon_shares.n_bins
    )


def estimate_quantiles(
    sums: NDArray[np.int64], n: int, values_per_sum: int, n_bins: int
) -> Quantiles:
    """Estimate quantiles of n rows from noisy sums of ``values_per_sum`` order statistics each."""
    starts = _list_sum_starts(n, values_per_sum)
    n_values_by_sum = np.diff(np.append(starts, n)).astype(np.float64)
    values = fit_isotonic(sums / n_values_by_sum, n_values_by_sum).clip(0, GRID)
    return Quantiles((starts + n_values_by_sum / 2) / n, values, n_bins)


def fit_isotonic(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fit ascending values by weighted least squares: pool adjacent violators."""
    means: list[float] = []
    pool_weights: list[float] = []
    pool_sizes: list[int] = []
    for mean, weight in zip(values.tolist(), weights.tolist(), strict=True):
        size = 1
        while means and means[-1] >= mean:
            previous_mean, previous_weight = means.pop(), pool_weights.pop()
            total_weight = previous_weight + weight
            mean = (previous_mean * previous_weight + mean * weight) / total_weight
            weight, size = total_weight, pool_sizes.pop() + size
        means.append(mean)
        pool_weights.append(weight)
        pool_sizes.append(size)
    return np.repeat(means, pool_sizes)


def project_to_simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Project values, (m,), onto non-negative values that sum to ``total``."""
    # Subtract the same amount from all values, so that the positive ones sum to ``total``.
    sorted_values = np.sort(values)[::-1]
    excess = (np.cumsum(sorted_values) - total) / np.arange(1, len(values) + 1)
    shifted: NDArray[np.float64] = values - excess[np.flatnonzero(sorted_values > excess)[-1]]
    return shifted.clip(0.0)


def _list_sum_starts(n: int, values_per_sum: int) -> NDArray[np.int64]:
    """List the index of the first value of each sum; the last sum may have more values."""
    return np.arange(n // values_per_sum, dtype=np.int64) * values_per_sum
