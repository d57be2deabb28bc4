"""One column's noisy quantiles.

Changing one row moves the order statistics of a column in one direction only, and by no more than
the range in all: so all sums of consecutive ones together move by at most the range, however many
sums there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.synthesis.noise import Noise
from dbanon.synthesis.shares import GRID, Shares


@dataclass(frozen=True, eq=False)
class Quantiles:
    """A quantile function, by its values at some shares of the rows.

    Parameters
    ----------
    shares, values : float64 (m,), both ascending.
    """

    shares: NDArray[np.float64]
    values: NDArray[np.float64]

    def at(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values at these shares of the rows, 0 to 1."""
        return np.interp(shares, self.shares, self.values)


def sums_of_ranks(column: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sums of consecutive order statistics of a column, int64 (n,); the last takes the rest."""
    sums: NDArray[np.int64] = np.add.reduceat(np.sort(column), _starts(len(column), size))
    return sums


def noisy_quantiles(column: NDArray[np.int64], shares: Shares, noise: Noise) -> Quantiles:
    """The quantiles of a column of whole numbers from 0 to ``GRID``, int64 (n,)."""
    n = len(column)
    noisy = noise.laplace(sums_of_ranks(column, shares.class_size), shares.margin_scale)
    starts = _starts(n, shares.class_size)
    sizes = np.diff(np.append(starts, n)).astype(np.float64)
    return Quantiles((starts + sizes / 2) / n, isotonic(noisy / sizes, sizes).clip(0, GRID))


def isotonic(values: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ascending values nearest to these, by weighted squares: pool adjacent violators."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            other = pools.pop()
            both = other[1] + pool[1]
            mean = (other[0] * other[1] + pool[0] * pool[1]) / both
            pool = (mean, both, other[2] + pool[2])
        pools.append(pool)
    return np.repeat([pool[0] for pool in pools], [pool[2] for pool in pools])


def _starts(n: int, size: int) -> NDArray[np.int64]:
    return np.arange(n // size, dtype=np.int64) * size
