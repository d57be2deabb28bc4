"""dp_ranks: margins from sums of order statistics, dependence from a tree of two-way counts.

Noisy rank correlations describe the dependence that the tree does not cover.

Neighbours are two tables of n rows that differ in one row. n, the bounds, epsilon and the columns
are public; everything else depends on the data only through noise:

1. Shares of epsilon, and numbers of sums and bins, from public figures (``shares``).
2. For each column, sums of consecutive order statistics, or counts of its public values or its few
   integers, with Laplace noise (``margins``); on request, noisy quantiles and the rows between
   them, too (``edges``).
3. Bins between noisy quantiles, or bins of public values; a tree of column pairs chosen by the
   exponential mechanism, and their two-way counts with Laplace noise (``dependence``).
4. The residual dependence, which the tree does not show: for each pair of columns, the number of
   rows on the same side of the median in both (their agreements), given their parent columns, with
   Laplace noise of the scale ``residual_scale``.
5. n rows drawn down the tree, and the noisy quantiles or values at their positions.

The whole epsilon is spent whatever the data are. Counts, sums and scores of the data go to
``noise`` only; everything that is released is computed from public figures and the noisy results.
The draws of step 5 need no secret randomness. Neither do the draws that spread equal values over
their share of a column, since they do not depend on the table.

Cost: O(p n log n) for the margins, O(p^2 n) for the counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.synthesis.dependence import TreeEdge, draw_bins, measure_tree
from dbanon.extensions.synthesis.edges import combine_quantiles, measure_intervals
from dbanon.extensions.synthesis.margins import (
    Margin,
    measure_categorical_margin,
    measure_grid_margin,
    measure_quantiles,
)
from dbanon.extensions.synthesis.noise import Noise
from dbanon.extensions.synthesis.shares import PURE_EPSILON, EpsilonShares
from dbanon.hierarchy.tree import Hierarchy

# Smallest eigenvalue of a correlation matrix.
_MIN_EIGENVALUE = 1e-6


def compute_conditional_positions(
    tree_edges: Sequence[TreeEdge], codes: NDArray[np.int64], offsets: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute the position of each row in each column among the rows with the same parent bin.

    Parameters
    ----------
    codes : the bin of each row in each column, int64 (p, n).
    offsets : the position of each row in its bin, 0 to 1, float64 (p, n).

    Returns
    -------
    float64 (p, n), from 0 to 1.
    """
    positions = np.empty(codes.shape)
    root_shares = tree_edges[0].table.sum(axis=1, keepdims=True).T
    # Column 0 has no parent.
    positions[0] = _compute_conditional_position(
        root_shares, np.zeros_like(codes[0]), codes[0], offsets[0]
    )
    for edge in tree_edges:
        positions[edge.child] = _compute_conditional_position(
            edge.table, codes[edge.parent], codes[edge.child], offsets[edge.child]
        )
    return positions


