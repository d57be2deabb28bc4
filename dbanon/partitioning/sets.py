"""Make sets of columns (``also_k``) k-anonymous by themselves: withhold rows and coarsen values.

A set has quasi-identifiers, columns that are copied unchanged, or both. Copied values cannot be
changed, so rows are withheld before clustering if fewer than k rows of their stratum and pattern of
NULLs share their combination of copied values. After clustering, classes are joined into coarser
ones until each contains every such combination in at least k rows or not at all. The
quasi-identifiers of the set are released with the coarser classes; other columns keep the original
classes and lose nothing. Sets that share quasi-identifiers are processed by ascending k, each
starting from the coarser classes of the previous set. A column is therefore released with the
coarsest classes of its sets, and earlier sets remain k-anonymous.

Classes merge as for privacy models: a *guard* holds a condition on the counts of values in each
class, here on the counts of combinations of copied values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
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
from dbanon.partitioning.cells import code_for_method
from dbanon.partitioning.merge import Guard, merge_block
from dbanon.partitioning.protect import make_cost_space_builder, merge_by_blocks
from dbanon.partitioning.strata import group_positions, require_memory, stratum_numbers
from dbanon.spaces.mixed import MixedSpace


@dataclass(frozen=True, eq=False)
class CoarsenedPartition(Partition):
    """Classes of rows, with coarser classes for some attributes.

    As in every partition, the rows of a class share their released values. Classes in the same
    coarser class of an attribute also share the value of that attribute.

    Parameters
    ----------
    labels : int32 (n,), the class of each record, before joining; -1 if suppressed.
    method_counts : counts that the method reports, by name.
    coarser_classes : by attribute, int32 (n_classes,): the coarser class of each class, from 0
        without gaps. Other attributes are released with the classes themselves.
    """

    coarser_classes: Mapping[str, NDArray[np.int32]]

    def __init__(
        self,
        labels: ArrayLike,
        coarser_classes: Mapping[str, NDArray[np.int32]],
        method_counts: Mapping[str, int] = NO_COUNTS,
    ) -> None:
        super().__init__(labels, method_counts)
        object.__setattr__(self, "coarser_classes", MappingProxyType(dict(coarser_classes)))

    def _distinct_groupings(self) -> list[NDArray[np.int32]]:
        """The distinct groupings into coarser classes; the first one keeps all classes separate."""
        groupings = [np.arange(self.n_classes, dtype=np.int32)]
        for grouping in self.coarser_classes.values():
            if not any(np.array_equal(grouping, earlier) for earlier in groupings):
                groupings.append(grouping)
        return groupings

    def combine_into_row_partition(self) -> tuple[Partition, NDArray[np.int32]]:
        """The partition into classes, and their coarser classes, int32 (n_classes, n_groupings)."""
        return Partition(self.labels, self.method_counts), np.column_stack(
            self._distinct_groupings()
        )

    def classes_by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """For each grouping, its attributes (possibly none) and the classes they are released with.

        Parameters
        ----------
        names : the attributes to group.
        """
        groupings = self._distinct_groupings()
        names_by_grouping: list[list[str]] = [[] for _ in groupings]
        for name in names:
            grouping = self.coarser_classes.get(name, groupings[0])
            index = next(
                i for i, candidate in enumerate(groupings) if np.array_equal(grouping, candidate)
            )
            names_by_grouping[index].append(name)
        return [
            (grouped_names, Partition(np.append(grouping, np.int32(SUPPRESSED))[self.labels]))
            for grouped_names, grouping in zip(names_by_grouping, groupings, strict=True)
        ]

    def take(self, records: NDArray[np.int64]) -> CoarsenedPartition:
        """Build a partition from the classes of some records, as ``Partition.take`` does.

        Classes without records are left out.

        Parameters
        ----------
        records : int64 (m,), for each new record, the index of the record in this partition whose
            class it gets; -1 to suppress it.
        """
        labels = np.where(records < 0, SUPPRESSED, self.labels[records])
        is_released = labels >= 0
        remaining_classes, class_numbers = np.unique(labels[is_released], return_inverse=True)
        labels[is_released] = class_numbers.reshape(-1)
        coarser_classes = {
            name: np.unique(grouping[remaining_classes], return_inverse=True)[1]
            .reshape(-1)
            .astype(np.int32)
            for name, grouping in self.coarser_classes.items()
        }
        return CoarsenedPartition(labels, coarser_classes, self.method_counts)


def feasible_records(
    microdata: Microdata, policy: Policy, records: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the records for which all sets of columns can be k-anonymous, int64 (m,), ascending.

    With entities, persons are counted. If one of their records cannot be released, neither can
    their other records in the same stratum.

    Parameters
    ----------
    records : int64 (r,), ascending, the records to choose from.
    """
    # A unit is all records of a person in a stratum; None if records are counted.
    units = microdata.person_units
    copied_codes = [
        (_copied_codes(microdata, column_set), _k_of_set(column_set, policy))
        for column_set in policy.also_k
    ]
    strata = stratum_numbers(microdata)
    while len(records):
        is_failing = np.zeros(len(records), np.bool_)
        for codes, k in copied_codes:
            _, combinations = np.unique(
                np.column_stack([strata, *codes])[records], axis=0, return_inverse=True
            )
            combinations = combinations.reshape(-1)
            is_counted = np.ones(len(records), np.bool_)
            if units is not None:
                is_counted = first_record_mask(units[records], combinations)
            is_failing |= (np.bincount(combinations, weights=is_counted) < k)[combinations]
        if units is not None:
            is_failing = np.isin(units[records], units[records][is_failing])
        if not is_failing.any():
            break
        records = records[~is_failing]
    return records


