"""Results of methods: equivalence classes (of rows, or for each attribute), or synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon import kernels
from dbanon.data.array_types import AnyArray
from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
from dbanon.data.notebook import NotebookCard
from dbanon.data.pieces import PIECE_RECORDS, ParallelMap
from dbanon.errors import RecountFailed

if TYPE_CHECKING:
    from dbanon.data.number_levels import NumberLevels


def max_count_of_share(share: float, n: int) -> int:
    """Return the largest number of records that is at most this share of n: 29 of 100 for 0.29.

    Rounding the product down is not enough: 0.29 * 100 is below 29 in floating point.
    """
    count = min(int(share * n) + 1, n)
    while count > 0 and count / n > share:
        count -= 1
    return count


def required_share_text(count: int, n: int) -> str:
    """Format ``count / n``, rounded up to 6 digits, as the value of an option that limits a share.

    Parameters
    ----------
    n : the total, 1 or more.
    """
    return f"{-(-count * 10**6 // n) / 10**6:.6f}"


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Synthetic rows: they have no classes and no k, and their order does not depend on the source.

    Parameters
    ----------
    columns : read-only arrays (n,) by name of the column, of the type of the source's column.
    method : the method that generated them.
    guarantee : a description of the guarantee and its limits.
    epsilon : the epsilon of differential privacy; None if the rows are not private.
    method_notes : notes on how the rows were generated. For a differentially private synthesis
        they depend on public values only.
    """

    columns: Mapping[str, AnyArray]
    method: str
    guarantee: str
    epsilon: float | None = None
    method_notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for values in self.columns.values():
            values.setflags(write=False)
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    @property
    def told(self) -> tuple[str, ...]:
        """The former name of ``method_notes``, which works until version 1.0."""
        return self.method_notes

    @property
    def n_rows(self) -> int:
        """The number of rows, n."""
        return len(next(iter(self.columns.values()), ()))

    @property
    def values(self) -> NDArray[np.float64]:
        """All columns as a matrix, float64 (n, p); all of them must be columns of numbers."""
        return np.column_stack([np.asarray(values, np.float64) for values in self.columns.values()])


