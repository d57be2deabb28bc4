"""The dependence between columns: a tree of noisy two-way counts, and sampling from it.

``ranks`` adds the correlations that remain between columns not adjacent in the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.synthesis.margins import project_to_simplex
from dbanon.extensions.synthesis.noise import Noise
from dbanon.extensions.synthesis.shares import EpsilonShares

# Number of rounds in which the tables of a tree are fitted to common shares of each column.
_ROUNDS = 20


@dataclass(frozen=True, eq=False)
class TreeEdge:
    """Two adjacent columns of the tree, and the share of the rows in each pair of bins.

    Parameters
    ----------
    parent, child : indices of the columns.
    table : float64 (bins of the parent, bins of the child), summing to 1.
    """

    parent: int
    child: int
    table: NDArray[np.float64]


def count_two_way(
    codes_a: NDArray[np.int64], codes_b: NDArray[np.int64], n_bins: tuple[int, int]
) -> NDArray[np.int64]:
    """Count the rows for each pair of bins of two columns, int64 of shape ``n_bins``.

    Parameters
    ----------
    codes_a, codes_b : the bin of each row in each column, int64 (n,), from 0.
    """
    pair_counts = np.bincount(codes_a * n_bins[1] + codes_b, minlength=n_bins[0] * n_bins[1])
    return pair_counts.reshape(n_bins).astype(np.int64)


def compute_expected_counts(
    n: int, shares_a: NDArray[np.float64], shares_b: NDArray[np.float64], units_per_row: int
) -> NDArray[np.int64]:
    """Compute the counts expected if two columns were independent, in fractions of a row.

    Rounding to integers before comparing with counts keeps the sensitivity of the score exact.

    Parameters
    ----------
    shares_a, shares_b : the noisy share of the rows in each bin of the two columns.
    units_per_row : the number that one row counts as, so that fractions of a row are integers.
    """
    return np.rint(units_per_row * n * np.outer(shares_a, shares_b)).astype(np.int64)


def score_independence(
    counts: NDArray[np.int64], expected: NDArray[np.int64], units_per_row: int
) -> int:
    """Compute how far two columns are from independence; ``units_per_row`` units make a row.

    Changing one row moves the distance by at most ``2 * units_per_row``: two counts move by 1 each,
    and ``expected`` does not depend on the row.
    """
    return int(np.abs(units_per_row * counts - expected).sum())


def score_by_own_margins(counts: NDArray[np.int64]) -> int:
    """Compute the distance of two columns from independence by their own margins, in 1/n rows.

    Changing one row moves the distance by at most 6 n: two counts move by 1 each, which n
    multiplies, and the expected counts move by 2 n for each column.
    """
    row_sums, column_sums = counts.sum(axis=1), counts.sum(axis=0)
    return int(np.abs(row_sums.sum() * counts - np.outer(row_sums, column_sums)).sum())


def measure_tree(
    codes: NDArray[np.int64],
    bin_shares: Sequence[NDArray[np.float64]],
    epsilon_shares: EpsilonShares,
    noise: Noise,
) -> list[TreeEdge]:
    """Choose the p - 1 edges, each from a column already in the tree, and count their bins.

    Column 0 is the root. The number of pairs compared in each round depends on p alone.

    Parameters
    ----------
    codes : the bin of each row in each column, int64 (p, n).
    bin_shares : for each column, the expected share of rows in each bin, from noisy figures.
    epsilon_shares : how epsilon is divided, with the noise scales of choices and counts.
    """

    def count_pair(a: int, b: int) -> NDArray[np.int64]:
        return count_two_way(codes[a], codes[b], (len(bin_shares[a]), len(bin_shares[b])))

    scores: dict[tuple[int, int], int] = {}
    joined_columns, edges = [0], []
    while len(joined_columns) < epsilon_shares.p:
        pairs = [
            (a, b)
            for a in joined_columns
            for b in range(epsilon_shares.p)
            if b not in joined_columns
        ]
        for a, b in pairs:
            if (a, b) in scores:
                continue
            # If only some columns have counted margins, the shares of bins are too inaccurate, and
            # expected counts come from the counts of the pair itself.
            if epsilon_shares.uses_own_margins:
                pair_score = score_by_own_margins(count_pair(a, b))
            else:
                independent_counts = compute_expected_counts(
                    epsilon_shares.n,
                    bin_shares[a],
                    bin_shares[b],
                    epsilon_shares.score_units_per_row,
                )
                pair_score = score_independence(
                    count_pair(a, b), independent_counts, epsilon_shares.score_units_per_row
                )
            scores[a, b] = scores[b, a] = pair_score
        pair_scores = np.array([scores[pair] for pair in pairs], np.int64)
        # The exponential mechanism prefers pairs that are far from independent.
        edges.append(pairs[noise.choose(pair_scores, epsilon_shares.choice_scale)])
        joined_columns.append(edges[-1][1])
    tables = []
    for a, b in edges:
        noisy = noise.laplace(count_pair(a, b).reshape(-1), epsilon_shares.count_scale)
        projected_counts = project_to_simplex(noisy.astype(np.float64), epsilon_shares.n)
        tables.append(projected_counts.reshape(len(bin_shares[a]), len(bin_shares[b])))
    # ``has_counts`` is True for columns whose margins are counts of all their values.
    counted_shares = {
        j: bin_shares[j] for j, is_counted in enumerate(epsilon_shares.has_counts) if is_counted
    }
    fitted_tables = fit_common_shares(edges, tables, epsilon_shares.p, counted_shares)
    return [TreeEdge(a, b, table) for (a, b), table in zip(edges, fitted_tables, strict=True)]


def fit_common_shares(
    edges: Sequence[tuple[int, int]],
    tables: Sequence[NDArray[np.float64]],
    p: int,
    counted_shares: Mapping[int, NDArray[np.float64]],
) -> list[NDArray[np.float64]]:
    """Fit tables so that each column has the same shares in all of them.

    Parameters
    ----------
    p : number of columns.
    counted_shares : the bin shares of columns with counted margins, which are more accurate than
        tables; the shares of other columns are the means over their tables.
    """
    tables = [table / table.sum() for table in tables]
    for _ in range(_ROUNDS):
        column_shares: list[list[NDArray[np.float64]]] = [[] for _ in range(p)]
        for (a, b), table in zip(edges, tables, strict=True):
            column_shares[a].append(table.sum(axis=1))
            column_shares[b].append(table.sum(axis=0))
        means = [
            counted_shares.get(j, np.mean(estimates, axis=0))
            for j, estimates in enumerate(column_shares)
        ]
        tables = [
            _scale_to_margins(table, means[a], means[b])
            for (a, b), table in zip(edges, tables, strict=True)
        ]
    return tables


def _scale_to_margins(
    table: NDArray[np.float64], row_sums: NDArray[np.float64], column_sums: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Scale a table to row sums, then column sums; empty rows or columns become independent."""
    independent_table = np.outer(row_sums, column_sums)
    table = np.where(table.sum(axis=1, keepdims=True) > 0, table, independent_table)
    table = table * _divide_or_zero(row_sums, table.sum(axis=1))[:, None]
    table = np.where(table.sum(axis=0, keepdims=True) > 0, table, independent_table)
    return table * _divide_or_zero(column_sums, table.sum(axis=0))


