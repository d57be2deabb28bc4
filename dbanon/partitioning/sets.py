"""Sets of columns that are k-anonymous by themselves: withholds rows and makes values coarser.

A set has quasi-identifiers, columns that are copied unchanged, or both. Copied values cannot be
changed, so rows are withheld before clustering if fewer than k rows of a stratum or pattern of
NULLs share their combination. Then classes are joined into coarser ones until each contains every
such combination in at least k rows or not at all. The quasi-identifiers of the set are released
with the coarser classes; other columns keep the original classes and lose nothing. Sets that share
quasi-identifiers are processed by ascending k, each starting from the coarser classes of the set
before. A column is therefore released with the coarsest of its sets, and earlier sets still hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata, first_record_mask
from dbanon.data.partition import (
    NO_COUNTS,
    SUPPRESSED,
    ClusteringResult,
    Partition,
    max_count_of_share,
    required_share_text,
)
from dbanon.errors import SuppressionOverBudget
from dbanon.job.policy import Policy
from dbanon.job.sets import ColumnSet
from dbanon.kernels import Models
from dbanon.methods.registry import Tick
from dbanon.partitioning.merge import Guard, merge_block
from dbanon.partitioning.protect import merge_by_blocks, space_of_costs
from dbanon.partitioning.strata import groups, require_memory, stratum_numbers
from dbanon.spaces.mixed import MixedSpace


@dataclass(frozen=True, eq=False)
class CoarserColumns(Partition):
    """Classes of rows, some of which share the released value of an attribute.

    As in every partition, the rows of a class share their released values. Classes in the same
    coarser class of an attribute also share the value of that attribute.

    Parameters
    ----------
    labels, method_counts : as in ``Partition``.
    coarser : by attribute, int32 (n_classes,): the coarser class of each class, from 0 without
        gaps. Attributes that are not named are released by the classes themselves.
    """

    coarser: Mapping[str, NDArray[np.int32]]

    def __init__(
        self,
        labels: ArrayLike,
        coarser: Mapping[str, NDArray[np.int32]],
        method_counts: Mapping[str, int] = NO_COUNTS,
    ) -> None:
        super().__init__(labels, method_counts)
        object.__setattr__(self, "coarser", MappingProxyType(dict(coarser)))

    def _grouped_alike(self) -> list[NDArray[np.int32]]:
        """The distinct groupings of classes into coarser ones, first the trivial grouping."""
        groupings = [np.arange(self.n_classes, dtype=np.int32)]
        for grouping in self.coarser.values():
            if not any(np.array_equal(grouping, earlier) for earlier in groupings):
                groupings.append(grouping)
        return groupings

    def rows(self) -> tuple[Partition, NDArray[np.int32]]:
        """Classes of rows with the same release; int32 (n_classes, w), their class per grouping."""
        return Partition(self.labels, self.method_counts), np.column_stack(self._grouped_alike())

    def classes_by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """Pairs of attributes and the classes that release them; attributes may be empty."""
        groupings = self._grouped_alike()
        names_by_grouping: list[list[str]] = [[] for _ in groupings]
        for name in names:
            grouping = self.coarser.get(name, groupings[0])
            index = next(
                i for i, candidate in enumerate(groupings) if np.array_equal(grouping, candidate)
            )
            names_by_grouping[index].append(name)
        return [
            (grouped_names, Partition(np.append(grouping, np.int32(SUPPRESSED))[self.labels]))
            for grouped_names, grouping in zip(names_by_grouping, groupings, strict=True)
        ]

    def take(self, records: NDArray[np.int64]) -> CoarserColumns:
        """As ``Partition.take``; classes without records are left out."""
        labels = np.where(records < 0, SUPPRESSED, self.labels[records])
        released = labels >= 0
        remaining, places = np.unique(labels[released], return_inverse=True)
        labels[released] = places.reshape(-1)
        coarser = {
            name: np.unique(coarser_classes[remaining], return_inverse=True)[1]
            .reshape(-1)
            .astype(np.int32)
            for name, coarser_classes in self.coarser.items()
        }
        return CoarserColumns(labels, coarser, self.method_counts)


def feasible_records(
    microdata: Microdata, policy: Policy, records: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The subset of records, int64 (m,) ascending, whose sets of columns can be k-anonymous.

    With entities, counts persons and withholds all records of a person in a stratum.
    """
    units = microdata.units
    copied = [
        (_copied_codes(microdata, column_set), _k(column_set, policy))
        for column_set in policy.also_k
    ]
    parts = stratum_numbers(microdata)
    while len(records):
        failing = np.zeros(len(records), np.bool_)
        for columns, k in copied:
            _, group = np.unique(
                np.column_stack([parts, *columns])[records], axis=0, return_inverse=True
            )
            group = group.reshape(-1)
            counts = np.ones(len(records), np.bool_)
            if units is not None:
                counts = first_record_mask(units[records], group)
            failing |= (np.bincount(group, weights=counts) < k)[group]
        if units is not None:
            failing = np.isin(units[records], units[records][failing])
        if not failing.any():
            break
        records = records[~failing]
    return records