# The indices of the records of a set, int64 (m,), and the result of the class itself for them.
_SetResult: TypeAlias = tuple[NDArray[np.int64], Any]
# The label of a suppressed record.
SUPPRESSED = -1
# The ``method_counts`` of a method that reports none.
NO_COUNTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Partition(NotebookCard):
    """A partition of records into equivalence classes; records may also be suppressed.

    Parameters
    ----------
    labels : int32 (n,), the class of each record from 0 without gaps; -1 if suppressed.
    method_counts : counts that the method reports, by name, such as ``classes of DBSCAN``.
        If partitions are joined, their counts are added.

    Attributes
    ----------
    has_row_classes : True if the rows of a class share all released values.
    supports_blocks : True if blocks of a table may be partitioned separately.
    sees_all_strata : True if the method gets all strata in one call, instead of one call each.
    """

    labels: NDArray[np.int32]
    method_counts: Mapping[str, int]

    has_row_classes: ClassVar[bool] = True
    supports_blocks: ClassVar[bool] = True
    sees_all_strata: ClassVar[bool] = False

    def __init__(self, labels: ArrayLike, method_counts: Mapping[str, int] = NO_COUNTS) -> None:
        label_array = np.array(labels, dtype=np.int32)
        if label_array.ndim != 1:
            raise ValueError("labels must have one dimension")
        self._set_fields(label_array, method_counts)

    def _set_fields(self, labels: NDArray[np.int32], method_counts: Mapping[str, int]) -> None:
        """Set the fields; raises ValueError if the labels are invalid."""
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "method_counts", MappingProxyType(dict(method_counts)))
        # Computing the sizes raises ValueError for a negative label other than SUPPRESSED.
        if not self.sizes.all():
            raise ValueError("labels must have no gaps")

    @property
    def told(self) -> Mapping[str, int]:
        """The former name of ``method_counts``, which works until version 1.0."""
        return self.method_counts

    @classmethod
    def without_copy(
        cls, labels: NDArray[np.int32], method_counts: Mapping[str, int] = NO_COUNTS
    ) -> Partition:
        """Build a partition without copying the labels, which the caller must not change."""
        partition = Partition.__new__(Partition)
        partition._set_fields(labels, method_counts)
        return partition

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """int64 (n_classes,), the number of records in each class."""
        return kernels.class_sizes(self.labels)

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.sizes)

    @cached_property
    def n_suppressed(self) -> int:
        """The number of suppressed records."""
        return len(self.labels) - int(self.sizes.sum())

    @cached_property
    def _members_by_class(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The arrays of the properties ``members`` and ``starts``."""
        return kernels.grouped(self.labels, self.n_classes)

    @property
    def members(self) -> NDArray[np.int64]:
        """int64 (n - n_suppressed,), the records ordered by class, then by index."""
        return self._members_by_class[0]

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64 (n_classes,), where each class begins in ``members``."""
        return self._members_by_class[1]

    def split_classes(self) -> list[slice]:
        """Split the classes, in order, into ranges whose members are a piece of records.

        A range has at most ``PIECE_RECORDS`` records, or it is a single class.
        """
        ends = np.append(self.starts[1:], len(self.members))
        ranges, start = list[slice](), 0
        while start < self.n_classes:
            most = int(np.searchsorted(ends, self.starts[start] + PIECE_RECORDS, "right"))
            ranges.append(slice(start, max(most, start + 1)))
            start = ranges[-1].stop
        return ranges

    def members_of(self, classes: slice) -> NDArray[np.int64]:
        """Return the records of a range of classes, int64 (m,), ordered as in ``members``."""
        last = classes.stop - 1
        return self.members[self.starts[classes.start] : self.starts[last] + self.sizes[last]]

    def free_members(self) -> None:
        """Free the memory of ``members`` and ``starts``, which are computed again when needed."""
        self.__dict__.pop("_members_by_class", None)

    @property
    def grouping_levels(self) -> Levels | None:
        """This partition if generalization levels define its classes; otherwise None."""
        return None

    @property
    def null_columns(self) -> NDArray[np.bool_] | None:
        """The attributes that each class is released as NULL in, bool (n_classes, d).

        None if the method does not choose them, so that they follow from the records of a class.
        """
        return None

    def combine_into_row_partition(self) -> tuple[Partition, NDArray[np.int32]]:
        """Group rows by equal released values: here the groups are the classes.

        Returns the partition into groups, and the class of each group, int32 (n_groups, 1).
        """
        return self, np.arange(self.n_classes, dtype=np.int32)[:, None]

    def classes_by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """Return, for each group of attributes that share their classes, the group and the classes.

        Here all attributes share the classes of rows.

        Parameters
        ----------
        names : the names of the attributes.
        """
        return [(names, self)]

    @classmethod
    def join_results(cls, results: Sequence[_SetResult], n: int) -> Partition:
        """Join the results for disjoint sets of records into one result for n records.

        Parameters
        ----------
        results : for each set, the indices of its records, int64 (m,), and the result for them.
        n : the number of all records; those outside all sets are suppressed.
        """
        return combine_partitions(results, n)

    def take(self, records: NDArray[np.int64]) -> Partition:
        """Build a partition of m records from the classes of some records of this partition.

        Parameters
        ----------
        records : int64 (m,), for each new record, the index of the record here whose class it gets;
            -1 to suppress it.
        """
        return Partition(
            np.where(records < 0, SUPPRESSED, self.labels[records]), self.method_counts
        )

    def require(self, k: int, max_size: int | None = None) -> Partition:
        """Check that all classes have k to ``max_size`` records, and return the partition.

        Raises
        ------
        RecountFailed : a class is smaller than k or larger than ``max_size``.
        """
        if self.n_classes and int(self.sizes.min()) < k:
            raise RecountFailed(
                f"A class holds {int(self.sizes.min())} records, fewer than k = {k}.",
                hint="This is an error in dbanon: please report it.",
            )
        if max_size is not None and self.n_classes and int(self.sizes.max()) > max_size:
            raise RecountFailed(
                f"A class holds {int(self.sizes.max())} records, more than {max_size}.",
                hint="This is an error in dbanon: please report it.",
            )
        return self


@dataclass(frozen=True, eq=False)
class AttributePartition(NotebookCard):
    """Classes for each attribute separately: k-anonymous per attribute, not per row.

    Parameters
    ----------
    partitions : one Partition of the same n records for each attribute.
    """

    partitions: tuple[Partition, ...]

    has_row_classes: ClassVar[bool] = False
    supports_blocks: ClassVar[bool] = False
    sees_all_strata: ClassVar[bool] = False

    @classmethod
    def join_results(cls, results: Sequence[_SetResult], n: int) -> AttributePartition:
        """Join the results for disjoint sets of records, separately for each attribute."""
        records = [records for records, _ in results]
        partitions_by_attribute = zip(*(result.partitions for _, result in results), strict=True)
        return cls(
            tuple(
                combine_partitions(list(zip(records, partitions, strict=True)), n)
                for partitions in partitions_by_attribute
            )
        )

    def require(self, k: int, max_size: int | None = None) -> AttributePartition:
        """Check the class sizes of each attribute, as ``Partition.require`` does."""
        for partition in self.partitions:
            partition.require(k, max_size)
        return self

    def classes_by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """Return each attribute, as a list of one name, with its classes."""
        return [([name], partition) for name, partition in zip(names, self.partitions, strict=True)]

    def combine_into_row_partition(self) -> tuple[Partition, NDArray[np.int32]]:
        """Group rows by equal released values: by their classes in all attributes.

        Returns the partition into these groups, and the class of each group in each attribute,
        int32 (n_groups, d).
        """
        labels = np.column_stack([partition.labels for partition in self.partitions])
        is_released = (labels >= 0).all(axis=1)
        classes, groups = np.unique(labels[is_released], axis=0, return_inverse=True)
        row_labels = np.full(len(labels), SUPPRESSED, np.int32)
        row_labels[is_released] = groups.reshape(-1)
        return Partition(row_labels), classes

    def take(self, records: NDArray[np.int64]) -> AttributePartition:
        """Take the classes of some records, for each attribute, as ``Partition.take`` does."""
        return AttributePartition(tuple(partition.take(records) for partition in self.partitions))


@dataclass(frozen=True, eq=False)
class Levels(Partition):
    """The partition of a full-domain search: one level of generalization per attribute.

    Records with the same values on the chosen levels form a class, or are suppressed.

    Parameters
    ----------
    labels : int32 (n,), the class of each record; -1 if suppressed.
    levels : by attribute, the index of the chosen level; 0 for the leaves of a hierarchy, or for
        the finest intervals of numbers.
    number_levels : by numeric attribute without a hierarchy, all levels that the method could
        choose from, of which ``levels`` has the index of the chosen one.
    owner_figures : figures about a search that ended early, by name, which only the owner of the
        source may see.
    """

    levels: Mapping[str, int]
    number_levels: Mapping[str, NumberLevels]
    owner_figures: Mapping[str, float]

    supports_blocks: ClassVar[bool] = False
    sees_all_strata: ClassVar[bool] = True

    def __init__(
        self,
        labels: ArrayLike,
        levels: Mapping[str, int],
        number_levels: Mapping[str, NumberLevels],
        method_counts: Mapping[str, int] = NO_COUNTS,
        owner_figures: Mapping[str, float] = NO_COUNTS,
    ) -> None:
        super().__init__(labels, method_counts)
        object.__setattr__(self, "levels", MappingProxyType(dict(levels)))
        object.__setattr__(self, "number_levels", MappingProxyType(dict(number_levels)))
        object.__setattr__(self, "owner_figures", MappingProxyType(dict(owner_figures)))

    @property
    def grouping_levels(self) -> Levels:
        """This partition itself."""
        return self

    @classmethod
    def join_results(cls, results: Sequence[_SetResult], n: int) -> Levels:
        """Extend the only result, which is for some of n records in any order, to all n records.

        There is only one, because the method gets all strata in one call (``sees_all_strata``).
        """
        [(records, result)] = results
        levels: Levels = result.take(positions_among(records, n))
        return levels

    def take(self, records: NDArray[np.int64]) -> Levels:
        """Take the classes of some records, as ``Partition.take`` does, and keep the levels.

        Classes without a record are left out, and the others are renumbered.
        """
        labels = np.where(records < 0, SUPPRESSED, self.labels[records])
        is_released = labels >= 0
        labels[is_released] = np.unique(labels[is_released], return_inverse=True)[1].reshape(-1)
        return Levels(
            labels, self.levels, self.number_levels, self.method_counts, self.owner_figures
        )

    def with_owner_figures(self, figures: Mapping[str, float]) -> Levels:
        """Return these levels with further figures for the owner."""
        return Levels(
            self.labels,
            self.levels,
            self.number_levels,
            self.method_counts,
            {**self.owner_figures, **figures},
        )


@dataclass(frozen=True, eq=False)
class PartitionWithNulls(Partition):
    """Records that are released alike, with the attributes that are released as NULL.

    A class may have fewer than k records: those of other classes agree with them.

    Parameters
    ----------
    labels : int32 (n,), the class of each record; -1 if suppressed.
    nulls : bool (n_classes, d), the attributes that each class is released as NULL in.
    """

    nulls: NDArray[np.bool_]

    def __init__(self, labels: ArrayLike, nulls: NDArray[np.bool_]) -> None:
        super().__init__(labels)
        object.__setattr__(self, "nulls", nulls)

    @property
    def null_columns(self) -> NDArray[np.bool_]:
        """The attributes that each class is released as NULL in, bool (n_classes, d)."""
        return self.nulls

    def take(self, records: NDArray[np.int64]) -> PartitionWithNulls:
        """Take the classes of some records, as ``Partition.take`` does.

        Classes without a record are left out, and the others are renumbered.
        """
        labels = np.where(records < 0, SUPPRESSED, self.labels[records])
        is_released = labels >= 0
        classes, numbers = np.unique(labels[is_released], return_inverse=True)
        labels[is_released] = numbers.reshape(-1)
        return PartitionWithNulls(labels, self.nulls[classes])

    def require(self, k: int, max_size: int | None = None) -> PartitionWithNulls:
        """Return the partition: its classes may have any size."""
        return self


@dataclass(frozen=True, eq=False)
class ClusteringResult:
    """The result of clustering for a release.

    Parameters
    ----------
    classes : the classes of rows, or of each attribute separately.
    levels : the levels of full-domain generalization before classes were merged; None for other
        methods.
    column_statistics : those of the released table; None if they are not computed yet.
    method_counts : counts that the method reports, by name.
    owner_counts : counts that only the owner of the source may see, by name.
    """

    classes: Partition | AttributePartition
    levels: Levels | None = None
    column_statistics: ColumnStatistics | None = None
    method_counts: Mapping[str, int] = field(default_factory=dict)
    owner_counts: Mapping[str, int] = field(default_factory=dict)


def positions_among(records: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return the position of each of n records in ``records``, int64 (n,); -1 if it is absent."""
    positions = np.full(n, -1, np.int64)
    positions[records] = np.arange(len(records))
    return positions


# What a method returns for a table.
MethodResult: TypeAlias = "Partition | AttributePartition"


def combine_partitions(
    results: Sequence[tuple[NDArray[np.int64], Partition]], n: int, parallel_map: ParallelMap = map
) -> Partition:
    """Combine partitions of disjoint sets of records into one partition of n records.

    Parameters
    ----------
    results : for each set, the indices of its records, int64 (m,), and the partition of the set.
        Records outside all sets are suppressed.
    parallel_map : ``data.pieces.on_all_cores`` to process the sets in parallel, or ``map``; the
        result is the same.
    """
    method_counts: dict[str, int] = {}
    for _, partition in results:
        for name, count in partition.method_counts.items():
            method_counts[name] = method_counts.get(name, 0) + count
    if len(results) == 1:
        [(all_records, single_partition)] = results
        if are_all_records(all_records, n):
            return Partition.without_copy(single_partition.labels, method_counts)
    labels = np.full(n, SUPPRESSED, np.int32)
    first_classes = np.cumsum([0, *(partition.n_classes for _, partition in results)]).tolist()

    def write_labels(index: int) -> None:
        records, partition = results[index]
        labels_in_set = partition.labels
        if partition.n_suppressed:
            labels[records] = np.where(
                labels_in_set >= 0, labels_in_set + np.int32(first_classes[index]), SUPPRESSED
            )
        else:
            labels[records] = labels_in_set + np.int32(first_classes[index])

    # The loop only makes a lazy map run.
    for _ in parallel_map(write_labels, range(len(results))):
        pass
    return Partition.without_copy(labels, method_counts)


def are_all_records(records: NDArray[np.int64], n: int) -> bool:
    """True if ``records`` holds the indices of all n records, in ascending order."""
    return len(records) == n and bool((records == np.arange(n)).all())
