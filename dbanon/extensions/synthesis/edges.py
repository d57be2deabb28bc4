"""Noisy quantiles of a column by halving: edges of intervals with similar numbers of rows.

The exponential mechanism chooses the edges level by level, and the rows between edges are counted
with noise. One row moves the scores of a level by at most 2: by 1 each in the interval that it
leaves and the one that it enters, or by 2 if these are the same. In the intervals between, the
numbers of rows below both ends change alike, and so no score changes.

The range of each column is mapped to the integers from 0 to ``GRID``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.synthesis.accounting import Accounting
from dbanon.extensions.synthesis.margins import Quantiles, fit_isotonic, project_to_simplex
from dbanon.extensions.synthesis.noise import Noise
from dbanon.extensions.synthesis.shares import GRID, EdgeShares

# Candidate edges per interval.
N_CANDIDATES = 1024
# Number of quantiles at which two quantile functions are combined.
_N_QUANTILES = 1024
# Iterations of the search for the rate at which a density decays.
_RATE_ITERATIONS = 60
# With a lower rate, an interval counts as uniform.
_MIN_RATE = 1e-3


@dataclass(frozen=True, eq=False)
class ColumnIntervals:
    """Intervals of a column's values and their noisy counts.

    Parameters
    ----------
    n : number of rows.
    edges : float64 (m + 1,), ascending, from 0 to ``GRID``.
    shares : share of the rows in each interval, float64 (m,), summing to 1.
    variance : the variance of the noise on a count.
    """

    n: int
    edges: NDArray[np.float64]
    shares: NDArray[np.float64]
    variance: float

    @property
    def cumulative_shares(self) -> NDArray[np.float64]:
        """The share of the rows below each edge, float64 (m + 1,)."""
        return np.append(0.0, np.cumsum(self.shares)).clip(0.0, 1.0)


def score_candidates(
    sorted_column: NDArray[np.int64], low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return candidate edges in an interval, and how evenly each halves its rows; 0 is best.

    Parameters
    ----------
    sorted_column : the column, ascending, int64 (n,).
    low, high : the interval, from ``low`` to below ``high``; the last interval includes ``GRID``.

    Returns
    -------
    candidates, scores : int64 (N_CANDIDATES,).
    """
    candidates = low + np.arange(N_CANDIDATES) * (high - low) // N_CANDIDATES
    below_low, below_high = _count_below(sorted_column, np.array([low, high]))
    below = np.searchsorted(sorted_column, candidates, side="left")
    scores = -np.abs(2 * below - below_low - below_high)
    return candidates, scores.astype(np.int64)


def choose_edges(
    sorted_column: NDArray[np.int64], depth: int, scale: float, accounting: Accounting, noise: Noise
) -> NDArray[np.int64]:
    """Choose the edges of 2^depth intervals with similar row counts, int64, from 0 to ``GRID``.

    Parameters
    ----------
    sorted_column : the column, ascending, int64 (n,).
    scale : the scale of the noise on the scores.
    """
    edges = [0, GRID]
    for _ in range(depth):
        midpoints = []
        for low, high in pairwise(edges):
            candidates, scores = score_candidates(sorted_column, low, high)
            midpoints.append(int(candidates[accounting.choose(noise, scores, scale)]))
        edges = sorted([*edges, *midpoints])
    return np.array(edges, np.int64)


