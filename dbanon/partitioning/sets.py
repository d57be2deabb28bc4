"""Sets of columns that are k-anonymous by themselves: rows withheld, values made coarser.

A set has quasi-identifiers, columns that are copied as they are, or both. Copied values cannot be
changed: a combination of them that fewer than k rows have in a stratum or pattern of NULLs is
withheld, before classes are found. Then classes come together in coarser ones until each holds
every such combination in k rows, or not at all; the quasi-identifiers of the set are released by
these. The classes themselves stay as they are: other columns lose nothing. Sets that share
quasi-identifiers are gone through by ascending k, the next by the coarser classes of the one
before, so that a column is released by the coarsest of its sets and what held before holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata, first_of_each
from dbanon.data.partition import NOTHING, SUPPRESSED, Found, Partition, most_of, share_needed
from dbanon.errors import SuppressionOverBudget
from dbanon.job.policy import Policy
from dbanon.job.sets import ColumnSet
from dbanon.kernels import Models
from dbanon.methods.registry import Tick
from dbanon.partitioning.merge import Guard, merge_block
from dbanon.partitioning.protect import by_blocks, space_of_costs
from dbanon.partitioning.strata import apart, groups, require_memory
from dbanon.spaces.mixed import MixedSpace


@dataclass(frozen=True, eq=False)
class CoarserColumns(Partition):
    """Classes of rows; what an attribute is released with, several of them may share.

    What one class releases its rows share, as in every partition. Two classes that are in one
    coarser class of an attribute have the same value of it.

    Parameters
    ----------
    labels, told : as of ``Partition``.
    coarser : by attribute, int32 (n_classes,): the coarser class of each class, from 0 without
        gaps. Attributes that are not named are released by the classes themselves.
    """

    coarser: Mapping[str, NDArray[np.int32]]

    def __init__(
        self,
        labels: ArrayLike,
        coarser: Mapping[str, NDArray[np.int32]],
        told: Mapping[str, int] = NOTHING,
    ) -> None:
        super().__init__(labels, told)
        object.__setattr__(self, "coarser", MappingProxyType(dict(coarser)))

    def _grouped_alike(self) -> list[NDArray[np.int32]]:
        """The different ways from classes to coarser ones; the first leaves them as they are."""
        ways = [np.arange(self.n_classes, dtype=np.int32)]
        for way in self.coarser.values():
            if not any(np.array_equal(way, known) for known in ways):
                ways.append(way)
        return ways

    def rows(self) -> tuple[Partition, NDArray[np.int32]]:
        """What rows are released alike; and, int32 (n_classes, w), their class in each way."""
        return Partition(self.labels, self.told), np.column_stack(self._grouped_alike())

    def by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """Which attributes, of these, are released by which classes; some ways may have none."""
        ways = self._grouped_alike()
        found: list[list[str]] = [[] for _ in ways]
        for name in names:
            way = self.coarser.get(name, ways[0])
            place = next(i for i, known in enumerate(ways) if np.array_equal(way, known))
            found[place].append(name)
        return [
            (own, Partition(np.append(way, np.int32(SUPPRESSED))[self.labels]))
            for own, way in zip(found, ways, strict=True)
        ]

    def of(self, records: NDArray[np.int64]) -> CoarserColumns:
        """The partition of other records, as ``Partition.of``; classes without any are left out."""
        labels = np.where(records < 0, SUPPRESSED, self.labels[records])
        released = labels >= 0
        kept, places = np.unique(labels[released], return_inverse=True)
        labels[released] = places.reshape(-1)
        coarser = {
            name: np.unique(way[kept], return_inverse=True)[1].reshape(-1).astype(np.int32)
            for name, way in self.coarser.items()
        }
        return CoarserColumns(labels, coarser, self.told)


def within_reach(
    microdata: Microdata, policy: Policy, records: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Those of some records, int64 (m,), whose sets of columns can be k-anonymous, ascending.

    Where records have entities, persons are counted, and withheld with all their records of a
    stratum.
    """
    units = microdata.units
    copied = [(_copied(microdata, one), _k(one, policy)) for one in policy.also_k]
    parts = apart(microdata)
    while len(records):
        failing = np.zeros(len(records), np.bool_)
        for columns, k in copied:
            _, group = np.unique(
                np.column_stack([parts, *columns])[records], axis=0, return_inverse=True
            )
            group = group.reshape(-1)
            counts = np.ones(len(records), np.bool_)
            if units is not None:
                counts = first_of_each(units[records], group)
            failing |= (np.bincount(group, weights=counts) < k)[group]
        if units is not None:
            failing = np.isin(units[records], units[records][failing])
        if not failing.any():
            break
        records = records[~failing]
    return records


def require_reach(microdata: Microdata, policy: Policy, n_records: int) -> None:
    """Check that so many records within reach are enough.

    Raises
    ------
    SuppressionOverBudget : more would be withheld than may be.
    """
    n = microdata.n_read
    withheld, allowed = n - n_records, policy.max_suppression
    if n_records and (allowed is None or withheld <= most_of(allowed, n)):
        return
    sets = "; ".join(f"({', '.join(one.columns)})" for one in policy.also_k)
    raise SuppressionOverBudget(
        f"{withheld} of {n} records would be withheld so that sets of columns are k-anonymous:"
        f" {sets}.",
        hint="Ask for less in `also_k`, or bring rare values of copied columns together in a view"
        + (
            f". It would be feasible with `max_suppression={share_needed(withheld, n)}` or more."
            if n_records
            else "."
        ),
    )