def _divide_or_zero(targets: NDArray[np.float64], sums: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(targets, sums, out=np.zeros_like(targets), where=sums > 0)


def draw_bins(
    edges: Sequence[TreeEdge], normals: NDArray[np.float64], rng: np.random.Generator
) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Draw, for each column, the bin of n rows, int64 (n,), and their offset in the bin, 0 to 1.

    The bin counts follow the tables as closely as integers can, and the rows are spread evenly
    within each bin.

    Parameters
    ----------
    normals : normally distributed numbers, float64 (p, n), whose ranks order the rows that share a
        bin of the parent column.
    """
    codes = np.zeros(normals.shape, np.int64)
    offsets = normals.copy()
    if edges:
        codes[0], offsets[0] = _draw_by_weight(edges[0].table.sum(axis=1), normals[0], rng)
    for edge in edges:
        for parent_bin, child_weights in enumerate(edge.table):
            rows = np.flatnonzero(codes[edge.parent] == parent_bin)
            child_codes, child_offsets = _draw_by_weight(
                child_weights, normals[edge.child, rows], rng
            )
            codes[edge.child, rows], offsets[edge.child, rows] = child_codes, child_offsets
    for column_codes, bin_offsets in zip(codes, offsets, strict=True):
        for bin_ in range(int(column_codes.max()) + 1):
            rows = np.flatnonzero(column_codes == bin_)
            bin_offsets[rows] = _spread_evenly(bin_offsets[rows], rng)
    return list(zip(codes, offsets, strict=True))


def spread_rows_evenly(
    codes: NDArray[np.int64], offsets: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Spread the rows of each bin evenly over 0 to 1, in the order of ``offsets``, float64 (n,)."""
    offsets = offsets.copy()
    for bin_ in range(int(codes.max(initial=-1)) + 1):
        rows = np.flatnonzero(codes == bin_)
        offsets[rows] = _spread_evenly(offsets[rows], rng)
    return offsets


def _spread_evenly(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Divide 0 to 1 into n equal intervals, and draw a position in each, ordered as the values."""
    n_values = len(values)
    return (_rank(values) + rng.random(n_values)) / max(n_values, 1)


def _draw_by_weight(
    weights: NDArray[np.float64], values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw a bin for each row, so that the rows per bin are proportional to the weights.

    The number of rows in a bin differs from the exact proportion by less than one. Rows with
    smaller values get earlier bins. Also returns each row's offset in its bin, 0 to 1.

    Parameters
    ----------
    weights : the weight of each bin, float64 (bins,).
    values : a number for each row, float64 (n,).
    """
    weights = weights if weights.any() else np.ones_like(weights)
    cumulative = np.cumsum(weights)
    positions = (_rank(values) + rng.random()) / max(len(values), 1) * cumulative[-1]
    bins = np.searchsorted(cumulative[:-1], positions, side="right").astype(np.int64)
    width = np.maximum(weights[bins], np.finfo(np.float64).tiny)
    return bins, ((positions - cumulative[bins] + weights[bins]) / width).clip(0.0, 1.0)


def _rank(values: NDArray[np.float64]) -> NDArray[np.int64]:
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks
