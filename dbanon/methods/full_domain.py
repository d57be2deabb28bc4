"""Full-domain generalization: one level of every attribute for the whole table.

A level is a number of steps up from the leaves. Of all combinations of levels that give classes of
k, the one of least loss is taken: climbed share of the way to the root, or the label's share of the
range, summed over cells; records in classes below k are withheld while they are at most the share
``suppression`` of all, and lose all. Numbers without a hierarchy have the levels of
``data.number_levels``: cells of the column's grid, and unions of these up to all. Ties go
to the lower level of the attribute named first.

Combinations above one that needs no more suppression than allowed need none either, and those below
one that fails fail (K. LeFevre, D. DeWitt and R. Ramakrishnan, "Incognito: efficient full-domain
k-anonymity", SIGMOD 2005), so chains of the lattice are bisected (F. Kohlmayer,
F. Prasser et al., "Flash: efficient, stable and optimal k-anonymity", PASSAT 2012).

Classes: k and more. They are released at common levels, the same for all records; with
``contract`` by what their records have in common, which loses less and is no full domain any more.
Strata, whose classes do not cross, have the same levels.
Cost: O(n d) for each combination looked at; at worst all. All have a place in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import SUPPRESSED, Levels, max_count_of_share
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.methods.registry import MixedMethod, Tick
from dbanon.spaces.levels import LevelSpace, level_space

_UNKNOWN, _HOLDS, _FAILS = 0, 1, 2
_MOST_COMBINATIONS = 2**25
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
    """Partition the records of ``space``; classes of the best combination of levels.

    Parameters
    ----------
    contract : only changes how classes are released.
    strata : int64 (n,), sets of k or more records each that no class crosses; None for one.

    Raises
    ------
    TooFewRecords : no combination satisfies k; with at least k records one always does.
    InvalidParameter : there are too many combinations of levels.
    """
    n, names = space.mixed.n_records, space.mixed.names
    if n < k:
        raise TooFewRecords(f"There are {n} records, fewer than k = {k}.")
    apart = np.zeros(n, np.int64) if strata is None else strata
    limit = max_count_of_share(suppression, n)
    shape = tuple(height + 1 for height in space.heights())
    if prod(shape) > _MOST_COMBINATIONS:
        raise InvalidParameter(
            f"There are {prod(shape)} combinations of levels, more than {_MOST_COMBINATIONS}.",
            hint="Name fewer quasi-identifiers, or give hierarchies of fewer levels.",
        )
    values, losses = zip(*map(space.groups, range(len(names))), strict=True)
    bound = np.zeros(shape, np.int64)
    for attribute, loss in enumerate(losses):
        bound += loss.reshape([-1 if a == attribute else 1 for a in range(len(shape))])
    state = np.zeros(shape, np.int8)
    # The loss of the best so far, times n, and its levels; withholding only adds to a bound.
    best, chosen, least = None, shape, _NO_BOUND * n
    total = n * sum(int(unit) for unit in space.mixed.units)
    while True:
        might = (state == _UNKNOWN) & (bound <= least // n)
        start = np.unravel_index(int(np.where(might, bound, _NO_BOUND).argmin()), shape)
        if not might[start]:
            break
        chain = _chain(tuple(int(level) for level in start), bound)
        low, high = 0, len(chain)
        while low < high:
            at = chain[(low + high) // 2]
            tick(float((state != _UNKNOWN).mean()))
            sizes, labels = _group(values, at, apart)
            withheld = int(sizes[sizes < k].sum())
            if withheld > limit or withheld == n:
                state[tuple(slice(level + 1) for level in at)] = _FAILS
                low = (low + high) // 2 + 1
                continue
            high = (low + high) // 2
            state[at] = _HOLDS
            loss_of_all = int(bound[at]) * (n - withheld) + withheld * total
            if (loss_of_all, at) < (least, chosen):
                least, chosen = loss_of_all, at
                best = np.where(sizes[labels] < k, SUPPRESSED, labels)
    assert best is not None  # all at their roots: one class a stratum
    _, numbered = np.unique(best[best >= 0], return_inverse=True)
    best[best >= 0] = numbered
    return Levels(
        best,
        dict(zip(names, chosen, strict=True)),
        {n: levels for n, levels in zip(names, space.numbers, strict=True) if levels is not None},
    )


def _group(
    values: Sequence[Sequence[NDArray[np.int64]]],
    levels: tuple[int, ...],
    strata: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes of the groups of equal records in each stratum, and each record's group."""
    group = strata
    for attribute, level in enumerate(levels):
        column = values[attribute][level]
        _, group = np.unique(group * (int(column.max()) + 1) + column, return_inverse=True)
    return np.bincount(group), group


def _chain(start: tuple[int, ...], bound: NDArray[np.int64]) -> list[tuple[int, ...]]:
    """From ``start`` to the top of the lattice, by the cheapest step each time."""
    chain = [start]
    while True:
        steps = [
            (*chain[-1][:a], level + 1, *chain[-1][a + 1 :])
            for a, level in enumerate(chain[-1])
            if level + 1 < bound.shape[a]
        ]
        if not steps:
            return chain
        chain.append(min(steps, key=lambda step: int(bound[step])))


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
