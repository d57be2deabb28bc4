"""What was counted on the written relation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Coded


@dataclass(frozen=True)
class Recount:
    """What was counted on the written relation, by GROUP BY over the quasi-identifiers.

    Parameters
    ----------
    rows : rows in all.
    histogram : how many classes there are of each size.
    null_rows : rows with NULL in a quasi-identifier.
    k_rows : the rows that share the rarest combination of values, where ``histogram`` is of the
        classes of each attribute by itself; None where it is of combinations.
    """

    rows: int
    histogram: Mapping[int, int]
    null_rows: int = 0
    k_rows: int | None = None

    @classmethod
    def of_sizes(cls, found: Iterable[Sequence[int]]) -> Recount:
        """Of rows of the size of a class, whether it has NULL, and how many classes are so."""
        histogram: dict[int, int] = {}
        null_rows = rows = 0
        for size, has_null, count in found:
            histogram[int(size)] = histogram.get(int(size), 0) + int(count)
            rows += int(size) * int(count)
            null_rows += int(size) * int(count) if has_null else 0
        return cls(rows, histogram, null_rows)

    @classmethod
    def of_attributes(cls, attributes: Sequence[Recount], rows: Recount) -> Recount:
        """The recounts of each attribute by itself in one, beside that of their combinations."""
        histogram: dict[int, int] = {}
        for part in attributes:
            for size, count in part.histogram.items():
                histogram[size] = histogram.get(size, 0) + count
        return cls(rows.rows, histogram, rows.null_rows, rows.smallest)

    @property
    def classes(self) -> int:
        """The number of classes."""
        return sum(self.histogram.values())

    @property
    def smallest(self) -> int:
        """Records in the smallest class: the k that was achieved; 0 when there are no rows."""
        return min(self.histogram, default=0)

    @property
    def largest(self) -> int:
        """Records in the largest class."""
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


def rarest_row(k_rows: int) -> str:
    """What ``k_rows`` tells, in words."""
    return f"the rarest combination of released values is shared by {k_rows} row(s)"


@dataclass(frozen=True)
class JointHistories:
    """How many persons share their classes over several releases, absences included.

    Parameters
    ----------
    releases, k : how many releases, and what histories are counted against.
    persons : who is in one of them.
    below, alone : whose history fewer than k persons share, and whose nobody else has.
    missing : the earlier releases that have no record of their persons, and are not counted.
    older : how many have one, and are not counted because enough later ones are.
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
    """Persons counted in the classes of released values, in staging beside their rows.

    Parameters
    ----------
    persons : in all.
    smallest : in the class of fewest; 0 when there is none.
    histogram : how many classes there are of each size in rows.
    in_class : int64 (m,), the persons of each class, by the class numbers of ``cells``.
    cells : by sensitive column, with persons.
    also : of the combinations of other sets of columns.
    """

    persons: int
    smallest: int
    histogram: Mapping[int, int]
    in_class: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    cells: Mapping[str, Cells] = field(default_factory=dict)
    also: tuple[EntityCount, ...] = ()


@dataclass(frozen=True)
class Questions:
    """What is counted on a written release, before anyone can see it.

    Parameters
    ----------
    columns : the released columns whose combinations of values rows share.
    each : where quasi-identifiers are grouped by themselves: the columns whose combinations are
        classes, one tuple a quasi-identifier. Empty where ``columns`` are what classes share.
    persons : columns whose values are counted in each class, too: those that say whose a row is.
    sensitive : columns whose values are counted in each class.
    leaves : those of them whose values are leaves of a hierarchy, so that their order is not asked.
    also : other sets of columns, whose combinations are counted, too.
    """

    columns: tuple[str, ...]
    each: tuple[tuple[str, ...], ...] = ()
    persons: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    leaves: frozenset[str] = frozenset()
    also: tuple[tuple[str, ...], ...] = ()

    @property
    def classes(self) -> tuple[tuple[str, ...], ...]:
        """The columns whose combinations are classes."""
        return self.each or (self.columns,)

    def recounted(self, recount: Callable[[Sequence[str]], Recount]) -> Recount:
        """The classes, by what counts the rows that share each combination of some columns."""
        together = recount(self.columns)
        if not self.each:
            return together
        return Recount.of_attributes([recount(columns) for columns in self.each], together)


@dataclass(frozen=True, eq=False)
class Cells:
    """How often each value of a column occurs in each class of a written release.

    Parameters
    ----------
    classes : int64 (c,), the class of each cell, from 0; a class and value may have several.
    column : of c codes, the value of each cell.
    sizes : int64 (c,), the rows of each cell.
    persons : int64 (c,), the persons of each cell, who are in no other cell of its class and value;
        None where they are not known.
    """

    classes: NDArray[np.int64]
    column: Coded
    sizes: NDArray[np.int64]
    persons: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Histories:
    """What was counted on the state of a chain once it was written, and on its release.

    Parameters
    ----------
    sequence : the number of the release in its chain, from 1.
    persons : those who have a row in the release.
    known : those whose history was ever in one.
    smallest : the persons who share the rarest history; 0 where there is none.
    exposed : the persons whose history fewer than k share.
    waiting, returned : those who are in the source and not in the release: they wait to be
        admitted; they left, and came back.
    misplaced : classes that have other rows than their persons.
    rewritten : held classes whose rows are not those that were shown before.
    uneven : combinations of released values that have other rows than their classes.
    failing : classes on display that do not keep to a privacy model.
    refused : newcomers whom privacy models kept out with this release, for good.
    rows, beyond, fewest : where persons have several rows: those of the release; those that were
        withheld of persons who have many; the persons who share the rarest combination. None where
        each has one.
    apart : where they have rows in several tables: combinations in any of them that fewer than k
        persons share.
    told : what else was counted of classes and persons, by name.
    levels : that all classes on display keep to, of privacy models that compare them with the first
        release, by the model's place.
    """

    sequence: int
    persons: int
    known: int
    smallest: int
    exposed: int = 0
    waiting: int = 0
    returned: int = 0
    misplaced: int = 0
    rewritten: int = 0
    uneven: int = 0
    failing: int = 0
    refused: int = 0
    rows: int | None = None
    beyond: int = 0
    fewest: int | None = None
    apart: int = 0
    told: Mapping[str, int] = field(default_factory=dict)
    levels: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Counts:
    """The answers to ``Questions``, counted where the release was written.

    Parameters
    ----------
    rows : of the classes.
    persons : of the persons in them, by the column that says whose a row is.
    cells : by sensitive column.
    histories : of the chain that the release belongs to; None where it belongs to none.
    also : of the combinations of other sets of columns.
    """

    rows: Recount
    persons: Mapping[str, EntityCount] = field(default_factory=dict)
    cells: Mapping[str, Cells] = field(default_factory=dict)
    histories: Histories | None = None
    also: tuple[Recount, ...] = ()
