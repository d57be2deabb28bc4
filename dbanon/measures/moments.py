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
    points: Floats, released: Floats, labels: NDArray[np.int32], cells: Flags | None
) -> Moments:
    """The moments of p columns; the memory they take does not grow with the records.

    Parameters
    ----------
    points, released : float64 (n, p) and (m, p), z-scores, 0 in a column that was constant.
    labels : int32 (n,), the released row of each record.
    cells : bool (n, p), which count; None for all.
    """
    n, p = points.shape
    count = np.zeros((p, p))
    sums = np.zeros((2, p, p))  # of column i, over the records that hold column j too
    squares, products = np.zeros((2, p, p)), np.zeros((2, p, p))
    least, most = np.full((2, p, p), np.inf), np.full((2, p, p), -np.inf)
    for at in range(0, n, _CHUNK):
        part = slice(at, at + _CHUNK)
        both = [points[part], released[labels[part]]]
        held = np.ones_like(both[0]) if cells is None else cells[part].astype(np.float64)
        count += held.T @ held
        for side, values in enumerate(both):
            _extend(least[side], most[side], values, None if cells is None else cells[part])
            if cells is not None:
                values = values * held
            sums[side] += values.T @ held
            squares[side] += np.square(values).T @ held
            products[side] += values.T @ values
    degrees = np.maximum(count - 1, 1)
    share = np.maximum(count, 1)
    # Rounding must not pass for a variance.
    varies = least < most
    found = []
    for side in range(2):
        covariance = (products[side] - sums[side] * sums[side].T / share) / degrees
        variance = (squares[side] - np.square(sums[side]) / share) / degrees
        related = varies[side] & varies[side].T
        found.append((covariance, _correlation(covariance, variance, related)))
    (before, together_before), (after, together_after) = found
    first = np.diagonal(varies[0])
    return Moments(
        before, after, together_before, together_after, (count > 1) & first[:, None] & first
    )


def _extend(least: Floats, most: Floats, values: Floats, cells: Flags | None) -> None:
    """Smallest and largest values of each column i, over the records that hold column j too."""
    for j in range(values.shape[1]):
        kept = values
        if cells is not None:
            kept = values[cells[:, j]]
            held = cells[cells[:, j]]
        low, high = kept, kept
        if cells is not None:
            low, high = np.where(held, kept, np.inf), np.where(held, kept, -np.inf)
        np.minimum(least[:, j], low.min(axis=0, initial=np.inf), out=least[:, j])
        np.maximum(most[:, j], high.max(axis=0, initial=-np.inf), out=most[:, j])
        if cells is None:
            least[:], most[:] = least[:, :1], most[:, :1]
            return


def _correlation(covariance: Floats, variance: Floats, varies: Flags) -> Floats:
    width = np.sqrt(np.maximum(variance * variance.T, 0.0))
    found = np.divide(covariance, width, out=np.zeros_like(covariance), where=varies & (width > 0))
    return np.asarray(found)
