"""Plain references for the model of synthetic rows: dense least squares, and drawing row by row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def reconciled_by_least_squares(
    n_bins: Sequence[int], tables: Sequence[tuple[tuple[int, ...], Floats, float]], n: int
) -> list[Floats]:
    """The counts of all tables that agree on each column and are nearest to the noisy ones.

    Parameters
    ----------
    tables : columns, noisy counts and variance of each table: one for each column, then those of
        two columns.
    """
    starts = np.cumsum([0, *(counts.size for _, counts, _ in tables)]).tolist()
    size = starts[-1]
    # What must hold: each column has n rows, and the sums of a table of two are its columns'.
    conditions, right = [], []
    for j in range(len(n_bins)):
        row = np.zeros(size)
        row[starts[j] : starts[j + 1]] = 1
        conditions.append(row)
        right.append(float(n))
    for (columns, counts, _), start in zip(tables, starts, strict=False):
        if len(columns) == 1:
            continue
        cells = np.arange(start, start + counts.size).reshape(counts.shape)
        for axis, j in enumerate(columns):
            for bin_ in range(n_bins[j]):
                row = np.zeros(size)
                row[cells.take(bin_, axis=axis)] = 1
                row[starts[j] + bin_] = -1
                conditions.append(row)
                right.append(0.0)
    precisions = np.concatenate(
        [np.full(counts.size, 1 / variance) for _, counts, variance in tables]
    )
    noisy = np.concatenate([counts.reshape(-1) for _, counts, _ in tables])
    matrix = np.array(conditions)
    empty = np.zeros((len(matrix), len(matrix)))
    system = np.block([[np.diag(precisions), matrix.T], [matrix, empty]])
    # Some conditions follow from others, so there are several multipliers, but one solution.
    solution = np.linalg.lstsq(system, np.append(precisions * noisy, right), rcond=None)[0]
    return [
        solution[start:end].reshape(counts.shape)
        for (_, counts, _), (start, end) in zip(tables, pairwise(starts), strict=True)
    ]


def bins_one_by_one(weights: Floats, groups: Ints, coordinates: Floats) -> tuple[Ints, Floats]:
    """The bin of each row and the offset in it: the rows of a group at equal distances."""
    bins, offsets = np.zeros(len(groups), np.int64), np.zeros(len(groups))
    for group in set(groups.tolist()):
        rows = sorted(np.flatnonzero(groups == group), key=lambda row: coordinates[row])
        shares = weights[group] if weights[group].sum() > 0 else np.ones(weights.shape[1])
        shares = shares / shares.sum()
        start = sum(coordinates[row] for row in rows) % 1.0
        for rank, row in enumerate(rows):
            position, below = (rank + start) / len(rows), 0.0
            for bin_, share in enumerate(shares):
                if position < below + share:
                    bins[row], offsets[row] = bin_, (position - below) / share
                    break
                below += share
    return bins, offsets
