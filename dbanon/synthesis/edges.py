"""Finer margins: noisy quantiles by halving, rows counted between them, and sums of ranks.

Sums of ranks tell every quantile within a share of the range, however many rows stand there. Edges
that halve the rows, and halve them again, are near each other where rows are many; where they are
few, edges are far apart and tell little. Both are taken, each where it tells more.

Sensitivity. The parts of a level do not overlap, and their borders are noisy figures of the levels
before. A value that is changed leaves one part and joins another: in each of the two it moves the
difference between the rows below a candidate and those above by 1, whichever candidate that is; in
one part alone, by 2. So one level costs what one choice costs at a sensitivity of 2, however many
parts it has (Kaplan, Schnapp and Stemmer 2022). The rows between edges are counts of parts that do
not overlap: one is one less, one one more.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.margins import Quantiles, isotonic, projected, rank_quantiles
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import GRID, Edges, Shares

# Where an edge may be, in each part.
CANDIDATES = 1024
# At which shares of the rows the two are weighed.
_PLACES = 1024


def halving_scores(
    ranked: NDArray[np.int64], low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Candidates in a part, and how evenly each halves its rows; 0 is best, int64 (candidates,).

    Parameters
    ----------
    ranked : the column, ascending, int64 (n,).
    low, high : the part: from ``low``, below ``high``; the last one holds ``GRID``, too.
    """
    candidates = low + np.arange(CANDIDATES) * (high - low) // CANDIDATES
    first, last = _below(ranked, np.array([low, high]))
    below = np.searchsorted(ranked, candidates, side="left")
    scores = -np.abs(2 * below - first - last)
    return candidates, scores.astype(np.int64)


def noisy_edges(
    ranked: NDArray[np.int64], depth: int, scale: float, noise: Noise
) -> NDArray[np.int64]:
    """Edges of 2^depth parts of about as many rows each, int64, from 0 to ``GRID``.

    Parameters
    ----------
    ranked : the column, ascending, int64 (n,).
    """
    edges = [0, GRID]
    for _ in range(depth):
        between = []
        for low, high in pairwise(edges):
            candidates, scores = halving_scores(ranked, low, high)
            between.append(int(candidates[noise.choose(scores, scale)]))
        edges = sorted([*edges, *between])
    return np.array(edges, np.int64)


def counts_between(ranked: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows stand in each part, int64; ``GRID`` is in the last one."""
    return np.diff(_below(ranked, edges)).astype(np.int64)


def edge_quantiles(
    column: NDArray[np.int64], shares: Shares, edges: Edges, noise: Noise
) -> Quantiles:
    """The quantiles of a column of whole numbers from 0 to ``GRID``, int64 (n,), by all of it."""
    by_ranks = rank_quantiles(column, shares, noise)
    ranked = np.sort(column)
    found = noisy_edges(ranked, edges.depth, edges.choice_scale, noise).astype(np.float64)
    noisy = noise.laplace(counts_between(ranked, found.astype(np.int64)), edges.count_scale)
    parts = projected(noisy.astype(np.float64), shares.n) / shares.n
    reached = np.append(0.0, np.cumsum(parts)).clip(0.0, 1.0)

    places = (np.arange(_PLACES) + 0.5) / _PLACES
    part = np.searchsorted(reached[1:-1], places, side="right")
    width, rows = np.diff(found)[part], np.maximum(parts[part], 1 / shares.n)
    within = ((places - reached[part]) / rows).clip(0.0, 1.0)
    # What each is wrong by, squared: how values stand in a part is not known, nor how many are
    # below it; of sums of ranks it is their noise. The variance of Laplace noise is 2 scale^2.
    of_counts = np.minimum(width / rows * edges.count_scale / shares.n, width)
    by_edges = np.square(width) / 12 + 2 * np.square(of_counts)
    of_ranks = 2 * (shares.margin_scale / shares.class_size) ** 2
    weight = of_ranks / (by_edges + of_ranks)
    values = weight * (found[part] + within * width) + (1 - weight) * by_ranks.values_at(places)
    return Quantiles(places, isotonic(values, np.ones(_PLACES)).clip(0, GRID), shares.bins)


def _below(ranked: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows are below each edge; of the last edge there is, all of them."""
    return np.where(edges == GRID, len(ranked), np.searchsorted(ranked, edges, side="left")).astype(
        np.int64
    )
