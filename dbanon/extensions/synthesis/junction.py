"""Graphical models of column bins: a junction tree, its marginals, and sampling from it.

A model has a table of log-potentials per clique. The share of the rows in a combination of bins is
proportional to the product of its potentials in all cliques. The shares of the cells of one clique,
its *beliefs*, are sums over the other columns. Two passes over the tree compute all beliefs.

Source: S. L. Lauritzen and D. J. Spiegelhalter, "Local computations with probabilities on graphical
structures and their application to expert systems", JRSS B 50 (1988).

Cost: both passes take time in proportion to the cells of all cliques.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The columns of a table of counts, ascending.
Clique = tuple[int, ...]
Floats = NDArray[np.float64]


def find_maximal_cliques(cliques: Iterable[Clique], n_bins: Sequence[int]) -> list[Clique]:
    """Find the maximal cliques of a triangulated graph that contains these cliques.

    Eliminates columns one by one, always the one that forms the fewest cells with its neighbours.
    Every column is in some clique.

    Parameters
    ----------
    n_bins : number of bins of each column.
    """
    neighbours: dict[int, set[int]] = {j: set() for j in range(len(n_bins))}
    for clique in cliques:
        for j in clique:
            neighbours[j] |= set(clique) - {j}
    maximal_cliques: list[set[int]] = []
    while neighbours:
        j = min(neighbours, key=lambda j: (count_cells([j, *neighbours[j]], n_bins), j))
        clique_neighbours = neighbours.pop(j)
        for neighbour in clique_neighbours:
            neighbours[neighbour] = (neighbours[neighbour] | clique_neighbours) - {j, neighbour}
        if not any(clique_neighbours | {j} <= clique for clique in maximal_cliques):
            maximal_cliques.append(clique_neighbours | {j})
    return [tuple(sorted(clique)) for clique in maximal_cliques]


def count_cells(columns: Iterable[int], n_bins: Sequence[int]) -> int:
    """Count the cells in the table of these columns."""
    return math.prod(n_bins[j] for j in columns)


@dataclass(frozen=True)
class CliqueLink:
    """The link between a clique of a junction tree and its parent.

    Parameters
    ----------
    clique, parent : indices of the cliques.
    shared_columns : the columns that both contain.
    """

    clique: int
    parent: int
    shared_columns: Clique


class JunctionTree:
    """A tree of cliques in which the cliques containing any one column are connected.

    Parameters
    ----------
    cliques : maximal cliques of a triangulated graph of all columns.
    n_bins : number of bins of each column.
    """

    def __init__(self, cliques: Sequence[Clique], n_bins: Sequence[int]) -> None:
        self.cliques = tuple(cliques)
        self.n_bins = tuple(n_bins)
        self.links = _connect_cliques(self.cliques)
        """The links from the root down; the root is clique 0."""

    def find_clique(self, columns: Clique) -> int:
        """Return the index of the smallest clique that contains all of these columns."""
        candidates = [i for i, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(candidates, key=lambda i: count_cells(self.cliques[i], self.n_bins))

    def clique_shape(self, i: int) -> tuple[int, ...]:
        """Return the number of bins of each column of clique ``i``."""
        return tuple(self.n_bins[j] for j in self.cliques[i])

    def compute_beliefs(self, potentials: Sequence[Floats]) -> tuple[list[Floats], float]:
        """Compute the share of rows in each cell of each clique, and the log of the normalizer.

        Parameters
        ----------
        potentials : the log-potentials of each clique, in its shape.
        """
        # First pass, from the leaves to the root: each clique sends its parent a message, the
        # log-potentials of its subtree summed down to the columns that both share.
        upward_potentials = list(potentials)
        messages: list[Floats] = [np.zeros(())] * len(self.links)
        for index in reversed(range(len(self.links))):
            link = self.links[index]
            messages[index] = log_marginalize(
                upward_potentials[link.clique], self.cliques[link.clique], link.shared_columns
            )
            parent = self.cliques[link.parent]
            upward_potentials[link.parent] = upward_potentials[link.parent] + broadcast(
                messages[index], link.shared_columns, parent
            )
        # The logarithm of the normalizer: the sum of the products of potentials over all cells.
        log_total = float(log_marginalize(upward_potentials[0], self.cliques[0], ()))
        # Second pass, from the root to the leaves: replace the message that a clique sent by the
        # belief of its parent.
        beliefs: list[Floats] = [np.zeros(())] * len(self.cliques)
        beliefs[0] = np.exp(upward_potentials[0] - log_total)
        for index, link in enumerate(self.links):
            clique = self.cliques[link.clique]
            with np.errstate(divide="ignore"):
                log_marginal = np.log(
                    marginalize(
                        beliefs[link.parent], self.cliques[link.parent], link.shared_columns
                    )
                )
            update = broadcast(log_marginal - messages[index], link.shared_columns, clique)
            beliefs[link.clique] = np.exp(upward_potentials[link.clique] + update)
        return beliefs, log_total

    def compute_pair_tables(self, beliefs: Sequence[Floats]) -> dict[tuple[int, int], Floats]:
        """Compute the share of rows in each cell of every pair of columns.

        Returns
        -------
        A table for each pair (a, b) with a < b, whether or not one clique contains both.
        """
        tables = {}
        for a in range(len(self.n_bins)):
            for b, table in self._compute_pairs_with(a, beliefs).items():
                if a < b:
                    tables[a, b] = table
        return tables

    def _compute_pairs_with(self, a: int, beliefs: Sequence[Floats]) -> dict[int, Floats]:
        """Compute the table of column ``a`` with each other column.

        Walks the tree from a clique that contains ``a``.
        """
        adjacent: dict[int, list[tuple[int, Clique]]] = {i: [] for i in range(len(self.cliques))}
        for link in self.links:
            adjacent[link.clique].append((link.parent, link.shared_columns))
            adjacent[link.parent].append((link.clique, link.shared_columns))
        tables: dict[int, Floats] = {}
        root = self.find_clique((a,))
        # Each item: a clique, the clique it was reached from, and the table of ``a``, as the first
        # axis, and the other columns of the clique.
        stack = [(root, -1, self._move_to_first_axis(a, beliefs[root], self.cliques[root]))]
        while stack:
            i, previous_clique, joint_table = stack.pop()
            further_columns = tuple(j for j in self.cliques[i] if j != a)
            for b in further_columns:
                if b not in tables:
                    tables[b] = _marginalize_joint(joint_table, further_columns, (b,))
            for neighbour, shared_columns in adjacent[i]:
                if neighbour == previous_clique:
                    continue
                clique = self.cliques[neighbour]
                if a in shared_columns:
                    next_table = self._move_to_first_axis(a, beliefs[neighbour], clique)
                else:
                    # The next clique is independent of ``a`` given the shared columns.
                    shared_belief = broadcast(
                        marginalize(beliefs[i], self.cliques[i], shared_columns),
                        shared_columns,
                        clique,
                    )
                    zeros = np.zeros(self.clique_shape(neighbour))
                    conditional = np.divide(
                        beliefs[neighbour], shared_belief, out=zeros, where=shared_belief > 0
                    )
                    shared_table = _marginalize_joint(joint_table, further_columns, shared_columns)
                    broadcast_shape = broadcast(shared_table[0], shared_columns, clique).shape
                    next_table = (
                        shared_table.reshape(len(shared_table), *broadcast_shape) * conditional
                    )
                stack.append((neighbour, i, next_table))
        return tables

    def _move_to_first_axis(self, a: int, belief: Floats, clique: Clique) -> Floats:
        """Move column ``a`` of a clique's table to the first axis."""
        return np.moveaxis(belief, clique.index(a), 0)

    def draw_rows(
        self, beliefs: Sequence[Floats], points: Floats
    ) -> tuple[NDArray[np.int64], Floats]:
        """Draw the bins of n rows, int64 (p, n), in proportion to the beliefs, up to rounding.

        Also returns each row's offset in its bin, 0 to 1, float64 (p, n).

        Parameters
        ----------
        points : a coordinate for each column and row, 0 to 1, float64 (p, n). Rows with a small one
            get early bins. Rows with the same bins in the columns before it are a group, in whose
            order the coordinates are taken.
        """
        codes = np.zeros(points.shape, np.int64)
        offsets = np.zeros(points.shape)
        shared_columns: dict[int, Clique] = {0: ()}
        shared_columns |= {link.clique: link.shared_columns for link in self.links}
        for i, known_columns in shared_columns.items():
            for column in self.cliques[i]:
                if column in known_columns:
                    continue
                known_columns = tuple(sorted((*known_columns, column)))
                table = marginalize(beliefs[i], self.cliques[i], known_columns)
                weights = np.moveaxis(table, known_columns.index(column), -1)
                groups = np.zeros(points.shape[1], np.int64)
                for j in known_columns:
                    if j != column:
                        groups = groups * self.n_bins[j] + codes[j]
                codes[column], offsets[column] = _draw_bins(
                    weights.reshape(-1, self.n_bins[column]), groups, points[column]
                )
        return codes, offsets


