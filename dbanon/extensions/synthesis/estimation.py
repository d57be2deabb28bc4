"""Fit a graphical model to noisy counts, weighted by their noise and close to independence.

First, all tables get the same counts of each column, the least squares estimate of all noisy counts
(``reconcile_tables``). Given these counts y with noise of variance v, and shares q of independent
columns, find shares p of all cells that minimize

    n KL(p | q) + sum (n p - y)^2 / 2wv

The problem is convex. Its dual has a log-potential t for each count, which are the potentials of a
graphical model with base q:

    n log Z(t) - sum t y + sum w v t^2 / 2

Each table has a weight w of its own (``estimate_weights``): a table that noise could explain is
hardly followed, so that its columns stay as independent as the other tables allow, and few rows
appear in empty cells. The model matches a table whose counts are far from independence. w = 0 gives
the estimate of McKenna et al., which reproduces the noise.

The search stops before the model has exactly the counts of single columns. In the end these are
matched by iterative proportional fitting: of all models with these counts, this finds the one with
the least divergence from the fit.

Sources: R. McKenna, D. Sheldon and G. Miklau, "Graphical-model based estimation and inference for
differential privacy", ICML 2019; and I. Csiszár, "I-divergence geometry of probability
distributions and minimization problems", Ann. Probab. 3 (1975).
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
from dbanon.extensions.synthesis.margins import project_to_simplex

# Weight of independence: for tables of one column; for those of two, relative to the estimate, and
# its limits.
_COLUMN_WEIGHT = 0.001
_PAIR_WEIGHT = 0.5
_MIN_WEIGHT, _MAX_WEIGHT = 0.002, 0.5
# Number of past steps that approximate the curvature.
_MEMORY = 12
# A step must decrease the value by at least this share of what the slope predicts; otherwise it is
# halved, up to the maximum number of times.
_ARMIJO, _MAX_HALVINGS = 1e-4, 20
# Stop when a step gains less than this per row.
_MIN_GAIN = 1e-6
# Smallest share of a bin in the model whose logarithm is taken.
_MIN_MODEL_SHARE = 1e-12


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


def reconcile_tables(tables: Sequence[NoisyTable], n: int) -> list[NoisyTable]:
    """Give each column the same counts in all tables: the least squares estimate of all of them.

    The counts of a column are those of its own table and the sums of its tables with others, whose
    variances add up; each is weighted inversely to its variance. Tables of two columns are then
    moved to these counts, each cell of a row or column by the same number. For noise of equal
    variance in each table, this minimizes the squared distance from all noisy counts, each divided
    by its variance, except that no count of a column is below 0.

    Parameters
    ----------
    tables : one table of each column, in order, whose counts sum to ``n``; and tables of two.
    n : the known number of all rows.
    """
    one_way = [table for table in tables if len(table.columns) == 1]
    weights = np.array([1 / table.variance for table in one_way])
    sums = [table.counts / table.variance for table in one_way]
    for table in tables[len(one_way) :]:
        for axis, j in enumerate(table.columns):
            variance = table.variance * table.counts.shape[1 - axis]
            counts = table.counts.sum(axis=1 - axis)
            weights[j] += 1 / variance
            # The sum of all counts is known, too.
            sums[j] = sums[j] + (counts + (n - counts.sum()) / counts.size) / variance
    column_counts = [
        project_to_simplex(total / weight, 1.0 * n)
        for total, weight in zip(sums, weights, strict=True)
    ]
    reconciled = [
        NoisyTable(table.columns, counts, 1 / weight)
        for table, counts, weight in zip(one_way, column_counts, weights, strict=True)
    ]
    for table in tables[len(one_way) :]:
        a, b = table.columns
        n_a, n_b = table.counts.shape
        counts = (
            table.counts
            + (column_counts[a] - table.counts.sum(axis=1))[:, None] / n_b
            + (column_counts[b] - table.counts.sum(axis=0)) / n_a
            - (n - table.counts.sum()) / (n_a * n_b)
        )
        reconciled.append(NoisyTable(table.columns, counts, table.variance))
    return reconciled


def estimate_weights(tables: Sequence[NoisyTable], n: int) -> list[float]:
    """Estimate the weight of independence for each table: w in the module's docstring.

    With t of mean square s^2 and counts m if columns were independent, the best w is 1 / (m s^2).
    Noisy counts are about m + m t and noise, so the excess of their squared distance from m over
    the noise is about the sum of m^2 s^2.

    Parameters
    ----------
    tables : reconciled tables, see ``reconcile_tables``.
    """
    column_counts = [table.counts for table in tables if len(table.columns) == 1]
    weights = [_COLUMN_WEIGHT] * len(column_counts)
    for table in tables[len(column_counts) :]:
        a, b = table.columns
        n_a, n_b = table.counts.shape
        expected = np.outer(column_counts[a], column_counts[b]) / n
        # The noise on the sums of rows and columns is not that of this table.
        noise = table.variance * (n_a - 1) * (n_b - 1)
        excess = max(float(np.square(table.counts - expected).sum()) - noise, 1e-9)
        weights.append(min(max(_PAIR_WEIGHT * n / excess, _MIN_WEIGHT), _MAX_WEIGHT))
    return weights


class ModelFit:
    """The convex problem for a set of tables, in terms of potentials scaled to similar magnitude.

    Parameters
    ----------
    tree : a junction tree that has, for each table, a clique with all of its columns.
    tables : the noisy counts, reconciled.
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
        self._penalties = np.repeat(
            [
                weight * table.variance
                for weight, table in zip(estimate_weights(tables, n), tables, strict=True)
            ],
            np.diff(self._offsets),
        )
        # The second derivative by a potential is about the count of its cell plus its penalty.
        # Scaling by its root makes the curvature similar in all directions.
        self.scale: Floats = 1 / np.sqrt(self._counts.clip(0) + self._penalties)
        self._base_potentials = [np.zeros(tree.clique_shape(i)) for i in range(len(tree.cliques))]
        for j, log_shares in enumerate(log_bin_shares):
            clique = tree.find_clique((j,))
            self._base_potentials[clique] += broadcast(log_shares, (j,), tree.cliques[clique])
        self._log_bin_shares = list(log_bin_shares)
        # The share of the rows in each cell of each clique; set by ``compute_beliefs``.
        self.beliefs: list[Floats] = []

    def split_by_table(self, potentials: Floats) -> list[Floats]:
        """Split the potentials of all tables, float64 (cells,), and reshape them as the tables."""
        ranges = zip(self._offsets, self._offsets[1:], strict=False)
        return [
            potentials[start:end].reshape(table.counts.shape)
            for table, (start, end) in zip(self._tables, ranges, strict=True)
        ]

    def compute_beliefs(self, potentials: Floats) -> float:
        """Set ``beliefs`` to those with these potentials; return the log of their normalizer."""
        clique_potentials = [base.copy() for base in self._base_potentials]
        for table, clique, table_potentials in zip(
            self._tables, self._cliques, self.split_by_table(potentials), strict=True
        ):
            clique_potentials[clique] += broadcast(
                table_potentials, table.columns, self._tree.cliques[clique]
            )
        self.beliefs, log_total = self._tree.compute_beliefs(clique_potentials)
        return log_total

    def compute_value_and_gradient(self, scaled_potentials: Floats) -> tuple[float, Floats]:
        """Return the value of the dual and its gradient by the scaled potentials.

        Sets ``beliefs`` to the share of the rows in each cell of each clique.
        """
        potentials = scaled_potentials * self.scale
        log_total = self.compute_beliefs(potentials)
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

    def match_columns(self, potentials: Floats, n_sweeps: int) -> None:
        """Change potentials, and ``beliefs``, so that each column has its own counts in turn."""
        # The first tables are those of single columns, in order; the rest is not zipped.
        columns = list(
            zip(self._cliques, self.split_by_table(potentials), self._log_bin_shares, strict=False)
        )
        for _ in range(n_sweeps):
            for j, (clique, column_potentials, log_shares) in enumerate(columns):
                shares = marginalize(self.beliefs[clique], self._tree.cliques[clique], (j,))
                column_potentials += log_shares - np.log(np.maximum(shares, _MIN_MODEL_SHARE))
                self.compute_beliefs(potentials)


