"""One column's noisy margin: its quantiles, or the shares of its public values.

Changing one row moves the order statistics of a column in one direction only, and by no more than
the range in all: so all sums of consecutive ones together move by at most the range, however many
sums there are. It moves the counts of listed values by 2 at most: one is one less, one one more.
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
    """What noisy figures tell of one column."""

    @property
    def odds(self) -> NDArray[np.float64]:
        """The share of the rows that is expected in each bin, float64 (bins,)."""

    @property
    def counts(self) -> int:
        """Of how many noisy counts the bins are sums; 0 where they are of equal shares."""

    def spots(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The bin of each value, int64 (n,), and where in it it stands, 0 to 1.

        Each is by its own value, noisy figures and ``rng`` alone, which spreads equal values.
        """

    def at(self, codes: NDArray[np.int64], inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values, float64 (n,), by bin and by where in it they stand, 0 to 1."""


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A quantile function, by its values at some shares of the rows.

    Parameters
    ----------
    shares, values : float64 (m,), both ascending.
    bins : of equal shares of the rows.
    """

    shares: NDArray[np.float64]
    values: NDArray[np.float64]
    bins: int

    @property
    def odds(self) -> NDArray[np.float64]:
        """As ``Margin`` says."""
        return np.full(self.bins, 1 / self.bins)

    @property
    def counts(self) -> int:
        """As ``Margin`` says."""
        return 0

    def spots(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """As ``Margin`` says."""
        # Where many rows have one value, the shares that have it are a range.
        above = np.interp(column, self.values, self.shares)
        below = -np.interp(-column, -self.values[::-1], -self.shares[::-1])
        above[column >= self.values[-1]] = 1.0
        below[column <= self.values[0]] = 0.0
        reached = (below + rng.random(len(column)) * (above - below)) * self.bins
        codes = np.minimum(reached.astype(np.int64), self.bins - 1)
        return codes, (reached - codes).clip(0.0, 1.0)

    def at(self, codes: NDArray[np.int64], inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """As ``Margin`` says."""
        return self.values_at((codes + inside) / self.bins)

    def values_at(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values at these shares of the rows, 0 to 1."""
        return np.interp(shares, self.shares, self.values)


@dataclass(frozen=True, eq=False)
class Listed:
    """The shares of listed values.

    Parameters
    ----------
    shares : of each leaf, float64 (L,); together 1.
    bins : the bin of each leaf, int64 (L,).
    """

    shares: NDArray[np.float64]
    bins: NDArray[np.int64]

    @property
    def odds(self) -> NDArray[np.float64]:
        """As ``Margin`` says."""
        odds = np.zeros(int(self.bins.max()) + 1)
        np.add.at(odds, self.bins, self.shares)
        return odds

    @property
    def counts(self) -> int:
        """As ``Margin`` says."""
        return len(self.bins)

    def spots(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """As ``Margin`` says: leaves of a bin beside each other, each as wide as its share."""
        below, width = np.zeros(len(self.bins)), np.zeros(len(self.bins))
        for bin_ in range(int(self.bins.max()) + 1):
            leaves = np.flatnonzero(self.bins == bin_)
            weights = self._weights(leaves)
            reached = np.cumsum(weights)
            below[leaves], width[leaves] = (reached - weights) / reached[-1], weights / reached[-1]
        return self.bins[column], below[column] + rng.random(len(column)) * width[column]

    def _weights(self, leaves: NDArray[np.int64]) -> NDArray[np.float64]:
        """The shares of leaves of a bin; alike where it has none."""
        weights = self.shares[leaves]
        return weights if weights.any() else np.ones_like(weights)

    def at(self, codes: NDArray[np.int64], inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """As ``Margin`` says: leaves of a bin by their shares; alike where it has none."""
        places = np.empty(len(codes))
        for bin_ in range(int(self.bins.max()) + 1):
            rows, leaves = np.flatnonzero(codes == bin_), np.flatnonzero(self.bins == bin_)
            reached = np.cumsum(self._weights(leaves))
            found = np.searchsorted(reached[:-1], inside[rows] * reached[-1], side="right")
            places[rows] = leaves[found]
        return places


def noisy_listed(
    column: NDArray[np.int64], tree: Hierarchy, shares: Shares, noise: Noise
) -> Listed:
    """The margin of a column of places of the leaves of ``tree``, int64 (n,)."""
    found = _noisy_shares(column, tree.n_leaves, shares, noise)
    return Listed(found, bins_of(tree, found, shares.bins))


def _noisy_shares(
    column: NDArray[np.int64], many: int, shares: Shares, noise: Noise
) -> NDArray[np.float64]:
    noisy = noise.laplace(counts_of_leaves(column, many), shares.leaf_scale)
    return projected(noisy.astype(np.float64), 1.0 * shares.n) / shares.n


@dataclass(frozen=True, eq=False)
class Steps:
    """The shares of the values of a column on a line that has a few, equally far apart.

    Parameters
    ----------
    listed : their shares; bins are values beside each other.
    """

    listed: Listed

    @property
    def odds(self) -> NDArray[np.float64]:
        """As ``Margin`` says."""
        return self.listed.odds

    @property
    def counts(self) -> int:
        """As ``Margin`` says."""
        return self.listed.counts

    def spots(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """As ``Margin`` says."""
        return self.listed.spots(steps_of(column, len(self.listed.bins)), rng)

    def at(self, codes: NDArray[np.int64], inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """As ``Margin`` says."""
        return self.listed.at(codes, inside) * GRID / (len(self.listed.bins) - 1)


def steps_of(column: NDArray[np.int64], many: int) -> NDArray[np.int64]:
    """Which of ``many`` values from 0 to ``GRID`` is nearest, int64 (n,)."""
    return np.rint(column * (many - 1) / GRID).astype(np.int64)


def noisy_steps(column: NDArray[np.int64], many: int, shares: Shares, noise: Noise) -> Steps:
    """The margin of a column of ``many`` values between 0 and ``GRID``, int64 (n,)."""
    found = _noisy_shares(steps_of(column, many), many, shares, noise)
    return Steps(Listed(found, beside_each_other(found, min(shares.bins, many))))


def beside_each_other(weights: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """The bin of each value, int64 (m,), ascending: of about as much weight each, none empty.

    Parameters
    ----------
    weights : float64 (m,), which must be noisy.
    bins : no more than m.
    """
    middle = np.cumsum(weights) - weights / 2
    found = (middle / weights.sum() * bins).astype(np.int64)
    place, m = np.arange(len(weights)), len(weights)
    # As many values as bins are left must be left after each, and each must begin within one more.
    found = np.clip(found, bins - (m - place), np.minimum(place, bins - 1))
    nearest: NDArray[np.int64] = found
    for i in range(1, m):
        nearest[i] = min(max(found[i], nearest[i - 1]), nearest[i - 1] + 1)
    return nearest


def counts_of_leaves(column: NDArray[np.int64], leaves: int) -> NDArray[np.int64]:
    """How many rows have each leaf, int64 (leaves,): also those that no row has."""
    return np.bincount(column, minlength=leaves).astype(np.int64)


def sums_of_ranks(column: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sums of consecutive order statistics of a column, int64 (n,); the last takes the rest."""
    sums: NDArray[np.int64] = np.add.reduceat(np.sort(column), _starts(len(column), size))
    return sums


def rank_quantiles(column: NDArray[np.int64], shares: Shares, noise: Noise) -> Quantiles:
    """The quantiles of a column of whole numbers from 0 to ``GRID``, int64 (n,)."""
    noisy = noise.laplace(sums_of_ranks(column, shares.class_size), shares.margin_scale)
    return quantiles_of_sums(noisy, len(column), shares.class_size, shares.bins)


def quantiles_of_sums(sums: NDArray[np.int64], n: int, size: int, bins: int) -> Quantiles:
    """Quantiles by noisy sums of ``size`` consecutive order statistics of n rows."""
    starts = _starts(n, size)
    sizes = np.diff(np.append(starts, n)).astype(np.float64)
    values = isotonic(sums / sizes, sizes).clip(0, GRID)
    return Quantiles((starts + sizes / 2) / n, values, bins)


def isotonic(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ascending values nearest to these, by weighted squares: pool adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            other = pools.pop()
            both = other[1] + pool[1]
            mean = (other[0] * other[1] + pool[0] * pool[1]) / both
            pool = (mean, both, other[2] + pool[2])
        pools.append(pool)
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])


def projected(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest values, (m,), of which none is negative and all together are ``total``."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    nearest: NDArray[np.float64] = values - excess[np.flatnonzero(falling > excess)[-1]]
    return nearest.clip(0.0)


def _starts(n: int, size: int) -> NDArray[np.int64]:
    return np.arange(n // size, dtype=np.int64) * size
