"""Weighted linear and logistic regression, with standard errors robust to weights.

Coefficients solve the weighted score equations, sum(w x (y - mu)) = 0. Their covariance is the
sandwich A⁻¹ B A⁻¹ with A = sum(w v x xᵀ), v the variance function, and B the covariance of the
scores, n / (n - 1) sum(w² (y - mu)² x xᵀ) (Binder 1983, "On the variances of asymptotically normal
estimators from complex surveys"). That is what R's ``survey::svyglm`` gives without clusters and
strata; it needs neither equal variances nor weights that are frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.analyses.estimates import Estimate

_MAX_ITERATIONS = 50
_TOLERANCE = 1e-10
# Fitted log odds beyond this are probabilities of 0 or 1: the outcome is separated.
_MAX_LOG_ODDS = 30.0
# Singular values below this share of the largest count as 0.
_RANK_TOLERANCE = 1e-9


@dataclass(frozen=True)
class RegressionFit:
    """The coefficients of a regression.

    Parameters
    ----------
    coefficients : an estimate for each column of the design; without a value where other columns
        determine the column, so that the rows do not tell their effects apart.
    converged : False for a logistic regression without a finite solution, which has no values.
    """

    coefficients: tuple[Estimate, ...]
    converged: bool = True


def fit_regression(
    design: NDArray[np.float64],
    outcome: NDArray[np.float64],
    weights: NDArray[np.float64],
    *,
    is_logistic: bool,
) -> RegressionFit:
    """Fit a regression.

    Parameters
    ----------
    design : float64 (n, p), whose first column is the intercept, all ones.
    outcome : float64 (n,); for a logistic regression the share of the event, 0 to 1.
    weights : float64 (n,), positive.
    """
    n, p = design.shape
    if not n:
        return RegressionFit(tuple(Estimate(None) for _ in range(p)))
    transform = _standardize(design)
    basis, is_estimable = _find_estimable(design @ transform, transform)
    # Coefficients of the design are ``to_design`` times those of the reduced one.
    to_design = transform @ basis
    reduced = design @ to_design
    scaled_weights = weights / weights.mean()
    solution = (
        _solve_logistic(reduced, outcome, scaled_weights)
        if is_logistic
        else _solve_linear(reduced, outcome, scaled_weights)
    )
    if solution is None:
        return RegressionFit(tuple(Estimate(None) for _ in range(p)), converged=False)
    reduced_coefficients, bread = solution
    fitted = reduced @ reduced_coefficients
    residuals = outcome - (_expit(fitted) if is_logistic else fitted)
    scores = reduced * (scaled_weights * residuals)[:, None]
    errors: list[float | None] = [None] * p
    if n > 1:
        covariance = bread @ (scores.T @ scores * (n / (n - 1))) @ bread
        variances = np.einsum("ij,jk,ik->i", to_design, covariance, to_design)
        errors = np.sqrt(np.maximum(variances, 0)).tolist()
    coefficients: list[float] = (to_design @ reduced_coefficients).tolist()
    return RegressionFit(
        tuple(
            Estimate(coefficients[j], errors[j]) if is_estimable[j] else Estimate(None)
            for j in range(p)
        )
    )


def _standardize(design: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a matrix that centers all columns but the first and gives all of them one length.

    The rank of the result depends neither on the units of columns nor on where their zero is. A
    constant column becomes 0.

    Parameters
    ----------
    design : float64 (n, p), whose first column is the intercept, all ones.

    Returns
    -------
    transform : float64 (p, p), to be multiplied with the design from the right.
    """
    means = design.mean(axis=0)
    means[0] = 0.0
    lengths = np.sqrt(np.square(design).sum(axis=0))
    centered_lengths = np.sqrt(np.square(design - means).sum(axis=0))
    # A constant column leaves only rounding errors.
    is_constant = centered_lengths <= 1e-12 * lengths
    factors = np.where(is_constant, 0.0, 1 / np.where(is_constant, 1.0, centered_lengths))
    transform = np.diag(factors)
    transform[0] -= means * factors
    return transform


def _find_estimable(
    standardized: NDArray[np.float64], transform: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Find what the rows of a design determine.

    Parameters
    ----------
    standardized : float64 (n, p), the design times ``transform``.
    transform : float64 (p, p).

    Returns
    -------
    basis : float64 (p, r), an orthonormal basis of the space of the standardized rows.
    is_estimable : bool (p,), whether each coefficient of the design is the same in all solutions.
    """
    # The eigenvectors of the p x p matrix are the right singular vectors of the rows.
    squares, vectors = np.linalg.eigh(standardized.T @ standardized)
    is_row = squares > _RANK_TOLERANCE * squares[-1]
    null_space = transform @ vectors[:, ~is_row]
    lengths = np.square(transform).sum(axis=1)
    is_determined = np.square(null_space).sum(axis=1) < _RANK_TOLERANCE * lengths
    return vectors[:, is_row], is_determined & (np.diag(transform) != 0)


def _solve_linear(
    design: NDArray[np.float64], outcome: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the coefficients, float64 (r,), and the inverse of sum(w x xᵀ), float64 (r, r)."""
    weighted = design * weights[:, None]
    bread = np.linalg.inv(design.T @ weighted).astype(np.float64)
    coefficients = bread @ (weighted.T @ outcome)
    # Solve again for the residuals, which removes the rounding errors of the first solution.
    coefficients = coefficients + bread @ (weighted.T @ (outcome - design @ coefficients))
    return coefficients, bread


def _solve_logistic(
    design: NDArray[np.float64], outcome: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Maximize the weighted likelihood by Newton's method with halved steps; None without maximum.

    Returns the coefficients, float64 (r,), and the inverse of sum(w v x xᵀ), float64 (r, r).
    """
    coefficients = np.zeros(design.shape[1])
    likelihood = _log_likelihood(design @ coefficients, outcome, weights)
    for _ in range(_MAX_ITERATIONS):
        means = _expit(design @ coefficients)
        information = design.T @ (design * (weights * means * (1 - means))[:, None])
        try:
            bread = np.linalg.inv(information)
        except np.linalg.LinAlgError:
            return None
        step = bread @ (design.T @ (weights * (outcome - means)))
        candidate = coefficients + step
        new_likelihood = _log_likelihood(design @ candidate, outcome, weights)
        while new_likelihood < likelihood - _TOLERANCE * abs(likelihood):
            step = step / 2
            candidate = coefficients + step
            new_likelihood = _log_likelihood(design @ candidate, outcome, weights)
        coefficients, likelihood = candidate, new_likelihood
        log_odds = design @ coefficients
        if np.abs(log_odds).max() > _MAX_LOG_ODDS:
            return None
        if np.abs(design @ step).max() < _TOLERANCE * (1 + np.abs(log_odds).max()):
            return coefficients, bread.astype(np.float64)
    return None


def _expit(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of log odds."""
    probabilities: NDArray[np.float64] = 0.5 * (1 + np.tanh(0.5 * log_odds))
    return probabilities


def _log_likelihood(
    log_odds: NDArray[np.float64], outcome: NDArray[np.float64], weights: NDArray[np.float64]
) -> float:
    """Return the weighted log likelihood of a logistic regression."""
    return float(weights @ (outcome * log_odds - np.logaddexp(0, log_odds)))
