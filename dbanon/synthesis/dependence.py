"""How columns depend on each other: a tree of noisy two-way counts, and rows drawn down it.

What the tree leaves open of columns that are not beside each other in it, ``residuals`` has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.margins import projected
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import Shares

# Rounds in which the tables of a tree are brought to common shares of each column.
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class Edge:
    """Two columns of the tree: how often their bins meet, a float64 for each pair of bins."""

    above: int
    below: int
    table: NDArray[np.float64]


def two_way(
    one: NDArray[np.int64], other: NDArray[np.int64], bins: tuple[int, int]
) -> NDArray[np.int64]:
    """How many rows have which bins of two columns, int64 of the shape ``bins``.

    Parameters
    ----------
    one, other : the bin of each row in each of them, int64 (n,), from 0.
    """
    met = np.bincount(one * bins[1] + other, minlength=bins[0] * bins[1])
    return met.reshape(bins).astype(np.int64)


def expected(
    n: int, one: NDArray[np.float64], other: NDArray[np.float64], unit: int
) -> NDArray[np.int64]:
    """The counts of two columns that are independent, by noisy shares of their bins.

    They are in parts of a row, of which it has ``unit``.
    Whole numbers, rounded before they meet counts: else the sensitivity of a score would not hold.
    """
    return np.rint(unit * n * np.outer(one, other)).astype(np.int64)


def score(counts: NDArray[np.int64], expected: NDArray[np.int64], unit: int) -> int:
    """How far two columns are from independent: a whole number that one row moves by 2 units.

    It moves two counts by 1 each, and ``expected`` does not see it.
    """
    return int(np.abs(unit * counts - expected).sum())


def own_score(counts: NDArray[np.int64]) -> int:
    """How far two columns are from independent by their own shares, in parts of a row, n of them.

    One row moves it by 6 n: n times two counts by 1, and what is expected by 2 n for each column.
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    return int(np.abs(rows.sum() * counts - np.outer(rows, columns)).sum())


def noisy_tree(
    codes: NDArray[np.int64],
    odds: Sequence[NDArray[np.float64]],
    shares: Shares,
    noise: Noise,
) -> list[Edge]:
    """The p - 1 edges, each from a column that is in the tree already; the first is column 0.

    How many pairs are asked about in each round depends on p alone.

    Parameters
    ----------
    codes : the bin of each row in each column, int64 (p, n).
    odds : the share of the rows that is expected in each bin, of noisy figures.
    """

    def counts(a: int, b: int) -> NDArray[np.int64]:
        return two_way(codes[a], codes[b], (len(odds[a]), len(odds[b])))

    scores: dict[tuple[int, int], int] = {}
    joined, edges = [0], []
    while len(joined) < shares.p:
        pairs = [(a, b) for a in joined for b in range(shares.p) if b not in joined]
        for a, b in pairs:
            if (a, b) in scores:
                continue
            if shares.by_own_shares:
                found = own_score(counts(a, b))
            else:
                apart = expected(shares.n, odds[a], odds[b], shares.score_unit)
                found = score(counts(a, b), apart, shares.score_unit)
            scores[a, b] = scores[b, a] = found
        of_pairs = np.array([scores[pair] for pair in pairs], np.int64)
        edges.append(pairs[noise.choose(of_pairs, shares.choice_scale)])
        joined.append(edges[-1][1])
    tables = []
    for a, b in edges:
        noisy = noise.laplace(counts(a, b).reshape(-1), shares.count_scale)
        near = projected(noisy.astype(np.float64), shares.n)
        tables.append(near.reshape(len(odds[a]), len(odds[b])))
    known = {j: odds[j] for j, counted in enumerate(shares.by_counts) if counted}
    fitted = to_common_shares(edges, tables, shares.p, known)
    return [Edge(a, b, table) for (a, b), table in zip(edges, fitted, strict=True)]


def to_common_shares(
    edges: Sequence[tuple[int, int]],
    tables: Sequence[NDArray[np.float64]],
    p: int,
    known: Mapping[int, NDArray[np.float64]],
) -> list[NDArray[np.float64]]:
    """Tables in which each column has the same shares wherever it occurs.

    Parameters
    ----------
    known : the shares of columns whose margins are counts, which tell more than tables do; of the
        others they are the mean of their tables.
    """
    tables = [table / table.sum() for table in tables]
    for _ in range(_ROUNDS):
        seen: list[list[NDArray[np.float64]]] = [[] for _ in range(p)]
        for (a, b), table in zip(edges, tables, strict=True):
            seen[a].append(table.sum(axis=1))
            seen[b].append(table.sum(axis=0))
        means = [known.get(j, np.mean(of_column, axis=0)) for j, of_column in enumerate(seen)]
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


def drawn(
    edges: Sequence[Edge], normals: NDArray[np.float64], rng: np.random.Generator
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Of each column the bin of n rows, int64 (n,), and where in it they stand, 0 to 1.

    Bins follow the tables as closely as whole rows can, and within a bin rows are spread evenly.

    Parameters
    ----------
    normals : float64 (p, n): where a row stands in a column among those that are alike in the
        column above, by its rank among them.
    """
    codes = np.zeros(normals.shape, np.int64)
    inside = normals.copy()
    if edges:
        codes[0], inside[0] = _chosen(edges[0].table.sum(axis=1), normals[0], rng)
    for edge in edges:
        for bin_above, of_below in enumerate(edge.table):
            rows = np.flatnonzero(codes[edge.above] == bin_above)
            found = _chosen(of_below, normals[edge.below, rows], rng)
            codes[edge.below, rows], inside[edge.below, rows] = found
    for code, place in zip(codes, inside, strict=True):
        for bin_ in range(int(code.max()) + 1):
            rows = np.flatnonzero(code == bin_)
            place[rows] = _even(place[rows], rng)
    return list(zip(codes, inside, strict=True))


def even(codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Where rows stand in their bins, 0 to 1: one in each of so many equal parts, in any order."""
    place = rng.random(len(codes))
    for bin_ in range(int(codes.max(initial=-1)) + 1):
        rows = np.flatnonzero(codes == bin_)
        place[rows] = _even(place[rows], rng)
    return place


def _even(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """One place in each of so many equal parts of 0 to 1, in the order of the values."""
    size = len(values)
    return (_ranks(values) + rng.random(size)) / max(size, 1)


def _chosen(
    weights: NDArray[np.float64], values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Choices in the order of the values, of each as many as its weight says, up to one.

    And how far each stands in what was chosen, 0 to 1.
    """
    weights = weights if weights.any() else np.ones_like(weights)
    reached = np.cumsum(weights)
    places = (_ranks(values) + rng.random()) / max(len(values), 1) * reached[-1]
    found = np.searchsorted(reached[:-1], places, side="right").astype(np.int64)
    width = np.maximum(weights[found], np.finfo(np.float64).tiny)
    return found, ((places - reached[found] + weights[found]) / width).clip(0.0, 1.0)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks
