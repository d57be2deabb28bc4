"""A naive Bayes classifier on weighted rows, whose categories may be known in part.

Given the class, columns are independent: categories with add-one smoothing, numbers normal. A row
that is several categories counts in each, with its share, in training as in a test. (Maron 1961;
Hastie, Tibshirani & Friedman 2009, section 6.6.3.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.analyses.columns import CategoryColumn

# This share of a column's variance is added to the variance in each class, which may be 0.
_VARIANCE_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class Predictors:
    """The columns from which a class is predicted, without missing values.

    Parameters
    ----------
    numbers : float64 (n,) each.
    categories : of n rows each.
    """

    numbers: tuple[NDArray[np.float64], ...]
    categories: tuple[CategoryColumn, ...]

    @property
    def n_rows(self) -> int:
        """The number of rows, n; there is at least one column."""
        return len(self.numbers[0]) if self.numbers else len(self.categories[0].codes)

    def take(self, rows: NDArray[np.int64]) -> Predictors:
        """Return these rows, int64 (r,) indexes."""
        return Predictors(
            tuple(column[rows] for column in self.numbers),
            tuple(column.take(rows) for column in self.categories),
        )


@dataclass(frozen=True, eq=False)
class NaiveBayes:
    """A trained classifier for C classes.

    Parameters
    ----------
    log_priors : float64 (C,); minus infinity for classes without weight.
    normals : for each column of numbers, means and variances by class, float64 (C,) each; None for
        a column with a single value, which tells nothing.
    log_shares : for each column of categories, float64 (L, C): the log of each category's share in
        each class.
    """

    log_priors: NDArray[np.float64]
    normals: tuple[tuple[NDArray[np.float64], NDArray[np.float64]] | None, ...]
    log_shares: tuple[NDArray[np.float64], ...]

    def predict(self, predictors: Predictors) -> NDArray[np.int64]:
        """Predict the class of each row, int64 (n,); of equally likely ones, the first."""
        scores = np.tile(self.log_priors, (predictors.n_rows, 1))
        for values, normal in zip(predictors.numbers, self.normals, strict=True):
            if normal is not None:
                means, variances = normal
                squares = np.square(values[:, None] - means) / variances
                scores -= (np.log(2 * np.pi * variances) + squares) / 2
        for column, log_shares in zip(predictors.categories, self.log_shares, strict=True):
            # The mean log share of the categories that the value stands for.
            scores += (column.shares @ log_shares)[column.codes]
        predicted: NDArray[np.int64] = np.argmax(scores, axis=1)
        return predicted


def train(
    predictors: Predictors, classes: CategoryColumn, weights: NDArray[np.float64]
) -> NaiveBayes | None:
    """Train a classifier; None without rows.

    Parameters
    ----------
    classes : the class of each row, n rows without missing values.
    weights : float64 (n,), positive; only their proportions matter.
    """
    if not len(weights):
        return None
    # Weights of mean 1, so that add-one smoothing means one row.
    class_weights = classes.all_shares() * (weights / weights.mean())[:, None]
    class_totals = class_weights.sum(axis=0)
    with np.errstate(divide="ignore"):
        log_priors = np.log(class_totals / class_totals.sum())
    return NaiveBayes(
        log_priors,
        tuple(_fit_normals(values, class_weights) for values in predictors.numbers),
        tuple(_fit_shares(column, class_weights) for column in predictors.categories),
    )


def _fit_normals(
    values: NDArray[np.float64], class_weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return means and variances by class, float64 (C,) each; None if all values are equal.

    Classes without weight have the mean and variance of all rows.
    """
    all_weights = class_weights.sum(axis=1)
    mean = float(all_weights @ values / all_weights.sum())
    variance = float(all_weights @ np.square(values - mean) / all_weights.sum())
    if values.min() == values.max() or not variance > 0:
        return None
    totals = class_weights.sum(axis=0)
    is_present = totals > 0
    totals = np.where(is_present, totals, 1.0)
    means = np.where(is_present, values @ class_weights / totals, mean)
    # Squares of differences: the difference of squares would lose digits.
    variances = np.array(
        [np.square(values - means[c]) @ class_weights[:, c] / totals[c] for c in range(len(totals))]
    )
    return means, np.where(is_present, variances, variance) + _VARIANCE_SHARE * variance


def _fit_shares(column: CategoryColumn, class_weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logs of the smoothed shares of categories by class, float64 (L, C)."""
    counts = np.column_stack([column.weigh(weights) for weights in class_weights.T]) + 1.0
    log_shares: NDArray[np.float64] = np.log(counts / counts.sum(axis=0))
    return log_shares


def measure_accuracy(
    predicted: NDArray[np.int64], actual: NDArray[np.integer], weights: NDArray[np.float64]
) -> float:
    """Return the weighted share of rows whose class was predicted; arrays (n,), n > 0."""
    return float(weights @ (predicted == actual) / weights.sum())


def measure_balanced_accuracy(
    predicted: NDArray[np.int64], actual: NDArray[np.integer], weights: NDArray[np.float64]
) -> float:
    """Return the mean over the actual classes of the weighted share that was predicted."""
    return float(
        np.mean(
            [
                measure_accuracy(predicted[rows], actual[rows], weights[rows])
                for rows in (actual == label for label in np.unique(actual))
            ]
        )
    )


def draw_folds(n: int, n_folds: int, seed: int) -> Sequence[NDArray[np.int64]]:
    """Split the rows 0 to n - 1 at random into folds whose sizes differ by at most one."""
    order = np.random.default_rng(seed).permutation(n)
    return [np.sort(order[fold::n_folds]) for fold in range(min(n_folds, n))]
