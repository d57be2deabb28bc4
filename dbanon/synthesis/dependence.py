"""The dependence between columns: a tree of noisy two-way counts, and sampling from it.

``ranks`` adds the correlations that remain between columns not adjacent in the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.margins import project_to_simplex
from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import Shares

# Rounds of fitting the tables of a tree to common shares of each column.
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class TreeEdge:
    """Two adjacent columns of the tree, and a float64 count for each pair of bins."""

    parent: int
    child: int
    table: NDArray[np.float64]


def two_way(
    first: NDArray[np.int64], second: NDArray[np.int64], bins: tuple[int, int]
) -> NDArray[np.int64]:
    """Count the rows for each pair of bins of two columns, int64 of shape ``bins``.

    Parameters
    ----------
    first, second : the bin of each row in each column, int64 (n,), from 0.
    """
    joint_counts = np.bincount(first * bins[1] + second, minlength=bins[0] * bins[1])
    return joint_counts.reshape(bins).astype(np.int64)


def expected_counts(
    n: int, first: NDArray[np.float64], second: NDArray[np.float64], unit: int
) -> NDArray[np.int64]:
    """The counts expected if two columns were independent, from noisy shares of their bins.

    In fractions of a row, ``unit`` per row. Rounding to integers before comparing with counts keeps
    the sensitivity of the score exact.
    """
    return np.rint(unit * n * np.outer(first, second)).astype(np.int64)


def score(counts: NDArray[np.int64], expected: NDArray[np.int64], unit: int) -> int:
    """Distance of two columns from independence; one row moves it by at most 2 units.

    A row moves two counts by 1 each, and ``expected`` does not depend on it.
    """
    return int(np.abs(unit * counts - expected).sum())


def marginal_score(counts: NDArray[np.int64]) -> int:
    """Distance of two columns from independence by their own margins, in units of 1 / n row.

    One row moves it by 6 n: n times two counts by 1, and the expected counts by 2 n per column.
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    return int(np.abs(rows.sum() * counts - np.outer(rows, columns)).sum())


def noisy_tree(
    codes: NDArray[np.int64],
    odds: Sequence[NDArray[np.float64]],
    shares: Shares,
    noise: Noise,
) -> list[TreeEdge]:
    """Choose the p - 1 edges, each from a column already in the tree; column 0 is the root.

    The number of pairs compared in each round depends on p alone.

    Parameters
    ----------
    codes : the bin of each row in each column, int64 (p, n).
    odds : the expected share of rows in each bin, from noisy figures.
    """

    def counts(a: int, b: int) -> NDArray[np.int64]:
        return two_way(codes[a], codes[b], (len(odds[a]), len(odds[b])))

    scores: dict[tuple[int, int], int] = {}
    joined_columns, edges = [0], []
    while len(joined_columns) < shares.p:
        pairs = [(a, b) for a in joined_columns for b in range(shares.p) if b not in joined_columns]
        for a, b in pairs:
            if (a, b) in scores:
                continue
            if shares.scores_own_margins:
                pair_score = marginal_score(counts(a, b))
            else:
                independent_counts = expected_counts(shares.n, odds[a], odds[b], shares.score_unit)
                pair_score = score(counts(a, b), independent_counts, shares.score_unit)
            scores[a, b] = scores[b, a] = pair_score
        pair_scores = np.array([scores[pair] for pair in pairs], np.int64)
        edges.append(pairs[noise.choose(pair_scores, shares.choice_scale)])
        joined_columns.append(edges[-1][1])
    tables = []
    for a, b in edges:
        noisy = noise.laplace(counts(a, b).reshape(-1), shares.count_scale)
        projected_counts = project_to_simplex(noisy.astype(np.float64), shares.n)
        tables.append(projected_counts.reshape(len(odds[a]), len(odds[b])))
    known_shares = {j: odds[j] for j, counted in enumerate(shares.has_counts) if counted}
    fitted_tables = fit_common_shares(edges, tables, shares.p, known_shares)
    return [TreeEdge(a, b, table) for (a, b), table in zip(edges, fitted_tables, strict=True)]


