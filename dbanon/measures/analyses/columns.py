"""Columns whose values are known in part: each row's share of each category.

A released value can stand for several categories: ``school`` for primary and secondary. Its row
then counts in both, with a share of one half each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class CategoryColumn:
    """A column of n rows as shares of L categories.

    Parameters
    ----------
    name : the column's name.
    labels : the L categories.
    codes : int32 (n,), the row's index in ``shares``; -1 where the value is missing.
    shares : float64 (m, L), for each of the m distinct values its share of each category; a row
        adds up to 1.
    """

    name: str
    labels: tuple[str, ...]
    codes: NDArray[np.int32]
    shares: NDArray[np.float64]

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Which rows have a value, bool (n,)."""
        return self.codes >= 0

    def share_of(self, category: int) -> NDArray[np.float64]:
        """Each row's share of a category, float64 (n,); 0 where the value is missing."""
        return np.append(self.shares[:, category], 0.0)[self.codes]

    def all_shares(self) -> NDArray[np.float64]:
        """Each row's share of all categories, float64 (n, L); 0 where the value is missing."""
        return np.vstack([self.shares, np.zeros(len(self.labels))])[self.codes]

    def weigh(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum the weights, float64 (n,), by category, float64 (L,); without missing values."""
        totals = np.bincount(
            self.codes[self.valid], weights=weights[self.valid], minlength=len(self.shares)
        )
        return totals @ self.shares

    def take(self, rows: NDArray[np.int64]) -> CategoryColumn:
        """Return the column of these rows, int64 (r,) indexes."""
        return CategoryColumn(self.name, self.labels, self.codes[rows], self.shares)
