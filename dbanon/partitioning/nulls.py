"""Merge rare patterns of NULLs into patterns with more NULLs, by suppressing further values.

A pattern is the set of quasi-identifiers that are NULL in a record. Classes do not cross patterns,
so a pattern with fewer than k records or persons cannot have a class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.hierarchy.leaves import suppress_values
from dbanon.job.nulls import MERGE
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.partitioning.strata import count_for_k, group_positions, pattern_codes

BoolArray = NDArray[np.bool_]


def merge_patterns(
    is_null: BoolArray, count_units: Callable[[Sequence[int]], int], k: int
) -> tuple[BoolArray, BoolArray]:
    """Find the pattern with which each pattern of NULLs of one stratum is released.

    Makes two passes over the patterns, in ascending order of the number of NULLs. Patterns with
    equally many NULLs are ordered by which columns are NULL, in column order.

    1. A pattern with fewer than k records, including the patterns that joined it, joins a pattern
       whose NULLs are a strict superset of its own. Patterns are preferred if both together have k
       records, then those with the fewest additional NULLs, then those with the most records, then
       the first one.
    2. Patterns without a superset join each other. The pattern whose addition suppresses the fewest
       values (the first of several) is added to the first pattern, and so on until there are k
       records. These patterns are released with the union of their NULLs. If the last patterns have
       fewer than k records together, they join a union that is a superset of theirs, the one with
       the fewest additional NULLs, or are withheld if there is none.

    Each released pattern has k records or more. Proof: pass 1 moves a pattern with all patterns
    that joined it, and only to a later pattern, since a strict superset has more NULLs. So no
    pattern gains records after pass 1 has processed it: it has k or more, or has moved as a whole,
    or is left for pass 2. Pass 2 releases a union once it has k, and then only adds to it. If two
    released patterns have the same NULLs, each has k, and so have both together. The same holds for
    persons, since ``count_units`` never becomes smaller with more patterns.

    Withheld patterns keep their own NULLs. If another pattern is released with the same NULLs, both
    are one stratum, which has k, so all of its records get classes. If not, they form a stratum
    below k, which ``rare_records`` removes or ``find_classes`` refuses.

    Parameters
    ----------
    is_null : bool (m, d), the distinct patterns: True where NULL.
    count_units : returns the number of records or, with entities, persons that have any of the
        given patterns (indices).

    Returns
    -------
    bool (m, d), the pattern with which each pattern is released, or its own if it is withheld; bool
    (m,), True for each pattern that is withheld.
    """
    # The negation sorts patterns with NULL in an earlier column first.
    order = np.array(
        sorted(range(len(is_null)), key=lambda i: (int(is_null[i].sum()), *~is_null[i])), np.intp
    )
    members_by_pattern = {int(i): [int(i)] for i in order}
    unit_counts = [count_units([i]) for i in range(len(is_null))]
    # Patterns below k without a superset, for pass 2.
    unmerged: list[int] = []
    for position, i in enumerate(order.tolist()):
        if unit_counts[i] >= k:
            continue
        later_patterns = order[position + 1 :]
        supersets = later_patterns[(is_null[later_patterns] >= is_null[i]).all(axis=1)]
        if not len(supersets):
            unmerged.append(i)
            continue
        n_added_nulls = (is_null[supersets] & ~is_null[i]).sum(axis=1).tolist()
        preferences = []
        for index, j in enumerate(supersets.tolist()):
            # Persons may have records of both patterns.
            is_below_k = (
                unit_counts[i] + unit_counts[j] < k
                or count_units(members_by_pattern[i] + members_by_pattern[j]) < k
            )
            # The least tuple is preferred; False comes before True.
            preferences.append((is_below_k, n_added_nulls[index], -unit_counts[j], index))
        superset = int(supersets[min(preferences)[-1]])
        members_by_pattern[superset] += members_by_pattern.pop(i)
        unit_counts[superset] = count_units(members_by_pattern[superset])
    released_patterns, is_withheld = is_null.copy(), np.zeros(len(is_null), np.bool_)
    for members, union in _unite_patterns(unmerged, members_by_pattern, is_null, count_units, k):
        if union is None:
            is_withheld[members] = True
        else:
            released_patterns[members] = union
    # ``_unite_patterns`` has removed the patterns of pass 2, so those of pass 1 remain.
    for i, members in members_by_pattern.items():
        released_patterns[members] = is_null[i]
    return released_patterns, is_withheld


def _unite_patterns(
    unmerged: list[int],
    members_by_pattern: dict[int, list[int]],
    is_null: BoolArray,
    count_units: Callable[[Sequence[int]], int],
    k: int,
) -> list[tuple[list[int], BoolArray | None]]:
    """Make pass 2 of ``merge_patterns``; removes the unmerged patterns from ``members_by_pattern``.

    Parameters
    ----------
    unmerged : the patterns (indices) without a superset.
    members_by_pattern : for each pattern, the patterns that have joined it, and itself.
    is_null, count_units, k : as for ``merge_patterns``.

    Returns
    -------
    Pairs of patterns that are released together and the union of their NULLs, bool (d,); None
    instead of the union if they are withheld.
    """
    unions: list[tuple[list[int], BoolArray | None]] = []
    member_lists = [members_by_pattern.pop(i) for i in unmerged]
    patterns = is_null[unmerged]
    unit_counts = np.array([count_units(members) for members in member_lists], np.int64)
    pending = np.arange(len(unmerged))
    while len(pending):
        current, pending = pending[0], pending[1:]
        members, union = member_lists[current], patterns[current]
        while len(pending) and count_units(members) < k:
            candidates = patterns[pending]
            n_suppressed_cells = (candidates & ~union).sum(axis=1) * count_units(members)
            n_suppressed_cells = (
                n_suppressed_cells + (union & ~candidates).sum(axis=1) * unit_counts[pending]
            )
            cheapest = int(n_suppressed_cells.argmin())
            members = members + member_lists[pending[cheapest]]
            union = union | candidates[cheapest]
            pending = np.delete(pending, cheapest)
        if count_units(members) >= k:
            unions.append((members, union))
            continue
        supersets = [
            (int((other_union & ~union).sum()), index)
            for index, (_, other_union) in enumerate(unions)
            if other_union is not None and bool((other_union >= union).all())
        ]
        if supersets:
            unions[min(supersets)[1]][0].extend(members)
        else:
            unions.append((members, None))
    return unions


def merge_nulls(microdata: Microdata, policy: Policy) -> Microdata:
    """Merge rare patterns of NULLs if the policy has ``nulls="merge"``.

    Records of withheld patterns stay as they are, in a stratum below k. If the policy asks for an
    evaluation, ``Microdata.before_suppression`` keeps the suppressed values.
    """
    # ``valid`` is False for NULL; it is None if no value is NULL. A method that suppresses cells
    # chooses them itself, whatever is NULL already.
    if (
        policy.nulls != MERGE
        or microdata.valid is None
        or find_method(policy.method).suppresses_cells
    ):
        return microdata
    valid, n_attributes = microdata.valid.copy(), len(microdata.attributes)
    n = microdata.n_records
    patterns = pattern_codes(microdata.valid)
    strata = [np.arange(n)] if microdata.strata is None else group_positions(microdata.strata)
    for records in strata:
        records_by_pattern = [
            records[pattern_records] for pattern_records in group_positions(patterns[records])
        ]
        is_null = np.array(
            [~microdata.valid[pattern_records[0]] for pattern_records in records_by_pattern]
        ).reshape(-1, n_attributes)

        def count_units(
            patterns: Sequence[int],
            records_by_pattern: list[NDArray[np.int64]] = records_by_pattern,
        ) -> int:
            if microdata.entities is None:
                return sum(len(records_by_pattern[i]) for i in patterns)
            return count_for_k(microdata, np.concatenate([records_by_pattern[i] for i in patterns]))

        released_patterns, _ = merge_patterns(is_null, count_units, int(policy.k))
        for pattern_records, released_pattern in zip(
            records_by_pattern, released_patterns, strict=True
        ):
            valid[pattern_records] = ~released_pattern
    return suppress_values(microdata, microdata.valid & ~valid, keep_originals=policy.evaluate)
