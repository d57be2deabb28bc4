"""Graphical models of the bins of columns: a junction tree, its marginals, and rows drawn of it.

A model is one log-potential for each clique; what it says of a clique's bins is the product of all
potentials, summed over the other columns. Two passes over a tree of cliques give that for all of
them at once.

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

# Columns of a table of counts, ascending.
Clique = tuple[int, ...]
Floats = NDArray[np.float64]


def maximal_cliques(cliques: Iterable[Clique], sizes: Sequence[int]) -> list[Clique]:
    """The cliques of a triangulated graph that holds these, each within no other.

    Columns are taken out one after the other, first the one whose neighbours have the fewest cells
    with it. All columns are in some clique.

    Parameters
    ----------
    sizes : how many bins each column has.
    """
    beside: dict[int, set[int]] = {j: set() for j in range(len(sizes))}
    for clique in cliques:
        for j in clique:
            beside[j] |= set(clique) - {j}
    found: list[set[int]] = []
    while beside:
        j = min(beside, key=lambda j: (cells([j, *beside[j]], sizes), j))
        around = beside.pop(j)
        for other in around:
            beside[other] = (beside[other] | around) - {j, other}
        if not any(around | {j} <= other for other in found):
            found.append(around | {j})
    return [tuple(sorted(clique)) for clique in found]


def cells(columns: Iterable[int], sizes: Sequence[int]) -> int:
    """How many cells the table of these columns has."""
    return math.prod(sizes[j] for j in columns)


@dataclass(frozen=True)
class Step:
    """One clique of a tree, with the one above it.

    Parameters
    ----------
    clique, above : by their places among the cliques.
    shared : the columns that both have.
    """

    clique: int
    above: int
    shared: Clique


class JunctionTree:
    """A tree of cliques in which those with a column are all connected.

    Parameters
    ----------
    cliques : maximal ones of a triangulated graph of all columns.
    sizes : how many bins each column has.
    """

    def __init__(self, cliques: Sequence[Clique], sizes: Sequence[int]) -> None:
        self.cliques = tuple(cliques)
        self.sizes = tuple(sizes)
        self.steps = _steps(self.cliques)
        """From the root down; the root is clique 0."""

    def place_of(self, columns: Clique) -> int:
        """The smallest clique that has all of these columns."""
        holding = [i for i, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(holding, key=lambda i: cells(self.cliques[i], self.sizes))

    def shape(self, i: int) -> tuple[int, ...]:
        """The bins of each column of a clique."""
        return tuple(self.sizes[j] for j in self.cliques[i])

    def beliefs(self, potentials: Sequence[Floats]) -> tuple[list[Floats], float]:
        """The share of rows in each cell of each clique, and the log of what all cells add up to.

        Parameters
        ----------
        potentials : log-potentials, of the shape of each clique.
        """
        gathered = list(potentials)
        sent: list[Floats] = [np.zeros(())] * len(self.steps)
        for place in reversed(range(len(self.steps))):
            step = self.steps[place]
            sent[place] = log_sum(gathered[step.clique], self.cliques[step.clique], step.shared)
            above = self.cliques[step.above]
            gathered[step.above] = gathered[step.above] + spread(sent[place], step.shared, above)
        total = float(log_sum(gathered[0], self.cliques[0], ()))
        found: list[Floats] = [np.zeros(())] * len(self.cliques)
        found[0] = np.exp(gathered[0] - total)
        for place, step in enumerate(self.steps):
            clique = self.cliques[step.clique]
            with np.errstate(divide="ignore"):
                known = np.log(summed(found[step.above], self.cliques[step.above], step.shared))
            message = spread(known - sent[place], step.shared, clique)
            found[step.clique] = np.exp(gathered[step.clique] + message)
        return found, total

    def pairs(self, beliefs: Sequence[Floats]) -> dict[tuple[int, int], Floats]:
        """The share of rows in each cell of each two columns, whether or not a clique has both."""
        found = {}
        for a in range(len(self.sizes)):
            for b, table in self._beside(a, beliefs).items():
                if a < b:
                    found[a, b] = table
        return found

    def _beside(self, a: int, beliefs: Sequence[Floats]) -> dict[int, Floats]:
        """Of column ``a`` with each other one, down the tree from a clique that has it."""
        around: dict[int, list[tuple[int, Clique]]] = {i: [] for i in range(len(self.cliques))}
        for step in self.steps:
            around[step.clique].append((step.above, step.shared))
            around[step.above].append((step.clique, step.shared))
        found: dict[int, Floats] = {}
        start = self.place_of((a,))
        left = [(start, -1, self._with(a, beliefs[start], self.cliques[start]))]
        while left:
            i, before, joint = left.pop()
            others = tuple(j for j in self.cliques[i] if j != a)
            for b in others:
                if b not in found:
                    found[b] = _kept(joint, others, (b,))
            for other, shared in around[i]:
                if other == before:
                    continue
                clique = self.cliques[other]
                if a in shared:
                    following = self._with(a, beliefs[other], clique)
                else:
                    # What the next clique tells of them is told by the columns that both have.
                    both = spread(summed(beliefs[i], self.cliques[i], shared), shared, clique)
                    none = np.zeros(self.shape(other))
                    of_next = np.divide(beliefs[other], both, out=none, where=both > 0)
                    of_a = _kept(joint, others, shared)
                    wide = spread(of_a[0], shared, clique).shape
                    following = of_a.reshape(len(of_a), *wide) * of_next
                left.append((other, i, following))
        return found

    def _with(self, a: int, belief: Floats, clique: Clique) -> Floats:
        """The cells of a clique, those of column ``a`` along the first axis."""
        return np.moveaxis(belief, clique.index(a), 0)

    def rows(
        self, beliefs: Sequence[Floats], n: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The bins of n rows, int64 (p, n), by the shares of cliques as near as rows can be."""
        drawn = np.zeros((len(self.sizes), n), np.int64)
        self._draw(drawn, beliefs[0], self.cliques[0], (), rng)
        for step in self.steps:
            self._draw(drawn, beliefs[step.clique], self.cliques[step.clique], step.shared, rng)
        return drawn

    def _draw(
        self,
        drawn: NDArray[np.int64],
        belief: Floats,
        clique: Clique,
        shared: Clique,
        rng: np.random.Generator,
    ) -> None:
        """The columns of a clique, by those that it shares with the one above it."""
        new = tuple(j for j in clique if j not in shared)
        shape = [self.sizes[j] for j in new]
        order = [clique.index(j) for j in (*shared, *new)]
        odds = belief.transpose(order).reshape(cells(shared, self.sizes), -1)
        # Where nothing is known of such rows, all is as likely.
        odds = np.where(odds.sum(axis=1, keepdims=True) > 0, odds, 1.0)
        reached = np.cumsum(odds, axis=1)
        reached = reached / reached[:, -1:] + np.arange(len(odds))[:, None]
        group = np.zeros(drawn.shape[1], np.int64)
        for j in shared:
            group = group * self.sizes[j] + drawn[j]
        # Rows of a group take places one after the other, in an order that says nothing.
        shuffled = rng.permutation(len(group))
        rows = shuffled[np.argsort(group[shuffled], kind="stable")]
        many = np.bincount(group, minlength=len(odds))
        within = np.arange(len(rows)) - np.repeat(np.cumsum(many) - many, many)
        begin = np.repeat(rng.random(len(odds)), many)
        places = (within + begin) / np.repeat(many, many) + group[rows]
        chosen = np.searchsorted(reached.reshape(-1)[:-1], places, side="right")
        chosen = np.clip(chosen - group[rows] * odds.shape[1], 0, odds.shape[1] - 1)
        for j, column in zip(new, np.unravel_index(chosen, shape), strict=True):
            drawn[j, rows] = column