def require_feasible_sets(microdata: Microdata, policy: Policy, n_records: int) -> None:
    """Check that enough records remain for sets of columns to be k-anonymous.

    Parameters
    ----------
    n_records : the number of ``feasible_records``; all others would be withheld.

    Raises
    ------
    SuppressionOverBudget : more records would be withheld than the policy allows.
    """
    n = microdata.n_read
    n_withheld, max_share = n - n_records, policy.max_suppression
    if n_records and (max_share is None or n_withheld <= max_count_of_share(max_share, n)):
        return
    sets = "; ".join(f"({', '.join(column_set.columns)})" for column_set in policy.also_k)
    raise SuppressionOverBudget(
        f"{n_withheld} of {n} records would be suppressed so that sets of columns are k-anonymous:"
        f" {sets}.",
        hint="Name fewer columns or a smaller k in `also_k`, or group rare values of copied columns"
        " in a view"
        + (
            ". It would be feasible with"
            f" `max_suppression={required_share_text(n_withheld, n)}` or more."
            if n_records
            else "."
        ),
    )


def coarsen_for_column_sets(
    microdata: Microdata,
    clustering: ClusteringResult,
    policy: Policy,
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
) -> ClusteringResult:
    """Join classes into coarser ones for the attributes of the policy's sets of columns.

    Parameters
    ----------
    clustering : the classes of the ``feasible_records``; others are suppressed.
    memory_limit : the bytes that counts may use. For each class, the rows with each combination of
        copied values are counted. None for no limit.

    Raises
    ------
    MemoryLimit : these counts would need more memory.
    """
    # Where NULL agrees with every value, the method meets the sets, and classes are no groups.
    if not policy.also_k or policy.null_agrees:
        return clustering
    microdata = code_for_method(microdata, policy)
    partition = clustering.classes
    assert isinstance(partition, Partition)
    column_statistics = clustering.column_statistics or ColumnStatistics.of(microdata)
    names = [attribute.name for attribute in microdata.attributes]
    first_members = partition.members[partition.starts]
    coarser_classes: dict[str, NDArray[np.int32]] = {}
    for linked_sets in _link_sets(policy, names):
        grouping = np.arange(partition.n_classes, dtype=np.int32)
        for column_set in linked_sets:
            # Suppressed records have the label -1, which selects the last element.
            joined_partition = Partition(np.append(grouping, np.int32(-1))[partition.labels])
            merged = _merge_for_set(
                microdata,
                joined_partition,
                column_set,
                policy,
                column_statistics,
                memory_limit,
                tick,
            )
            # The coarser class of each class, which is that of its first record.
            grouping = merged.labels[first_members]
            coarser_classes |= dict.fromkeys(
                [name for name in column_set.columns if name in names], grouping
            )
    return replace(
        clustering,
        classes=CoarsenedPartition(partition.labels, coarser_classes, partition.method_counts),
    )