def require_feasible_sets(microdata: Microdata, policy: Policy, n_records: int) -> None:
    """Check that enough records are feasible.

    Raises
    ------
    SuppressionOverBudget : more would be withheld than may be.
    """
    n = microdata.n_read
    withheld, allowed = n - n_records, policy.max_suppression
    if n_records and (allowed is None or withheld <= max_count_of_share(allowed, n)):
        return
    sets = "; ".join(f"({', '.join(column_set.columns)})" for column_set in policy.also_k)
    raise SuppressionOverBudget(
        f"{withheld} of {n} records would be suppressed so that sets of columns are k-anonymous:"
        f" {sets}.",
        hint="Name fewer columns or a smaller k in `also_k`, or group rare values of copied columns"
        " in a view"
        + (
            f". It would be feasible with `max_suppression={required_share_text(withheld, n)}` or"
            " more."
            if n_records
            else "."
        ),
    )


def with_sets(
    microdata: Microdata,
    clustering: ClusteringResult,
    policy: Policy,
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
) -> ClusteringResult:
    """The classes, with coarser ones for the attributes of the policy's sets.

    Parameters
    ----------
    clustering : classes of feasible records.

    Raises
    ------
    MemoryLimit : counts per class and combination would need more than these bytes.
    """
    if not policy.also_k:
        return clustering
    partition = clustering.classes
    assert isinstance(partition, Partition)
    measures = clustering.measures or Measures.of(microdata)
    names = [attribute.name for attribute in microdata.attributes]
    first = partition.members[partition.starts]
    coarser: dict[str, NDArray[np.int32]] = {}
    for chain in _connected_sets(policy, names):
        coarser_classes = np.arange(partition.n_classes, dtype=np.int32)
        for column_set in chain:
            joined = Partition(np.append(coarser_classes, np.int32(-1))[partition.labels])
            merged = _merge_for_set(
                microdata, joined, column_set, policy, measures, memory_limit, tick
            )
            coarser_classes = merged.labels[first]
            coarser |= dict.fromkeys(
                [name for name in column_set.columns if name in names], coarser_classes
            )
    return replace(
        clustering, classes=CoarserColumns(partition.labels, coarser, partition.method_counts)
    )


def _k(column_set: ColumnSet, policy: Policy) -> int:
    return int(policy.k if column_set.k is None else column_set.k)


def _connected_sets(policy: Policy, names: Sequence[str]) -> list[list[ColumnSet]]:
    """The sets with quasi-identifiers, grouped by shared quasi-identifiers, by ascending k."""
    chains: list[list[ColumnSet]] = []
    for column_set in sorted(policy.also_k, key=lambda column_set: _k(column_set, policy)):
        quasi_identifiers = {*column_set.columns} & {*names}
        if not quasi_identifiers:
            continue
        sharing = [c for c in chains if any(quasi_identifiers & {*other.columns} for other in c)]
        chains = [c for c in chains if c not in sharing]
        chains.append([*(other for c in sharing for other in c), column_set])
    return [sorted(chain, key=lambda column_set: _k(column_set, policy)) for chain in chains]


