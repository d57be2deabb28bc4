"""SUDA by its definitions: every set of keys is tried, on rows of plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import prod

# A code per key; -1 is missing.
Row = Sequence[int]
Keys = tuple[int, ...]


def minimal_sample_uniques(rows: Sequence[Row], max_size: int) -> list[list[Keys]]:
    """Return of each row the minimal sets of keys on which it differs from all others.

    Only rows without a missing value in the set count. The smaller sets come first.
    """
    msus: list[list[Keys]] = [[] for _ in rows]
    n_keys = len(rows[0]) if rows else 0
    for size in range(1, max_size + 1):
        for keys in combinations(range(n_keys), size):
            values = [tuple(row[key] for key in keys) for row in rows]
            counts = Counter(values)
            for index, value in enumerate(values):
                if counts[value] > 1 or -1 in value:
                    continue
                if not any(set(smaller) <= set(keys) for smaller in msus[index]):
                    msus[index].append(keys)
    return msus


def msu_score(size: int, n_keys: int, max_size: int) -> int:
    """Return the score of one minimal sample unique."""
    return prod(n_keys - i for i in range(size, max_size))


def scores(msus: Sequence[Sequence[Keys]], n_keys: int, max_size: int) -> list[int]:
    """Return the SUDA score of each row."""
    return [sum(msu_score(len(keys), n_keys, max_size) for keys in row) for row in msus]


def contribution(msus: Sequence[Keys], key: int, n_keys: int, max_size: int) -> float:
    """Return the share of a row's score from sets with this key."""
    total = sum(msu_score(len(keys), n_keys, max_size) for keys in msus)
    with_key = sum(msu_score(len(keys), n_keys, max_size) for keys in msus if key in keys)
    return with_key / total if total else 0.0


def dis_scores(
    rows: Sequence[Row], row_scores: Sequence[int], n_keys: int, fraction: float
) -> list[float]:
    """Return the DIS-SUDA score of each row.

    The file's risk is the DIS estimate from its uniques and pairs; each row gets its share of the
    odds by its score.
    """
    counts = Counter(tuple(row) for row in rows)
    n_uniques = sum(count == 1 for count in counts.values())
    n_paired = 2 * sum(count == 2 for count in counts.values())
    if not any(row_scores):
        return [0.0] * len(rows)
    dis = n_uniques * fraction / (n_uniques * fraction + n_paired * (1 - fraction))
    exponent = 1 + (8 - n_keys) / 20
    total = sum(score**-exponent for score in row_scores if score)
    odds = n_uniques / dis - n_uniques
    return [1 / (1 + odds / (score**exponent * total)) if score else 0.0 for score in row_scores]
