"""Pairs: every original record beside what was released of it. What the measures look at.

A release has neither keys nor order, so pairs exist only where it is made, or where somebody kept
the order. Suppressed records are no part of them: they are in no sum and no denominator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.data.scales import Standardization
from dbanon.measures.attributes import Column, Flags, Floats, Numbers
from dbanon.measures.covariances import Moments, moments

# Records that are looked at together: large enough for numpy, small beside the table.
CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Pairs:
    """n records that are released, and the m classes as which they are.

    Parameters
    ----------
    columns : the quasi-identifiers, original and released.
    partition : of the n records, none of which is suppressed; any perturbation that gives every
        record values of its own is n classes.
    suppressed : how many more records there were.
    strata : int32 (n,), which stratum each record is in; None for one.
    entities : int32 (n,), the person of each record; None when every record is one.
    suppressed_cells : cells of the n records that are released as NULL and were none.
    suppressed_weight : of ``suppressed_distance``.
    """

    columns: tuple[Column, ...]
    partition: Partition
    suppressed: int = 0
    strata: NDArray[np.int32] | None = None
    entities: NDArray[np.int32] | None = None
    suppressed_cells: int = 0
    suppressed_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.partition.n_suppressed:
            raise ValueError("pairs are of released records only")

    @property
    def n(self) -> int:
        """The number of records."""
        return len(self.partition.labels)

    @property
    def m(self) -> int:
        """The number of classes."""
        return self.partition.n_classes

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The class of each record, (n,), as numpy indexes with it: other types are copied each
        time."""
        return self.partition.labels.astype(np.intp)

    # --- numbers ---------------------------------------------------------------------------------

    @cached_property
    def ranked(self) -> tuple[Numbers, ...]:
        """The columns of numbers and of ranks."""
        return tuple(column for column in self.columns if isinstance(column, Numbers))

    @cached_property
    def numbers(self) -> tuple[Numbers, ...]:
        """The columns of numbers."""
        return tuple(column for column in self.ranked if not column.ordinal)

    @property
    def all_numbers(self) -> bool:
        """True where every column is one of numbers."""
        return bool(self.columns) and len(self.numbers) == len(self.columns)

    def scores(self, columns: tuple[Numbers, ...]) -> tuple[Floats, Floats]:
        """z-scores, float64 (n, p) and (m, p), both by the originals' mean and sample deviation.

        0 in a constant column and where a value is NULL.
        """
        transform = Standardization.of([column.scale for column in columns])
        found = []
        for values, missing in (
            ([c.original for c in columns], [c.missing for c in columns]),
            ([c.released for c in columns], [c.withheld for c in columns]),
        ):
            points = np.empty((len(values[0]) if values else 0, len(columns)))
            for column, (numbers, null) in enumerate(zip(values, missing, strict=True)):
                points[:, column] = numbers if null is None else np.where(null, 0.0, numbers)
            points = transform.apply(points)
            for column, null in enumerate(missing):
                if null is not None:
                    points[null, column] = 0.0
            found.append(points)
        return found[0], found[1]

    @cached_property
    def points(self) -> tuple[Floats, Floats]:
        """The z-scores of the columns of numbers, C order."""
        return self.scores(self.numbers)

    @cached_property
    def moments(self) -> Moments:
        """The covariances of the columns of numbers, before and after."""
        return moments(*self.points, self.rows, self.cells(self.numbers))

    def cells(self, columns: Iterable[Column]) -> Flags | None:
        """bool (n, p), which cells are NULL neither in the original nor released; None for all."""
        columns = tuple(columns)
        labels = self.rows
        if all(c.missing is None and c.withheld is None for c in columns):
            return None
        cells = np.ones((self.n, len(columns)), bool)
        for at, column in enumerate(columns):
            if column.missing is not None:
                cells[:, at] &= ~column.missing
            if column.withheld is not None:
                cells[:, at] &= ~column.withheld[labels]
        return cells

    def chunks(self) -> Iterator[slice]:
        """The records, some at a time."""
        return (slice(at, min(at + CHUNK, self.n)) for at in range(0, self.n, CHUNK))

    # --- who an attacker could confuse -----------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """int64 (n,) and int64 (m,): the stratum and the NULLs of each record and each class.

        An attacker sees both, and so compares only what is of one group. In a column with
        suppressed cells no NULL shows; a class is in the group of the first record of all classes
        that are released alike. None for a single group.
        """
        codes: list[NDArray[Any]] = []
        firsts = self._first_records()
        for column in self.columns:
            if column.missing is None and column.withheld is None:
                continue
            before = np.zeros(self.n, bool) if column.missing is None else column.missing
            after = np.zeros(self.m, bool) if column.withheld is None else column.withheld
            if column.suppressed is not None:
                after = before[firsts]
            codes.append(np.concatenate((before, after)))
        if self.strata is not None:
            codes.append(np.concatenate((self.strata, self.strata[firsts])))
        if not codes:
            return None
        together = joined(codes)
        return together[: self.n], together[self.n :]

    def _first_records(self) -> NDArray[np.int64]:
        """int64 (m,), the first record of each class; with suppressed cells that of all classes
        that are released alike."""
        firsts = self.partition.members[self.partition.starts].astype(np.int64)
        if not self.suppressed_cells:
            return firsts
        codes: list[NDArray[Any]] = [column.released_kinds for column in self.columns]
        codes += [column.withheld for column in self.columns if column.withheld is not None]
        if self.strata is not None:
            codes.append(self.strata[firsts])
        alike = joined(codes, self.m)
        found = np.full(self.m, self.n, np.int64)
        np.minimum.at(found, alike, firsts)
        return found[alike]

    @cached_property
    def suppressed_distance(self) -> Floats:
        """float64 (m,), what the suppressed cells of each row count when records are linked.

        With a weight of 1, each is as far from any value as the other released values of its column
        are on average. So a row that says little is not nearer than one that says the right thing.
        """
        distance = np.zeros(self.m)
        order = np.random.default_rng(0).permutation(self.n)
        for column in self.columns:
            if column.suppressed is None:
                continue
            others = self.rows[order]
            compared = ~column.suppressed[others]
            if column.missing is not None:
                compared &= ~column.missing
            apart = column.gap(np.flatnonzero(compared), others[compared])
            distance[column.suppressed] += float(apart.mean()) if len(apart) else 1.0
        return distance * self.suppressed_weight

    @cached_property
    def alike(self) -> NDArray[np.int64]:
        """int64 (m,): classes that are released with the same values, and of one group, share a
        number from 0."""
        codes: list[NDArray[Any]] = [column.released_kinds for column in self.columns]
        if self.groups is not None:
            codes.append(self.groups[1])
        found = joined(codes, self.m)
        # In the order of the classes: what is asked one after the other lies together.
        firsts = np.unique(found, return_index=True)[1]
        places = np.empty(len(firsts), np.int64)
        places[np.argsort(firsts)] = np.arange(len(firsts))
        return places[found]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """int64, the rows of each number of ``alike``; persons where ``entities`` are known."""
        rows = self.alike[self.partition.labels]
        if self.entities is None:
            return np.bincount(rows).astype(np.int64)
        people = joined([self.entities])
        width = int(people.max(initial=0)) + 1
        cells = np.unique(rows * width + people)
        return np.bincount(cells // width).astype(np.int64)


def joined(codes: Iterable[NDArray[Any]], n: int = 0) -> NDArray[np.int64]:
    """One number from 0 for each combination of several codes, int64 (n,), all of n values."""
    together: NDArray[np.int64] | None = None
    for code in codes:
        values, at = np.unique(code, return_inverse=True)
        at = at.reshape(-1).astype(np.int64)
        if together is None:
            together = at
        elif len(together) == int(together.max(initial=-1)) + 1:
            break  # all are different already
        elif len(values) > 1:
            mixed = together * len(values) + at
            together = np.unique(mixed, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return np.zeros(n, np.int64) if together is None else together
