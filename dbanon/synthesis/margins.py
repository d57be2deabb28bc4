"""The noisy margin of one column: its quantiles, or the shares of its public values.

Changing one row moves the order statistics of a column in one direction, by at most the range in
total. So all sums of consecutive order statistics together move by at most the range, however many
sums there are. Counts of listed values move by at most 2: one falls by 1, one rises by 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.hierarchy.tree import Hierarchy
from dbanon.synthesis.domains import bins_of
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import GRID, Shares


class Margin(Protocol):
    """A column's distribution as estimated from noisy figures."""

    @property
    def odds(self) -> NDArray[np.float64]:
        """The expected share of rows in each bin, float64 (bins,)."""

    @property
    def counts(self) -> int:
        """The number of noisy counts that the bins sum up; 0 for bins of equal shares."""

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The bin of each value, int64 (n,), and its position in the bin, 0 to 1.

        Each depends only on its own value, noisy figures and ``rng``, which spreads equal values.
        """

    def values_in(
        self, codes: NDArray[np.int64], inside: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Values, float64 (n,), for bins and positions in them, 0 to 1."""


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A quantile function, given by its values at some shares of the rows.

    Parameters
    ----------
    shares, values : float64 (m,), both ascending.
    bins : number of bins with equal shares of the rows.
    """

    shares: NDArray[np.float64]
    values: NDArray[np.float64]
    bins: int

    @property
    def odds(self) -> NDArray[np.float64]:
        """See ``Margin``."""
        return np.full(self.bins, 1 / self.bins)

    @property
    def counts(self) -> int:
        """See ``Margin``."""
        return 0

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See ``Margin``."""
        # If many rows have the same value, it covers a range of shares.
        above = np.interp(column, self.values, self.shares)
        below = -np.interp(-column, -self.values[::-1], -self.shares[::-1])
        above[column >= self.values[-1]] = 1.0
        below[column <= self.values[0]] = 0.0
        positions = (below + rng.random(len(column)) * (above - below)) * self.bins
        codes = np.minimum(positions.astype(np.int64), self.bins - 1)
        return codes, (positions - codes).clip(0.0, 1.0)

    def values_in(
        self, codes: NDArray[np.int64], inside: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See ``Margin``."""
        return self.values_at((codes + inside) / self.bins)

    def values_at(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values at these shares of the rows, 0 to 1."""
        return np.interp(shares, self.shares, self.values)


@dataclass(frozen=True, eq=False)
class CategoricalMargin:
    """The shares of listed values.

    Parameters
    ----------
    shares : of each leaf, float64 (L,), summing to 1.
    bins : the bin of each leaf, int64 (L,).
    """

    shares: NDArray[np.float64]
    bins: NDArray[np.int64]

    @property
    def odds(self) -> NDArray[np.float64]:
        """See ``Margin``."""
        odds = np.zeros(int(self.bins.max()) + 1)
        np.add.at(odds, self.bins, self.shares)
        return odds

    @property
    def counts(self) -> int:
        """See ``Margin``."""
        return len(self.bins)

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See ``Margin``; the leaves of a bin are adjacent, each as wide as its share."""
        below, width = np.zeros(len(self.bins)), np.zeros(len(self.bins))
        for bin_ in range(int(self.bins.max()) + 1):
            leaves = np.flatnonzero(self.bins == bin_)
            weights = self._weights(leaves)
            cumulative = np.cumsum(weights)
            below[leaves], width[leaves] = (
                (cumulative - weights) / cumulative[-1],
                weights / cumulative[-1],
            )
        return self.bins[column], below[column] + rng.random(len(column)) * width[column]

    def _weights(self, leaves: NDArray[np.int64]) -> NDArray[np.float64]:
        """The shares of a bin's leaves; equal if the bin is empty."""
        weights = self.shares[leaves]
        return weights if weights.any() else np.ones_like(weights)

    def values_in(
        self, codes: NDArray[np.int64], inside: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See ``Margin``; draws the leaves of a bin by their shares, uniformly if it is empty."""
        leaf_codes = np.empty(len(codes))
        for bin_ in range(int(self.bins.max()) + 1):
            rows, leaves = np.flatnonzero(codes == bin_), np.flatnonzero(self.bins == bin_)
            cumulative = np.cumsum(self._weights(leaves))
            indices = np.searchsorted(cumulative[:-1], inside[rows] * cumulative[-1], side="right")
            leaf_codes[rows] = leaves[indices]
        return leaf_codes


def noisy_categorical_margin(
    column: NDArray[np.int64], tree: Hierarchy, shares: Shares, noise: Noise
) -> CategoricalMargin:
    """Measure the margin of a column of leaf indices of ``tree``, int64 (n,)."""
    leaf_shares = _noisy_shares(column, tree.n_leaves, shares, noise)
    return CategoricalMargin(leaf_shares, bins_of(tree, leaf_shares, shares.bins))


def _noisy_shares(
    column: NDArray[np.int64], n_values: int, shares: Shares, noise: Noise
) -> NDArray[np.float64]:
    noisy = noise.laplace(counts_of_leaves(column, n_values), shares.leaf_scale)
    return project_to_simplex(noisy.astype(np.float64), 1.0 * shares.n) / shares.n


@dataclass(frozen=True, eq=False)
class GridMargin:
    """The shares of the values of a numeric column with a few equidistant values.

    Parameters
    ----------
    categorical : their shares; bins are adjacent values.
    """

    categorical: CategoricalMargin

    @property
    def odds(self) -> NDArray[np.float64]:
        """See ``Margin``."""
        return self.categorical.odds

    @property
    def counts(self) -> int:
        """See ``Margin``."""
        return self.categorical.counts

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See ``Margin``."""
        return self.categorical.locate(nearest_steps(column, len(self.categorical.bins)), rng)

    def values_in(
        self, codes: NDArray[np.int64], inside: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See ``Margin``."""
        return self.categorical.values_in(codes, inside) * GRID / (len(self.categorical.bins) - 1)


def nearest_steps(column: NDArray[np.int64], n_values: int) -> NDArray[np.int64]:
    """The nearest of ``n_values`` equidistant values from 0 to ``GRID``, int64 (n,)."""
    return np.rint(column * (n_values - 1) / GRID).astype(np.int64)


def noisy_grid_margin(
    column: NDArray[np.int64], n_values: int, shares: Shares, noise: Noise
) -> GridMargin:
    """Measure the margin of a column of ``n_values`` values between 0 and ``GRID``, int64 (n,)."""
    value_shares = _noisy_shares(nearest_steps(column, n_values), n_values, shares, noise)
    return GridMargin(
        CategoricalMargin(value_shares, adjacent_bins(value_shares, min(shares.bins, n_values)))
    )


def adjacent_bins(weights: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """Group adjacent values into bins of similar weight, int64 (m,), ascending, none empty.

    Parameters
    ----------
    weights : float64 (m,), which must be noisy.
    bins : number of bins, at most m.
    """
    middle = np.cumsum(weights) - weights / 2
    bins_by_weight = (middle / weights.sum() * bins).astype(np.int64)
    index, m = np.arange(len(weights)), len(weights)
    # Each bin needs at least one value, so keep enough values for the bins that follow.
    bins_by_weight = np.clip(bins_by_weight, bins - (m - index), np.minimum(index, bins - 1))
    nearest: NDArray[np.int64] = bins_by_weight
    for i in range(1, m):
        nearest[i] = min(max(bins_by_weight[i], nearest[i - 1]), nearest[i - 1] + 1)
    return nearest


def counts_of_leaves(column: NDArray[np.int64], n_leaves: int) -> NDArray[np.int64]:
    """Count the rows with each leaf, int64 (leaves,), including empty leaves."""
    return np.bincount(column, minlength=n_leaves).astype(np.int64)


def sums_of_ranks(column: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sum consecutive order statistics of a column, int64; the last sum includes the remainder."""
    sums: NDArray[np.int64] = np.add.reduceat(np.sort(column), _starts(len(column), size))
    return sums


def rank_quantiles(column: NDArray[np.int64], shares: Shares, noise: Noise) -> Quantiles:
    """Measure the quantiles of a column of integers from 0 to ``GRID``, int64 (n,)."""
    noisy = noise.laplace(sums_of_ranks(column, shares.class_size), shares.margin_scale)
    return quantiles_of_sums(noisy, len(column), shares.class_size, shares.bins)


def quantiles_of_sums(sums: NDArray[np.int64], n: int, size: int, bins: int) -> Quantiles:
    """Estimate quantiles from noisy sums of ``size`` consecutive order statistics of n rows."""
    starts = _starts(n, size)
    sizes = np.diff(np.append(starts, n)).astype(np.float64)
    values = isotonic(sums / sizes, sizes).clip(0, GRID)
    return Quantiles((starts + sizes / 2) / n, values, bins)


def isotonic(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The closest ascending values in weighted least squares: pool adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            previous = pools.pop()
            total_weight = previous[1] + pool[1]
            mean = (previous[0] * previous[1] + pool[0] * pool[1]) / total_weight
            pool = (mean, total_weight, previous[2] + pool[2])
        pools.append(pool)
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])


def project_to_simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """Project values, (m,), onto non-negative values that sum to ``total``."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    nearest: NDArray[np.float64] = values - excess[np.flatnonzero(descending > excess)[-1]]
    return nearest.clip(0.0)


def _starts(n: int, size: int) -> NDArray[np.int64]:
    return np.arange(n // size, dtype=np.int64) * size
