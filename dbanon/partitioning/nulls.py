"""Rare patterns of NULLs join patterns of more NULLs: their additional cells are suppressed.

A pattern is the set of quasi-identifiers that are NULL in a record. Classes do not cross patterns,
so a pattern of fewer than k records or persons has no class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.hierarchy.leaves import take_records
from dbanon.job.nulls import MERGE
from dbanon.job.policy import Policy
from dbanon.partitioning.strata import count_for_k, group_positions, pattern_codes

Bools = NDArray[np.bool_]


def merge_patterns(
    absent: Bools, count: Callable[[Sequence[int]], int], k: int
) -> tuple[Bools, Bools]:
    """The pattern that each pattern of NULLs of one stratum is released with.

    Two passes, over the patterns by their number of NULLs, then by their NULLs in column order.

    1. A pattern whose records and those that joined it are fewer than k joins another one, all of
       whose NULLs are a strict superset of its own. Of several it is the one with which it has k,
       then the one with the fewest additional NULLs, then the one of the most records, then the
       first.
    2. Those that no superset was left for join each other: to the first, the one is added that
       suppresses the fewest cells, the first among equals, until there are k. Their pattern is the
       union of theirs. The last of them, of fewer than k, joins the union with the fewest
       additional NULLs among those that are supersets of it, the first among equals; without one
       it is withheld.

    Each pattern that is released holds k records or more. Proof: pass 1 moves a pattern with all
    that joined it, and only to a later pattern, as a strict superset has more NULLs. So after its
    turn no pattern gains records, and it holds k or more, or moves as a whole, or is left for pass
    2. Pass 2 releases a union once it holds k, and then only adds to it. Where two released
    patterns are the same set of NULLs, each holds k, and so do they together. Persons are counted
    the same way: ``count`` of more patterns is never less. Records that are withheld keep their
    own pattern. If that holds k with others it has a class; if not, all of its records are of a
    stratum below k, which ``rare_records`` takes out or ``find_classes`` refuses.

    Parameters
    ----------
    absent : bool (m, d), the patterns, each once: True where NULL.
    count : of records or persons with any of these patterns.

    Returns
    -------
    bool (m, d), the pattern that each is released with, its own where withheld; bool (m,), True for
    those that are withheld.
    """
    order = np.array(
        sorted(range(len(absent)), key=lambda i: (int(absent[i].sum()), *~absent[i])), np.intp
    )
    holding = {int(i): [int(i)] for i in order}
    size = [count([i]) for i in range(len(absent))]
    left: list[int] = []
    for position, i in enumerate(order.tolist()):
        if size[i] >= k:
            continue
        later = order[position + 1 :]
        above = later[(absent[later] >= absent[i]).all(axis=1)]
        if not len(above):
            left.append(i)
            continue
        added = (absent[above] & ~absent[i]).sum(axis=1).tolist()
        ranks = []
        for at, j in enumerate(above.tolist()):
            # Persons may have records of both patterns.
            few = size[i] + size[j] < k or count(holding[i] + holding[j]) < k
            ranks.append((few, added[at], -size[j], at))
        target = int(above[min(ranks)[-1]])
        holding[target] += holding.pop(i)
        size[target] = count(holding[target])
    released, rare = absent.copy(), np.zeros(len(absent), np.bool_)
    for members, union in _unite(left, holding, absent, count, k):
        if union is None:
            rare[members] = True
        else:
            released[members] = union
    for i, members in holding.items():
        released[members] = absent[i]
    return released, rare


def _unite(
    left: list[int],
    holding: dict[int, list[int]],
    absent: Bools,
    count: Callable[[Sequence[int]], int],
    k: int,
) -> list[tuple[list[int], Bools | None]]:
    """Pass 2 of ``merge_patterns``, which takes the patterns that were left out of ``holding``.

    Returns
    -------
    Sets of patterns with their union; None for those that are withheld.
    """
    unions: list[tuple[list[int], Bools | None]] = []
    parts = [holding.pop(i) for i in left]
    patterns = absent[left]
    sizes = np.array([count(members) for members in parts], np.int64)
    waiting = np.arange(len(left))
    while len(waiting):
        first, waiting = waiting[0], waiting[1:]
        members, union = parts[first], patterns[first]
        while len(waiting) and count(members) < k:
            others = patterns[waiting]
            cost = (others & ~union).sum(axis=1) * count(members)
            cost = cost + (union & ~others).sum(axis=1) * sizes[waiting]
            nearest = int(cost.argmin())
            members = members + parts[waiting[nearest]]
            union = union | others[nearest]
            waiting = np.delete(waiting, nearest)
        if count(members) >= k:
            unions.append((members, union))
            continue
        above = [
            (int((existing & ~union).sum()), at)
            for at, (_, existing) in enumerate(unions)
            if existing is not None and bool((existing >= union).all())
        ]
        if above:
            unions[min(above)[1]][0].extend(members)
        else:
            unions.append((members, None))
    return unions


def merge_nulls(microdata: Microdata, policy: Policy) -> Microdata:
    """Microdata whose rare patterns of NULLs are merged, where the policy says ``nulls="merge"``.

    Records of patterns that are withheld stay as they are: they are of a stratum below k.
    Suppressed cells keep their values in ``unmerged`` if the policy asks for an evaluation.
    """
    if policy.nulls != MERGE or microdata.valid is None:
        return microdata
    valid, d = microdata.valid.copy(), len(microdata.attributes)
    n = microdata.n_records
    patterns = pattern_codes(microdata.valid)
    strata = [np.arange(n)] if microdata.strata is None else group_positions(microdata.strata)
    for records in strata:
        parts = [records[pattern_records] for pattern_records in group_positions(patterns[records])]
        absent = np.array(
            [~microdata.valid[pattern_records[0]] for pattern_records in parts]
        ).reshape(-1, d)

        def count(patterns: Sequence[int], parts: list[NDArray[np.int64]] = parts) -> int:
            if microdata.entities is None:
                return sum(len(parts[i]) for i in patterns)
            return count_for_k(microdata, np.concatenate([parts[i] for i in patterns]))

        released, _ = merge_patterns(absent, count, int(policy.k))
        for pattern_records, row in zip(parts, released, strict=True):
            valid[pattern_records] = ~row
    suppressed = microdata.valid & ~valid
    if not suppressed.any():
        return microdata
    numeric = [attribute.kind.is_numeric for attribute in microdata.attributes]
    numbers, codes = microdata.numbers.copy(), microdata.codes.copy()
    # As stores read NULL.
    numbers[suppressed[:, numeric]] = 0.0
    codes[suppressed[:, np.logical_not(numeric)]] = -1
    merged = replace(microdata, numbers=numbers, codes=codes, valid=valid, suppressed=suppressed)
    with_trees = take_records(merged, np.arange(n))
    return replace(with_trees, unmerged=microdata) if policy.evaluate else with_trees
