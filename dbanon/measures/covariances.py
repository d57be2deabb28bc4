"""Covariances of z-scores before and after release, for measures of structure.

z-scores use the originals' deviations, so ratios of covariances are those of the raw columns.
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
    """Covariances and correlations of p columns, of each pair over records with both values.

    Parameters
    ----------
    before, after : float64 (p, p), covariances before and after release.
    correlations_before, correlations_after : float64 (p, p), correlations; 0 for constant columns.
    is_defined : bool (p, p), pairs with at least two records, of columns that vary before release.
    """

    before: Floats
    after: Floats
    correlations_before: Floats
    correlations_after: Floats
    is_defined: Flags

    @property
    def covary(self) -> Flags:
        """bool (p, p), pairs with nonzero covariance before release."""
        return self.is_defined & (np.abs(self.correlations_before) > _ROUNDING_TOLERANCE)


def moments(
    points: Floats, released: Floats, labels: NDArray[np.intp], cells: Flags | None
) -> Moments:
    """Compute the moments of p columns, in chunks of records to save memory.

    Parameters
    ----------
    points, released : float64 (n, p) and (m, p), z-scores, 0 for constant columns.
    labels : int (n,), the released row of each record.
    cells : bool (n, p), cells that are not NULL; None for all.
    """
    n, p = points.shape
    n_records = np.zeros((p, p))
    # By side (before or after release) and columns i and j: of column i, over records with both.
    sums = np.zeros((2, p, p))
    squares, products = np.zeros((2, p, p)), np.zeros((2, p, p))
    varies = _columns_vary(points, released) if cells is None else np.zeros((2, p, p), bool)
    first_values = np.full((2, p, p), np.nan)
    for start in range(0, n, _CHUNK_RECORDS):
        chunk = slice(start, start + _CHUNK_RECORDS)
        present = None if cells is None else cells[chunk]
        weights = (
            np.ones((min(_CHUNK_RECORDS, n - start), 1))
            if present is None
            else present.astype(np.float64)
        )
        n_records += weights.T @ weights
        for side, values in enumerate((points[chunk], released[labels[chunk]])):
            if present is not None:
                _update_variation(first_values[side], varies[side], values, present)
                values = values * weights
            sums[side] += values.T @ weights
            products[side] += values.T @ values
            if present is not None:
                squares[side] += np.square(values).T @ weights
    degrees_of_freedom = np.maximum(n_records - 1, 1)
    divisors = np.maximum(n_records, 1)
    results = []
    for side in range(2):
        if cells is None:
            squares[side] = np.diagonal(products[side])[:, None]
        covariances = (products[side] - sums[side] * sums[side].T / divisors) / degrees_of_freedom
        variances = (squares[side] - np.square(sums[side]) / divisors) / degrees_of_freedom
        both_vary = varies[side] & varies[side].T
        results.append((covariances, _correlations(covariances, variances, both_vary)))
    (before, correlations_before), (after, correlations_after) = results
    varies_before = np.diagonal(varies[0])
    is_defined = (n_records > 1) & varies_before[:, None] & varies_before
    return Moments(before, after, correlations_before, correlations_after, is_defined)


def _columns_vary(points: Floats, released: Floats) -> Flags:
    """bool (2, p, p), True if column i varies, by side; exact, unlike a variance above 0."""
    varies = np.zeros((2, points.shape[1], 1), bool)
    for side, table in enumerate((points, released)):
        for column_index, column in enumerate(table.T):
            varies[side, column_index] = bool(column.size) and bool(column.max() > column.min())
    return np.repeat(varies, points.shape[1], axis=2)


def _update_variation(first_values: Floats, varies: Flags, values: Floats, present: Flags) -> None:
    """Update whether column i varies over records that also have column j, from a chunk.

    Parameters
    ----------
    first_values : float64 (p, p), the first value of column i in such records; NaN before there is
        one. Updated.
    varies : bool (p, p). Updated.
    values, present : float64 (r, p) and bool (r, p), the records of the chunk.
    """
    for i, j in np.ndindex(*varies.shape):
        if varies[i, j]:
            continue
        values_of_both = values[present[:, i] & present[:, j], i]
        if values_of_both.size:
            if np.isnan(first_values[i, j]):
                first_values[i, j] = values_of_both[0]
            varies[i, j] = bool((values_of_both != first_values[i, j]).any())


def _correlations(covariances: Floats, variances: Floats, both_vary: Flags) -> Floats:
    """The correlations of column pairs, float64 (p, p); 0 unless both columns vary.

    Parameters
    ----------
    variances : float64 (p, p), the variance of column i over records that also have column j.
    """
    deviations = np.sqrt(np.maximum(variances * variances.T, 0.0))
    is_defined = both_vary & (deviations > 0)
    return np.asarray(
        np.divide(covariances, deviations, out=np.zeros_like(covariances), where=is_defined)
    )
