"""Estimators of the number of unique persons in a population, from the class sizes of a sample.

A person is unique if no other person in the population has the same keys. The estimators are those
of ARX, which see the number of classes of each size, and the size of the population:

- *Pitman*: class sizes follow Pitman's sampling formula with the parameters θ and α, which are
  fitted by maximum likelihood. For a large population of N persons, the expected number of uniques
  is Γ(θ + 1) / Γ(θ + α) N^α.
- *Zayatz*: the class sizes of the population are distributed as those of the sample. By Bayes'
  theorem this gives the probability that a sample unique is unique in the population.
- *Slide negative binomial*: the size of a class in the population, minus 1, is negative binomial
  with the parameters α and β. They are fitted to the expected numbers of classes with one record
  and with two. The number of classes in the population, K, is Shlosser's estimate. The expected
  number of uniques is K β^α.

The rule of Dankar et al. selects one of them, see ``estimate_population_uniques``.

Two remarks:

- Pitman's formula is meant for θ far below N. It overestimates by about (1 + θ/N)^(1 - α).
- For the slide negative binomial, this module uses the formulas of the papers. ARX's class
  ``ModelSNB`` (commit f8518512) multiplies by a power where the equation for classes with two
  records divides by it, and misses a pair of brackets in Shlosser's estimate.

Sources: N. Hoshino, "Applying Pitman's sampling formula to microdata disclosure risk assessment",
JOS 17 (2001); L. Zayatz, "Estimation of the number of unique population elements using a sample",
ASA Survey Research Methods Section (1991); G. Chen and S. Keller-McNulty, "Estimation of
identification disclosure risk in microdata", JOS 14 (1998); P. Haas and L. Stokes, "Estimating the
number of classes in a finite population", JASA 93 (1998); F. Dankar, K. El Emam,
A. Neisa and T. Roffey, "Estimating the re-identification risk of clinical data sets", BMC Medical
Informatics and Decision Making 12 (2012).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dbanon.errors import InvalidParameter
from dbanon.measures.agreement import Floats, Ints

PITMAN, ZAYATZ, SLIDE_NEGATIVE_BINOMIAL = "pitman", "zayatz", "slide_negative_binomial"
# The rule of Dankar et al. trusts Pitman's model up to this sampling fraction.
_MAX_PITMAN_FRACTION = 0.1
# Newton's method for Pitman's model stops after a step this small, relative to the parameters, or
# without success after this many steps.
_MIN_STEP, _MAX_STEPS = 1e-10, 200
# There is no largest likelihood if θ exceeds this multiple of the number of records: the class
# sizes are those of many cells with equal probabilities.
_MAX_THETA_PER_RECORD = 1000
# Starts of the search for α and β, as logarithms of α and of the odds of β.
_ALPHA_STARTS, _BETA_STARTS = np.linspace(-7, 5, 25), np.linspace(-9, 5, 29)
# Solutions are sought within these logarithms. For α beyond, 1 - β is lost in rounding errors.
_MAX_LOG_ALPHA, _MAX_LOG_ODDS = 10.0, 25.0


@dataclass(frozen=True)
class PopulationUniques:
    """Estimates of the number of unique persons in a population.

    Parameters
    ----------
    population_size : number of persons in the population.
    estimates : by estimator, the number of unique persons; None if it has no solution.
    selected : the estimator that the rule of Dankar et al. selects.
    """

    population_size: float
    estimates: Mapping[str, float | None]
    selected: str

    @property
    def uniques(self) -> float:
        """The estimate that the rule selects, in persons."""
        # The rule selects only estimators that have a solution.
        return self.estimates[self.selected] or 0.0

    @property
    def share(self) -> float:
        """The share of the population that is unique by that estimate, 0 to 1."""
        return self.uniques / self.population_size


def estimate_population_uniques(class_sizes: Ints, population_size: float) -> PopulationUniques:
    """Estimate the number of unique persons by all estimators, and select one of them.

    The rule of Dankar et al., as ARX has it: for a sampling fraction of at most 10 %, Pitman's
    estimate. For a larger one, the smaller of those by the slide negative binomial model and by
    Zayatz. Zayatz is also selected where another estimator has no solution.

    Parameters
    ----------
    class_sizes : int64 (c,), number of records in each class of the sample, 1 or more.
    population_size : number of persons in the population, at least the number of records.

    Raises
    ------
    InvalidParameter : an argument has the wrong type, shape or range.
    """
    zayatz = estimate_by_zayatz(class_sizes, population_size)
    estimates = {
        PITMAN: estimate_by_pitman(class_sizes, population_size),
        ZAYATZ: zayatz,
        SLIDE_NEGATIVE_BINOMIAL: estimate_by_slide_negative_binomial(class_sizes, population_size),
    }
    is_small_sample = class_sizes.sum() <= _MAX_PITMAN_FRACTION * population_size
    preferred = PITMAN if is_small_sample else SLIDE_NEGATIVE_BINOMIAL
    estimate = estimates[preferred]
    # ARX takes an estimate of 0 as no solution.
    if not estimate or (not is_small_sample and zayatz < estimate):
        preferred = ZAYATZ
    return PopulationUniques(float(population_size), estimates, preferred)


def estimate_by_zayatz(class_sizes: Ints, population_size: float) -> float:
    """Estimate the number of unique persons by Zayatz's method.

    Parameters
    ----------
    class_sizes, population_size : as in ``estimate_population_uniques``.

    Raises
    ------
    InvalidParameter : as ``estimate_population_uniques``.
    """
    counts = _count_sizes(class_sizes, population_size)
    if not counts[1]:
        return 0.0
    n_sampled = float(class_sizes.sum())
    # Hypergeometric: the probability that the sample has exactly one of s given persons is
    # s n/N times the product of (N - n - i + 1) / (N - i) over i = 1 to s - 1.
    sizes = np.arange(1, int(class_sizes.max()) + 1)
    i = sizes[:-1]
    factors = np.maximum(population_size - n_sampled - i + 1, 0) / (population_size - i)
    probabilities = sizes * n_sampled / population_size * np.cumprod([1.0, *factors])
    n_expected = float(counts[sizes] @ probabilities)
    share_of_uniques = float(counts[1] * probabilities[0]) / n_expected
    return float(counts[1]) * share_of_uniques * population_size / n_sampled


def estimate_by_pitman(class_sizes: Ints, population_size: float) -> float | None:
    """Estimate the number of unique persons by Pitman's model; None if it cannot be fitted.

    Parameters
    ----------
    class_sizes, population_size : as in ``estimate_population_uniques``.

    Raises
    ------
    InvalidParameter : as ``estimate_population_uniques``.
    """
    counts = _count_sizes(class_sizes, population_size)
    if not counts[1]:
        return 0.0
    parameters = _PitmanLikelihood(counts).maximize()
    if parameters is None:
        return None
    theta, alpha = parameters
    logarithm = math.lgamma(theta + 1) - math.lgamma(theta + alpha)
    uniques = math.exp(logarithm + alpha * math.log(population_size))
    return uniques if uniques <= population_size else None


class _PitmanLikelihood:
    """The likelihood of class sizes under Pitman's sampling formula.

    Its logarithm, without terms that do not depend on the parameters, is

        sum over i = 1 to u - 1 of log(θ + i α) - sum over i = 1 to n - 1 of log(θ + i)
        + sum over classes of the sum over i = 1 to size - 1 of log(i - α)

    with u classes and n records. It is defined for α < 1, θ + α > 0 and θ + (u - 1) α > 0.

    Parameters
    ----------
    counts : int64 (largest size + 1,), number of classes by size.
    """

    def __init__(self, counts: Ints) -> None:
        sizes = np.arange(len(counts))
        self._counts = counts
        self._n_classes, self._n_records = int(counts.sum()), int(counts @ sizes)
        self._class_steps = np.arange(1, self._n_classes, dtype=np.float64)
        self._record_steps = np.arange(1, self._n_records, dtype=np.float64)
        # For i = 1, 2, …: the number of classes with more than i records.
        self._size_steps = sizes[1:-1].astype(np.float64)
        self._n_larger = np.cumsum(counts[::-1])[::-1][2:].astype(np.float64)

    def maximize(self) -> tuple[float, float] | None:
        """Find θ and α of the largest likelihood by Newton's method; None if there are none."""
        # Without larger classes, the likelihood grows with α up to 1. With a single class, it has
        # no second parameter.
        if self._n_classes in (1, self._n_records):
            return None
        parameters = self._guess()
        value = self._compute_value(*parameters)
        for _ in range(_MAX_STEPS):
            scale = np.array([1 + abs(parameters[0]), 1.0])
            gradient, hessian = self._compute_derivatives(*parameters)
            curvatures, axes = np.linalg.eigh(hessian * np.outer(scale, scale))
            # Ascend along axes with a positive curvature, too.
            curvatures = np.maximum(np.abs(curvatures), 1e-12 * np.abs(curvatures).max())
            step = axes @ (axes.T @ (gradient * scale) / curvatures) * scale
            if not np.isfinite(step).all():
                return None
            if parameters[0] > _MAX_THETA_PER_RECORD * self._n_records:
                return None
            if (np.abs(step) <= _MIN_STEP * scale).all():
                return float(parameters[0]), float(parameters[1])
            while True:
                new_value = self._compute_value(*(parameters + step))
                if new_value >= value:
                    break
                step = step / 2
                if (np.abs(step) <= _MIN_STEP * scale).all():
                    # No ascent beyond rounding errors.
                    return float(parameters[0]), float(parameters[1])
            parameters, value = parameters + step, new_value
        return None

    def _guess(self) -> Floats:
        """Guess θ and α from the numbers of classes with one record and with two."""
        u, n = float(self._n_classes), float(self._n_records)
        ones, twos = float(self._counts[1]), float(max(self._counts[2], 1))
        # Moment estimates, with which ARX starts, too.
        c = ones * (ones - 1) / twos
        divisor = 2 * ones * u + ones * c - n * c
        if divisor:
            theta = (n * u * c - ones * (n - 1) * (2 * u + c)) / divisor
            alpha = (theta * (ones - n) + (n - 1) * ones) / (n * u)
            if math.isfinite(self._compute_value(theta, alpha)):
                return np.array([theta, alpha])
        return np.array([u, 0.5])

    def _compute_value(self, theta: float, alpha: float) -> float:
        """Compute the logarithm of the likelihood; -inf where it is not defined."""
        if alpha >= 1 or theta + min(alpha, (self._n_classes - 1) * alpha) <= 0:
            return -math.inf
        return float(
            np.log(theta + self._class_steps * alpha).sum()
            - np.log(theta + self._record_steps).sum()
            + self._n_larger @ np.log(self._size_steps - alpha)
        )

    def _compute_derivatives(self, theta: float, alpha: float) -> tuple[Floats, Floats]:
        """Compute the gradient, float64 (2,), and the second derivatives, float64 (2, 2)."""
        i = self._class_steps
        class_terms = 1 / (theta + i * alpha)
        record_terms = 1 / (theta + self._record_steps)
        size_terms = 1 / (self._size_steps - alpha)
        gradient = np.array(
            [
                class_terms.sum() - record_terms.sum(),
                i @ class_terms - self._n_larger @ size_terms,
            ]
        )
        class_squares = class_terms**2
        mixed = -(i @ class_squares)
        by_theta = (record_terms**2).sum() - class_squares.sum()
        by_alpha = -(i**2 @ class_squares) - self._n_larger @ size_terms**2
        return gradient, np.array([[by_theta, mixed], [mixed, by_alpha]])