def with_sets(
    microdata: Microdata,
    found: Found,
    policy: Policy,
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
) -> Found:
    """The classes, with coarser ones for the attributes of the policy's sets.

    Parameters
    ----------
    found : classes of records that are within reach.

    Raises
    ------
    MemoryLimit : counts per class and combination would need more than these bytes.
    """
    if not policy.also_k:
        return found
    partition = found.classes
    assert isinstance(partition, Partition)
    measures = found.measures or Measures.of(microdata)
    names = [attribute.name for attribute in microdata.attributes]
    first = partition.members[partition.starts]
    coarser: dict[str, NDArray[np.int32]] = {}
    for chain in _connected(policy, names):
        way = np.arange(partition.n_classes, dtype=np.int32)
        for one in chain:
            joined = Partition(np.append(way, np.int32(-1))[partition.labels])
            merged = _merged(microdata, joined, one, policy, measures, memory_limit, tick)
            way = merged.labels[first]
            coarser |= dict.fromkeys([name for name in one.columns if name in names], way)
    return replace(found, classes=CoarserColumns(partition.labels, coarser, partition.told))


def _k(one: ColumnSet, policy: Policy) -> int:
    return int(policy.k if one.k is None else one.k)


def _connected(policy: Policy, names: Sequence[str]) -> list[list[ColumnSet]]:
    """The sets with quasi-identifiers, each beside those that it shares one with, by rising k."""
    chains: list[list[ColumnSet]] = []
    for one in sorted(policy.also_k, key=lambda one: _k(one, policy)):
        own = {*one.columns} & {*names}
        if not own:
            continue
        sharing = [c for c in chains if any(own & {*other.columns} for other in c)]
        chains = [c for c in chains if c not in sharing]
        chains.append([*(other for c in sharing for other in c), one])
    return [sorted(chain, key=lambda one: _k(one, policy)) for chain in chains]


def _copied(microdata: Microdata, one: ColumnSet) -> list[NDArray[np.int32]]:
    """The set's copied columns by what is shown; strata, which no class crosses, need none."""
    return [microdata.sensitive[n].display_codes for n in one.columns if n in microdata.sensitive]


def _merged(
    microdata: Microdata,
    partition: Partition,
    one: ColumnSet,
    policy: Policy,
    measures: Measures,
    memory_limit: int | None,
    tick: Tick,
) -> Partition:
    """Classes merged until each holds every combination of copied values in k rows, or in none."""
    seen = microdata.of_attributes(one.columns)
    weights = {name: weight for name, weight in policy.weights.items() if name in one.columns}
    trees = {name: tree for name, tree in policy.hierarchies.items() if name in one.columns}
    own_policy = replace(policy, weights=weights, hierarchies=trees)
    space = space_of_costs(seen, measures, own_policy)
    released = np.flatnonzero(partition.labels >= 0)
    codes = np.column_stack([np.zeros(microdata.n_records, np.int32), *_copied(microdata, one)])
    units, keys = microdata.units, microdata.ordered_keys
    labels = np.full(microdata.n_records, -1, np.int32)
    done = 0
    for records in (released[group] for group in groups(apart(microdata)[released])):
        _, place = np.unique(codes[records], axis=0, return_inverse=True)
        _, own = np.unique(partition.labels[records], return_inverse=True)
        part = Partition(own.reshape(-1))
        guard = _guard(place.reshape(-1).astype(np.int32), _k(one, policy),
                       None if units is None else units[records])  # fmt: skip
        require_memory(
            4, part.n_classes, int(guard.models.widths[0]), f"({', '.join(one.columns)})",
            "combinations of copied values", memory_limit,
        )  # fmt: skip
        costs = space(records)
        part = _alike_joined(costs, part, guard, _k(one, policy))
        part = by_blocks(costs, part, keys[records], guard, policy, tick)
        merged = merge_block(costs, part, guard, tick)
        labels[records] = merged.labels + np.int32(done)
        done += merged.n_classes
    return Partition(labels)


def _alike_joined(space: MixedSpace, part: Partition, guard: Guard, k: int) -> Partition:
    """The classes; those that have one range in all attributes are one where one of them fails.

    That loses nothing, and of few values leaves few classes to look at.
    """
    held = guard.counts(part.labels.astype(np.int64), part.n_classes)[:, : guard.models.widths[0]]
    failing = ((held > 0) & (held < k)).any(axis=1)
    if not failing.any():
        return part
    grouped = space.codes[part.members]
    ends = (np.minimum.reduceat(grouped, part.starts), np.maximum.reduceat(grouped, part.starts))
    _, alike = np.unique(np.column_stack(ends), axis=0, return_inverse=True)
    alike = alike.reshape(-1)
    joined = np.zeros(int(alike.max()) + 1, np.bool_)
    joined[alike[failing]] = True
    number = np.where(joined[alike], alike, int(alike.max()) + 1 + np.arange(part.n_classes))
    _, number = np.unique(number, return_inverse=True)
    return Partition(number.reshape(-1)[part.labels])


def _guard(places: NDArray[np.int32], k: int, units: NDArray[np.int64] | None) -> Guard:
    """What a class must hold of each combination of copied values: none, or k rows or persons."""
    width, columns = int(places.max(initial=0)) + 1, [places]
    widths = [width]
    if units is not None:
        columns = [
            np.where(first_of_each(units, places), places, np.int32(-1)),
            np.where(first_of_each(units), np.int32(0), np.int32(-1)),
        ]
        widths.append(1)
    models = Models(np.array(widths, np.int32), units is not None)
    none = np.empty(0, np.int32)
    models.add("each_k", 0, float(k), 1, np.zeros(width), none, np.empty((0, 2), np.int32))
    return Guard(np.ascontiguousarray(np.column_stack(columns), np.int32), models)
