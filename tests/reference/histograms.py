"""Plain references for noisy histograms: a dense least squares problem, and equal bins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def least_squares(
    level_edges: Sequence[Ints],
    counts: Sequence[Floats],
    variances: Sequence[float],
    total: float,
) -> Floats:
    """The rows of the last level's ranges that fit the counts of all levels best, and sum up.

    Parameters
    ----------
    level_edges, counts, variances : by level, the edges of its ranges, their counts, and the
        variance of the noise on each of these.
    """
    leaves = level_edges[-1]
    ranges = [
        ((low <= leaves[:-1]) & (leaves[1:] <= high)).astype(float)
        for edges in level_edges
        for low, high in pairwise(edges)
    ]
    deviations = np.repeat(np.sqrt(variances), [len(edges) - 1 for edges in level_edges])
    design = np.array(ranges) / deviations[:, None]
    ones = np.ones((1, len(leaves) - 1))
    # The condition of the sum, with its multiplier.
    system = np.block([[design.T @ design, ones.T], [ones, np.zeros((1, 1))]])
    right = np.append(design.T @ (np.concatenate(counts) / deviations), total)
    return np.linalg.solve(system, right)[:-1]


def nearest_shares(estimates: Floats, variances: Floats, total: float) -> Floats:
    """The non-negative numbers of this sum nearest to the estimates: by bisection."""
    low, high = -1e12, float((estimates / variances).max())
    for _ in range(200):
        excess = (low + high) / 2
        if np.maximum(estimates - excess * variances, 0).sum() > total:
            low = excess
        else:
            high = excess
    return np.maximum(estimates - high * variances, 0)


def monotone_cubic(edges: Floats, below: Floats, position: float) -> float:
    """The share of the rows below a position, by the cubic of Fritsch and Butland.

    Parameters
    ----------
    below : the share of the rows below each edge, float64 (m + 1,).
    """
    m = len(edges) - 1
    widths = [edges[i + 1] - edges[i] for i in range(m)]
    densities = [(below[i + 1] - below[i]) / widths[i] for i in range(m)]
    slopes = [densities[0]]
    for i in range(1, m):
        left, right = densities[i - 1], densities[i]
        if left == 0 or right == 0:
            slopes.append(0.0)
        else:
            first, second = 2 * widths[i] + widths[i - 1], widths[i] + 2 * widths[i - 1]
            slopes.append((first + second) / (first / left + second / right))
    slopes.append(densities[-1])
    i = min(int(np.searchsorted(edges, position, side="right")) - 1, m - 1)
    # The polynomial with these values and slopes at both ends.
    x, h = position - edges[i], widths[i]
    rise = below[i + 1] - below[i] - slopes[i] * h
    bend = (slopes[i + 1] - slopes[i]) * h
    t = x / h
    return float(below[i] + slopes[i] * x + (3 * rise - bend) * t**2 + (bend - 2 * rise) * t**3)


def james_stein(estimates: Floats, variances: Floats, widths: Floats) -> Floats:
    """The parts of one range, moved towards an even density of the same sum."""
    k = len(estimates)
    if k <= 3:
        return estimates
    even = [sum(estimates) * width / sum(widths) for width in widths]
    apart = sum((estimate - e) ** 2 for estimate, e in zip(estimates, even, strict=True))
    signal_share = max(0.0, 1 - (k - 3) * sum(variances) / k / apart)
    return np.array([e + signal_share * (x - e) for x, e in zip(estimates, even, strict=True)])


def equal_bins(
    column: Ints, grid: int, n_bins: int, noise: Floats, rng: np.random.Generator
) -> Floats:
    """As many values, drawn evenly in equal bins by their noisy counts."""
    counts, edges = np.histogram(column, n_bins, (0, grid))
    weights = (counts + noise).clip(0)
    bins = rng.choice(n_bins, len(column), p=weights / weights.sum())
    return edges[bins] + rng.random(len(column)) * np.diff(edges)[bins]
