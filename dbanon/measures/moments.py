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
    for at in range(0, n, _CHUNK):
        part = slice(at, at + _CHUNK)
        both = [points[part], released[labels[part]]]
        held = np.ones_like(both[0]) if cells is None else cells[part].astype(np.float64)
        count += held.T @ held
        for side, values in enumerate(both):
            if cells is not None:
                values = values * held
            sums[side] += values.T @ held
            squares[side] += np.square(values).T @ held
            products[side] += values.T @ values
    degrees = np.maximum(count - 1, 1)
    share = np.maximum(count, 1)
    found = []
    for side in range(2):
        covariance = (products[side] - sums[side] * sums[side].T / share) / degrees
        variance = np.maximum(squares[side] - np.square(sums[side]) / share, 0.0) / degrees
        found.append((covariance, variance))
    constant = _constant(points, cells)
    still = constant | _constant(
        released, None if cells is None else _held(labels, cells, released)
    )
    (before, spread), (after, spread_after) = found
    return Moments(
        before,
        after,
        _correlation(before, spread, constant),
        _correlation(after, spread_after, still),
        (count > 1) & ~(constant[:, None] | constant),
    )


def _held(labels: NDArray[np.int32], cells: Flags, released: Floats) -> Flags:
    """bool (m, p), which released values stand for a cell that counts."""
    held = np.zeros(released.shape, bool)
    for column in range(released.shape[1]):
        held[labels[cells[:, column]], column] = True
    return held


def _constant(points: Floats, cells: Flags | None) -> Flags:
    """bool (p,), whether all values of a column that count are the same."""
    found = []
    for at, column in enumerate(points.T):
        values = column if cells is None else column[cells[:, at]]
        found.append(not values.size or bool(values.max() == values.min()))
    return np.array(found, bool)


def _correlation(covariance: Floats, variance: Floats, constant: NDArray[np.bool_]) -> Floats:
    width = np.sqrt(variance * variance.T)
    varies = (width > 0) & ~(constant[:, None] | constant)
    return np.asarray(np.divide(covariance, width, out=np.zeros_like(covariance), where=varies))
