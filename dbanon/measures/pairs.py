"""Pairs of original records and released rows, the input of measures.

A release has neither keys nor order, so only the run that makes it knows the pairs, or a caller who
preserved the order. Suppressed records are excluded from all sums and denominators.
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
from dbanon.measures.attributes import ColumnPair, Flags, Floats, Numbers
from dbanon.measures.covariances import Moments, moments

# Records per chunk: large enough for numpy, small compared to the table.
CHUNK = 1 << 16


@dataclass(frozen=True, eq=False)
class Pairs:
    """n released records and their m classes.

    Parameters
    ----------
    columns : the quasi-identifiers, original and released.
    partition : classes of the n records, none suppressed; n classes for a perturbation that gives
        every record separate values.
    n_suppressed : number of suppressed records.
    strata : int32 (n,), the stratum of each record; None for a single one.
    entities : int32 (n,), the person of each record; None if every record is a person.
    suppressed_cells : number of cells that are NULL only in the release.
    suppressed_weight : weight of ``suppressed_distance``.
    """

    columns: tuple[ColumnPair, ...]
    partition: Partition
    n_suppressed: int = 0
    strata: NDArray[np.int32] | None = None
    entities: NDArray[np.int32] | None = None
    suppressed_cells: int = 0
    suppressed_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.partition.n_suppressed:
            raise ValueError("pairs only exist for released records")

    @property
    def n(self) -> int:
        """The number of records."""
        return len(self.partition.labels)

    @property
    def m(self) -> int:
        """The number of classes."""
        return self.partition.n_classes

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """The class of each record, (n,), in numpy's index type, which avoids copies."""
        return self.partition.labels.astype(np.intp)

    # --- numbers ---------------------------------------------------------------------------------

    @cached_property
    def ordered_columns(self) -> tuple[Numbers, ...]:
        """The columns of numbers and ranks."""
        return tuple(column for column in self.columns if isinstance(column, Numbers))

    @cached_property
    def numeric_columns(self) -> tuple[Numbers, ...]:
        """The columns of numbers."""
        return tuple(column for column in self.ordered_columns if not column.ordinal)

    @property
    def is_all_numeric(self) -> bool:
        """True if all columns are numeric."""
        return bool(self.columns) and len(self.numeric_columns) == len(self.columns)

    def scores(self, columns: tuple[Numbers, ...]) -> tuple[Floats, Floats]:
        """z-scores, float64 (n, p) and (m, p), with the originals' mean and sample deviation.

        0 in constant columns and for NULL.
        """
        transform = Standardization.of([column.scale for column in columns])
        scores = []
        for values, missing in (
            ([c.original for c in columns], [c.original_nulls for c in columns]),
            ([c.released for c in columns], [c.released_nulls for c in columns]),
        ):
            points = np.empty((len(values[0]) if values else 0, len(columns)))
            for column, (numbers, is_null) in enumerate(zip(values, missing, strict=True)):
                points[:, column] = numbers if is_null is None else np.where(is_null, 0.0, numbers)
            points = transform.apply(points)
            for column, is_null in enumerate(missing):
                if is_null is not None:
                    points[is_null, column] = 0.0
            scores.append(points)
        return scores[0], scores[1]

    @cached_property
    def points(self) -> tuple[Floats, Floats]:
        """The z-scores of the columns of numbers, C order."""
        return self.scores(self.numeric_columns)

    @cached_property
    def moments(self) -> Moments:
        """The covariances of numeric columns, before and after release."""
        return moments(*self.points, self.labels, self.cells(self.numeric_columns))

    def cells(self, columns: Iterable[ColumnPair]) -> Flags | None:
        """bool (n, p), True for cells without NULL before and after release; None for all True."""
        columns = tuple(columns)
        labels = self.labels
        if all(c.original_nulls is None and c.released_nulls is None for c in columns):
            return None
        cells = np.ones((self.n, len(columns)), bool)
        for index, column in enumerate(columns):
            if column.original_nulls is not None:
                cells[:, index] &= ~column.original_nulls
            if column.released_nulls is not None:
                cells[:, index] &= ~column.released_nulls[labels]
        return cells

    def chunks(self) -> Iterator[slice]:
        """Slices of the records, in chunks."""
        return (slice(at, min(at + CHUNK, self.n)) for at in range(0, self.n, CHUNK))

    # --- comparison by attackers -----------------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """int64 (n,) and int64 (m,), a group id per record and class: its stratum and NULLs.

        Attackers see both, so they only compare records and rows of the same group. But they cannot
        recognize original NULLs in columns with suppressed cells: there, classes that are released
        alike are all in the group of the first of their records. None for a single group.
        """
        codes: list[NDArray[Any]] = []
        firsts = self._first_records()
        for column in self.columns:
            if column.original_nulls is None and column.released_nulls is None:
                continue
            before = (
                np.zeros(self.n, bool) if column.original_nulls is None else column.original_nulls
            )
            after = (
                np.zeros(self.m, bool) if column.released_nulls is None else column.released_nulls
            )
            if column.suppressed is not None:
                after = before[firsts]
            codes.append(np.concatenate((before, after)))
        if self.strata is not None:
            codes.append(np.concatenate((self.strata, self.strata[firsts])))
        if not codes:
            return None
        together = combine_codes(codes)
        return together[: self.n], together[self.n :]

    def _first_records(self) -> NDArray[np.int64]:
        """int64 (m,), the first record of each class.

        If cells are suppressed, the first record of all classes that are released alike.
        """
        firsts = self.partition.members[self.partition.starts].astype(np.int64)
        if not self.suppressed_cells:
            return firsts
        codes: list[NDArray[Any]] = [column.released_value_ids for column in self.columns]
        codes += [
            column.released_nulls for column in self.columns if column.released_nulls is not None
        ]
        if self.strata is not None:
            codes.append(self.strata[firsts])
        groups = combine_codes(codes, self.m)
        first_of_group = np.full(self.m, self.n, np.int64)
        np.minimum.at(first_of_group, groups, firsts)
        return first_of_group[groups]

    @cached_property
    def suppressed_distance(self) -> Floats:
        """float64 (m,), the distance that suppressed cells add to each row in record linkage.

        With weight 1, each cell adds the mean distance of the column's other released values. So
        rows with many suppressed cells are not nearer than rows with the right values.
        """
        distance = np.zeros(self.m)
        order = np.random.default_rng(0).permutation(self.n)
        for column in self.columns:
            if column.suppressed is None:
                continue
            others = self.labels[order]
            compared = ~column.suppressed[others]
            if column.original_nulls is not None:
                compared &= ~column.original_nulls
            apart = column.distances(np.flatnonzero(compared), others[compared])
            distance[column.suppressed] += float(apart.mean()) if len(apart) else 1.0
        return distance * self.suppressed_weight

    @cached_property
    def row_ids(self) -> NDArray[np.int64]:
        """int64 (m,), an id from 0, equal for classes of a group with identical released values."""
        codes: list[NDArray[Any]] = [column.released_value_ids for column in self.columns]
        if self.groups is not None:
            codes.append(self.groups[1])
        ids = combine_codes(codes, self.m)
        # Number ids in the order of classes, for locality of later searches.
        firsts = np.unique(ids, return_index=True)[1]
        positions = np.empty(len(firsts), np.int64)
        positions[np.argsort(firsts)] = np.arange(len(firsts))
        return positions[ids]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """int64, rows per value of ``row_ids``; persons if there are ``entities``."""
        rows = self.row_ids[self.partition.labels]
        if self.entities is None:
            return np.bincount(rows).astype(np.int64)
        people = combine_codes([self.entities])
        width = int(people.max(initial=0)) + 1
        cells = np.unique(rows * width + people)
        return np.bincount(cells // width).astype(np.int64)


def combine_codes(codes: Iterable[NDArray[Any]], n: int = 0) -> NDArray[np.int64]:
    """An id from 0 for each combination of codes, int64 (n,); every array has n values."""
    combined: NDArray[np.int64] | None = None
    for code in codes:
        values, ids = np.unique(code, return_inverse=True)
        ids = ids.reshape(-1).astype(np.int64)
        if combined is None:
            combined = ids
        elif len(combined) == int(combined.max(initial=-1)) + 1:
            break  # all combinations are distinct
        elif len(values) > 1:
            mixed = combined * len(values) + ids
            combined = np.unique(mixed, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return np.zeros(n, np.int64) if combined is None else combined