def _k_of_set(column_set: ColumnSet, policy: Policy) -> int:
    """Return the k of a set, which is that of the policy unless the set has its own."""
    return int(policy.k if column_set.k is None else column_set.k)


def _link_sets(policy: Policy, names: Sequence[str]) -> list[list[ColumnSet]]:
    """Group the sets that share quasi-identifiers, each group by ascending k.

    A set that shares none is a group by itself. Sets without quasi-identifiers are left out.

    Parameters
    ----------
    names : the quasi-identifiers.
    """
    set_groups: list[list[ColumnSet]] = []
    for column_set in sorted(policy.also_k, key=lambda column_set: _k_of_set(column_set, policy)):
        quasi_identifiers = {*column_set.columns} & {*names}
        if not quasi_identifiers:
            continue
        overlapping_groups = [
            sets
            for sets in set_groups
            if any(quasi_identifiers & {*overlapping_set.columns} for overlapping_set in sets)
        ]
        set_groups = [sets for sets in set_groups if sets not in overlapping_groups]
        joined_group = [overlapping_set for sets in overlapping_groups for overlapping_set in sets]
        set_groups.append([*joined_group, column_set])
    return [
        sorted(linked_sets, key=lambda column_set: _k_of_set(column_set, policy))
        for linked_sets in set_groups
    ]


def _copied_codes(microdata: Microdata, column_set: ColumnSet) -> list[NDArray[np.int32]]:
    """Return codes of the texts that readers see in the set's copied columns, int32 (n,) each.

    Columns of strata are left out: their values are equal in each class.
    """
    return [
        microdata.sensitive[name].display_codes
        for name in column_set.columns
        if name in microdata.sensitive
    ]


def _merge_for_set(
    microdata: Microdata,
    partition: Partition,
    column_set: ColumnSet,
    policy: Policy,
    column_statistics: ColumnStatistics,
    memory_limit: int | None,
    tick: Tick,
) -> Partition:
    """Merge classes until each has every combination of copied values in no row or at least k."""
    set_microdata = microdata.select_attributes(column_set.columns)
    weights = {
        name: weight for name, weight in policy.weights.items() if name in column_set.columns
    }
    trees = {name: tree for name, tree in policy.hierarchies.items() if name in column_set.columns}
    set_policy = replace(policy, weights=weights, hierarchies=trees)
    build_space = make_cost_space_builder(set_microdata, column_statistics, set_policy)
    released = np.flatnonzero(partition.labels >= 0)
    # A set without copied columns has a single combination: the zero of the first column.
    copied_codes = np.column_stack(
        [np.zeros(microdata.n_records, np.int32), *_copied_codes(microdata, column_set)]
    )
    units, record_keys = microdata.person_units, microdata.ordered_keys
    labels = np.full(microdata.n_records, -1, np.int32)
    n_classes_done = 0
    for records in (
        released[group] for group in group_positions(stratum_numbers(microdata)[released])
    ):
        _, combinations = np.unique(copied_codes[records], axis=0, return_inverse=True)
        _, class_labels = np.unique(partition.labels[records], return_inverse=True)
        partition_in_stratum = Partition(class_labels.reshape(-1))
        guard = _each_k_guard(
            combinations.reshape(-1).astype(np.int32),
            _k_of_set(column_set, policy),
            None if units is None else units[records],
        )
        require_memory(
            count_bytes=4,  # The kernel counts in int32.
            n_classes=partition_in_stratum.n_classes,
            n_values=int(guard.models.widths[0]),
            columns=f"({', '.join(column_set.columns)})",
            counted_noun="combinations of copied values",
            memory_limit=memory_limit,
        )
        cost_space = build_space(records)
        partition_in_stratum = _join_same_ranges(
            cost_space, partition_in_stratum, guard, _k_of_set(column_set, policy)
        )
        partition_in_stratum = merge_by_blocks(
            cost_space, partition_in_stratum, record_keys[records], guard, policy, tick
        )
        # Without blocks, ``merge_by_blocks`` changes nothing, so merge over the whole stratum, too.
        merged = merge_block(cost_space, partition_in_stratum, guard, tick)
        labels[records] = merged.labels + np.int32(n_classes_done)
        n_classes_done += merged.n_classes
    return Partition(labels)


