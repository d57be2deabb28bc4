"""What a method gives: records, attributes or a whole table put into equivalence classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon import kernels
from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.notebook import Shown
from dbanon.data.number_levels import NumberLevels
from dbanon.data.pieces import Each
from dbanon.errors import RecountFailed


def most_of(share: float, n: int) -> int:
    """The most of n records that are no larger share, as 29 of 100 for 0.29.

    Not what the product is rounded to: 0.29 * 100 is below 29.
    """
    most = min(int(share * n) + 1, n)
    while most > 0 and most / n > share:
        most -= 1
    return most


def share_needed(count: int, n: int) -> str:
    """The share of n records, more than none, that so many need: rounded up, as text."""
    return f"{-(-count * 10**6 // n) / 10**6:.6f}"


@dataclass(frozen=True, eq=False)
class Synthesis:
    """Released rows, without classes, without k and in no order of the source.

    Parameters
    ----------
    columns : by name, an array of n values, read-only, of the type of the source's column.
    method : what made them.
    guarantee : what holds of them, in words, and what does not.
    epsilon : of a differential privacy that holds; None where none does.
    told : what else is known about how they were made. Of a synthesis that is differentially
        private it follows from public figures alone.
    """

    columns: Mapping[str, NDArray[Any]]
    method: str
    guarantee: str
    epsilon: float | None = None
    told: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for values in self.columns.values():
            values.setflags(write=False)
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    @property
    def n_rows(self) -> int:
        """The number of rows, n."""
        return len(next(iter(self.columns.values()), ()))

    @property
    def values(self) -> NDArray[np.float64]:
        """All columns of numbers side by side, float64 (n, p)."""
        return np.column_stack([np.asarray(part, np.float64) for part in self.columns.values()])


SUPPRESSED = -1
NOTHING: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Partition(Shown):
    """Every record in one equivalence class, or suppressed.

    Parameters
    ----------
    labels : int32 (n,), the class of each record from 0 without gaps; -1 where suppressed.
    told : what the method counted on its way, by what it is; counts of parts add up.

    Attributes
    ----------
    of_rows : True when classes are of rows: what one class releases, its rows share.
    in_blocks : True when parts of a table may be given classes by themselves.
    at_once : True when a method sees all strata in one run, as ``Method.run`` says.
    """

    labels: NDArray[np.int32]
    told: Mapping[str, int]

    of_rows: ClassVar[bool] = True
    in_blocks: ClassVar[bool] = True
    at_once: ClassVar[bool] = False

    def __init__(self, labels: ArrayLike, told: Mapping[str, int] = NOTHING) -> None:
        array = np.array(labels, dtype=np.int32)
        if array.ndim != 1:
            raise ValueError("labels must have one dimension")
        self._hold(array, told)

    def _hold(self, array: NDArray[np.int32], told: Mapping[str, int]) -> None:
        array.setflags(write=False)
        object.__setattr__(self, "labels", array)
        object.__setattr__(self, "told", told)
        # Raises where a label is none.
        if not self.sizes.all():
            raise ValueError("labels must have no gaps")

    @classmethod
    def owning(cls, labels: NDArray[np.int32], told: Mapping[str, int] = NOTHING) -> Partition:
        """As the constructor, of labels that are not copied: nobody else may change them."""
        made = Partition.__new__(Partition)
        made._hold(labels, told)
        return made

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
        """The number of records in no class."""
        return len(self.labels) - int(self.sizes.sum())

    @cached_property
    def _grouped(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return kernels.grouped(self.labels, self.n_classes)

    @property
    def members(self) -> NDArray[np.int64]:
        """int64 (n - suppressed,), records by class, in record order within a class."""
        return self._grouped[0]

    @property
    def starts(self) -> NDArray[np.int64]:
        """int64 (n_classes,), where each class begins in ``members``."""
        return self._grouped[1]

    @property
    def levels_found(self) -> Levels | None:
        """The levels that the classes follow from; None where there are none."""
        return None

    def rows(self) -> tuple[Partition, NDArray[np.int32]]:
        """What rows are released alike; and, int32 (n_classes, 1), the class of each of them."""
        return self, np.arange(self.n_classes, dtype=np.int32)[:, None]

    def by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """Which attributes, of these, are released by which classes: here all by the same."""
        return [(names, self)]

    @classmethod
    def joined(cls, found: Sequence[tuple[NDArray[np.int64], Any]], n: int) -> Partition:
        """One result of n records, from results of this kind of disjoint sets of records.

        Parameters
        ----------
        found : pairs of the records of a set, int64 (m,), and its result.
        """
        return combine(found, n)

    def of(self, records: NDArray[np.int64]) -> Partition:
        """The partition of other records, each standing for one of these: int64 (m,), -1 for none.

        Records that stand for none are suppressed.
        """
        return Partition(np.where(records < 0, SUPPRESSED, self.labels[records]), self.told)

    def require(self, k: int, max_size: int | None = None) -> Partition:
        """This partition, after a check that its classes hold k to ``max_size`` records.

        Raises
        ------
        RecountFailed : a class is smaller than k or larger than ``max_size``.
        """
        if self.n_classes and int(self.sizes.min()) < k:
            raise RecountFailed(
                f"A class holds {int(self.sizes.min())} records, fewer than k = {k}.",
                hint="This is an error in the method: please report it.",
            )
        if max_size is not None and self.n_classes and int(self.sizes.max()) > max_size:
            raise RecountFailed(
                f"A class holds {int(self.sizes.max())} records, more than {max_size}.",
                hint="This is an error in the method: please report it.",
            )
        return self


@dataclass(frozen=True, eq=False)
class AttributePartition(Shown):
    """Each attribute grouped by itself: k-anonymous per attribute, not per row.

    Parameters
    ----------
    partitions : one Partition of the same n records for each attribute.
    """

    partitions: tuple[Partition, ...]

    of_rows: ClassVar[bool] = False
    in_blocks: ClassVar[bool] = False
    at_once: ClassVar[bool] = False

    @property
    def levels_found(self) -> None:
        """None: there are no levels."""
        return None

    @classmethod
    def joined(cls, found: Sequence[tuple[NDArray[np.int64], Any]], n: int) -> AttributePartition:
        """As ``Partition.joined``, for each attribute."""
        records = [records for records, _ in found]
        by_attribute = zip(*(result.partitions for _, result in found), strict=True)
        return cls(
            tuple(combine(list(zip(records, parts, strict=True)), n) for parts in by_attribute)
        )

    def require(self, k: int, max_size: int | None = None) -> AttributePartition:
        """As ``Partition.require``, for each attribute."""
        for partition in self.partitions:
            partition.require(k, max_size)
        return self

    def by_columns(self, names: Sequence[str]) -> list[tuple[Sequence[str], Partition]]:
        """Which attributes, of these, are released by which classes: each by its own."""
        return [([name], part) for name, part in zip(names, self.partitions, strict=True)]

    def rows(self) -> tuple[Partition, NDArray[np.int32]]:
        """What rows are released alike: those that share their class in every attribute.

        Returns their partition, and int32 (n_classes, d), the class of each attribute in it.
        """
        labels = np.column_stack([partition.labels for partition in self.partitions])
        released = (labels >= 0).all(axis=1)
        classes, number = np.unique(labels[released], axis=0, return_inverse=True)
        together = np.full(len(labels), SUPPRESSED, np.int32)
        together[released] = number.reshape(-1)
        return Partition(together), classes

    def of(self, records: NDArray[np.int64]) -> AttributePartition:
        """As ``Partition.of``, for each attribute."""
        return AttributePartition(tuple(part.of(records) for part in self.partitions))


@dataclass(frozen=True, eq=False)
class Levels(Partition):
    """A partition that follows from one level of each attribute for the whole table.

    Parameters
    ----------
    labels : int32 (n,), the class of each record; -1 where suppressed.
    levels : for each attribute the number of steps up from the leaves, or from the finest cells.
    numbers : for each attribute that is measured as a number, the levels that were searched.
    """

    levels: Mapping[str, int]
    numbers: Mapping[str, NumberLevels]

    in_blocks: ClassVar[bool] = False
    at_once: ClassVar[bool] = True

    def __init__(
        self,
        labels: ArrayLike,
        levels: Mapping[str, int],
        numbers: Mapping[str, NumberLevels],
    ) -> None:
        super().__init__(labels)
        object.__setattr__(self, "levels", MappingProxyType(dict(levels)))
        object.__setattr__(self, "numbers", MappingProxyType(dict(numbers)))

    @property
    def levels_found(self) -> Levels:
        """These levels."""
        return self

    @classmethod
    def joined(cls, found: Sequence[tuple[NDArray[np.int64], Any]], n: int) -> Levels:
        """The levels of n records, of which some stand in the one result in another order."""
        [(records, result)] = found
        levels: Levels = result.of(places_of(records, n))
        return levels

    def of(self, records: NDArray[np.int64]) -> Levels:
        """The levels of other records, each standing for one of these: int64 (m,), -1 for none.

        Classes of which no record is left are left out.
        """
        nobody = records < 0
        labels = np.where(nobody, SUPPRESSED, self.labels[records])
        released = labels >= 0
        labels[released] = np.unique(labels[released], return_inverse=True)[1].reshape(-1)
        return Levels(labels, self.levels, self.numbers)


@dataclass(frozen=True, eq=False)
class Found:
    """The classes that were found for a release, whatever kind they are of.

    Parameters
    ----------
    classes : of rows, or of the values of each attribute by itself.
    levels : of a full domain, before classes were merged; None where none were chosen.
    measures : of the table that is released; None where it is still to be measured.
    told : what the method counted on its way, as in ``Partition``.
    """

    classes: Partition | AttributePartition
    levels: Levels | None = None
    measures: Measures | None = None
    told: Mapping[str, int] = field(default_factory=dict)


def places_of(records: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Where each of n records stands among these, int64 (n,); -1 where it does not."""
    places = np.full(n, -1, np.int64)
    places[records] = np.arange(len(records))
    return places


