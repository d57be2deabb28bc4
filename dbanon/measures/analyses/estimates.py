"""Weighted means, totals, quantiles, correlations and the Gini coefficient.

Standard errors are those of a sample with design weights, without clusters, strata or finite
population correction: linearized, and scaled by n / (n - 1). The formulas are those of R's package
survey (Lumley 2004) with ``svydesign(ids = ~1)``. A group is a domain: rows outside of it count in
n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The 97.5 % point of the normal distribution: estimates have intervals of 95 %.
NORMAL_QUANTILE = 1.959963984540054
# The cumulated weight counts as equal to a probability if it differs by less than this.
_WEIGHT_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Estimate:
    """An estimate of a number from one table.

    Parameters
    ----------
    value : the estimate; None if the rows do not determine it.
    error : its standard error; None if it has none.
    """

    value: float | None
    error: float | None = None


def estimate_mean(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    shares: NDArray[np.float64] | None = None,
) -> Estimate:
    """Estimate a mean, as the ratio of two totals.

    Parameters
    ----------
    values, weights : float64 (n,); weights are positive.
    shares : float64 (n,), how far each row belongs to the group, 0 to 1; None for all rows.
    """
    group_weights = weights if shares is None else weights * shares
    total_weight = float(group_weights.sum())
    if not total_weight > 0:
        return Estimate(None)
    mean = float(group_weights @ values) / total_weight
    return Estimate(mean, _error_of_sum(group_weights * (values - mean) / total_weight))


def estimate_total(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    shares: NDArray[np.float64] | None = None,
) -> Estimate:
    """Estimate a population total, the sum of weight times value; arguments as in a mean."""
    terms = weights * values if shares is None else weights * shares * values
    if not len(terms):
        return Estimate(None)
    return Estimate(float(terms.sum()), _error_of_sum(terms))


def _error_of_sum(terms: NDArray[np.float64]) -> float | None:
    """Return the standard error of the sum of terms, float64 (n,); None for a single one."""
    n = len(terms)
    if n < 2:
        return None
    return float(np.sqrt(n / (n - 1) * np.square(terms - terms.mean()).sum()))


def estimate_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.float64], probabilities: Sequence[float]
) -> list[Estimate]:
    """Estimate quantiles by inverting the weighted distribution function.

    A quantile is the least value up to which the share of the weight reaches the probability; if
    it equals the probability, the quantile is the mean of this value and the next. With equal
    weights, these are R's quantiles of type 2, so that the median of an even number of values is
    the mean of both in the middle. They are those of R's package laeken (Alfons & Templ 2013).

    Parameters
    ----------
    values, weights : float64 (n,); weights are positive.
    probabilities : each between 0 and 1, exclusively.
    """
    if not len(values):
        return [Estimate(None) for _ in probabilities]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    reached = np.cumsum(weights[order])
    reached /= reached[-1]
    last = len(ordered) - 1
    quantiles = []
    for probability in probabilities:
        index = min(int(np.searchsorted(reached, probability - _WEIGHT_TOLERANCE)), last)
        is_exact = abs(reached[index] - probability) <= _WEIGHT_TOLERANCE and index < last
        next_value = ordered[index + 1] if is_exact else ordered[index]
        quantiles.append(Estimate(float(ordered[index] + next_value) / 2))
    return quantiles


def estimate_gini(values: NDArray[np.float64], weights: NDArray[np.float64]) -> Estimate:
    """Estimate the Gini coefficient: 0 if all values are equal, almost 1 if one row has it all.

    With the values in order, and W the cumulated weight:
    (2 sum(w x W) - sum(w² x)) / (sum(w) sum(w x)) - 1, as in laeken (Alfons & Templ 2013, 3.2).
    There is none if a value is negative or all are 0.

    Parameters
    ----------
    values, weights : float64 (n,); weights are positive.
    """
    total = float(weights @ values)
    if not len(values) or values.min() < 0 or not total > 0:
        return Estimate(None)
    order = np.argsort(values, kind="stable")
    terms = values[order] * weights[order]
    doubled = 2 * terms @ np.cumsum(weights[order]) - terms @ weights[order]
    return Estimate(float(doubled / (weights.sum() * total) - 1))


def estimate_correlation(
    first: NDArray[np.float64], second: NDArray[np.float64], weights: NDArray[np.float64]
) -> Estimate:
    """Estimate Pearson's correlation of two columns, with its linearized standard error.

    With both columns standardized, the term of a row is w (ab - r (a² + b²) / 2) / sum(w). There is
    none if a column has a single value.

    Parameters
    ----------
    first, second, weights : float64 (n,); weights are positive.
    """
    standardized = []
    for values in (first, second):
        if not len(values) or values.min() == values.max():
            return Estimate(None)
        # Squares of scaled values neither overflow nor vanish.
        scaled = values / np.abs(values).max()
        centered = scaled - weights @ scaled / weights.sum()
        centered /= np.abs(centered).max()
        standardized.append(centered / np.sqrt(weights @ np.square(centered) / weights.sum()))
    a, b = standardized
    correlation = float(weights @ (a * b) / weights.sum())
    terms = weights * (a * b - correlation * (np.square(a) + np.square(b)) / 2) / weights.sum()
    return Estimate(correlation, _error_of_sum(terms))


def measure_interval_overlap(first: Estimate, second: Estimate) -> float | None:
    """Measure how far the confidence intervals of two estimates overlap, 0 to 1.

    It is the mean of two shares: how much of the one interval lies in the other, and conversely; 0
    if they are disjoint (Karr et al. 2006, "A framework for evaluating the utility of data altered
    to protect confidentiality", section 3). An interval of no width lies in the other, or not.
    Returns None if an estimate has no standard error.
    """
    intervals = []
    for estimate in (first, second):
        if estimate.value is None or estimate.error is None:
            return None
        half_width = NORMAL_QUANTILE * estimate.error
        intervals.append((estimate.value - half_width, estimate.value + half_width))
    low = max(low for low, _ in intervals)
    high = min(high for _, high in intervals)
    if high < low:
        return 0.0
    return sum((high - low) / (b - a) if b > a else 1.0 for a, b in intervals) / 2
