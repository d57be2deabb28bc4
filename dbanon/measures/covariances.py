"""Covariances of z-scores before and after release, for measures of structure.

z-scores use the originals' deviations, so ratios of covariances are those of the raw columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Flags, Floats

# A smaller correlation is rounding error.
_ROUNDING = 1e-13

_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Moments:
    """Covariances v and correlations r of p columns, each pair over records with both values.

    Parameters
    ----------
    before, after : float64 (p, p), covariances.
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
        return self.is_defined & (np.abs(self.correlations_before) > _ROUNDING)


def moments(
    points: Floats, released: Floats, labels: NDArray[np.intp], cells: Flags | None
) -> Moments:
    """The moments of p columns; memory does not grow with the number of records.

    Parameters
    ----------
    points, released : float64 (n, p) and (m, p), z-scores, 0 for constant columns.
    labels : int (n,), the released row of each record.
    cells : bool (n, p), cells that are not NULL; None for all.
    """
    n, p = points.shape
    count = np.zeros((p, p))
    sums = np.zeros((2, p, p))  # of column i, over records that also have column j
    squares, products = np.zeros((2, p, p)), np.zeros((2, p, p))
    varies = _columns_vary(points, released) if cells is None else np.zeros((2, p, p), bool)
    firsts = np.full((2, p, p), np.nan)
    for start in range(0, n, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        present = None if cells is None else cells[chunk]
        weights = (
            np.ones((min(_CHUNK, n - start), 1)) if present is None else present.astype(np.float64)
        )
        count += weights.T @ weights
        for side, values in enumerate((points[chunk], released[labels[chunk]])):
            if present is not None:
                _update_variation(firsts[side], varies[side], values, present)
                values = values * weights
            sums[side] += values.T @ weights
            products[side] += values.T @ values
            if present is not None:
                squares[side] += np.square(values).T @ weights
    degrees = np.maximum(count - 1, 1)
    share = np.maximum(count, 1)
    results = []
    for side in range(2):
        if cells is None:
            squares[side] = np.diagonal(products[side])[:, None]
        covariance = (products[side] - sums[side] * sums[side].T / share) / degrees
        variance = (squares[side] - np.square(sums[side]) / share) / degrees
        related = varies[side] & varies[side].T
        results.append((covariance, _correlation(covariance, variance, related)))
    (before, correlations_before), (after, correlations_after) = results
    first = np.diagonal(varies[0])
    return Moments(
        before, after, correlations_before, correlations_after, (count > 1) & first[:, None] & first
    )


def _columns_vary(points: Floats, released: Floats) -> Flags:
    """bool (2, p, p), whether each column varies; exact, unlike a variance above 0."""
    varies = np.zeros((2, points.shape[1], 1), bool)
    for side, table in enumerate((points, released)):
        for column_index, column in enumerate(table.T):
            varies[side, column_index] = bool(column.size) and bool(column.max() > column.min())
    return np.repeat(varies, points.shape[1], axis=2)


def _update_variation(firsts: Floats, varies: Flags, values: Floats, present: Flags) -> None:
    """Update ``varies``: whether column i varies over records that also have column j.

    All arrays are (p, p). ``firsts`` holds the first value, NaN before there is one.
    """
    for i, j in np.ndindex(*varies.shape):
        if varies[i, j]:
            continue
        values_of_both = values[present[:, i] & present[:, j], i]
        if values_of_both.size:
            if np.isnan(firsts[i, j]):
                firsts[i, j] = values_of_both[0]
            varies[i, j] = bool((values_of_both != firsts[i, j]).any())


def _correlation(covariance: Floats, variance: Floats, varies: Flags) -> Floats:
    width = np.sqrt(np.maximum(variance * variance.T, 0.0))
    correlations = np.divide(
        covariance, width, out=np.zeros_like(covariance), where=varies & (width > 0)
    )
    return np.asarray(correlations)