def _join_same_ranges(space: MixedSpace, partition: Partition, guard: Guard, k: int) -> Partition:
    """Join classes with the same ranges in all attributes if one of them violates the models.

    This loses no information, and leaves few classes if there are few distinct values.

    Parameters
    ----------
    guard : the result of ``_each_k_guard``.
    """
    # Counts of combinations only; a last column may count persons.
    counts = guard.counts(partition.labels.astype(np.int64), partition.n_classes)[
        :, : guard.models.widths[0]
    ]
    is_failing = ((counts > 0) & (counts < k)).any(axis=1)
    if not is_failing.any():
        return partition
    sorted_codes = space.codes[partition.members]
    ranges = (
        np.minimum.reduceat(sorted_codes, partition.starts),
        np.maximum.reduceat(sorted_codes, partition.starts),
    )
    _, range_numbers = np.unique(np.column_stack(ranges), axis=0, return_inverse=True)
    range_numbers = range_numbers.reshape(-1)
    is_joined = np.zeros(int(range_numbers.max()) + 1, np.bool_)
    is_joined[range_numbers[is_failing]] = True
    class_numbers = np.where(
        is_joined[range_numbers],
        range_numbers,
        int(range_numbers.max()) + 1 + np.arange(partition.n_classes),
    )
    _, class_numbers = np.unique(class_numbers, return_inverse=True)
    return Partition(class_numbers.reshape(-1)[partition.labels])


def _each_k_guard(
    combinations: NDArray[np.int32], k: int, units: NDArray[np.int64] | None
) -> Guard:
    """Build a guard that requires no row, or at least k rows or persons, of each combination.

    Parameters
    ----------
    combinations : int32 (n,), the combination of copied values of each record.
    units : int64 (n,), the unit of each record (``Microdata.person_units``), to count persons;
        None to count rows.
    """
    n_combinations, columns = int(combinations.max(initial=0)) + 1, [combinations]
    n_values_by_column = [n_combinations]
    if units is not None:
        columns = [
            np.where(first_record_mask(units, combinations), combinations, np.int32(-1)),
            np.where(first_record_mask(units), np.int32(0), np.int32(-1)),
        ]
        n_values_by_column.append(1)
    models = Models(np.array(n_values_by_column, np.int32), units is not None)
    # The model has no hierarchy, and ignores l and the shares of values in the table.
    l_of_diversity, table_shares = 1, np.zeros(n_combinations)
    no_parents, no_ranges = np.empty(0, np.int32), np.empty((0, 2), np.int32)
    models.add("each_k", 0, float(k), l_of_diversity, table_shares, no_parents, no_ranges)
    return Guard(np.ascontiguousarray(np.column_stack(columns), np.int32), models)
