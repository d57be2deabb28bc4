"""Entropies of categorical columns, in bits: what measures of entropy share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Categories, Column, Nodes, Numbers
from dbanon.measures.pairs import Pairs

Codes: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Coded:
    """A categorical column over the records that hold it on both sides.

    Parameters
    ----------
    before, after : int64 (m,), codes; of an ordinal column comparable with each other.
    values : how many different originals there are.
    ordinal : True where codes have an order.
    """

    name: str
    before: Codes
    after: Codes
    values: int
    ordinal: bool


def coded(pairs: Pairs) -> list[Coded]:
    """The categorical columns: nominal ones, ordinal ones, and labels of hierarchies."""
    found = []
    for column in pairs.columns:
        codes = _codes(column)
        if codes is None:
            continue
        before, after = codes[0], codes[1][pairs.partition.labels]
        held = pairs.cells([column])
        if held is not None:
            before, after = before[held[:, 0]], after[held[:, 0]]
        ordinal = isinstance(column, Numbers)
        found.append(Coded(column.name, before, after, len(np.unique(before)), ordinal))
    return found


def _codes(column: Column) -> tuple[Codes, Codes] | None:
    if isinstance(column, Categories | Nodes):
        return column.kinds, column.released_kinds
    if isinstance(column, Numbers) and column.ordinal:
        _, at = np.unique(np.concatenate((column.original, column.released)), return_inverse=True)
        at = at.reshape(-1).astype(np.int64)
        return at[: len(column.original)], at[len(column.original) :]
    return None


def entropy(codes: Codes) -> float:
    """The entropy of a nominal column: -sum of p log2 p."""
    counts = np.unique(codes, return_counts=True)[1]
    shares = counts / max(int(counts.sum()), 1)
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def ordinal_entropy(codes: Codes, values: int) -> float:
    """The entropy of an ordinal column: that of being above or not, mean of all places to cut.

    p_i is the share of values up to the i-th. ``values`` is the number of the original's values, on
    both sides.
    """
    if values < 2:
        return 0.0
    counts = np.unique(codes, return_counts=True)[1]
    up_to = np.cumsum(counts)[:-1] / max(int(counts.sum()), 1)
    total = 0.0
    for shares in (up_to, 1 - up_to):
        total -= float((shares * np.log2(shares)).sum())
    return total / (values - 1) + 0.0
