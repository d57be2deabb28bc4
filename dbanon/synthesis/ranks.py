"""dp_ranks: margins by sums of order statistics, dependence by a tree of noisy two-way counts.

What the tree leaves open is told by noisy correlations of ranks.

Neighbours are two tables of the same n rows that differ in one row. n, bounds, epsilon and the
columns are public, and all else depends on the data by noise alone:

1. Shares of epsilon, the sizes of all classes and bins, from public figures (``shares``).
2. For each column, sums of consecutive order statistics, or counts of its public values, with
   Laplace noise (``margins``); where it is asked for, noisy quantiles and the rows between them,
   too (``edges``).
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

import numpy as np
from numpy.typing import NDArray

from dbanon.hierarchy.tree import Hierarchy
from dbanon.synthesis.dependence import drawn, noisy_tree
from dbanon.synthesis.edges import edge_quantiles
from dbanon.synthesis.margins import Margin, noisy_listed, rank_quantiles
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.residuals import noisy_correlations, normals, open_places
from dbanon.synthesis.shares import Shares


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
    spent = shares.price(noise)
    if not spent <= shares.epsilon:
        raise AssertionError(f"all draws cost {spent}, more than epsilon {shares.epsilon}")
    margins = [
        _margin(column, tree, shares, noise)
        for column, tree in zip(grid, shares.trees, strict=True)
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
    column: NDArray[np.int64], tree: Hierarchy | None, shares: Shares, noise: Noise
) -> Margin:
    if tree is not None:
        return noisy_listed(column, tree, shares, noise)
    if shares.edges is not None:
        return edge_quantiles(column, shares, shares.edges, noise)
    return rank_quantiles(column, shares, noise)
