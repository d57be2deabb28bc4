"""Fit a graphical model to noisy counts, weighted by their noise and close to independence.

Given counts y with noise of variance v, and shares q of independent columns, find shares p of all
cells that minimize

    w n KL(p | q) + sum (n p - y)^2 / 2v

The problem is convex. Its dual has a log-potential t for each count, which are the potentials of a
graphical model with base q:

    n log Z(t) - sum t y + sum w v t^2 / 2

With large noise, potentials stay near 0 and columns as independent as the counts allow, so few rows
appear in empty cells. With small noise, the model matches the counts. w = 0 gives the estimate of
McKenna et al., which reproduces the noise.

Source: R. McKenna, D. Sheldon and G. Miklau, "Graphical-model based estimation and inference for
differential privacy", ICML 2019.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.extensions.synthesis.junction import (
    Clique,
    Floats,
    JunctionTree,
    broadcast,
    marginalize,
)

# Weight of independence, per row. On Adult, .005 to .1 perform alike.
_INDEPENDENCE_WEIGHT = 0.02
# Number of past steps that approximate the curvature.
_MEMORY = 12
# A step must decrease the value by at least this share of what the slope predicts; otherwise it is
# halved, up to the maximum number of times.
_ARMIJO, _MAX_HALVINGS = 1e-4, 20
# Stop when a step gains less than this per row.
_MIN_GAIN = 1e-6


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Noisy counts of the bins of some columns.

    Parameters
    ----------
    columns : indices of the columns, ascending.
    counts : float64, with an axis for the bins of each column.
    variance : the variance of the noise on each count.
    """

    columns: Clique
    counts: Floats
    variance: float


class ModelFit:
    """The convex problem for a set of tables, in terms of potentials scaled to similar magnitude.

    Parameters
    ----------
    tree : a junction tree that has, for each table, a clique with all of its columns.
    tables : the noisy counts.
    log_bin_shares : for each column, the logarithms of the shares of its bins.
    n : number of rows.
    """

    def __init__(
        self,
        tree: JunctionTree,
        tables: Sequence[NoisyTable],
        log_bin_shares: Sequence[Floats],
        n: int,
    ) -> None:
        self._tree, self._tables, self._n = tree, tables, n
        self._cliques = [tree.find_clique(table.columns) for table in tables]
        self._offsets = np.cumsum([0, *(table.counts.size for table in tables)])
        self._counts = np.concatenate([table.counts.reshape(-1) for table in tables])
        # The factors w v of the dual, see the module's docstring.
        self._penalties = _INDEPENDENCE_WEIGHT * np.repeat(
            [table.variance for table in tables], np.diff(self._offsets)
        )
        # The second derivative by a potential is about the count of its cell plus its penalty.
        # Scaling by its root makes the curvature similar in all directions.
        self.scale: Floats = 1 / np.sqrt(self._counts.clip(0) + self._penalties)
        self._base_potentials = [np.zeros(tree.clique_shape(i)) for i in range(len(tree.cliques))]
        for j, log_shares in enumerate(log_bin_shares):
            clique = tree.find_clique((j,))
            self._base_potentials[clique] += broadcast(log_shares, (j,), tree.cliques[clique])
        # The share of the rows in each cell of each clique; set by ``compute_value_and_gradient``.
        self.beliefs: list[Floats] = []

    def split_by_table(self, potentials: Floats) -> list[Floats]:
        """Split the potentials of all tables, float64 (cells,), and reshape them as the tables."""
        ranges = zip(self._offsets, self._offsets[1:], strict=False)
        return [
            potentials[start:end].reshape(table.counts.shape)
            for table, (start, end) in zip(self._tables, ranges, strict=True)
        ]

    def compute_value_and_gradient(self, scaled_potentials: Floats) -> tuple[float, Floats]:
        """Return the value of the dual and its gradient by the scaled potentials.

        Sets ``beliefs`` to the share of the rows in each cell of each clique.
        """
        potentials = scaled_potentials * self.scale
        clique_potentials = [base.copy() for base in self._base_potentials]
        for table, clique, table_potentials in zip(
            self._tables, self._cliques, self.split_by_table(potentials), strict=True
        ):
            clique_potentials[clique] += broadcast(
                table_potentials, table.columns, self._tree.cliques[clique]
            )
        self.beliefs, log_total = self._tree.compute_beliefs(clique_potentials)
        marginals = [
            marginalize(self.beliefs[clique], self._tree.cliques[clique], table.columns).reshape(-1)
            for table, clique in zip(self._tables, self._cliques, strict=True)
        ]
        value = (
            self._n * log_total
            - potentials @ self._counts
            + potentials @ (self._penalties * potentials) / 2
        )
        gradient = self._n * np.concatenate(marginals) - self._counts + self._penalties * potentials
        return float(value), gradient * self.scale