def count_between(sorted_column: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the rows in each interval, int64; ``GRID`` belongs to the last one."""
    return np.diff(_count_below(sorted_column, edges)).astype(np.int64)


def measure_intervals(
    column: NDArray[np.int64], edge_shares: EdgeShares, accounting: Accounting, noise: Noise
) -> ColumnIntervals:
    """Measure the intervals of a column of integers from 0 to ``GRID``, int64 (n,).

    Parameters
    ----------
    edge_shares : the number of halvings, and the noise scales of choices and counts.
    """
    sorted_column, n = np.sort(column), len(column)
    interval_edges = choose_edges(
        sorted_column, edge_shares.depth, edge_shares.choice_scale, accounting, noise
    )
    noisy = accounting.add_noise(
        noise, count_between(sorted_column, interval_edges), edge_shares.count_scale
    )
    shares = project_to_simplex(noisy.astype(np.float64), 1.0 * n) / n
    variance = accounting.variance(edge_shares.count_scale)
    return ColumnIntervals(n, interval_edges.astype(np.float64), shares, variance)


def combine_quantiles(
    intervals: ColumnIntervals, rank_quantiles: Quantiles, rank_variance: float, n_bins: int
) -> Quantiles:
    """Combine two estimates of a column's quantiles, weighted by their accuracy.

    Parameters
    ----------
    intervals : the estimate from noisy counts between noisy edges.
    rank_quantiles : the estimate from noisy sums of order statistics (values by their rank).
    rank_variance : the variance of a value of ``rank_quantiles``.
    n_bins : number of bins of the resulting margin.
    """
    shares = (np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES
    interval_of_value = np.searchsorted(intervals.cumulative_shares[1:-1], shares, side="right")
    widths = np.diff(intervals.edges)[interval_of_value]
    row_shares = np.maximum(intervals.shares[interval_of_value], 1 / intervals.n)
    positions, deviations = _estimate_positions(
        intervals,
        interval_of_value,
        (shares - intervals.cumulative_shares[interval_of_value]) / row_shares,
    )
    # Expected squared errors. With intervals, the position of a value in its interval is unknown,
    # and the counts below are noisy (capped, as few rows make this estimate too large). Sums of
    # order statistics only have noise.
    count_variance = np.minimum(
        intervals.variance * np.square(widths / row_shares / intervals.n), 2 * widths**2
    )
    interval_variance = np.square(widths * deviations) + count_variance
    weight = rank_variance / (interval_variance + rank_variance)
    interval_values = intervals.edges[interval_of_value] + positions * widths
    values = weight * interval_values + (1 - weight) * rank_quantiles.interpolate(shares)
    return Quantiles(shares, fit_isotonic(values, np.ones(_N_QUANTILES)).clip(0, GRID), n_bins)


def _estimate_positions(
    intervals: ColumnIntervals,
    interval_of_value: NDArray[np.int64],
    row_fractions: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimate positions of values in their interval, float64 (m,), 0 to 1, and their deviation.

    In an outermost interval, the density is assumed to decay exponentially from that of the
    adjacent interval, since public bounds are wide and few values are near them. In other
    intervals, the density is assumed to be uniform.

    Parameters
    ----------
    interval_of_value : the interval of each value, int64 (m,).
    row_fractions : the share of the interval's rows that are below each value, float64 (m,).

    Returns
    -------
    positions, deviations : the position of each value, and its standard deviation; both in widths
        of the interval.
    """
    positions = row_fractions.clip(0.0, 1.0)
    densities = intervals.shares / np.maximum(np.diff(intervals.edges), 1.0)
    last = len(densities) - 1
    # The standard deviation of a uniform position from 0 to 1.
    deviations = np.full(len(interval_of_value), math.sqrt(1 / 12))
    for outer, inner in ((0, 1), (last, last - 1)):
        if last < 1 or not 0 < densities[outer] < densities[inner]:
            continue
        in_interval = interval_of_value == outer
        # Find the rate at which both densities agree: rate / (1 - e^-rate) = density_ratio.
        density_ratio = rate = densities[inner] / densities[outer]
        for _ in range(_RATE_ITERATIONS):
            rate = density_ratio * -math.expm1(-rate)
        if rate < _MIN_RATE:
            continue
        distances = positions[in_interval] if outer == last else 1 - positions[in_interval]
        # Distances from the inner edge of the interval, in its width.
        distances = -np.log1p(distances * math.expm1(-rate)) / rate
        positions[in_interval] = distances if outer == last else 1 - distances
        deviations[in_interval] = min(1 / rate, math.sqrt(1 / 12))
    return positions, deviations


def _count_below(sorted_column: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the rows below each edge; all rows if the edge is ``GRID``."""
    return np.where(
        edges == GRID, len(sorted_column), np.searchsorted(sorted_column, edges, side="left")
    ).astype(np.int64)
