"""The model that noisy counts of some columns tell of: by their noise, and near to independence.

Shares p of all cells are looked for that make this least, of counts y with noise of variance v, and
of shares q of independent columns:

    w n KL(p | q) + sum (n p - y)^2 / 2v

It is convex, and its dual is one over a log-potential t for each count, which are those of a
graphical model with q as its base:

    n log Z(t) - sum t y + sum w v t^2 / 2

Where noise is large, a potential is near 0, and columns are as independent as counts leave them:
few rows are put where there are none. Where it is small, the model has the counts. With w = 0 that
is the estimate of the source, whose cells have what noise they have.

Source: R. McKenna, D. Sheldon and G. Miklau, "Graphical-model based estimation and inference for
differential privacy", ICML 2019.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.junction import Clique, Floats, JunctionTree, spread, summed

# What nearness to independence weighs, in rows for each row. On Adult .005 to .1 are alike.
_WEIGHT = 0.02
# Steps that the curvature is told by.
_MEMORY = 12
# What an improvement must be of what the slope promises, and how often a step is halved for it.
_ENOUGH, _HALVINGS = 1e-4, 20
# A step that is worth less, for each row, is the last one.
_LAST = 1e-6


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy counts of the bins of some columns.

    Parameters
    ----------
    columns : ascending.
    counts : float64, of the shape of their bins.
    variance : of the noise of each.
    """

    columns: Clique
    counts: Floats
    variance: float


class Fit:
    """The convex problem of one set of measurements, in potentials that are scaled to one size.

    Parameters
    ----------
    tree : each table's columns are in one of its cliques.
    measured : the noisy counts.
    base : the logarithms of the shares of each column's bins.
    n : rows.
    """

    def __init__(
        self, tree: JunctionTree, measured: Sequence[Measured], base: Sequence[Floats], n: int
    ) -> None:
        self._tree, self._measured, self._n = tree, measured, n
        self._places = [tree.place_of(one.columns) for one in measured]
        self._ends = np.cumsum([0, *(one.counts.size for one in measured)])
        self._counts = np.concatenate([one.counts.reshape(-1) for one in measured])
        self._loss = _WEIGHT * np.repeat([one.variance for one in measured], np.diff(self._ends))
        # A potential moves a cell by about its counts.
        self.size: Floats = 1 / np.sqrt(self._counts.clip(0) + self._loss)
        self._base = [np.zeros(tree.shape(i)) for i in range(len(tree.cliques))]
        for j, known in enumerate(base):
            place = tree.place_of((j,))
            self._base[place] += spread(known, (j,), tree.cliques[place])
        self.beliefs: list[Floats] = []

    def parts(self, flat: Floats) -> list[Floats]:
        """Potentials as tables of the shape of each measurement."""
        ends = zip(self._ends, self._ends[1:], strict=False)
        return [
            flat[low:high].reshape(one.counts.shape)
            for one, (low, high) in zip(self._measured, ends, strict=True)
        ]

    def slope(self, at: Floats) -> tuple[float, Floats]:
        """The value and the gradient; ``beliefs`` are those of the cliques then."""
        known = at * self.size
        potentials = [part.copy() for part in self._base]
        tables = zip(self._measured, self._places, self.parts(known), strict=True)
        for one, place, part in tables:
            potentials[place] += spread(part, one.columns, self._tree.cliques[place])
        self.beliefs, total = self._tree.beliefs(potentials)
        said = [
            summed(self.beliefs[place], self._tree.cliques[place], one.columns).reshape(-1)
            for one, place in zip(self._measured, self._places, strict=True)
        ]
        value = self._n * total - known @ self._counts + known @ (self._loss * known) / 2
        steep = self._n * np.concatenate(said) - self._counts + self._loss * known
        return float(value), steep * self.size


def fitted(
    tree: JunctionTree,
    measured: Sequence[Measured],
    base: Sequence[Floats],
    n: int,
    start: Sequence[Floats] = (),
    *,
    steps: int,
) -> tuple[list[Floats], list[Floats]]:
    """The shares of rows in each cell of each clique, and the potentials of each table.

    Parameters
    ----------
    tree, measured, base, n : as of ``Fit``.
    start : potentials to begin with; 0 for tables beyond them.
    steps : how many are taken at most.
    """
    fit = Fit(tree, measured, base, n)
    begin = np.zeros(len(fit.size))
    if start:
        known = np.concatenate([part.reshape(-1) for part in start])
        begin[: len(known)] = known / fit.size[: len(known)]
    found = lowest(fit.slope, begin, steps, n * _LAST)
    fit.slope(found)
    return fit.beliefs, fit.parts(found * fit.size)


def lowest(
    slope: Callable[[Floats], tuple[float, Floats]], at: Floats, steps: int, enough: float
) -> Floats:
    """Where a convex function is lowest: limited-memory BFGS.

    Parameters
    ----------
    slope : gives its value and its gradient.
    steps : how many are taken at most; none after one that is worth less than ``enough``.

    Source: J. Nocedal, "Updating quasi-Newton matrices with limited storage", 1980.
    """
    value, gradient = slope(at)
    known: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    for _ in range(steps):
        way = -_times_inverse(known, gradient)
        falls, length = float(gradient @ way), 1.0
        for _ in range(_HALVINGS):
            there, steepness = slope(at + length * way)
            if there <= value + _ENOUGH * length * falls:
                break
            length /= 2
        else:
            return at
        moved, turned = length * way, steepness - gradient
        curved = float(moved @ turned)
        if curved > 0:
            known.append((moved, turned, curved))
        gained = value - there
        at, value, gradient = at + moved, there, steepness
        if gained < enough:
            break
    return at


def _times_inverse(known: deque[tuple[Floats, Floats, float]], gradient: Floats) -> Floats:
    """The gradient times what is known of the inverse of the curvature."""
    way, weights = gradient.copy(), []
    for moved, turned, curved in reversed(known):
        weights.append(float(moved @ way) / curved)
        way -= weights[-1] * turned
    if known:
        _, turned, curved = known[-1]
        way *= curved / float(turned @ turned)
    for moved, turned, curved in known:
        way += (weights.pop() - float(turned @ way) / curved) * moved
    found: NDArray[np.float64] = way
    return found