def count_agreements(positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each pair of columns, count the rows on the same side of the middle in both, int64."""
    is_low = positions < 0.5
    p = len(is_low)
    return np.array(
        [np.count_nonzero(is_low[a] == is_low[b]) for a in range(p) for b in range(a + 1, p)],
        np.int64,
    )


def measure_correlations(
    positions: NDArray[np.float64], epsilon_shares: EpsilonShares, noise: Noise
) -> NDArray[np.float64]:
    """Measure the correlations of the columns' normal scores, float64 (p, p).

    They are estimated from the agreements, the rows on the same side of the middle in two columns.
    They are shrunk towards 0 by the noise level, and adjusted to a valid correlation matrix.

    Parameters
    ----------
    positions : the result of ``compute_conditional_positions``.
    """
    agreements = (
        noise.laplace(count_agreements(positions), epsilon_shares.residual_scale) / epsilon_shares.n
    )
    # The correlation of two normal variables that have the same sign with this probability.
    correlations = np.sin(np.pi * (agreements.clip(0.0, 1.0) - 0.5))
    noise_level = np.pi * epsilon_shares.residual_scale / epsilon_shares.n
    correlations = np.sign(correlations) * (np.abs(correlations) - noise_level).clip(0.0)
    triangle = np.zeros((epsilon_shares.p, epsilon_shares.p))
    triangle[np.triu_indices(epsilon_shares.p, 1)] = correlations
    values, vectors = np.linalg.eigh(triangle + triangle.T + np.eye(epsilon_shares.p))
    matrix = (vectors * values.clip(_MIN_EIGENVALUE)) @ vectors.T
    deviation = np.sqrt(np.diag(matrix))
    nearest: NDArray[np.float64] = matrix / np.outer(deviation, deviation)
    return nearest


def draw_normals(
    correlations: NDArray[np.float64], n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw normally distributed numbers with these correlations, float64 (p, n)."""
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(values.clip(0.0))
    return np.asarray(root @ rng.standard_normal((len(values), n)))


def _compute_conditional_position(
    table: NDArray[np.float64],
    parent_codes: NDArray[np.int64],
    child_codes: NDArray[np.int64],
    offsets: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute the share of a parent bin's rows below each position; uniform if it is empty."""
    weights = np.where(table.sum(axis=1, keepdims=True) > 0, table, 1.0)
    child_shares = weights / weights.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(child_shares, axis=1) - child_shares
    positions: NDArray[np.float64] = (
        cumulative[parent_codes, child_codes] + offsets * child_shares[parent_codes, child_codes]
    )
    return positions


def dp_ranks(
    columns: NDArray[np.int64],
    epsilon_shares: EpsilonShares,
    noise: Noise,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Generate synthetic rows, float64 (p, n), from columns of integers.

    Parameters
    ----------
    columns : int64 (p, n), column by column: from 0 to ``GRID``, or leaf indices.
    epsilon_shares : how epsilon is divided over p columns of n rows.
    noise : the mechanisms that add noise. Rows are computed from their results and public figures.
    rng : for draws from noisy figures.
    """
    epsilon_shares.require_affordable(noise)
    margins = [
        _measure_margin(column, tree, n_values, epsilon_shares, noise)
        for column, tree, n_values in zip(
            columns, epsilon_shares.trees, epsilon_shares.n_values, strict=True
        )
    ]
    tree_edges, correlations = [], np.eye(epsilon_shares.p)
    if epsilon_shares.has_dependence:
        locations = [m.locate(column, rng) for m, column in zip(margins, columns, strict=True)]
        codes = np.array([code for code, _ in locations])
        tree_edges = measure_tree(
            codes, [margin.bin_shares for margin in margins], epsilon_shares, noise
        )
        positions = compute_conditional_positions(
            tree_edges, codes, np.array([offsets for _, offsets in locations])
        )
        correlations = measure_correlations(positions, epsilon_shares, noise)
    draws = draw_bins(tree_edges, draw_normals(correlations, epsilon_shares.n, rng), rng)
    return np.array([margin.to_values(*draw) for margin, draw in zip(margins, draws, strict=True)])


def _measure_margin(
    column: NDArray[np.int64],
    tree: Hierarchy | None,
    n_values: int,
    epsilon_shares: EpsilonShares,
    noise: Noise,
) -> Margin:
    """Measure the noisy margin of a column.

    Parameters
    ----------
    tree : the hierarchy of a column with listed values; None for a numeric column.
    n_values : the number of integers that a numeric column may have, if they are few enough to
        count each (``measure_grid_margin``); else 0.
    """
    if tree is not None:
        return measure_categorical_margin(column, tree, epsilon_shares, noise)
    if n_values:
        return measure_grid_margin(column, n_values, epsilon_shares, noise)
    rank_quantiles = measure_quantiles(column, epsilon_shares, noise)
    if epsilon_shares.edge_shares is None:
        return rank_quantiles
    # ``PURE_EPSILON`` is the accounting of this method: prices in epsilon, Laplace noise.
    intervals = measure_intervals(column, epsilon_shares.edge_shares, PURE_EPSILON, noise)
    rank_variance = PURE_EPSILON.variance(
        epsilon_shares.margin_scale / epsilon_shares.values_per_sum
    )
    return combine_quantiles(intervals, rank_quantiles, rank_variance, epsilon_shares.n_bins)
