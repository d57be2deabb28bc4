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
    levels : int64 (L,), the different originals, ascending.
    ordinal : True where codes have an order.
    """

    name: str
    before: Codes
    after: Codes
    levels: Codes
    ordinal: bool


def coded(pairs: Pairs) -> list[Coded]:
    """The categorical columns: nominal ones, ordinal ones, and labels of hierarchies."""
    found = []
    for column in pairs.columns:
        codes = _codes(column)
        if codes is None:
            continue
        before, after = codes[0], codes[1][pairs.rows]
        held = pairs.cells([column])
        if held is not None:
            before, after = before[held[:, 0]], after[held[:, 0]]
        ordinal = isinstance(column, Numbers)
        found.append(Coded(column.name, before, after, np.unique(before), ordinal))
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


def ordinal_entropy(codes: Codes, levels: Codes) -> float:
    """The entropy of an ordinal column: that of being above or not, mean of all places to cut.

    p_i is the share of values up to the i-th of ``levels``, the originals' values, ascending, on
    both sides.
    """
    if len(levels) < 2:
        return 0.0
    up_to = np.searchsorted(np.sort(codes), levels[:-1], "right") / max(len(codes), 1)
    total = 0.0
    for shares in (up_to, 1 - up_to):
        logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
        total -= float((shares * logs).sum())
    return total / (len(levels) - 1) + 0.0
