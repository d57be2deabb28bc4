"""What a tree of two-way counts leaves open: how columns depend given the columns above them.

A row's place in a column, given its bin in the column above, follows from the row, noisy figures
and public draws alone. Were the tree all there is, places of two columns would be independent. How
often two columns agree, both places below the middle or both above, tells a correlation r of
normals that rows are then drawn with: they agree with a probability of 1/2 + arcsin(r) / pi.

Sensitivity. A row that is changed is on other sides in some f of the p columns. It agrees no
longer, or newly, in the pairs of which one is among them, and they are f (p - f): all counts
together move by p^2 / 4 at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.dependence import Edge
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import Shares

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
