"""Noisy quantiles of a column by halving: edges of parts with similar numbers of rows.

The exponential mechanism chooses the edges level by level, and the rows between edges are counted
with noise. One row moves the scores of a level by at most 2: by 1 each in the part that it leaves
and the part that it enters, or by 2 if these are the same; in the parts between, both ends move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.accounting import Accounting
from dbanon.synthesis.margins import Quantiles, isotonic, project_to_simplex
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import GRID, EdgeShares

# Candidate edges per part.
N_CANDIDATES = 1024
# Number of shares of the rows at which two quantile functions are combined.
_N_SHARES = 1024
# Iterations of the search for a rate; below the minimum rate a part is uniform.
_RATE_ITERATIONS, _MIN_RATE = 60, 1e-3


@dataclass(frozen=True, eq=False)
class ColumnParts:
    """Parts of a column and their noisy counts.

    Parameters
    ----------
    n : number of rows.
    edges : float64 (m + 1,), ascending, from 0 to ``GRID``.
    shares : share of the rows in each part, float64 (m,), summing to 1.
    variance : of the noise on a count.
    """

    n: int
    edges: NDArray[np.float64]
    shares: NDArray[np.float64]
    variance: float

    @property
    def cumulative_shares(self) -> NDArray[np.float64]:
        """The share of the rows below each edge, float64 (m + 1,)."""
        return np.append(0.0, np.cumsum(self.shares)).clip(0.0, 1.0)


@dataclass(frozen=True, eq=False)
class PartMargin:
    """The margin of a column whose bins consist of adjacent parts.

    Parameters
    ----------
    parts : of the column.
    bins : the bin of each part, int64 (m,), ascending.
    quantiles : of the column: the positions of values within bins.
    """

    parts: ColumnParts
    bins: NDArray[np.int64]
    quantiles: Quantiles

    @property
    def _first_parts(self) -> NDArray[np.int64]:
        """The first part of each bin, and the end."""
        return np.append(np.searchsorted(self.bins, np.arange(self.bins[-1] + 1)), len(self.bins))

    @property
    def odds(self) -> NDArray[np.float64]:
        """See ``Margin``."""
        return np.diff(self.parts.cumulative_shares[self._first_parts])

    @property
    def counts(self) -> int:
        """See ``Margin``."""
        return len(self.bins)

    def locate(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """See ``Margin``."""
        del rng  # Edges separate values, so rows of equal values need not be spread.
        edges = self.parts.edges[self._first_parts]
        codes = np.searchsorted(edges[1:-1], column, side="right").astype(np.int64)
        width = np.maximum(edges[codes + 1] - edges[codes], 1.0)
        return codes, ((column - edges[codes]) / width).clip(0.0, 1.0)

    def values_in(
        self, codes: NDArray[np.int64], inside: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """See ``Margin``."""
        cumulative, edges = (
            self.parts.cumulative_shares[self._first_parts],
            self.parts.edges[self._first_parts],
        )
        share = np.maximum(np.diff(cumulative), 1 / self.parts.n)[codes]
        values = self.quantiles.values_at(cumulative[codes] + inside * share)
        return values.clip(edges[codes], edges[codes + 1])


def halving_scores(
    ranked: NDArray[np.int64], low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Candidate edges in a part, and how evenly each halves its rows; 0 is best, int64.

    Parameters
    ----------
    ranked : the column, ascending, int64 (n,).
    low, high : the part, from ``low`` to below ``high``; the last part includes ``GRID``.
    """
    candidates = low + np.arange(N_CANDIDATES) * (high - low) // N_CANDIDATES
    first, last = _below(ranked, np.array([low, high]))
    below = np.searchsorted(ranked, candidates, side="left")
    scores = -np.abs(2 * below - first - last)
    return candidates, scores.astype(np.int64)