MethodResult: TypeAlias = "Partition | AttributePartition"


def combine(
    parts: Sequence[tuple[NDArray[np.int64], Partition]], n: int, each: Each = map
) -> Partition:
    """One partition of n records from partitions of disjoint sets of records.

    Parameters
    ----------
    parts : pairs of the records of a set, int64 (m,), and the partition of that set. Records in
        no set are suppressed.
    each : ``on_all_cores``, or one after the other; the partition is the same.
    """
    told: dict[str, int] = {}
    for _, partition in parts:
        for what, count in partition.told.items():
            told[what] = told.get(what, 0) + count
    if len(parts) == 1 and is_all(parts[0][0], n):
        return Partition.owning(parts[0][1].labels, told)
    labels = np.full(n, SUPPRESSED, np.int32)
    firsts = np.cumsum([0, *(partition.n_classes for _, partition in parts)]).tolist()

    def put(at: int) -> None:
        records, partition = parts[at]
        own = partition.labels
        if partition.n_suppressed:
            labels[records] = np.where(own >= 0, own + np.int32(firsts[at]), SUPPRESSED)
        else:
            labels[records] = own + np.int32(firsts[at])

    for _ in each(put, range(len(parts))):
        pass
    return Partition.owning(labels, told)


def is_all(records: NDArray[np.int64], n: int) -> bool:
    """Whether these are all of n records, in their order."""
    return len(records) == n and bool((records == np.arange(n)).all())