def fit_model(
    tree: JunctionTree,
    tables: Sequence[NoisyTable],
    log_bin_shares: Sequence[Floats],
    n: int,
    initial_potentials: Sequence[Floats] = (),
    *,
    max_steps: int,
) -> tuple[list[Floats], list[Floats]]:
    """Compute the share of rows in each cell of each clique, and the potentials of each table.

    Parameters
    ----------
    tree, tables, log_bin_shares, n : see ``ModelFit``.
    initial_potentials : the potentials of the first tables from which to start; those of the
        remaining tables start at 0.
    max_steps : maximum number of steps.
    """
    fit = ModelFit(tree, tables, log_bin_shares, n)
    initial_point = np.zeros(len(fit.scale))
    if initial_potentials:
        potentials = np.concatenate([table.reshape(-1) for table in initial_potentials])
        initial_point[: len(potentials)] = potentials / fit.scale[: len(potentials)]
    solution = minimize(fit.compute_value_and_gradient, initial_point, max_steps, n * _MIN_GAIN)
    fit.compute_value_and_gradient(solution)  # Sets ``fit.beliefs``.
    return fit.beliefs, fit.split_by_table(solution * fit.scale)


def minimize(
    compute_value_and_gradient: Callable[[Floats], tuple[float, Floats]],
    point: Floats,
    max_steps: int,
    min_gain: float,
) -> Floats:
    """Minimize a convex function by limited-memory BFGS.

    Parameters
    ----------
    compute_value_and_gradient : computes both at a point.
    point : the point to start from.
    max_steps : maximum number of steps.
    min_gain : the search stops after a step that reduces the value by less than this.

    Source: J. Nocedal, "Updating quasi-Newton matrices with limited storage", 1980.
    """
    value, gradient = compute_value_and_gradient(point)
    updates: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    for _ in range(max_steps):
        direction = -_apply_inverse_hessian(updates, gradient)
        slope, step_size = float(gradient @ direction), 1.0
        for _ in range(_MAX_HALVINGS):
            next_value, next_gradient = compute_value_and_gradient(point + step_size * direction)
            if next_value <= value + _ARMIJO * step_size * slope:
                break
            step_size /= 2
        else:
            return point
        step, gradient_change = step_size * direction, next_gradient - gradient
        curvature = float(step @ gradient_change)
        if curvature > 0:
            updates.append((step, gradient_change, curvature))
        gain = value - next_value
        point, value, gradient = point + step, next_value, next_gradient
        if gain < min_gain:
            break
    return point


def _apply_inverse_hessian(
    updates: deque[tuple[Floats, Floats, float]], gradient: Floats
) -> Floats:
    """Multiply the gradient by the inverse Hessian as approximated from past steps.

    Parameters
    ----------
    updates : step, change of the gradient, and curvature of each past step.
    """
    direction, weights = gradient.copy(), []
    for step, gradient_change, curvature in reversed(updates):
        weights.append(float(step @ direction) / curvature)
        direction -= weights[-1] * gradient_change
    if updates:
        _, gradient_change, curvature = updates[-1]
        direction *= curvature / float(gradient_change @ gradient_change)
    for step, gradient_change, curvature in updates:
        direction += (weights.pop() - float(gradient_change @ direction) / curvature) * step
    result: NDArray[np.float64] = direction
    return result