def _kept(joint: Floats, others: Clique, wanted: Clique) -> Floats:
    """A table of a first column and ``others``, of which those that are ``wanted`` are kept."""
    gone = tuple(1 + i for i, j in enumerate(others) if j not in wanted)
    found: Floats = joint.sum(axis=gone)
    return found


def _steps(cliques: Sequence[Clique]) -> tuple[Step, ...]:
    """The tree in which cliques beside each other share the most columns."""
    steps, within = [], [0]
    while len(within) < len(cliques):
        above, clique = max(
            ((i, j) for i in within for j in range(len(cliques)) if j not in within),
            key=lambda pair: len(set(cliques[pair[0]]) & set(cliques[pair[1]])),
        )
        shared = tuple(sorted(set(cliques[above]) & set(cliques[clique])))
        steps.append(Step(clique, above, shared))
        within.append(clique)
    return tuple(steps)


def summed(table: Floats, columns: Clique, wanted: Clique) -> Floats:
    """The table of ``columns`` summed to those that are ``wanted``."""
    found: Floats = table.sum(axis=tuple(i for i, j in enumerate(columns) if j not in wanted))
    return found


def log_sum(table: Floats, columns: Clique, wanted: Clique) -> Floats:
    """The same of logarithms."""
    axes = tuple(i for i, j in enumerate(columns) if j not in wanted)
    most = table.max(axis=axes, keepdims=True)
    found: Floats = np.log(np.exp(table - most).sum(axis=axes)) + most.sum(axis=axes)
    return found


def spread(table: Floats, columns: Clique, within: Clique) -> Floats:
    """The table of some columns, of a shape that is broadcast to that of more of them."""
    sizes = iter(table.shape)
    return table.reshape([next(sizes) if j in columns else 1 for j in within])