def noisy_edges(
    ranked: NDArray[np.int64], depth: int, scale: float, account: Accounting, noise: Noise
) -> NDArray[np.int64]:
    """Choose the edges of 2^depth parts with similar row counts, int64, from 0 to ``GRID``.

    Parameters
    ----------
    ranked : the column, ascending, int64 (n,).
    """
    edges = [0, GRID]
    for _ in range(depth):
        midpoints = []
        for low, high in pairwise(edges):
            candidates, scores = halving_scores(ranked, low, high)
            midpoints.append(int(candidates[account.chosen(noise, scores, scale)]))
        edges = sorted([*edges, *midpoints])
    return np.array(edges, np.int64)


def counts_between(ranked: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the rows in each part, int64; ``GRID`` belongs to the last one."""
    return np.diff(_below(ranked, edges)).astype(np.int64)


def noisy_parts(
    column: NDArray[np.int64], edges: EdgeShares, account: Accounting, noise: Noise
) -> ColumnParts:
    """Measure the parts of a column of integers from 0 to ``GRID``, int64 (n,)."""
    ranked, n = np.sort(column), len(column)
    part_edges = noisy_edges(ranked, edges.depth, edges.choice_scale, account, noise)
    noisy = account.noisy(noise, counts_between(ranked, part_edges), edges.count_scale)
    shares = project_to_simplex(noisy.astype(np.float64), 1.0 * n) / n
    variance = account.variance(edges.count_scale)
    return ColumnParts(n, part_edges.astype(np.float64), shares, variance)


def edge_quantiles(
    parts: ColumnParts, by_ranks: Quantiles, rank_variance: float, bins: int
) -> Quantiles:
    """Combine the quantiles from parts and from sums of ranks, weighted by their accuracy.

    Parameters
    ----------
    rank_variance : the variance of a value from sums of ranks.
    """
    shares = (np.arange(_N_SHARES) + 0.5) / _N_SHARES
    part = np.searchsorted(parts.cumulative_shares[1:-1], shares, side="right")
    width, rows = np.diff(parts.edges)[part], np.maximum(parts.shares[part], 1 / parts.n)
    positions, spread = _positions_in_parts(
        parts, part, (shares - parts.cumulative_shares[part]) / rows
    )
    # Squared errors. Those of parts come from unknown positions within a part and from noisy counts
    # below it; those of sums of ranks are their noise.
    count_variance = np.minimum(parts.variance * np.square(width / rows / parts.n), 2 * width**2)
    edge_variance = np.square(width * spread) + count_variance
    weight = rank_variance / (edge_variance + rank_variance)
    part_values = parts.edges[part] + positions * width
    values = weight * part_values + (1 - weight) * by_ranks.values_at(shares)
    return Quantiles(shares, isotonic(values, np.ones(_N_SHARES)).clip(0, GRID), bins)


def _positions_in_parts(
    parts: ColumnParts, part: NDArray[np.int64], positions: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions of values in their part, float64 (m,), 0 to 1, and their standard deviation.

    In an outermost part the density decays exponentially from that of the adjacent part, since
    public bounds are wide and few values are near them. Other parts are uniform.

    Parameters
    ----------
    positions : the share of the part's rows that are below.
    """
    positions = positions.clip(0.0, 1.0)
    densities = parts.shares / np.maximum(np.diff(parts.edges), 1.0)
    last = len(densities) - 1
    spread = np.full(len(part), math.sqrt(1 / 12))
    for outer, inner in ((0, 1), (last, last - 1)):
        if last < 1 or not 0 < densities[outer] < densities[inner]:
            continue
        in_part = part == outer
        # Find the rate at which densities join: rate / (1 - e^-rate) = density_ratio.
        density_ratio = rate = densities[inner] / densities[outer]
        for _ in range(_RATE_ITERATIONS):
            rate = density_ratio * -math.expm1(-rate)
        if rate < _MIN_RATE:
            continue
        distances = positions[in_part] if outer == last else 1 - positions[in_part]
        decayed = -np.log1p(distances * math.expm1(-rate)) / rate
        positions[in_part] = decayed if outer == last else 1 - decayed
        spread[in_part] = min(1 / rate, math.sqrt(1 / 12))
    return positions, spread


def _below(ranked: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the rows below each edge; all rows for the last edge."""
    return np.where(edges == GRID, len(ranked), np.searchsorted(ranked, edges, side="left")).astype(
        np.int64
    )
