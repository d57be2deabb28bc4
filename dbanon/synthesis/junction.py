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


def maximal_cliques(cliques: Iterable[Clique], sizes: Sequence[int]) -> list[Clique]:
    """The maximal cliques of a triangulated graph that contains these cliques.

    Eliminates columns one by one, first those that form the fewest cells with their neighbours.
    Every column is in some clique.

    Parameters
    ----------
    sizes : number of bins of each column.
    """
    neighbours: dict[int, set[int]] = {j: set() for j in range(len(sizes))}
    for clique in cliques:
        for j in clique:
            neighbours[j] |= set(clique) - {j}
    maximal: list[set[int]] = []
    while neighbours:
        j = min(neighbours, key=lambda j: (cells([j, *neighbours[j]], sizes), j))
        clique_neighbours = neighbours.pop(j)
        for neighbour in clique_neighbours:
            neighbours[neighbour] = (neighbours[neighbour] | clique_neighbours) - {j, neighbour}
        if not any(clique_neighbours | {j} <= clique for clique in maximal):
            maximal.append(clique_neighbours | {j})
    return [tuple(sorted(clique)) for clique in maximal]


def cells(columns: Iterable[int], sizes: Sequence[int]) -> int:
    """The number of cells in the table of these columns."""
    return math.prod(sizes[j] for j in columns)


