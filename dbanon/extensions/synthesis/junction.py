"""Graphical models of column bins: a junction tree, its marginals, and sampling from it.

A model has one log-potential per clique. The share of a clique's cell is the product of all
potentials, summed over the other columns. Two passes over the tree compute all of them.

Source: S. L. Lauritzen and D. J. Spiegelhalter, "Local computations with probabilities on graphical
structures and their application to expert systems", JRSS B 50 (1988).

Cost: of both passes, the cells of all cliques.
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
    maximal: list[set[int]] = []
    while neighbours:
        j = min(neighbours, key=lambda j: (count_cells([j, *neighbours[j]], n_bins), j))
        clique_neighbours = neighbours.pop(j)
        for neighbour in clique_neighbours:
            neighbours[neighbour] = (neighbours[neighbour] | clique_neighbours) - {j, neighbour}
        if not any(clique_neighbours | {j} <= clique for clique in maximal):
            maximal.append(clique_neighbours | {j})
    return [tuple(sorted(clique)) for clique in maximal]


def count_cells(columns: Iterable[int], n_bins: Sequence[int]) -> int:
    """Count the cells in the table of these columns."""
    return math.prod(n_bins[j] for j in columns)


@dataclass(frozen=True)
class CliqueLink:
    """The link between a clique of a junction tree and its parent.

    Parameters
    ----------
    clique, parent : indices of the cliques.
    shared : the columns that both contain.
    """

    clique: int
    parent: int
    shared: Clique


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
        upward_potentials = list(potentials)
        messages: list[Floats] = [np.zeros(())] * len(self.links)
        for index in reversed(range(len(self.links))):
            link = self.links[index]
            messages[index] = log_marginalize(
                upward_potentials[link.clique], self.cliques[link.clique], link.shared
            )
            parent = self.cliques[link.parent]
            upward_potentials[link.parent] = upward_potentials[link.parent] + broadcast(
                messages[index], link.shared, parent
            )
        log_total = float(log_marginalize(upward_potentials[0], self.cliques[0], ()))
        beliefs: list[Floats] = [np.zeros(())] * len(self.cliques)
        beliefs[0] = np.exp(upward_potentials[0] - log_total)
        for index, link in enumerate(self.links):
            clique = self.cliques[link.clique]
            with np.errstate(divide="ignore"):
                log_marginal = np.log(
                    marginalize(beliefs[link.parent], self.cliques[link.parent], link.shared)
                )
            update = broadcast(log_marginal - messages[index], link.shared, clique)
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
            adjacent[link.clique].append((link.parent, link.shared))
            adjacent[link.parent].append((link.clique, link.shared))
        tables: dict[int, Floats] = {}
        start = self.find_clique((a,))
        stack = [(start, -1, self._move_to_first_axis(a, beliefs[start], self.cliques[start]))]
        while stack:
            i, previous, joint = stack.pop()
            further_columns = tuple(j for j in self.cliques[i] if j != a)
            for b in further_columns:
                if b not in tables:
                    tables[b] = _marginalize_joint(joint, further_columns, (b,))
            for neighbour, shared in adjacent[i]:
                if neighbour == previous:
                    continue
                clique = self.cliques[neighbour]
                if a in shared:
                    next_joint = self._move_to_first_axis(a, beliefs[neighbour], clique)
                else:
                    # The next clique is independent of ``a`` given the shared columns.
                    shared_belief = broadcast(
                        marginalize(beliefs[i], self.cliques[i], shared), shared, clique
                    )
                    zeros = np.zeros(self.clique_shape(neighbour))
                    conditional = np.divide(
                        beliefs[neighbour], shared_belief, out=zeros, where=shared_belief > 0
                    )
                    joint_shared = _marginalize_joint(joint, further_columns, shared)
                    broadcast_shape = broadcast(joint_shared[0], shared, clique).shape
                    next_joint = (
                        joint_shared.reshape(len(joint_shared), *broadcast_shape) * conditional
                    )
                stack.append((neighbour, i, next_joint))
        return tables

    def _move_to_first_axis(self, a: int, belief: Floats, clique: Clique) -> Floats:
        """Move column ``a`` of a clique's table to the first axis."""
        return np.moveaxis(belief, clique.index(a), 0)

    def draw_rows(
        self, beliefs: Sequence[Floats], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw the bins of n rows, int64 (p, n), in proportion to the beliefs, up to rounding."""
        codes = np.zeros((len(self.n_bins), n), np.int64)
        self._draw(codes, beliefs[0], self.cliques[0], (), rng)
        for link in self.links:
            self._draw(codes, beliefs[link.clique], self.cliques[link.clique], link.shared, rng)
        return codes

    def _draw(
        self,
        codes: NDArray[np.int64],
        belief: Floats,
        clique: Clique,
        shared: Clique,
        rng: np.random.Generator,
    ) -> None:
        """Draw the new columns of a clique, given those that it shares with its parent."""
        new_columns = tuple(j for j in clique if j not in shared)
        shape = [self.n_bins[j] for j in new_columns]
        order = [clique.index(j) for j in (*shared, *new_columns)]
        odds = belief.transpose(order).reshape(count_cells(shared, self.n_bins), -1)
        # Without information about such rows, draw uniformly.
        odds = np.where(odds.sum(axis=1, keepdims=True) > 0, odds, 1.0)
        cumulative = np.cumsum(odds, axis=1)
        cumulative = cumulative / cumulative[:, -1:] + np.arange(len(odds))[:, None]
        group = np.zeros(codes.shape[1], np.int64)
        for j in shared:
            group = group * self.n_bins[j] + codes[j]
        # The rows of a group take consecutive positions in random order.
        shuffled = rng.permutation(len(group))
        rows = shuffled[np.argsort(group[shuffled], kind="stable")]
        group_sizes = np.bincount(group, minlength=len(odds))
        ranks = np.arange(len(rows)) - np.repeat(np.cumsum(group_sizes) - group_sizes, group_sizes)
        offsets = np.repeat(rng.random(len(odds)), group_sizes)
        positions = (ranks + offsets) / np.repeat(group_sizes, group_sizes) + group[rows]
        drawn_cells = np.searchsorted(cumulative.reshape(-1)[:-1], positions, side="right")
        drawn_cells = np.clip(drawn_cells - group[rows] * odds.shape[1], 0, odds.shape[1] - 1)
        for j, column in zip(new_columns, np.unravel_index(drawn_cells, shape), strict=True):
            codes[j, rows] = column


def _marginalize_joint(joint: Floats, columns: Clique, retained: Clique) -> Floats:
    """Marginalize a table whose axes are one more column, which is retained, and ``columns``."""
    summed_axes = tuple(1 + i for i, j in enumerate(columns) if j not in retained)
    marginal: Floats = joint.sum(axis=summed_axes)
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


def marginalize(table: Floats, columns: Clique, retained: Clique) -> Floats:
    """Sum the table of ``columns`` down to ``retained`` columns."""
    marginal: Floats = table.sum(axis=tuple(i for i, j in enumerate(columns) if j not in retained))
    return marginal


def log_marginalize(table: Floats, columns: Clique, retained: Clique) -> Floats:
    """Marginalize a table of logarithms; the result is logarithms, too."""
    axes = tuple(i for i, j in enumerate(columns) if j not in retained)
    maxima = table.max(axis=axes, keepdims=True)
    log_marginal: Floats = np.log(np.exp(table - maxima).sum(axis=axes)) + maxima.sum(axis=axes)
    return log_marginal


def broadcast(table: Floats, columns: Clique, target_columns: Clique) -> Floats:
    """Reshape a table of some columns so that it broadcasts over ``target_columns``."""
    lengths = iter(table.shape)
    return table.reshape([next(lengths) if j in columns else 1 for j in target_columns])
