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


def equal_bins(
    column: Ints, grid: int, n_bins: int, noise: Floats, rng: np.random.Generator
) -> Floats:
    """As many values, drawn evenly in equal bins by their noisy counts."""
    counts, edges = np.histogram(column, n_bins, (0, grid))
    weights = (counts + noise).clip(0)
    bins = rng.choice(n_bins, len(column), p=weights / weights.sum())
    return edges[bins] + rng.random(len(column)) * np.diff(edges)[bins]
