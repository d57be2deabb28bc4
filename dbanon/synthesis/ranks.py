"""dp_ranks: margins by sums of order statistics, dependence by a tree of noisy two-way counts.

What the tree leaves open is told by noisy correlations of ranks.

Neighbours are two tables of the same n rows that differ in one row. n, bounds, epsilon and the
columns are public, and all else depends on the data by noise alone:

1. Shares of epsilon, the sizes of all classes and bins, from public figures (``shares``).
2. For each column, sums of consecutive order statistics, or counts of its public values or of its
   few whole numbers, with Laplace noise (``margins``); where it is asked for, noisy quantiles and
   the rows between them, too (``edges``).
3. Bins between noisy quantiles, or of public values; pairs of columns by the exponential mechanism,
   a tree of them, and their two-way counts with Laplace noise (``dependence``).
4. For each pair of columns, how often rows are on one side in both, given the columns above them,
   with Laplace noise (``residuals``).
5. n rows drawn down the tree, and the noisy quantiles or the values where they stand.

The whole epsilon is spent whatever the data are. Nothing but ``noise`` sees more than public
figures and what it gave out before; the draws of step 5 see no data, and their source needs no
secret. Nor do those that spread equal values over their share of a column: they are the same for
any two tables.

Cost: O(p n log n) for the margins, O(p^2 n) for the counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.hierarchy.tree import Hierarchy
from dbanon.synthesis.dependence import Edge, drawn, noisy_tree
from dbanon.synthesis.edges import edge_quantiles, noisy_parts
from dbanon.synthesis.margins import Margin, noisy_listed, noisy_steps, rank_quantiles
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import PURE_EPSILON, Shares

# Below it an eigenvalue is no correlation any more.
_LEAST = 1e-6


def open_places(
    edges: Sequence[Edge], codes: NDArray[np.int64], inside: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The place of each row in each column among those that are alike in the column above.

    Parameters
    ----------
    codes, inside : the bin of each row in each column, int64 (p, n), and where in it it stands.

    Returns
    -------
    float64 (p, n), from 0 to 1.
    """
    places = np.empty(codes.shape)
    top = edges[0].table.sum(axis=1, keepdims=True).T
    # Column 0 has none above.
    places[0] = _place(top, np.zeros_like(codes[0]), codes[0], inside[0])
    for edge in edges:
        places[edge.below] = _place(
            edge.table, codes[edge.above], codes[edge.below], inside[edge.below]
        )
    return places


def agreements(places: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of each pair of columns, how many rows are on one side of the middle in both, int64."""
    low = places < 0.5
    p = len(low)
    return np.array(
        [np.count_nonzero(low[a] == low[b]) for a in range(p) for b in range(a + 1, p)], np.int64
    )


def noisy_correlations(
    places: NDArray[np.float64], shares: Shares, noise: Noise
) -> NDArray[np.float64]:
    """Correlations of normals, float64 (p, p); what noise alone may be is none."""
    noisy = noise.laplace(agreements(places), shares.residual_scale) / shares.n
    found = np.sin(np.pi * (noisy.clip(0.0, 1.0) - 0.5))
    of_noise = np.pi * shares.residual_scale / shares.n
    found = np.sign(found) * (np.abs(found) - of_noise).clip(0.0)
    above = np.zeros((shares.p, shares.p))
    above[np.triu_indices(shares.p, 1)] = found
    values, vectors = np.linalg.eigh(above + above.T + np.eye(shares.p))
    whole = (vectors * values.clip(_LEAST)) @ vectors.T
    deviation = np.sqrt(np.diag(whole))
    nearest: NDArray[np.float64] = whole / np.outer(deviation, deviation)
    return nearest


def normals(
    correlations: NDArray[np.float64], n: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draws of normals with these correlations, float64 (p, n)."""
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(values.clip(0.0))
    return np.asarray(root @ rng.standard_normal((len(values), n)))


def _place(
    table: NDArray[np.float64],
    above: NDArray[np.int64],
    below: NDArray[np.int64],
    inside: NDArray[np.float64],
) -> NDArray[np.float64]:
    """How much of its row of a table is below a place in a bin; alike where the row is empty."""
    rows = np.where(table.sum(axis=1, keepdims=True) > 0, table, 1.0)
    rows = rows / rows.sum(axis=1, keepdims=True)
    before = np.cumsum(rows, axis=1) - rows
    place: NDArray[np.float64] = before[above, below] + inside * rows[above, below]
    return place


def dp_ranks(
    grid: NDArray[np.int64], shares: Shares, noise: Noise, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Synthetic rows, float64 (p, n), of columns of whole numbers.

    Parameters
    ----------
    grid : int64 (p, n), a column after the other: from 0 to ``GRID``, or places of leaves.
    shares : of p and n, and the leaves.
    noise : what may see the data.
    rng : for what is drawn of noisy figures.
    """
    shares.require_paid(noise)
    margins = [
        _margin(column, tree, many, shares, noise)
        for column, tree, many in zip(grid, shares.trees, shares.counted, strict=True)
    ]
    edges, correlations = [], np.eye(shares.p)
    if shares.dependent:
        spots = [m.spots(column, rng) for m, column in zip(margins, grid, strict=True)]
        codes = np.array([code for code, _ in spots])
        edges = noisy_tree(codes, [margin.odds for margin in margins], shares, noise)
        open_ = open_places(edges, codes, np.array([inside for _, inside in spots]))
        correlations = noisy_correlations(open_, shares, noise)
    places = drawn(edges, normals(correlations, shares.n, rng), rng)
    return np.array([margin.at(*place) for margin, place in zip(margins, places, strict=True)])


def _margin(
    column: NDArray[np.int64], tree: Hierarchy | None, many: int, shares: Shares, noise: Noise
) -> Margin:
    if tree is not None:
        return noisy_listed(column, tree, shares, noise)
    if many:
        return noisy_steps(column, many, shares, noise)
    by_ranks = rank_quantiles(column, shares, noise)
    if shares.edges is None:
        return by_ranks
    parts = noisy_parts(column, shares.edges, PURE_EPSILON, noise)
    of_ranks = PURE_EPSILON.variance(shares.margin_scale / shares.class_size)
    return edge_quantiles(parts, by_ranks, of_ranks, shares.bins)
