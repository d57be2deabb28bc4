"""Entropies of categorical columns, in bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Categories, ColumnPair, Nodes, Numbers
from dbanon.measures.pairs import Pairs

Codes: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CategoricalColumn:
    """A categorical column, over records with an original and a released value.

    Parameters
    ----------
    name : the name of the column.
    before, after : int64 (r,), codes of original and released values. If the column is ordinal,
        codes have the order of the values.
    original_levels : int64 (l,), the distinct codes of originals, ascending: the levels of a
        factor, not of a hierarchy.
    is_ordinal : True if the column is ordinal.
    """

    name: str
    before: Codes
    after: Codes
    original_levels: Codes
    is_ordinal: bool


def categorical_columns(pairs: Pairs) -> list[CategoricalColumn]:
    """Return the categorical columns: nominal and ordinal ones, and those with hierarchies."""
    columns = []
    for column in pairs.columns:
        codes = _encode(column)
        if codes is None:
            continue
        original_codes, released_codes = codes
        before, after = original_codes, released_codes[pairs.labels]
        is_valid = pairs.valid_cells_of(column)
        if is_valid is not None:
            before, after = before[is_valid], after[is_valid]
        # Of the numeric columns, ``_encode`` returns codes only of ordinal ones.
        is_ordinal = isinstance(column, Numbers)
        columns.append(CategoricalColumn(column.name, before, after, np.unique(before), is_ordinal))
    return columns


def _encode(column: ColumnPair) -> tuple[Codes, Codes] | None:
    """Return codes of originals, int64 (n,), and of released values, int64 (m,).

    Returns None for columns that are not categorical.
    """
    if isinstance(column, Categories | Nodes):
        return column.value_ids, column.released_value_ids
    if isinstance(column, Numbers) and column.is_ordinal:
        _, codes = np.unique(
            np.concatenate((column.original, column.released)), return_inverse=True
        )
        codes = codes.reshape(-1).astype(np.int64)
        return codes[: len(column.original)], codes[len(column.original) :]
    return None


def entropy(codes: Codes) -> float:
    """Return the entropy of a nominal column: -sum of p log2 p over the shares p of its values."""
    counts = np.unique(codes, return_counts=True)[1]
    shares = counts / max(int(counts.sum()), 1)
    # Adding 0.0 turns -0.0 into 0.0.
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def ordinal_entropy(codes: Codes, levels: Codes) -> float:
    """Return the entropy of an ordinal column: the mean binary entropy over all cut points.

    Cut point i separates values up to the i-th level from larger ones. The binary entropy is that
    of the side that a value is on.

    Parameters
    ----------
    codes : int64 (r,), codes in the order of the values.
    levels : int64 (l,), the distinct codes of originals, ascending.
    """
    if len(levels) < 2:
        return 0.0
    shares_below = np.searchsorted(np.sort(codes), levels[:-1], "right") / max(len(codes), 1)
    total = 0.0
    for shares in (shares_below, 1 - shares_below):
        logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
        total -= float((shares * logs).sum())
    # Adding 0.0 turns -0.0 into 0.0.
    return total / (len(levels) - 1) + 0.0
