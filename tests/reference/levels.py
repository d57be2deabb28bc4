"""Full-domain generalization by its definition: all combinations of levels, in plain loops."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np


def best_levels(
    space: Any, k: int, suppression: float, strata: Any = None
) -> tuple[tuple[int, ...], list[int]]:
    """Return the levels of least loss, and the class of each record; -1 if it is withheld.

    Of equal losses, the lower level of the attribute named first counts. Classes are numbered in
    the order of strata, and of the codes of the attributes.
    """
    n = space.mixed.n_records
    groups = [space.groups(attribute) for attribute in range(len(space.mixed.names))]
    root_loss = n * sum(int(cost) for cost in space.mixed.root_costs)
    best: tuple[int, tuple[int, ...]] | None = None
    labels: list[int] = []
    for levels in itertools.product(*(range(len(losses)) for _, losses in groups)):
        rows = rows_at(groups, levels, n, strata)
        sizes = Counter(rows)
        n_withheld = sum(size for size in sizes.values() if size < k)
        if n_withheld / n > suppression or n_withheld == n:
            continue
        label_loss = sum(
            int(losses[level]) for (_, losses), level in zip(groups, levels, strict=True)
        )
        candidate = (label_loss * (n - n_withheld) + n_withheld * root_loss, levels)
        if best is None or candidate < best:
            best = candidate
            large_rows = sorted(row for row, size in sizes.items() if size >= k)
            number_of_row = {row: number for number, row in enumerate(large_rows)}
            labels = [number_of_row.get(row, -1) for row in rows]
    assert best is not None
    return best[1], labels


def rows_at(groups: Any, levels: tuple[int, ...], n: int, strata: Any) -> list[tuple[int, ...]]:
    """The stratum and the code of each attribute at its level, of each record."""
    columns = [np.zeros(n, np.int64) if strata is None else strata]
    columns += [codes[level] for (codes, _), level in zip(groups, levels, strict=True)]
    return [tuple(row) for row in np.column_stack(columns).tolist()]
