"""Recount of released rows, from the definition: how many rows share each row's key values.

This module shares no code with the searches that it verifies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MissingRule = Literal["wildcard", "own_wildcard", "category"]


def recount_rows(
    released: NDArray[np.int32],
    originals: NDArray[np.int32],
    columns: Sequence[int],
    missing: MissingRule,
) -> NDArray[np.int64]:
    """Count for each released row the rows that share its key values, itself included, int64 (n,).

    Parameters
    ----------
    released : int32 (n, m), the rows after blanking; -1 is missing.
    originals : int32 (n, m), the rows before.
    columns : the key columns to compare.
    missing : which rows count.

        - ``wildcard``: released rows with the same values in all columns where both have one, as
          the function ``freqCalc`` of sdcMicro counts them.
        - ``own_wildcard``: original rows, by the same comparison.
        - ``category``: released rows with the same values, and missing ones in the same columns.
    """
    keys = released[:, list(columns)]
    rows, group, sizes = _distinct(keys)
    if missing == "category":
        return sizes[group]
    others, other_sizes = rows, sizes
    if missing == "own_wildcard":
        others, _, other_sizes = _distinct(originals[:, list(columns)])
    counts = np.zeros(len(rows), np.int64)
    for shape, members in _by_present_columns(rows):
        for other_shape, other_members in _by_present_columns(others):
            common = shape & other_shape
            stacked = np.concatenate([others[other_members], rows[members]])[:, common]
            weights = np.zeros(len(stacked), np.int64)
            weights[: len(other_members)] = other_sizes[other_members]
            counts[members] += _sum_of_equal_rows(stacked, weights)[len(other_members) :]
    return counts[group]


def _runs(rows: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return an order that sorts the rows, and for each position the number of its run."""
    if not rows.shape[1]:
        return np.arange(len(rows)), np.zeros(len(rows), np.int64)
    order = np.lexsort(rows.T)
    ordered = rows[order]
    is_start = np.ones(len(rows), np.bool_)
    is_start[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, np.cumsum(is_start) - 1


def _distinct(
    rows: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct rows, the index of each row among them, and their numbers of rows."""
    order, run = _runs(rows)
    index = np.empty(len(rows), np.int64)
    index[order] = run
    first = order[np.flatnonzero(np.diff(run, prepend=-1))]
    return rows[first], index, np.bincount(run).astype(np.int64)


def _by_present_columns(
    rows: NDArray[np.int32],
) -> list[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Return the rows by the columns in which they have a value: those, and the rows' indices."""
    shapes, index, _ = _distinct((rows >= 0).astype(np.int32))
    return [(shape > 0, np.flatnonzero(index == number)) for number, shape in enumerate(shapes)]


def _sum_of_equal_rows(rows: NDArray[np.int32], weights: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each row the sum of the weights of all rows equal to it."""
    order, run = _runs(rows)
    totals = np.zeros(int(run[-1]) + 1, np.int64)
    np.add.at(totals, run, weights[order])
    result = np.empty(len(rows), np.int64)
    result[order] = totals[run]
    return result