def estimate_by_slide_negative_binomial(class_sizes: Ints, population_size: float) -> float | None:
    """Estimate the number of unique persons by the slide negative binomial model.

    Returns None if the equations for its parameters have no solution. If they have several, the
    estimate uses the one whose expected population size is nearest to the population size.

    Parameters
    ----------
    class_sizes, population_size : as in ``estimate_population_uniques``.

    Raises
    ------
    InvalidParameter : as ``estimate_population_uniques``.
    """
    counts = _count_sizes(class_sizes, population_size)
    ones, twos = int(counts[1]), int(counts[2])
    if not ones:
        return 0.0
    if not twos:
        return None
    fraction = float(class_sizes.sum()) / population_size
    n_classes = _estimate_population_classes(counts, fraction)
    solutions = _solve_slide_negative_binomial(
        math.log(ones / n_classes), math.log(twos / n_classes), fraction
    )
    if not len(solutions):
        return None
    alpha, beta = solutions.T
    expected_sizes = n_classes * (1 + alpha * (1 - beta) / beta)
    nearest = np.argmin(np.abs(np.log(expected_sizes / population_size)))
    return float(n_classes * beta[nearest] ** alpha[nearest])


def _estimate_population_classes(counts: Ints, fraction: float) -> float:
    """Estimate the number of classes in the population: the third Shlosser estimator.

    Parameters
    ----------
    counts : int64 (largest size + 1,), number of classes in the sample by size.
    fraction : the sampling fraction, above 0 and up to 1.
    """
    n_classes = float(counts.sum())
    if fraction == 1:
        return n_classes
    i = np.flatnonzero(counts)
    classes = counts[i].astype(np.float64)
    log_rest = math.log1p(-fraction)
    unseen = np.exp(i * log_rest) @ classes
    singles = (i * fraction * np.exp((i - 1) * log_rest)) @ classes
    squared = (i * fraction**2 * np.exp((i - 1) * math.log1p(-(fraction**2)))) @ classes
    # (1 - q)^i ((1 + q)^i - 1), without an overflow.
    excess = (np.exp(i * math.log1p(-(fraction**2))) - np.exp(i * log_rest)) @ classes
    return float(n_classes + counts[1] * squared / excess * (unseen / singles) ** 2)