def fit_model(
    tree: JunctionTree,
    tables: Sequence[NoisyTable],
    log_bin_shares: Sequence[Floats],
    n: int,
    initial_potentials: Sequence[Floats] = (),
    *,
    max_steps: int,
    n_sweeps: int = 0,
) -> tuple[list[Floats], list[Floats]]:
    """Compute the share of rows in each cell of each clique, and the potentials of each table.

    Parameters
    ----------
    tree, tables, log_bin_shares, n : see ``ModelFit``.
    initial_potentials : the potentials of the first tables from which to start; those of the
        remaining tables start at 0.
    max_steps : maximum number of steps.
    n_sweeps : how often each column is matched after them, in turn.
    """
    fit = ModelFit(tree, tables, log_bin_shares, n)
    initial_point = np.zeros(len(fit.scale))
    if initial_potentials:
        known_potentials = np.concatenate([table.reshape(-1) for table in initial_potentials])
        initial_point[: len(known_potentials)] = (
            known_potentials / fit.scale[: len(known_potentials)]
        )
    solution = minimize(fit.compute_value_and_gradient, initial_point, max_steps, n * _MIN_GAIN)
    potentials = solution * fit.scale
    fit.compute_beliefs(potentials)
    fit.match_columns(potentials, n_sweeps)
    return fit.beliefs, fit.split_by_table(potentials)


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