def _draw_bins(
    weights: Floats, groups: NDArray[np.int64], coordinates: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """Draw the bin of each row, int64 (n,), by the weights of its group; and the offset in it.

    The number of rows of a group in a bin differs from the exact proportion by less than one. That
    of all groups together differs little more, as ``_balance_bins`` allows.

    Parameters
    ----------
    weights : the expected share of all rows, float64 (groups, bins); it need not sum to 1.
    groups : the group of each row, int64 (n,).
    coordinates : a number from 0 to 1 for each row, float64 (n,), in whose order a group's rows get
        bins.
    """
    expected_rows = len(groups) * weights.sum(axis=0) / max(weights.sum(), 1e-300)
    # Without information about such rows, draw uniformly.
    weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, 1.0)
    # Group g has the range from g to g + 1, so that one search finds the bins of all groups.
    upper = np.cumsum(weights, axis=1)
    upper = upper / upper[:, -1:] + np.arange(len(weights))[:, None]
    rows = np.lexsort((coordinates, groups))
    group_of_row = groups[rows]
    group_sizes = np.bincount(groups, minlength=len(weights))
    ranks = np.arange(len(rows)) - np.repeat(np.cumsum(group_sizes) - group_sizes, group_sizes)
    # The rows of a group take equidistant positions, which begin at a uniform one: for a group of
    # one row, this is its coordinate.
    starts = np.bincount(groups, coordinates, minlength=len(weights)) % 1.0
    positions = (ranks + starts[group_of_row]) / group_sizes[group_of_row] + group_of_row
    n_bins = weights.shape[1]
    cells = np.searchsorted(upper.reshape(-1)[:-1], positions, side="right")
    cells = group_of_row * n_bins + np.clip(cells - group_of_row * n_bins, 0, n_bins - 1)
    counts = np.bincount(cells, minlength=weights.size).reshape(weights.shape)
    shares = weights / weights.sum(axis=1, keepdims=True)
    _balance_bins(counts, group_sizes[:, None] * shares, expected_rows)
    # In each group, the order of rows stays.
    cells = np.repeat(np.tile(np.arange(n_bins), len(weights)), counts.reshape(-1))
    width = shares[group_of_row, cells]
    bins, offsets = np.empty(len(rows), np.int64), np.empty(len(rows))
    bins[rows] = cells
    offsets[rows] = 1 - (upper[group_of_row, cells] - positions) / np.maximum(width, 1e-300)
    return bins, offsets.clip(0.0, 1.0)