def _solve_slide_negative_binomial(log_ones: float, log_twos: float, fraction: float) -> Floats:
    """Find all α and β that explain the numbers of classes with one record and with two.

    Runs Newton's method from many starts. Returns float64 (s, 2) with distinct solutions.

    Parameters
    ----------
    log_ones, log_twos : logarithms of the numbers of such classes in the sample, per class in the
        population.
    fraction : the sampling fraction, above 0 and up to 1.
    """

    def compute_residuals(points: Floats) -> Floats:
        # With d = (1 - π)(1 - β), the expected shares of classes with one and two records are
        # π (β / (1 - d))^α (1 + α d / (1 - d)) and
        # π² / 2 α (1 - β) β^α (1 - d)^(-α - 2) (2 - (1 - α) d).
        log_alpha, odds = points
        alpha = np.exp(log_alpha)
        log_beta, log_rest = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
        d = (1 - fraction) * np.exp(log_rest)
        log_e = np.log(fraction + (1 - fraction) * np.exp(log_beta))
        power = alpha * (log_beta - log_e)
        ones = math.log(fraction) + power + np.log1p(alpha * d * np.exp(-log_e))
        twos = 2 * math.log(fraction) - math.log(2) + log_alpha + log_rest + power
        twos = twos - 2 * log_e + np.log(2 - (1 - alpha) * d)
        return np.stack([ones - log_ones, twos - log_twos])

    points = np.stack(np.meshgrid(_ALPHA_STARTS, _BETA_STARTS)).reshape(2, -1)
    difference = 1e-6
    with np.errstate(all="ignore"):
        for _ in range(60):
            residuals = compute_residuals(points)
            shifts = difference * np.eye(2)[:, :, None]
            jacobian = [
                (compute_residuals(points + shift) - compute_residuals(points - shift))
                / (2 * difference)
                for shift in shifts
            ]
            (a, c), (b, d) = jacobian
            determinant = a * d - b * c
            steps = (
                np.stack([d * residuals[0] - b * residuals[1], a * residuals[1] - c * residuals[0]])
                / determinant
            )
            # Long steps leave the region where the linear model holds.
            steps *= np.minimum(1, 2 / np.abs(steps).max(axis=0))
            points = points - steps
        is_solution = (np.abs(compute_residuals(points)) < 1e-9).all(axis=0)
        is_solution &= np.abs(points[0]) < _MAX_LOG_ALPHA
        is_solution &= np.abs(points[1]) < _MAX_LOG_ODDS
    solutions = np.unique(np.round(points[:, is_solution], 6), axis=1)
    return np.column_stack([np.exp(solutions[0]), 1 / (1 + np.exp(-solutions[1]))])


def _count_sizes(class_sizes: object, population_size: float) -> Ints:
    """Check the arguments of an estimator, and count the classes of each size.

    Returns int64 (largest size + 1,) with at least three elements.
    """
    if (
        not isinstance(class_sizes, np.ndarray)
        or class_sizes.dtype != np.int64
        or class_sizes.ndim != 1
        or not len(class_sizes)
        or class_sizes.min() < 1
    ):
        raise InvalidParameter(
            "class_sizes must be an int64 array of sizes, each 1 or more.",
            hint="Compute them with count_class_sizes.",
        )
    require_population_size(population_size, int(class_sizes.sum()))
    return np.bincount(class_sizes, minlength=3).astype(np.int64)


def require_population_size(population_size: float, n_records: int) -> None:
    """Check that a population has at least as many persons as its sample.

    Raises
    ------
    InvalidParameter : the population size is not finite, or below the number of records.
    """
    if not n_records <= population_size < math.inf:
        raise InvalidParameter(
            "population_size must be a number, at least the number of records.",
            hint="Pass the number of persons in the population, or the sum of the design weights.",
        )
