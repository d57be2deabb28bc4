"""Merging of rare patterns of NULLs as docs/guarantees.md says it, with sets, record by record."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def merged(
    valid: NDArray[np.bool_],
    k: int,
    strata: Sequence[int] | None = None,
    persons: Sequence[int] | None = None,
) -> tuple[NDArray[np.bool_], list[int]]:
    """Which cells are released with a value, bool (n, d), and the records that are withheld."""
    n = len(valid)
    of_stratum: dict[int, list[int]] = {}
    for record in range(n):
        of_stratum.setdefault(0 if strata is None else strata[record], []).append(record)
    released, withheld = valid.copy(), []
    for records in of_stratum.values():
        for pattern, members in _patterns(valid, records, k, persons):
            for record in members:
                if pattern is None:
                    withheld.append(record)
                else:
                    released[record] = [column not in pattern for column in range(valid.shape[1])]
    return released, sorted(withheld)


def _patterns(
    valid: NDArray[np.bool_], records: list[int], k: int, persons: Sequence[int] | None
) -> list[tuple[frozenset[int] | None, list[int]]]:
    def count(members: list[int]) -> int:
        return len(members) if persons is None else len({persons[member] for member in members})

    def first(pattern: frozenset[int]) -> tuple[int, list[int]]:
        # With equally many NULLs, the pattern whose NULLs come first in column order.
        return len(pattern), [int(column not in pattern) for column in range(valid.shape[1])]

    holding: dict[frozenset[int], list[int]] = {}
    for record in records:
        absent = frozenset(np.flatnonzero(~valid[record]).tolist())
        holding.setdefault(absent, []).append(record)
    order = sorted(holding, key=first)
    left, done = [], []
    for pattern in order:
        members = holding[pattern]
        if count(members) >= k:
            continue
        above = [other for other in order if other > pattern]
        if not above:
            left.append((pattern, holding.pop(pattern)))
            continue
        target = min(
            above,
            key=lambda other: (
                count(members + holding[other]) < k,
                len(other - pattern),
                -count(holding[other]),
                order.index(other),
            ),
        )
        holding[target] = holding[target] + holding.pop(pattern)
        order = [other for other in order if other in holding]
    while left:
        union, members = left.pop(0)
        while left and count(members) < k:
            costs = [
                len(other - union) * count(members) + len(union - other) * count(members_of)
                for other, members_of in left
            ]
            other, members_of = left.pop(costs.index(min(costs)))
            union, members = union | other, members + members_of
        if count(members) >= k:
            done.append((union, members))
            continue
        above = [index for index, (other, _) in enumerate(done) if other >= union]
        if above:
            index = min(above, key=lambda index: (len(done[index][0] - union), index))
            done[index] = (done[index][0], done[index][1] + members)
        else:
            done.append((None, members))
    return [*holding.items(), *done]
