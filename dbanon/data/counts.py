"""Counts of the rows, classes and persons of a written release, and requests for such counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import CodedColumn


@dataclass(frozen=True)
class Recount:
    """Class sizes of a written release, counted by GROUP BY over the quasi-identifiers.

    Parameters
    ----------
    rows : number of rows.
    histogram : number of classes, by class size in rows.
    null_rows : number of rows with NULL in a quasi-identifier or a stratum column.
    k_rows : number of rows that share the rarest combination of values; only if ``histogram``
        counts the classes of each attribute separately, else None.
    agreeing_rows : the smallest number of rows that agree with a row, itself included, where NULL
        agrees with every value; only if ``CountRequests.null_agrees``, else None.
    """

    rows: int
    histogram: Mapping[int, int]
    null_rows: int = 0
    k_rows: int | None = None
    agreeing_rows: int | None = None

    @classmethod
    def of_sizes(cls, size_counts: Iterable[Sequence[int]]) -> Recount:
        """Build a recount from the number of classes of each size.

        Parameters
        ----------
        size_counts : triples of a class size in rows, whether the classes have NULL in a
            quasi-identifier, and the number of such classes.
        """
        histogram: dict[int, int] = {}
        null_rows = rows = 0
        for size, has_null, count in size_counts:
            histogram[int(size)] = histogram.get(int(size), 0) + int(count)
            rows += int(size) * int(count)
            null_rows += int(size) * int(count) if has_null else 0
        return cls(rows, histogram, null_rows)

    @classmethod
    def of_attributes(cls, attributes: Sequence[Recount], combinations: Recount) -> Recount:
        """Merge the recounts of single attributes into one histogram of classes.

        Parameters
        ----------
        attributes : the recount of each attribute by itself.
        combinations : the recount of the combinations of all attributes, for ``k_rows``.
        """
        histogram: dict[int, int] = {}
        for recount in attributes:
            for size, count in recount.histogram.items():
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
        cumulative = np.cumsum([self.histogram[size] for size in sizes])
        low = sizes[int(np.searchsorted(cumulative, (cumulative[-1] + 1) // 2))]
        high = sizes[int(np.searchsorted(cumulative, cumulative[-1] // 2 + 1))]
        return (low + high) / 2


def describe_rarest_row(k_rows: int) -> str:
    """Describe how many rows share the rarest combination of values (``Recount.k_rows``)."""
    return f"the rarest combination of released values is shared by {k_rows} row(s)"


@dataclass(frozen=True)
class JointHistories:
    """How many persons have a rare joint history over several releases.

    A joint history is a person's class, or absence, in each of the releases.

    Parameters
    ----------
    releases : number of releases.
    k : a joint history is rare if fewer than k persons share it.
    persons : number of persons in any of the releases.
    n_below_k : number of persons whose joint history fewer than k persons share.
    n_unique : number of persons with a unique joint history.
    missing : names of earlier releases that are left out because their persons are not recorded.
    older : number of older releases that are recorded, but left out because of the limit on the
        number of releases.
    """

    releases: int
    k: int
    persons: int
    n_below_k: int
    n_unique: int
    missing: tuple[str, ...] = ()
    older: int = 0


@dataclass(frozen=True, eq=False)
class EntityCount:
    """Counts of persons per class of released values.

    Parameters
    ----------
    persons : number of persons.
    smallest : number of persons in the smallest class; 0 without classes.
    histogram : number of classes by size. The size is in rows, not in persons, so that it can be
        compared with the recount of the written rows.
    persons_per_class : int64 (m,), the number of persons in each class, by the class numbers that
        ``value_counts`` uses.
    value_counts : by sensitive column, the number of rows and persons with each value in each
        class.
    further_sets : the same counts for the sets of columns that must be k-anonymous, too (the option
        ``also_k``). The combinations of a set's values are its classes.
    """

    persons: int
    smallest: int
    histogram: Mapping[int, int]
    persons_per_class: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    value_counts: Mapping[str, ClassValueCounts] = field(default_factory=dict)
    further_sets: tuple[EntityCount, ...] = ()


@dataclass(frozen=True)
class CountRequests:
    """Which counts to make of a written release before it becomes visible.

    Parameters
    ----------
    columns : the released columns whose combinations of values are counted.
    attribute_columns : if each quasi-identifier is grouped separately, the released columns of
        each; empty if the combinations of ``columns`` are the classes.
    entity_columns : the entity column as the only element, if persons are counted per class; else
        empty.
    sensitive : columns whose values are counted per class.
    hierarchy_columns : sensitive columns whose values are leaves of a hierarchy, so that their
        order does not matter.
    further_sets : further sets of columns whose combinations are counted, because they must be
        k-anonymous, too (the option ``also_k``).
    null_agrees : True to count the rows that agree with each row, too (``Recount.agreeing_rows``).
    """

    columns: tuple[str, ...]
    attribute_columns: tuple[tuple[str, ...], ...] = ()
    entity_columns: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    hierarchy_columns: frozenset[str] = frozenset()
    further_sets: tuple[tuple[str, ...], ...] = ()
    null_agrees: bool = False

    @property
    def classes(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns whose combinations of values are the classes."""
        return self.attribute_columns or (self.columns,)

    def recount_classes(self, recount: Callable[[Sequence[str]], Recount]) -> Recount:
        """Recount the classes.

        Parameters
        ----------
        recount : a function that counts the combinations of values of some columns.
        """
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
    classes : int64 (c,), the class of each entry, from 0. An entry counts rows of one class with
        the same value; such rows may be spread over several entries.
    column : the value of each entry, as c codes.
    sizes : int64 (c,), the number of rows per entry.
    persons : int64 (c,), the number of persons per entry; None if unknown. Entries of the same
        class and value have no person in common.
    """

    classes: NDArray[np.int64]
    column: CodedColumn
    sizes: NDArray[np.int64]
    persons: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class ChainCounts:
    """Counts of a chain after a release: of its persons, its classes and its stored state.

    A *history* is the sequence of a person's classes and absences in all releases of the chain. A
    *cell* is a class of the chain.

    Parameters
    ----------
    sequence : the number of the release in its chain, from 1.
    persons : number of persons with a row in the release.
    persons_so_far : number of persons in any release so far.
    rarest_history_persons : number of persons who share the rarest history; 0 without persons.
    exposed_persons : number of persons whose history is shared by fewer than k persons.
    waiting_persons : number of persons in the source who are not admitted to a class yet.
    returned_persons : number of persons who had left the source and are back; they are not released
        again.
    mismatched_cells : number of classes whose number of rows does not match their persons.
    rewritten_rows : number of rows of held classes, which are to be released unchanged, that differ
        from those released before.
    mismatched_combinations : number of combinations of released values that do not have the same
        number of rows in the release as in the stored classes.
    failing_cells : number of released classes that violate a privacy model.
    refused_persons : number of newcomers who are excluded permanently, from this release on,
        because their class would violate a privacy model.
    rows : number of rows in the release; None if each person has one row.
    withheld_rows : number of rows withheld because their person has more rows than allowed.
    rarest_combination_persons : number of persons who share the rarest combination of values; None
        if each person has one row.
    joined_combinations_below_k : if the chain releases several tables, number of combinations of
        values in the joined tables that fewer than k persons share.
    further_counts : further counts of classes and persons, by name, that the report of a chain
        prints, such as ``joined`` for admitted newcomers.
    levels : by index of the privacy model in the guarantee, the level that all released classes
        reach, such as the largest distance for t-closeness. Only for models that compare classes
        with the first release of the chain.
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
    rows : the recount of rows: the class sizes in rows. The number of rows is ``rows.rows``.
    persons : the class sizes in persons, by entity column; empty if persons are not counted.
    value_counts : number of rows with each value in each class, by sensitive column.
    chain_counts : counts of the chain that the release belongs to; None outside a chain.
    further_sets : the class sizes for ``CountRequests.further_sets``, in the same order.
    """

    rows: Recount
    persons: Mapping[str, EntityCount] = field(default_factory=dict)
    value_counts: Mapping[str, ClassValueCounts] = field(default_factory=dict)
    chain_counts: ChainCounts | None = None
    further_sets: tuple[Recount, ...] = ()


@dataclass(frozen=True)
class CodedCounts:
    """The counts of a copied column whose numbers were coded.

    Parameters
    ----------
    n_wrong : written rows whose value is neither NULL, nor a label, nor a number that is kept.
    tails : by label of a coded tail, how many persons or rows of the release it has.
    """

    n_wrong: int
    tails: Mapping[str, int]
