"""dp_ranks: margins by sums of order statistics, dependence by a tree of noisy two-way counts.

Neighbours are two tables of the same n rows that differ in one row. n, bounds, epsilon and the
columns are public, and all else depends on the data by noise alone:

1. Shares of epsilon, the sizes of all classes and bins, from public figures (``shares``).
2. For each column, sums of consecutive order statistics with Laplace noise (``margins``).
3. Bins between noisy quantiles; pairs of columns by the exponential mechanism, a tree of them, and
   their two-way counts with Laplace noise (``dependence``).
4. n rows drawn down the tree, and the noisy quantiles where they stand.

The whole epsilon is spent whatever the data are. Nothing but ``noise`` sees more than public
figures and what it gave out before; the draws of step 4 see no data, and their source needs no
secret.

Cost: O(p n log n) for the margins, O(p^2 n) for the counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.dependence import drawn, noisy_tree, two_way
from dbanon.synthesis.margins import noisy_quantiles
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import Shares


def dp_ranks(
    grid: NDArray[np.int64], shares: Shares, noise: Noise, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Synthetic rows, float64 (p, n), of columns of whole numbers from 0 to ``GRID``.

    Parameters
    ----------
    grid : int64 (p, n), a column after the other.
    shares : of p and n.
    noise : what may see the data.
    rng : for what is drawn of noisy figures.
    """
    spent = shares.price(noise)
    if not spent <= shares.epsilon:
        raise AssertionError(f"all draws cost {spent}, more than epsilon {shares.epsilon}")
    quantiles = [noisy_quantiles(column, shares, noise) for column in grid]
    edges = []
    if shares.dependent:
        inner = np.arange(1, shares.bins) / shares.bins
        codes = np.array(
            [
                np.searchsorted(found.at(inner), column, side="right")
                for found, column in zip(quantiles, grid, strict=True)
            ]
        )
        edges = noisy_tree(lambda a, b: two_way(codes, shares.bins, a, b), shares, noise)
    places = drawn(edges, shares, rng)
    return np.array([found.at(place) for found, place in zip(quantiles, places, strict=True)])