def fit_common_shares(
    edges: Sequence[tuple[int, int]],
    tables: Sequence[NDArray[np.float64]],
    p: int,
    known_shares: Mapping[int, NDArray[np.float64]],
) -> list[NDArray[np.float64]]:
    """Fit tables so that each column has the same shares in all of them.

    Parameters
    ----------
    known_shares : shares of columns with counted margins, which are more accurate than tables; the
        shares of other columns are the means of their tables.
    """
    tables = [table / table.sum() for table in tables]
    for _ in range(_ROUNDS):
        column_shares: list[list[NDArray[np.float64]]] = [[] for _ in range(p)]
        for (a, b), table in zip(edges, tables, strict=True):
            column_shares[a].append(table.sum(axis=1))
            column_shares[b].append(table.sum(axis=0))
        means = [
            known_shares.get(j, np.mean(estimates, axis=0))
            for j, estimates in enumerate(column_shares)
        ]
        tables = [
            _scale_to_margins(t, means[a], means[b])
            for (a, b), t in zip(edges, tables, strict=True)
        ]
    return tables


def _scale_to_margins(
    table: NDArray[np.float64], rows: NDArray[np.float64], columns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Scale a table to row sums, then column sums; empty rows or columns become independent."""
    table = np.where(table.sum(axis=1, keepdims=True) > 0, table, np.outer(rows, columns))
    table = table * _ratio(rows, table.sum(axis=1))[:, None]
    table = np.where(table.sum(axis=0, keepdims=True) > 0, table, np.outer(rows, columns))
    return table * _ratio(columns, table.sum(axis=0))


def _ratio(targets: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(targets, sums, out=np.zeros_like(targets), where=sums > 0)


def draw_bins(
    edges: Sequence[TreeEdge], normals: NDArray[np.float64], rng: np.random.Generator
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Draw, for each column, the bin of n rows, int64 (n,), and the position in it, 0 to 1.

    The bin counts follow the tables as closely as integers can, and rows are spread evenly in a
    bin.

    Parameters
    ----------
    normals : float64 (p, n): their ranks order the rows that share a bin of the parent column.
    """
    codes = np.zeros(normals.shape, np.int64)
    inside = normals.copy()
    if edges:
        codes[0], inside[0] = _draw_by_weight(edges[0].table.sum(axis=1), normals[0], rng)
    for edge in edges:
        for bin_above, child_weights in enumerate(edge.table):
            rows = np.flatnonzero(codes[edge.parent] == bin_above)
            selection = _draw_by_weight(child_weights, normals[edge.child, rows], rng)
            codes[edge.child, rows], inside[edge.child, rows] = selection
    for code, offsets in zip(codes, inside, strict=True):
        for bin_ in range(int(code.max()) + 1):
            rows = np.flatnonzero(code == bin_)
            offsets[rows] = _spread_evenly(offsets[rows], rng)
    return list(zip(codes, inside, strict=True))


def evenly_spread(codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Spread the rows of each bin evenly over 0 to 1, in random order."""
    offsets = rng.random(len(codes))
    for bin_ in range(int(codes.max(initial=-1)) + 1):
        rows = np.flatnonzero(codes == bin_)
        offsets[rows] = _spread_evenly(offsets[rows], rng)
    return offsets


def _spread_evenly(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw one position in each of n equal parts of 0 to 1, in the order of the values."""
    size = len(values)
    return (_ranks(values) + rng.random(size)) / max(size, 1)


def _draw_by_weight(
    weights: NDArray[np.float64], values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw bins in proportion to the weights, up to one row, in the order of the values.

    Also returns each row's position in its bin, 0 to 1.
    """
    weights = weights if weights.any() else np.ones_like(weights)
    cumulative = np.cumsum(weights)
    positions = (_ranks(values) + rng.random()) / max(len(values), 1) * cumulative[-1]
    bins = np.searchsorted(cumulative[:-1], positions, side="right").astype(np.int64)
    width = np.maximum(weights[bins], np.finfo(np.float64).tiny)
    return bins, ((positions - cumulative[bins] + weights[bins]) / width).clip(0.0, 1.0)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks
