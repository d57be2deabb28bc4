"""Noisy quantiles of a column by halving: edges of parts that have about as many rows each.

Each edge is chosen by the exponential mechanism, level after level, and the rows between edges are
counted with noise. One row moves the scores of a level by 2: in the part that it leaves, in the
one that it enters, by 1 each, or by 2 where they are one; parts between see both ends move alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.accounting import Accounting
from dbanon.synthesis.margins import Quantiles, isotonic, projected
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import GRID, Edges

# Where an edge may be, in each part.
CANDIDATES = 1024
# At which shares of the rows two quantile functions are weighed.
_PLACES = 1024
# Of the search for a rate; below it values are even.
_STEPS, _FLAT = 60, 1e-3


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of a column and their noisy counts.

    Parameters
    ----------
    n : rows.
    edges : float64 (m + 1,), ascending, from 0 to ``GRID``.
    shares : of the rows in each part, float64 (m,); together 1.
    variance : of the noise on a count.
    """

    n: int
    edges: NDArray[np.float64]
    shares: NDArray[np.float64]
    variance: float

    @property
    def reached(self) -> NDArray[np.float64]:
        """The share of the rows below each edge, float64 (m + 1,)."""
        return np.append(0.0, np.cumsum(self.shares)).clip(0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Parted:
    """The margin of a column whose bins are parts beside each other.

    Parameters
    ----------
    parts : of the column.
    bins : the bin of each part, int64 (m,), ascending.
    quantiles : of the column: where values stand in a bin.
    """

    parts: Parts
    bins: NDArray[np.int64]
    quantiles: Quantiles

    @property
    def _first(self) -> NDArray[np.int64]:
        """The first part of each bin, and the end."""
        return np.append(np.searchsorted(self.bins, np.arange(self.bins[-1] + 1)), len(self.bins))

    @property
    def odds(self) -> NDArray[np.float64]:
        """As ``Margin`` says."""
        return np.diff(self.parts.reached[self._first])

    @property
    def counts(self) -> int:
        """As ``Margin`` says."""
        return len(self.bins)

    def spots(
        self, column: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """As ``Margin`` says."""
        del rng  # An edge divides values, not the rows that have one.
        edges = self.parts.edges[self._first]
        codes = np.searchsorted(edges[1:-1], column, side="right").astype(np.int64)
        width = np.maximum(edges[codes + 1] - edges[codes], 1.0)
        return codes, ((column - edges[codes]) / width).clip(0.0, 1.0)

    def at(self, codes: NDArray[np.int64], inside: NDArray[np.float64]) -> NDArray[np.float64]:
        """As ``Margin`` says."""
        reached, edges = self.parts.reached[self._first], self.parts.edges[self._first]
        share = np.maximum(np.diff(reached), 1 / self.parts.n)[codes]
        values = self.quantiles.values_at(reached[codes] + inside * share)
        return values.clip(edges[codes], edges[codes + 1])


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
    ranked: NDArray[np.int64], depth: int, scale: float, account: Accounting, noise: Noise
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
            between.append(int(candidates[account.chosen(noise, scores, scale)]))
        edges = sorted([*edges, *between])
    return np.array(edges, np.int64)


def counts_between(ranked: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows stand in each part, int64; ``GRID`` is in the last one."""
    return np.diff(_below(ranked, edges)).astype(np.int64)


def noisy_parts(
    column: NDArray[np.int64], edges: Edges, account: Accounting, noise: Noise
) -> Parts:
    """The parts of a column of whole numbers from 0 to ``GRID``, int64 (n,)."""
    ranked, n = np.sort(column), len(column)
    found = noisy_edges(ranked, edges.depth, edges.choice_scale, account, noise)
    noisy = account.noisy(noise, counts_between(ranked, found), edges.count_scale)
    shares = projected(noisy.astype(np.float64), 1.0 * n) / n
    variance = account.variance(edges.count_scale)
    return Parts(n, found.astype(np.float64), shares, variance)


def edge_quantiles(parts: Parts, by_ranks: Quantiles, of_ranks: float, bins: int) -> Quantiles:
    """The quantiles of a column by its parts and by its sums of ranks, each by what it tells.

    Parameters
    ----------
    of_ranks : the variance of a value by sums of ranks.
    """
    places = (np.arange(_PLACES) + 0.5) / _PLACES
    part = np.searchsorted(parts.reached[1:-1], places, side="right")
    width, rows = np.diff(parts.edges)[part], np.maximum(parts.shares[part], 1 / parts.n)
    within, spread = _falling(parts, part, (places - parts.reached[part]) / rows)
    # What each is wrong by, squared: how values stand in a part is not known, nor how many are
    # below it; of sums of ranks it is their noise.
    of_counts = np.minimum(parts.variance * np.square(width / rows / parts.n), 2 * width**2)
    by_edges = np.square(width * spread) + of_counts
    weight = of_ranks / (by_edges + of_ranks)
    at = parts.edges[part] + within * width
    values = weight * at + (1 - weight) * by_ranks.values_at(places)
    return Quantiles(places, isotonic(values, np.ones(_PLACES)).clip(0, GRID), bins)


def _falling(
    parts: Parts, part: NDArray[np.int64], place: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where values stand in their part, float64 (m,), 0 to 1, and their deviation there.

    In an outermost part they become fewer, as an exponential function, from as many as the part
    beside it has: public bounds are wide, and few values are near them. Elsewhere they are even.

    Parameters
    ----------
    place : the share of the part's rows that are below.
    """
    place = place.clip(0.0, 1.0)
    dense = parts.shares / np.maximum(np.diff(parts.edges), 1.0)
    last = len(dense) - 1
    spread = np.full(len(part), math.sqrt(1 / 12))
    for outer, inner in ((0, 1), (last, last - 1)):
        if last < 1 or not 0 < dense[outer] < dense[inner]:
            continue
        here = part == outer
        # The rate for which density is that of the part beside it: rate / (1 - e^-rate) = steeper.
        steeper = rate = dense[inner] / dense[outer]
        for _ in range(_STEPS):
            rate = steeper * -math.expm1(-rate)
        if rate < _FLAT:
            continue
        up = place[here] if outer == last else 1 - place[here]
        at = -np.log1p(up * math.expm1(-rate)) / rate
        place[here] = at if outer == last else 1 - at
        spread[here] = min(1 / rate, math.sqrt(1 / 12))
    return place, spread


def _below(ranked: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many rows are below each edge; of the last edge there is, all of them."""
    return np.where(edges == GRID, len(ranked), np.searchsorted(ranked, edges, side="left")).astype(
        np.int64
    )