def _copied_codes(microdata: Microdata, column_set: ColumnSet) -> list[NDArray[np.int32]]:
    """Display codes of the set's copied columns; none for strata, which no class crosses."""
    return [
        microdata.sensitive[n].display_codes for n in column_set.columns if n in microdata.sensitive
    ]


def _merge_for_set(
    microdata: Microdata,
    partition: Partition,
    column_set: ColumnSet,
    policy: Policy,
    measures: Measures,
    memory_limit: int | None,
    tick: Tick,
) -> Partition:
    """Merge classes until each has every combination of copied values in 0 or at least k rows."""
    seen = microdata.select_attributes(column_set.columns)
    weights = {
        name: weight for name, weight in policy.weights.items() if name in column_set.columns
    }
    trees = {name: tree for name, tree in policy.hierarchies.items() if name in column_set.columns}
    own_policy = replace(policy, weights=weights, hierarchies=trees)
    space = space_of_costs(seen, measures, own_policy)
    released = np.flatnonzero(partition.labels >= 0)
    codes = np.column_stack(
        [np.zeros(microdata.n_records, np.int32), *_copied_codes(microdata, column_set)]
    )
    units, keys = microdata.units, microdata.ordered_keys
    labels = np.full(microdata.n_records, -1, np.int32)
    done = 0
    for records in (released[group] for group in groups(stratum_numbers(microdata)[released])):
        _, combination = np.unique(codes[records], axis=0, return_inverse=True)
        _, class_labels = np.unique(partition.labels[records], return_inverse=True)
        part = Partition(class_labels.reshape(-1))
        guard = _guard(
            combination.reshape(-1).astype(np.int32),
            _k(column_set, policy),
            None if units is None else units[records],
        )
        require_memory(
            4,
            part.n_classes,
            int(guard.models.widths[0]),
            f"({', '.join(column_set.columns)})",
            "combinations of copied values",
            memory_limit,
        )
        costs = space(records)
        part = _join_same_ranges(costs, part, guard, _k(column_set, policy))
        part = merge_by_blocks(costs, part, keys[records], guard, policy, tick)
        merged = merge_block(costs, part, guard, tick)
        labels[records] = merged.labels + np.int32(done)
        done += merged.n_classes
    return Partition(labels)


def _join_same_ranges(space: MixedSpace, part: Partition, guard: Guard, k: int) -> Partition:
    """Join classes with the same range in all attributes if one of them fails.

    This loses no information, and leaves few classes where there are few distinct values.
    """
    counts = guard.counts(part.labels.astype(np.int64), part.n_classes)[:, : guard.models.widths[0]]
    failing = ((counts > 0) & (counts < k)).any(axis=1)
    if not failing.any():
        return part
    grouped = space.codes[part.members]
    ends = (np.minimum.reduceat(grouped, part.starts), np.maximum.reduceat(grouped, part.starts))
    _, same_range = np.unique(np.column_stack(ends), axis=0, return_inverse=True)
    same_range = same_range.reshape(-1)
    joined = np.zeros(int(same_range.max()) + 1, np.bool_)
    joined[same_range[failing]] = True
    number = np.where(
        joined[same_range], same_range, int(same_range.max()) + 1 + np.arange(part.n_classes)
    )
    _, number = np.unique(number, return_inverse=True)
    return Partition(number.reshape(-1)[part.labels])


def _guard(places: NDArray[np.int32], k: int, units: NDArray[np.int64] | None) -> Guard:
    """A guard that requires 0 or at least k rows or persons of each combination of values."""
    width, columns = int(places.max(initial=0)) + 1, [places]
    widths = [width]
    if units is not None:
        columns = [
            np.where(first_record_mask(units, places), places, np.int32(-1)),
            np.where(first_record_mask(units), np.int32(0), np.int32(-1)),
        ]
        widths.append(1)
    models = Models(np.array(widths, np.int32), units is not None)
    none = np.empty(0, np.int32)
    models.add("each_k", 0, float(k), 1, np.zeros(width), none, np.empty((0, 2), np.int32))
    return Guard(np.ascontiguousarray(np.column_stack(columns), np.int32), models)