@dataclass(frozen=True)
class TreeStep:
    """A clique of a junction tree and its parent.

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
    sizes : number of bins of each column.
    """

    def __init__(self, cliques: Sequence[Clique], sizes: Sequence[int]) -> None:
        self.cliques = tuple(cliques)
        self.sizes = tuple(sizes)
        self.steps = _steps(self.cliques)
        """From the root down; the root is clique 0."""

    def clique_with(self, columns: Clique) -> int:
        """Return the index of the smallest clique that contains all of these columns."""
        candidates = [i for i, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(candidates, key=lambda i: cells(self.cliques[i], self.sizes))

    def shape(self, i: int) -> tuple[int, ...]:
        """The number of bins of each column of a clique."""
        return tuple(self.sizes[j] for j in self.cliques[i])

    def beliefs(self, potentials: Sequence[Floats]) -> tuple[list[Floats], float]:
        """Compute the share of rows in each cell of each clique, and the log of the total.

        Parameters
        ----------
        potentials : log-potentials, in the shape of each clique.
        """
        gathered = list(potentials)
        messages: list[Floats] = [np.zeros(())] * len(self.steps)
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            messages[index] = log_sum(gathered[step.clique], self.cliques[step.clique], step.shared)
            parent = self.cliques[step.parent]
            gathered[step.parent] = gathered[step.parent] + broadcast(
                messages[index], step.shared, parent
            )
        total = float(log_sum(gathered[0], self.cliques[0], ()))
        beliefs: list[Floats] = [np.zeros(())] * len(self.cliques)
        beliefs[0] = np.exp(gathered[0] - total)
        for index, step in enumerate(self.steps):
            clique = self.cliques[step.clique]
            with np.errstate(divide="ignore"):
                log_marginal = np.log(
                    marginalize(beliefs[step.parent], self.cliques[step.parent], step.shared)
                )
            update = broadcast(log_marginal - messages[index], step.shared, clique)
            beliefs[step.clique] = np.exp(gathered[step.clique] + update)
        return beliefs, total

    def pairs(self, beliefs: Sequence[Floats]) -> dict[tuple[int, int], Floats]:
        """The share of rows in each cell of every pair of columns, in one clique or not."""
        tables = {}
        for a in range(len(self.sizes)):
            for b, table in self._pairs_with(a, beliefs).items():
                if a < b:
                    tables[a, b] = table
        return tables

    def _pairs_with(self, a: int, beliefs: Sequence[Floats]) -> dict[int, Floats]:
        """The table of ``a`` with each other column, walking from a clique that contains it."""
        adjacent: dict[int, list[tuple[int, Clique]]] = {i: [] for i in range(len(self.cliques))}
        for step in self.steps:
            adjacent[step.clique].append((step.parent, step.shared))
            adjacent[step.parent].append((step.clique, step.shared))
        tables: dict[int, Floats] = {}
        start = self.clique_with((a,))
        stack = [(start, -1, self._with_first(a, beliefs[start], self.cliques[start]))]
        while stack:
            i, before, joint = stack.pop()
            other_columns = tuple(j for j in self.cliques[i] if j != a)
            for b in other_columns:
                if b not in tables:
                    tables[b] = _marginalize(joint, other_columns, (b,))
            for neighbour, shared in adjacent[i]:
                if neighbour == before:
                    continue
                clique = self.cliques[neighbour]
                if a in shared:
                    next_joint = self._with_first(a, beliefs[neighbour], clique)
                else:
                    # The next clique is independent of ``a`` given the shared columns.
                    shared_belief = broadcast(
                        marginalize(beliefs[i], self.cliques[i], shared), shared, clique
                    )
                    none = np.zeros(self.shape(neighbour))
                    conditional = np.divide(
                        beliefs[neighbour], shared_belief, out=none, where=shared_belief > 0
                    )
                    joint_shared = _marginalize(joint, other_columns, shared)
                    broadcast_shape = broadcast(joint_shared[0], shared, clique).shape
                    next_joint = (
                        joint_shared.reshape(len(joint_shared), *broadcast_shape) * conditional
                    )
                stack.append((neighbour, i, next_joint))
        return tables

    def _with_first(self, a: int, belief: Floats, clique: Clique) -> Floats:
        """Move column ``a`` of a clique's table to the first axis."""
        return np.moveaxis(belief, clique.index(a), 0)

    def rows(
        self, beliefs: Sequence[Floats], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Draw the bins of n rows, int64 (p, n), in proportion to the beliefs, up to rounding."""
        codes = np.zeros((len(self.sizes), n), np.int64)
        self._draw(codes, beliefs[0], self.cliques[0], (), rng)
        for step in self.steps:
            self._draw(codes, beliefs[step.clique], self.cliques[step.clique], step.shared, rng)
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
        shape = [self.sizes[j] for j in new_columns]
        order = [clique.index(j) for j in (*shared, *new_columns)]
        odds = belief.transpose(order).reshape(cells(shared, self.sizes), -1)
        # Without information about such rows, draw uniformly.
        odds = np.where(odds.sum(axis=1, keepdims=True) > 0, odds, 1.0)
        cumulative = np.cumsum(odds, axis=1)
        cumulative = cumulative / cumulative[:, -1:] + np.arange(len(odds))[:, None]
        group = np.zeros(codes.shape[1], np.int64)
        for j in shared:
            group = group * self.sizes[j] + codes[j]
        # The rows of a group take consecutive positions in random order.
        shuffled = rng.permutation(len(group))
        rows = shuffled[np.argsort(group[shuffled], kind="stable")]
        group_sizes = np.bincount(group, minlength=len(odds))
        ranks = np.arange(len(rows)) - np.repeat(np.cumsum(group_sizes) - group_sizes, group_sizes)
        offsets = np.repeat(rng.random(len(odds)), group_sizes)
        positions = (ranks + offsets) / np.repeat(group_sizes, group_sizes) + group[rows]
        chosen = np.searchsorted(cumulative.reshape(-1)[:-1], positions, side="right")
        chosen = np.clip(chosen - group[rows] * odds.shape[1], 0, odds.shape[1] - 1)
        for j, column in zip(new_columns, np.unravel_index(chosen, shape), strict=True):
            codes[j, rows] = column


def _marginalize(joint: Floats, columns: Clique, retained: Clique) -> Floats:
    """Sum a table of a first column and ``columns`` down to the first and ``retained`` columns."""
    summed_axes = tuple(1 + i for i, j in enumerate(columns) if j not in retained)
    marginal: Floats = joint.sum(axis=summed_axes)
    return marginal


def _steps(cliques: Sequence[Clique]) -> tuple[TreeStep, ...]:
    """Connect the cliques greedily by the largest number of shared columns."""
    steps, joined = [], [0]
    while len(joined) < len(cliques):
        parent, clique = max(
            (
                (parent_index, j)
                for parent_index in joined
                for j in range(len(cliques))
                if j not in joined
            ),
            key=lambda pair: len(set(cliques[pair[0]]) & set(cliques[pair[1]])),
        )
        shared = tuple(sorted(set(cliques[parent]) & set(cliques[clique])))
        steps.append(TreeStep(clique, parent, shared))
        joined.append(clique)
    return tuple(steps)


def marginalize(table: Floats, columns: Clique, retained: Clique) -> Floats:
    """Sum the table of ``columns`` down to ``retained`` columns."""
    marginal: Floats = table.sum(axis=tuple(i for i, j in enumerate(columns) if j not in retained))
    return marginal


def log_sum(table: Floats, columns: Clique, retained: Clique) -> Floats:
    """Sum like ``marginalize``, but on logarithms."""
    axes = tuple(i for i, j in enumerate(columns) if j not in retained)
    maxima = table.max(axis=axes, keepdims=True)
    log_marginal: Floats = np.log(np.exp(table - maxima).sum(axis=axes)) + maxima.sum(axis=axes)
    return log_marginal


def broadcast(table: Floats, columns: Clique, target_columns: Clique) -> Floats:
    """Reshape a table of some columns so that it broadcasts over ``target_columns``."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if j in columns else 1 for j in target_columns])
