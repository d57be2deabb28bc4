"""How columns depend on each other: a tree of noisy two-way counts, and rows drawn down it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import Shares

# Rounds in which the tables of a tree are brought to common shares of each column.
_ROUNDS = 20

# The counts of a pair of columns, int64 (bins, bins).
Counts = Callable[[int, int], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Edge:
    """Two columns of the tree: how often their bins meet, float64 (bins, bins)."""

    above: int
    below: int
    table: NDArray[np.float64]


def two_way(codes: NDArray[np.int64], bins: int, one: int, other: int) -> NDArray[np.int64]:
    """How many rows have which bins of two columns; ``codes``, int64 (p, n), from 0."""
    met = np.bincount(codes[one] * bins + codes[other], minlength=bins**2)
    return met.reshape(bins, bins).astype(np.int64)


def score(counts: NDArray[np.int64]) -> int:
    """How far two columns are from independent: a whole number that one row moves by 2 bins^2."""
    return int(np.abs(counts.size * counts - counts.sum()).sum())


def noisy_tree(counts: Counts, shares: Shares, noise: Noise) -> list[Edge]:
    """The p - 1 edges, each from a column that is in the tree already; the first is column 0.

    How many pairs are asked about in each round depends on p alone.
    """
    scores: dict[tuple[int, int], int] = {}
    joined, edges = [0], []
    while len(joined) < shares.p:
        pairs = [(a, b) for a in joined for b in range(shares.p) if b not in joined]
        for a, b in pairs:
            if (a, b) not in scores:
                scores[a, b] = scores[b, a] = score(counts(a, b))
        found = np.array([scores[pair] for pair in pairs], np.int64)
        edges.append(pairs[noise.choose(found, shares.choice_scale)])
        joined.append(edges[-1][1])
    tables = []
    for a, b in edges:
        noisy = noise.laplace(counts(a, b).reshape(-1), shares.count_scale)
        tables.append(projected(noisy.astype(np.float64), shares.n).reshape(shares.bins, -1))
    fitted = to_common_shares(edges, tables, shares.p)
    return [Edge(a, b, table) for (a, b), table in zip(edges, fitted, strict=True)]


def projected(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest values, (m,), of which none is negative and all together are ``total``."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    nearest: NDArray[np.float64] = values - excess[np.flatnonzero(falling > excess)[-1]]
    return nearest.clip(0.0)


def to_common_shares(
    edges: Sequence[tuple[int, int]], tables: Sequence[NDArray[np.float64]], p: int
) -> list[NDArray[np.float64]]:
    """Tables in which each column has the same shares wherever it occurs: the mean of them."""
    tables = [table / table.sum() for table in tables]
    for _ in range(_ROUNDS):
        seen: list[list[NDArray[np.float64]]] = [[] for _ in range(p)]
        for (a, b), table in zip(edges, tables, strict=True):
            seen[a].append(table.sum(axis=1))
            seen[b].append(table.sum(axis=0))
        means = [np.mean(of_column, axis=0) for of_column in seen]
        tables = [_fitted(t, means[a], means[b]) for (a, b), t in zip(edges, tables, strict=True)]
    return tables


def _fitted(
    table: NDArray[np.float64], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The table with these sums of rows, then of columns; where it is empty, as independent."""
    table = np.where(table.sum(axis=1, keepdims=True) > 0, table, np.outer(rows, columns))
    table = table * _ratio(rows, table.sum(axis=1))[:, None]
    table = np.where(table.sum(axis=0, keepdims=True) > 0, table, np.outer(rows, columns))
    return table * _ratio(columns, table.sum(axis=0))


def _ratio(wanted: NDArray[np.float64], found: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)


def drawn(edges: Sequence[Edge], shares: Shares, rng: np.random.Generator) -> NDArray[np.float64]:
    """Where n rows stand in each column, as shares of its rows: float64 (p, n), 0 to 1.

    Bins follow the tables as closely as whole rows can, and within a bin rows are spread evenly.
    """
    n, p, bins = shares.n, shares.p, shares.bins
    if not edges:
        return np.array([_even(n, rng) for _ in range(p)])
    codes = np.zeros((p, n), np.int64)
    codes[0] = _sample(edges[0].table.sum(axis=1), n, rng)
    for edge in edges:
        for bin_above in range(bins):
            rows = np.flatnonzero(codes[edge.above] == bin_above)
            codes[edge.below, rows] = _sample(edge.table[bin_above], len(rows), rng)
    places = np.empty((p, n))
    for j in range(p):
        for bin_ in range(bins):
            rows = np.flatnonzero(codes[j] == bin_)
            places[j, rows] = (bin_ + _even(len(rows), rng)) / bins
    return places


def _even(size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """One place in each of so many equal parts of 0 to 1, in random order."""
    return (rng.permutation(size) + rng.random(size)) / max(size, 1)


def _sample(weights: NDArray[np.float64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """So many choices in random order, of each as many as its weight says, up to one."""
    places = (rng.permutation(size) + rng.random()) / max(size, 1)
    reached = np.cumsum(weights if weights.any() else np.ones_like(weights))
    found: NDArray[np.int64] = np.searchsorted(reached[:-1], places * reached[-1], side="right")
    return found