def _balance_bins(counts: NDArray[np.int64], exact: Floats, expected_rows: Floats) -> None:
    """Move rows from bins that have too many in all groups to bins that have too few.

    The rounding of many groups adds up. A row only moves in a group whose count was rounded up in
    the one bin and down in the other one, so that counts still differ from ``exact`` by less than
    one. No row moves for less than a whole row too many and too few.

    Parameters
    ----------
    counts : the rows of each group in each bin, int64 (groups, bins); changed in place.
    exact : the same in exact proportion, float64 (groups, bins).
    expected_rows : the rows of each bin in all groups that the model expects, float64 (bins,).
    """
    excess = counts.sum(axis=0) - expected_rows
    rounding = counts - exact
    for source in np.argsort(-excess):
        for target in np.argsort(excess):
            n_moves = int(min(excess[source], -excess[target]))
            if n_moves < 1:
                break
            groups = np.flatnonzero((rounding[:, source] > 0) & (rounding[:, target] < 0))
            # Groups that come nearest to ``exact``.
            gains = rounding[groups, source] - rounding[groups, target]
            groups = groups[np.argsort(-gains)[:n_moves]]
            for bin_, change in ((source, -1), (target, 1)):
                counts[groups, bin_] += change
                rounding[groups, bin_] += change
                excess[bin_] += change * len(groups)


def _marginalize_joint(table: Floats, columns: Clique, retained_columns: Clique) -> Floats:
    """Sum a table down to ``retained_columns``, and keep its first axis, a column not listed.

    Parameters
    ----------
    columns : the columns of all axes but the first.
    """
    summed_axes = tuple(1 + i for i, j in enumerate(columns) if j not in retained_columns)
    marginal: Floats = table.sum(axis=summed_axes)
    return marginal


def _connect_cliques(cliques: Sequence[Clique]) -> tuple[CliqueLink, ...]:
    """Connect the cliques greedily by the largest number of shared columns."""
    links, connected = [], [0]
    while len(connected) < len(cliques):
        parent, clique = max(
            (
                (parent_index, j)
                for parent_index in connected
                for j in range(len(cliques))
                if j not in connected
            ),
            key=lambda pair: len(set(cliques[pair[0]]) & set(cliques[pair[1]])),
        )
        shared = tuple(sorted(set(cliques[parent]) & set(cliques[clique])))
        links.append(CliqueLink(clique, parent, shared))
        connected.append(clique)
    return tuple(links)


def marginalize(table: Floats, columns: Clique, retained_columns: Clique) -> Floats:
    """Sum the table of ``columns`` down to ``retained_columns``."""
    summed_axes = tuple(i for i, j in enumerate(columns) if j not in retained_columns)
    marginal: Floats = table.sum(axis=summed_axes)
    return marginal


def log_marginalize(table: Floats, columns: Clique, retained_columns: Clique) -> Floats:
    """Marginalize a table of logarithms; the result is logarithms, too."""
    axes = tuple(i for i, j in enumerate(columns) if j not in retained_columns)
    # Subtract the maxima, so that ``exp`` cannot overflow. Their summed axes have length 1.
    maxima = table.max(axis=axes, keepdims=True)
    log_marginal: Floats = np.log(np.exp(table - maxima).sum(axis=axes)) + maxima.sum(axis=axes)
    return log_marginal


def broadcast(table: Floats, columns: Clique, target_columns: Clique) -> Floats:
    """Reshape a table of some columns so that it broadcasts over ``target_columns``."""
    lengths = iter(table.shape)
    return table.reshape([next(lengths) if j in columns else 1 for j in target_columns])
