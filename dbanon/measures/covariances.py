"""Covariances of z-scores before and after release, for measures of structure.

z-scores use the means and deviations of the originals, also for released values. So ratios of
covariances are those of the raw columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Flags, Floats

# A smaller correlation is a rounding error.
_ROUNDING_TOLERANCE = 1e-13

_CHUNK_RECORDS = 1 << 16


@dataclass(frozen=True, eq=False)
class Moments:
    """Covariances and correlations of p columns; those of a pair use records with both values.

    Parameters
    ----------
    covariances_before, covariances_after : float64 (p, p), before and after release.
    correlations_before, correlations_after : float64 (p, p), correlations; 0 for constant columns.
    is_defined : bool (p, p), True for pairs of columns that vary before release and have at least
        two records with both values.
    """

    covariances_before: Floats
    covariances_after: Floats
    correlations_before: Floats
    correlations_after: Floats
    is_defined: Flags

    @property
    def is_correlated(self) -> Flags:
        """bool (p, p), True for pairs with nonzero covariance before release."""
        return self.is_defined & (np.abs(self.correlations_before) > _ROUNDING_TOLERANCE)


def compute_moments(
    points: Floats, released: Floats, labels: NDArray[np.intp], is_valid: Flags | None
) -> Moments:
    """Compute the moments of p columns, in chunks of records to save memory.

    Parameters
    ----------
    points : float64 (n, p), z-scores of originals; 0 for constant columns.
    released : float64 (m, p), z-scores of released values; 0 for constant columns.
    labels : int (n,), the released row of each record.
    is_valid : bool (n, p), False for NULL before or after release; None if there are no NULLs.
    """
    n, p = points.shape
    # Indexed by columns i and j: the number of records with both values.
    n_records = np.zeros((p, p))
    # Indexed by side (0 before, 1 after release), i and j: sums of column i over records that also
    # have column j.
    sums = np.zeros((2, p, p))
    squares, products = np.zeros((2, p, p)), np.zeros((2, p, p))
    varies = _columns_vary(points, released) if is_valid is None else np.zeros((2, p, p), bool)
    first_values = np.full((2, p, p), np.nan)
    for start in range(0, n, _CHUNK_RECORDS):
        chunk = slice(start, start + _CHUNK_RECORDS)
        chunk_is_valid = None if is_valid is None else is_valid[chunk]
        weights = (
            np.ones((min(_CHUNK_RECORDS, n - start), 1))
            if chunk_is_valid is None
            else chunk_is_valid.astype(np.float64)
        )
        n_records += weights.T @ weights
        for side, values in enumerate((points[chunk], released[labels[chunk]])):
            if chunk_is_valid is not None:
                _update_variation(first_values[side], varies[side], values, chunk_is_valid)
                values = values * weights
            sums[side] += values.T @ weights
            products[side] += values.T @ values
            if chunk_is_valid is not None:
                squares[side] += np.square(values).T @ weights
    degrees_of_freedom = np.maximum(n_records - 1, 1)
    divisors = np.maximum(n_records, 1)
    results = []
    for side in range(2):
        if is_valid is None:
            # Without NULLs, the records with column j are all records.
            squares[side] = np.diagonal(products[side])[:, None]
        covariances = (products[side] - sums[side] * sums[side].T / divisors) / degrees_of_freedom
        variances = (squares[side] - np.square(sums[side]) / divisors) / degrees_of_freedom
        both_vary = varies[side] & varies[side].T
        results.append((covariances, _correlations(covariances, variances, both_vary)))
    (covariances_before, correlations_before), (covariances_after, correlations_after) = results
    varies_before = np.diagonal(varies[0])
    is_defined = (n_records > 1) & varies_before[:, None] & varies_before
    return Moments(
        covariances_before, covariances_after, correlations_before, correlations_after, is_defined
    )


def _columns_vary(points: Floats, released: Floats) -> Flags:
    """Return bool (2, p, p), by side, i and j: True if column i varies; j does not matter.

    The result is exact, unlike a test whether the variance is above 0.
    """
    varies = np.zeros((2, points.shape[1], 1), bool)
    for side, table in enumerate((points, released)):
        for column_index, column in enumerate(table.T):
            varies[side, column_index] = bool(column.size) and bool(column.max() > column.min())
    return np.repeat(varies, points.shape[1], axis=2)


def _update_variation(first_values: Floats, varies: Flags, values: Floats, is_valid: Flags) -> None:
    """Update, from a chunk of records, whether column i varies over records with column j.

    Parameters
    ----------
    first_values : float64 (p, p), the first value of column i in records with column j; NaN as long
        as there is none. It is updated.
    varies : bool (p, p), True if column i varies over records with column j. It is updated.
    values : float64 (r, p), the values of the chunk.
    is_valid : bool (r, p), False for NULL.
    """
    for i, j in np.ndindex(*varies.shape):
        if varies[i, j]:
            continue
        values_of_both = values[is_valid[:, i] & is_valid[:, j], i]
        if values_of_both.size:
            if np.isnan(first_values[i, j]):
                first_values[i, j] = values_of_both[0]
            varies[i, j] = bool((values_of_both != first_values[i, j]).any())


def _correlations(covariances: Floats, variances: Floats, both_vary: Flags) -> Floats:
    """Return the correlations of column pairs, float64 (p, p); 0 unless both columns vary.

    Parameters
    ----------
    covariances : float64 (p, p), over records with both values.
    variances : float64 (p, p), the variance of column i over records that also have column j.
    both_vary : bool (p, p), True if both columns vary over records with both values.
    """
    products = np.sqrt(np.maximum(variances * variances.T, 0.0))
    is_defined = both_vary & (products > 0)
    return np.asarray(
        np.divide(covariances, products, out=np.zeros_like(covariances), where=is_defined)
    )
