"""Covariances of the z-scores before and after: what measures of structure compare.

On z-scores by the originals' deviations all ratios of covariances are those of the raw columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Flags, Floats

# A correlation below this is 0 but for rounding.
_ROUNDING = 1e-13

_CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Moments:
    """Covariances v and correlations r of p columns, each pair over the records that hold both.

    Parameters
    ----------
    before, after : float64 (p, p), covariances.
    together_before, together_after : float64 (p, p), correlations; 0 with a constant column.
    known : bool (p, p), pairs that two records or more hold, of columns that vary at first.
    """

    before: Floats
    after: Floats
    together_before: Floats
    together_after: Floats
    known: Flags

    @property
    def related(self) -> Flags:
        """bool (p, p), pairs whose covariance is not 0 at first."""
        return self.known & (np.abs(self.together_before) > _ROUNDING)


def moments(
    points: Floats, released: Floats, labels: NDArray[np.intp], cells: Flags | None
) -> Moments:
    """The moments of p columns; the memory they take does not grow with the records.

    Parameters
    ----------
    points, released : float64 (n, p) and (m, p), z-scores, 0 in a column that was constant.
    labels : int (n,), the released row of each record.
    cells : bool (n, p), which count; None for all.
    """
    n, p = points.shape
    count = np.zeros((p, p))
    sums = np.zeros((2, p, p))  # of column i, over the records that hold column j too
    squares, products = np.zeros((2, p, p)), np.zeros((2, p, p))
    varies = _vary(points, released) if cells is None else np.zeros((2, p, p), bool)
    firsts = np.full((2, p, p), np.nan)
    for at in range(0, n, _CHUNK):
        part = slice(at, at + _CHUNK)
        held = None if cells is None else cells[part]
        weights = np.ones((min(_CHUNK, n - at), 1)) if held is None else held.astype(np.float64)
        count += weights.T @ weights
        for side, values in enumerate((points[part], released[labels[part]])):
            if held is not None:
                _compare(firsts[side], varies[side], values, held)
                values = values * weights
            sums[side] += values.T @ weights
            products[side] += values.T @ values
            if held is not None:
                squares[side] += np.square(values).T @ weights
    degrees = np.maximum(count - 1, 1)
    share = np.maximum(count, 1)
    found = []
    for side in range(2):
        if cells is None:
            squares[side] = np.diagonal(products[side])[:, None]
        covariance = (products[side] - sums[side] * sums[side].T / share) / degrees
        variance = (squares[side] - np.square(sums[side]) / share) / degrees
        related = varies[side] & varies[side].T
        found.append((covariance, _correlation(covariance, variance, related)))
    (before, together_before), (after, together_after) = found
    first = np.diagonal(varies[0])
    return Moments(
        before, after, together_before, together_after, (count > 1) & first[:, None] & first
    )


def _vary(points: Floats, released: Floats) -> Flags:
    """bool (2, p, p), whether each column varies; rounding must not pass for a variance."""
    found = np.zeros((2, points.shape[1], 1), bool)
    for side, table in enumerate((points, released)):
        for at, column in enumerate(table.T):
            found[side, at] = bool(column.size) and bool(column.max() > column.min())
    return np.repeat(found, points.shape[1], axis=2)


def _compare(firsts: Floats, varies: Flags, values: Floats, held: Flags) -> None:
    """Note whether column i varies over the records that hold column j too, all (p, p).

    ``firsts`` has the first of the values, NaN before there is one.
    """
    for i, j in np.ndindex(*varies.shape):
        if varies[i, j]:
            continue
        both = values[held[:, i] & held[:, j], i]
        if both.size:
            if np.isnan(firsts[i, j]):
                firsts[i, j] = both[0]
            varies[i, j] = bool((both != firsts[i, j]).any())


def _correlation(covariance: Floats, variance: Floats, varies: Flags) -> Floats:
    width = np.sqrt(np.maximum(variance * variance.T, 0.0))
    found = np.divide(covariance, width, out=np.zeros_like(covariance), where=varies & (width > 0))
    return np.asarray(found)
