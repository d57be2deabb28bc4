"""Counts of a written release, and the questions that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import CodedColumn


@dataclass(frozen=True)
class Recount:
    """Class sizes of the written relation, counted by GROUP BY over the quasi-identifiers.

    Parameters
    ----------
    rows : number of rows.
    histogram : number of classes by size.
    null_rows : number of rows with NULL in a quasi-identifier.
    k_rows : number of rows that share the rarest combination of values, if ``histogram`` counts the
        classes of each attribute separately; None if it counts combinations.
    """

    rows: int
    histogram: Mapping[int, int]
    null_rows: int = 0
    k_rows: int | None = None

    @classmethod
    def of_sizes(cls, size_counts: Iterable[Sequence[int]]) -> Recount:
        """Build a recount from triples: class size, whether it has NULL, number of such classes."""
        histogram: dict[int, int] = {}
        null_rows = rows = 0
        for size, has_null, count in size_counts:
            histogram[int(size)] = histogram.get(int(size), 0) + int(count)
            rows += int(size) * int(count)
            null_rows += int(size) * int(count) if has_null else 0
        return cls(rows, histogram, null_rows)

    @classmethod
    def of_attributes(cls, attributes: Sequence[Recount], combinations: Recount) -> Recount:
        """Merge the recounts of single attributes, with the recount of their combinations."""
        histogram: dict[int, int] = {}
        for part in attributes:
            for size, count in part.histogram.items():
                histogram[size] = histogram.get(size, 0) + count
        return cls(combinations.rows, histogram, combinations.null_rows, combinations.smallest)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return sum(self.histogram.values())

    @property
    def smallest(self) -> int:
        """The size of the smallest class, which is the achieved k; 0 without rows."""
        return min(self.histogram, default=0)

    @property
    def largest(self) -> int:
        """The size of the largest class."""
        return max(self.histogram, default=0)

    @property
    def median(self) -> float:
        """The median class size."""
        if not self.histogram:
            return 0.0
        sizes = sorted(self.histogram)
        ends = np.cumsum([self.histogram[size] for size in sizes])
        low = sizes[int(np.searchsorted(ends, (ends[-1] + 1) // 2))]
        high = sizes[int(np.searchsorted(ends, ends[-1] // 2 + 1))]
        return (low + high) / 2


def describe_rarest_row(k_rows: int) -> str:
    """Describe the meaning of ``k_rows``."""
    return f"the rarest combination of released values is shared by {k_rows} row(s)"


@dataclass(frozen=True)
class JointHistories:
    """How many persons share their classes over several releases, absences included.

    Parameters
    ----------
    releases, k : the number of releases, and the k to compare with.
    persons : the number of persons in any of the releases.
    below, alone : the number of persons whose history fewer than k persons share, or no one else.
    missing : earlier releases without a record of their persons, which are not counted.
    older : the number of releases with a record that are left out because enough later ones count.
    """

    releases: int
    k: int
    persons: int
    below: int
    alone: int
    missing: tuple[str, ...] = ()
    older: int = 0


@dataclass(frozen=True, eq=False)
class EntityCount:
    """Persons per class of released values, counted in staging.

    Parameters
    ----------
    persons : number of persons.
    smallest : number of persons in the smallest class; 0 without classes.
    histogram : number of classes by size in rows.
    in_class : int64 (m,), the number of persons per class, by the class numbers in ``cells``.
    cells : the rows and persons of each value in each class, by sensitive column.
    also : the same counts for combinations of other sets of columns.
    """

    persons: int
    smallest: int
    histogram: Mapping[int, int]
    in_class: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    cells: Mapping[str, ClassValueCounts] = field(default_factory=dict)
    also: tuple[EntityCount, ...] = ()


@dataclass(frozen=True)
class CountRequests:
    """The counts to make of a written release before it becomes visible.

    Parameters
    ----------
    columns : the released columns whose combinations of values rows share.
    attribute_columns : one tuple of columns per quasi-identifier, whose combinations are classes,
        if they are grouped separately. Empty if the combinations of ``columns`` are classes.
    persons : the entity column, if its values are to be counted per class.
    sensitive : columns whose values are counted per class.
    leaves : sensitive columns whose values are leaves of a hierarchy, so that no order is needed.
    also : further sets of columns whose combinations are counted.
    """

    columns: tuple[str, ...]
    attribute_columns: tuple[tuple[str, ...], ...] = ()
    persons: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    leaves: frozenset[str] = frozenset()
    also: tuple[tuple[str, ...], ...] = ()

    @property
    def classes(self) -> tuple[tuple[str, ...], ...]:
        """The columns whose combinations are classes."""
        return self.attribute_columns or (self.columns,)

    def recounted(self, recount: Callable[[Sequence[str]], Recount]) -> Recount:
        """Recount the classes with a function that counts combinations of columns."""
        combinations = recount(self.columns)
        if not self.attribute_columns:
            return combinations
        return Recount.of_attributes(
            [recount(columns) for columns in self.attribute_columns], combinations
        )


@dataclass(frozen=True, eq=False)
class ClassValueCounts:
    """The frequency of each value of a column in each class of a written release.

    Parameters
    ----------
    classes : int64 (c,), the class of each cell, from 0; a class and value may have several.
    column : c codes, the value of each cell.
    sizes : int64 (c,), the number of rows per cell.
    persons : int64 (c,), the number of persons per cell. Cells of one class and value have no
        person in common. None if unknown.
    """

    classes: NDArray[np.int64]
    column: CodedColumn
    sizes: NDArray[np.int64]
    persons: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Histories:
    """Counts of a chain's written state and of its release.

    Parameters
    ----------
    sequence : the number of the release in its chain, from 1.
    persons : number of persons with a row in the release.
    persons_so_far : number of persons in any release so far.
    rarest_history_persons : number of persons who share the rarest history; 0 without persons.
    exposed_persons : number of persons whose history fewer than k share.
    waiting_persons : number of persons in the source who wait for admission.
    returned_persons : number of persons in the source who had left and stay out.
    mismatched_cells : number of classes whose rows do not match their persons.
    rewritten_rows : number of rows of held classes that differ from those released before.
    mismatched_combinations : number of combinations of released values whose rows differ from the
        rows of their classes.
    failing_cells : number of released classes that violate a privacy model.
    refused_persons : number of newcomers whom privacy models excluded permanently with this release.
    rows : number of rows in the release; None if each person has one row.
    withheld_rows : number of rows withheld because their persons exceed the row limit.
    rarest_combination_persons : number of persons who share the rarest combination of values; None
        if each person has one row.
    joined_combinations_below_k : for persons in several tables, number of combinations in the joined
        tables that fewer than k persons share.
    further_counts : counts of classes and persons, by name.
    levels : by index of the model, the level that all released classes reach, for models that
        compare classes with the first release.
    """

    sequence: int
    persons: int
    persons_so_far: int
    rarest_history_persons: int
    exposed_persons: int = 0
    waiting_persons: int = 0
    returned_persons: int = 0
    mismatched_cells: int = 0
    rewritten_rows: int = 0
    mismatched_combinations: int = 0
    failing_cells: int = 0
    refused_persons: int = 0
    rows: int | None = None
    withheld_rows: int = 0
    rarest_combination_persons: int | None = None
    joined_combinations_below_k: int = 0
    further_counts: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Counts:
    """The answers to ``CountRequests``, counted where the release was written.

    Parameters
    ----------
    rows : the class sizes.
    persons : the persons per class, by entity column.
    cells : the rows of each value in each class, by sensitive column.
    histories : counts of the chain that the release belongs to; None outside a chain.
    also : the recounts of further sets of columns.
    """

    rows: Recount
    persons: Mapping[str, EntityCount] = field(default_factory=dict)
    cells: Mapping[str, ClassValueCounts] = field(default_factory=dict)
    histories: Histories | None = None
    also: tuple[Recount, ...] = ()
