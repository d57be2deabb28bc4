"""Weighted tables: their distance, their rare categories, and the association that they show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.analyses.columns import CategoryColumn


def build_cross_table(
    columns: Sequence[CategoryColumn], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Sum the weights by the categories of one or two columns, float64 (L1,) or (L1, L2).

    A row that is several categories of both columns counts in each pair of them, with the product
    of its shares.

    Parameters
    ----------
    columns : one column or two, without missing values, n rows.
    weights : float64 (n,).
    """
    if len(columns) == 1:
        return columns[0].weigh(weights)
    first, second = columns
    m_first, m_second = len(first.shares), len(second.shares)
    cells = np.bincount(
        first.codes.astype(np.int64) * m_second + second.codes,
        weights=weights,
        minlength=m_first * m_second,
    )
    table: NDArray[np.float64] = first.shares.T @ cells.reshape(m_first, m_second) @ second.shares
    return table


def measure_total_variation(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> float | None:
    """Measure the total variation distance of two tables of one shape.

    It is half of the sum of the absolute differences of shares: 0 for equal distributions, 1 for
    those without a common cell. Returns None for a table without rows.
    """
    totals = first.sum(), second.sum()
    if not min(totals) > 0:
        return None
    return float(np.abs(first / totals[0] - second / totals[1]).sum() / 2)


def count_rare_categories(
    original: NDArray[np.float64], released: NDArray[np.float64], below: float
) -> tuple[int, int, float | None]:
    """Count the rare categories of a table, and those of them that another one has.

    Parameters
    ----------
    original, released : the weights of the same categories, float64 (L,); in both some are not 0.
    below : a category is rare if its share of the original weight is smaller, and above 0.

    Returns
    -------
    The two numbers, and the mean difference of shares over the original ones; None if no category
    is rare.
    """
    shares, released_shares = original / original.sum(), released / released.sum()
    is_rare = (shares > 0) & (shares < below)
    if not is_rare.any():
        return 0, 0, None
    differences = np.abs(released_shares - shares)[is_rare] / shares[is_rare]
    n_left = int((released_shares[is_rare] > 0).sum())
    return int(is_rare.sum()), n_left, float(differences.mean())


def measure_cramers_v(table: NDArray[np.float64]) -> float | None:
    """Measure the association of the two columns of a table, Cramér's V, 0 to 1.

    It is sqrt(phi² / min(rows - 1, columns - 1)) with phi² = sum((p - e)² / e), where e are the
    shares if the columns were independent (Cramér 1946). Rows and columns without weight are left
    out. Returns None if there is only one row or column.

    Parameters
    ----------
    table : float64 (L1, L2).
    """
    table = table[np.ix_(table.sum(axis=1) > 0, table.sum(axis=0) > 0)]
    degrees = min(table.shape) - 1
    if degrees < 1:
        return None
    shares = table / table.sum()
    expected = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    return float(np.sqrt((np.square(shares - expected) / expected).sum() / degrees))
