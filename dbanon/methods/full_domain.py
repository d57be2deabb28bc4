"""Full-domain generalization: one level of every attribute for the whole table.

A level is a number of steps up from the leaves. Of all combinations of levels that give classes of
k, the one of least loss is taken: climbed share of the way to the root, summed over cells; records
in classes below k are withheld while they are at most the share ``suppression`` of all, and lose
all. Numbers without a hierarchy have the levels: as they are, sixteenths, eighths, quarters and
halves of the range, one value for all. Ties go to the lower level of the attribute named first.

Combinations above one that needs no more suppression than allowed need none either, and those below
one that fails fail (K. LeFevre, D. DeWitt and R. Ramakrishnan, "Incognito: efficient full-domain
k-anonymity", SIGMOD 2005), so chains of the lattice are searched by halves (F. Kohlmayer,
F. Prasser et al., "Flash: efficient, stable and optimal k-anonymity", PASSAT 2012).

Classes: k and more. They are released at the levels found, the same for every record; with
``contract`` by what their records have in common, which loses less and is no full domain any more.
Strata, whose classes do not cross, have the same levels.
Cost: O(n d) for each combination looked at; at worst all. All have a place in memory.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import SUPPRESSED, Levels, most_of
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.methods.registry import MixedMethod, Tick
from dbanon.spaces.mixed import MixedSpace

_PARTS = (16, 8, 4, 2, 1)
_UNKNOWN, _KNOWN, _FAILS = 0, 1, 2
_MOST_COMBINATIONS = 2**25
_NO_BOUND = int(np.iinfo(np.int64).max)


def full_domain(
    space: MixedSpace,
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
    if space.n_records < k:
        raise TooFewRecords(f"There are {space.n_records} records, fewer than k = {k}.")
    apart = np.zeros(space.n_records, np.int64) if strata is None else strata
    values, losses = _levels(space)
    limit = most_of(suppression, space.n_records)
    shape = tuple(len(levels) for levels in values)
    if prod(shape) > _MOST_COMBINATIONS:
        raise InvalidParameter(
            f"There are {prod(shape)} combinations of levels, more than {_MOST_COMBINATIONS}.",
            hint="Name fewer quasi-identifiers, or give hierarchies of fewer levels.",
        )
    bound = np.zeros(shape, np.int64)
    for attribute, loss in enumerate(losses):
        bound += loss.reshape([-1 if a == attribute else 1 for a in range(len(shape))])
    state = np.zeros(shape, np.int8)
    # The loss of the best so far, times n, and its levels; withholding only adds to a bound.
    best, found, least = None, shape, _NO_BOUND * space.n_records
    total = space.n_records * sum(int(unit) for unit in space.units)
    while True:
        might = (state == _UNKNOWN) & (bound <= least // space.n_records)
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
            if withheld > limit or withheld == space.n_records:
                state[tuple(slice(level + 1) for level in at)] = _FAILS
                low = (low + high) // 2 + 1
                continue
            high = (low + high) // 2
            state[at] = _KNOWN
            lost = int(bound[at]) * (space.n_records - withheld) + withheld * total
            if (lost, at) < (least, found):
                least, found = lost, at
                best = np.where(sizes[labels] < k, SUPPRESSED, labels)
    assert best is not None  # all at their roots: one class a stratum
    _, numbered = np.unique(best[best >= 0], return_inverse=True)
    best[best >= 0] = numbered
    return Levels(
        best,
        dict(zip(space.names, found, strict=True)),
        {
            name: values[attribute][found[attribute]]
            for attribute, name in enumerate(space.names)
            if space.trees[attribute] is None
        },
    )


def _levels(
    space: MixedSpace,
) -> tuple[list[list[NDArray[np.int64]]], list[NDArray[np.int64]]]:
    """For each attribute and level, the records' values (n,) and their loss in all.

    Losses are whole numbers, as units are multiples of all depths, so that ties are ties.
    """
    values, losses = [], []
    for attribute, tree in enumerate(space.trees):
        codes = space.codes[:, attribute].astype(np.int64)
        unit = float(space.units[attribute])
        if tree is None:
            cuts = [codes * parts // (int(unit) + 1) for parts in _PARTS]
            values.append([codes, *cuts])
            losses.append(np.array([0, *(round(unit / parts) * len(codes) for parts in _PARTS)]))
            continue
        nodes = [tree.at_level(level)[codes] for level in range(tree.height + 1)]
        values.append([node.astype(np.int64) for node in nodes])
        losses.append(
            np.array([np.rint(unit * tree.loss(codes, node)).sum() for node in nodes], np.int64)
        )
    return values, losses


def _group(
    values: list[list[NDArray[np.int64]]], levels: tuple[int, ...], strata: NDArray[np.int64]
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
    gives=Levels,
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
