"""A lower bound of the cost of local suppression where a missing cell agrees with every value.

Relax the problem to a fractional multicover: a failing row either loses a cell of its own, which
then counts as sufficient, or needs as many donors as rows are missing. Prices for failing rows are
a certificate: if no row and mask serves failing rows whose prices add up to more than the mask's
cost, then the prices times the missing rows are a lower bound. Scaling makes any prices satisfy
this. Multiplicative updates lower the prices of the failing rows that the best donor serves:
N. E. Young, "Sequential and parallel algorithms for mixed packing and covering", FOCS 2001.
"""

from __future__ import annotations

import numpy as np

from dbanon.extensions.survey.suppression_agreement import (
    count_agreeing,
    difference_masks,
)
from dbanon.methods.suppression_problem import (
    Floats,
    Integers,
    Problem,
)

# The most pairs of a combination and a failing one, of a combination and a mask, and the rounds.
_MAX_PAIRS, _MAX_WORK, _MAX_ROUNDS = 2_000_000, 300_000_000, 400
# How fast prices fall.
_STEP = 0.15


def bound_wildcard_cost(problem: Problem, failing_combos: Integers) -> float:
    """Compute a lower bound of the cost of any plan.

    Parameters
    ----------
    failing_combos : int64 (f,), combinations that miss a demand.
    """
    if not len(failing_combos):
        return 0.0
    n_sampled = max(1, min(len(failing_combos), _MAX_PAIRS // len(problem.combos)))
    rng = np.random.default_rng(0)
    sample = np.sort(rng.choice(failing_combos, n_sampled, replace=False))
    prices = _FailingRows(problem, sample)
    n_pairs = len(problem.combos) * (n_sampled + 8 * len(problem.mask_costs))
    best = 0.0
    for _ in range(max(1, min(_MAX_ROUNDS, _MAX_WORK // n_pairs))):
        best = max(best, prices.improve())
    return best


class _FailingRows:
    """Prices of failing rows, one for each demand that a combination misses."""

    def __init__(self, problem: Problem, failing_combos: Integers) -> None:
        self._costs = problem.mask_costs
        differences, rows, deficits = [], [], []
        for demand in problem.demands:
            counts = count_agreeing(
                problem.combos[failing_combos], problem.combos, problem.sizes, demand.columns
            )
            missing = np.flatnonzero(counts < demand.k)
            combos = failing_combos[missing]
            rows.append(combos)
            deficits.append(demand.k - counts[missing])
            masks = difference_masks(problem.combos, problem.combos[combos]) & demand.mask
            differences.append(masks.astype(np.int32))
        self._rows, self._deficits = np.concatenate(rows), np.concatenate(deficits)
        differences_by_donor = np.concatenate(differences, axis=1)
        self._differences = differences_by_donor
        offsets = len(self._costs) * np.arange(len(problem.combos), dtype=np.int32)
        self._bins = (differences_by_donor + offsets[:, None]).ravel()
        self._prices = np.ones(len(self._rows))

    def improve(self) -> float:
        """Return the bound of the current prices, then change them."""
        ratios = self._served() / np.where(self._costs > 0, self._costs, np.inf)
        best_masks = ratios.argmax(axis=1)
        best_ratios = ratios[np.arange(len(ratios)), best_masks]
        bound = float((self._deficits * self._prices).sum() / best_ratios.max())
        # All donors that are nearly the best: prices converge in fewer rounds.
        donors = np.flatnonzero(best_ratios > 0.98 * best_ratios.max())[:64]
        masks = best_masks[donors]
        differences = self._differences[donors]
        is_served = (differences != 0) & (differences & ~masks[:, None] == 0)
        coverage = is_served / self._deficits
        coverage[donors[:, None] == self._rows] = 1.0
        shares = coverage.mean(axis=0)
        self._prices *= np.exp(-_STEP * shares / max(float(shares.max()), 1e-12))
        self._prices /= self._prices.max()
        return bound

    def _served(self) -> Floats:
        """Return the prices of what each combination and mask serves, float64 (u, masks)."""
        n_combos, n_masks = len(self._differences), len(self._costs)
        weights = np.broadcast_to(self._prices, self._differences.shape).ravel()
        totals = np.bincount(self._bins, weights, n_combos * n_masks)
        served = totals.astype(np.float64).reshape(n_combos, n_masks)
        served[:, 0] = 0.0
        for column in range(n_masks.bit_length() - 1):
            view = served.reshape(n_combos, -1, 2, 1 << column)
            view[:, :, 1] += view[:, :, 0]
        np.add.at(served, self._rows, (self._deficits * self._prices)[:, None])
        return served
