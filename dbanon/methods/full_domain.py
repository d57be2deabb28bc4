"""Full-domain generalization: one level of every attribute for the whole table.

A level is a number of steps up from the leaves. The method chooses the combination of levels with
the least loss among the combinations whose classes have k or more records. The loss of a cell (the
value of a record in an attribute) is the height of its label above the leaf, divided by the height
of the hierarchy; for numbers, it is the share of the range that the label covers. Records in
classes below k are withheld if their share of all records is at most ``suppression``; their cells
count as fully lost. Numbers without a hierarchy have the levels of ``data.number_levels``: the
intervals of the column's grid, and unions of intervals up to the whole range. Ties go to the lower
level of the attribute named first.

If a combination needs no more suppression than allowed, the same holds for all combinations above
it in the lattice of combinations. If it needs more, so do all combinations below it (K. LeFevre,
D. DeWitt and R. Ramakrishnan, "Incognito: efficient full-domain k-anonymity", SIGMOD 2005). So
ascending chains of the lattice are searched by bisection (F. Kohlmayer, F. Prasser et al., "Flash:
efficient, stable and optimal k-anonymity", PASSAT 2012).

Classes: k or more. All records, in all strata, are released at the same levels. With ``contract``
each class is released with the lowest labels that its records have in common, which loses less but
is no longer full-domain.
Cost: O(n d) for each examined combination, of which there may be all. Memory grows with the number
of all combinations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import SUPPRESSED, Levels, max_count_of_share
from dbanon.errors import TooFewRecords
from dbanon.methods.registry import MixedMethod, Tick
from dbanon.spaces.levels import LevelSpace, level_space

# The status of a combination of levels: whether it needs no more suppression than allowed.
_UNKNOWN, _SUFFICES, _FAILS = 0, 1, 2
_MAX_COMBINATIONS = 2**25
# Larger than the loss of any combination.
_NO_BOUND = int(np.iinfo(np.int64).max)


def full_domain(
    space: LevelSpace,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    suppression: float,
    contract: bool = False,
    strata: NDArray[np.int64] | None = None,
) -> Levels:
    """Partition the records of ``space`` by the best combination of levels.

    Parameters
    ----------
    contract : ignored here, because it only affects how classes are released.
    suppression : the largest share of records to withhold, 0 to 1.
    strata : int64 (n,), the stratum of each record; every stratum has k records or more. None for a
        single stratum.

    Raises
    ------
    TooFewRecords : there are fewer than k records.
    InvalidParameter : there are too many combinations of levels.
    """
    n, names = space.mixed.n_records, space.mixed.names
    if n < k:
        raise TooFewRecords(f"There are {n} records, fewer than k = {k}.")
    stratum_of_record = np.zeros(n, np.int64) if strata is None else strata
    max_withheld = max_count_of_share(suppression, n)
    shape = space.count_levels(_MAX_COMBINATIONS)
    # For each attribute and level: the group of each record, and the total loss of all records.
    group_codes, losses = zip(*map(space.groups, range(len(names))), strict=True)
    loss_bound = np.zeros(shape, np.int64)
    for attribute, level_losses in enumerate(losses):
        loss_bound += level_losses.reshape([-1 if a == attribute else 1 for a in range(len(shape))])
    status = np.zeros(shape, np.int8)
    # ``loss_bound`` is the loss of a combination if no record is withheld, which is a lower bound.
    # ``least_loss`` and ``loss`` are losses multiplied by n, so that they are integers.
    # ``shape`` only marks that there is no combination yet; it is one level above the top.
    best_labels, best_levels, least_loss = None, shape, _NO_BOUND * n
    # A withheld record loses the most in each attribute: the cost of the root.
    loss_of_withheld = n * sum(int(cost) for cost in space.mixed.root_costs)
    while True:
        may_improve = (status == _UNKNOWN) & (loss_bound <= least_loss // n)
        start = np.unravel_index(int(np.where(may_improve, loss_bound, _NO_BOUND).argmin()), shape)
        if not may_improve[start]:
            break
        chain = _find_cheapest_chain(tuple(int(level) for level in start), loss_bound)
        low, high = 0, len(chain)
        while low < high:
            middle = (low + high) // 2
            levels = chain[middle]
            tick(float((status != _UNKNOWN).mean()))
            sizes, labels = _group_records(group_codes, levels, stratum_of_record)
            n_withheld = int(sizes[sizes < k].sum())
            # A release without any record is no result, even if the suppression allows it.
            if n_withheld > max_withheld or n_withheld == n:
                # All combinations below this one in the lattice fail, too.
                status[tuple(slice(level + 1) for level in levels)] = _FAILS
                low = middle + 1
                continue
            high = middle
            status[levels] = _SUFFICES
            # Each released record counts with the mean loss of all records at these levels.
            loss = int(loss_bound[levels]) * (n - n_withheld) + n_withheld * loss_of_withheld
            if (loss, levels) < (least_loss, best_levels):
                least_loss, best_levels = loss, levels
                best_labels = np.where(sizes[labels] < k, SUPPRESSED, labels)
    # There is a result: with all attributes at their roots, each stratum is a class.
    assert best_labels is not None
    is_released = best_labels >= 0
    _, consecutive_labels = np.unique(best_labels[is_released], return_inverse=True)
    best_labels[is_released] = consecutive_labels
    return space.partition_by_levels(best_labels, best_levels)


def _group_records(
    group_codes: Sequence[Sequence[NDArray[np.int64]]],
    levels: tuple[int, ...],
    strata: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group the records of each stratum that are equal at the given levels.

    Returns the size of each group, int64 (g,), and the group of each record, int64 (n,).

    Parameters
    ----------
    group_codes : by attribute and level, the code of each record, int64 (n,).
    levels : the level of each attribute.
    strata : int64 (n,), the stratum of each record.
    """
    group_of_record = strata
    for attribute, level in enumerate(levels):
        codes = group_codes[attribute][level]
        _, group_of_record = np.unique(
            group_of_record * (int(codes.max()) + 1) + codes, return_inverse=True
        )
    return np.bincount(group_of_record), group_of_record


def _find_cheapest_chain(
    start: tuple[int, ...], loss_bound: NDArray[np.int64]
) -> list[tuple[int, ...]]:
    """Return the combinations of levels from ``start`` to the top of the lattice.

    Each step raises the level of the attribute for which the loss grows least.

    Parameters
    ----------
    loss_bound : the lower bound of the loss of each combination, indexed by the levels.
    """
    chain = [start]
    while True:
        next_combinations = [
            (*chain[-1][:attribute], level + 1, *chain[-1][attribute + 1 :])
            for attribute, level in enumerate(chain[-1])
            if level + 1 < loss_bound.shape[attribute]
        ]
        if not next_combinations:
            return chain
        chain.append(min(next_combinations, key=lambda levels: int(loss_bound[levels])))


METHOD = MixedMethod(
    name="full_domain",
    run=full_domain,
    summary="One level of each hierarchy for the whole table",
    class_sizes="k and more",
    cost="O(n) for each combination of levels looked at",
    reference="LeFevre, DeWitt & Ramakrishnan 2005",
    max_size=None,
    result_type=Levels,
    space=level_space,
    refine=None,
    options=(
        Parameter(
            "suppression",
            float,
            0.0,
            Option("Largest share of records to withhold.", minimum=0, maximum=1),
        ),
        Parameter(
            "contract", bool, False, Option("Release what classes have in common, not the levels.")
        ),
    ),
)
