"""Pairs of original records and released rows, the input of measures.

A release has no keys, and its rows are in random order. So the pairs are known only to the run that
makes the release, or to a caller who kept the rows in order. Suppressed records are excluded from
all sums and denominators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.partition import Partition
from dbanon.data.scales import Standardization
from dbanon.measures.agreement import combine_codes
from dbanon.measures.attributes import ColumnPair, Flags, Floats, Numbers
from dbanon.measures.covariances import Moments, compute_moments

# Records per chunk: enough for numpy to be fast, few enough to save memory.
CHUNK_RECORDS = 1 << 16


@dataclass(frozen=True, eq=False)
class Pairs:
    """n released records and their m classes, with original and released values.

    Here a cell is the value of a record in a column. A suppressed cell is NULL only in the release.

    Parameters
    ----------
    columns : the quasi-identifiers.
    partition : classes of the n records, none of which is suppressed; n classes if the release was
        perturbed, such as by noise, so that every record has its own values.
    n_suppressed : number of suppressed records, which are not among the n.
    strata : int32 (n,), the stratum of each record; None if there is only one.
    entities : int32 (n,), the person of each record; None if every record is a person.
    suppressed_cells : number of suppressed cells.
    suppressed_weight : factor by which ``suppressed_distance`` is multiplied; it says what an
        attacker assumes about suppressed cells.
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
    def n_classes(self) -> int:
        """The number of classes."""
        return self.partition.n_classes

    @cached_property
    def labels(self) -> NDArray[np.intp]:
        """The class of each record, (n,), in numpy's index type, which avoids copies."""
        return self.partition.labels.astype(np.intp)

    # --- numbers ---------------------------------------------------------------------------------

    @cached_property
    def ordered_columns(self) -> tuple[Numbers, ...]:
        """The columns of numbers or ranks that are released as such."""
        return tuple(column for column in self.columns if isinstance(column, Numbers))

    @cached_property
    def numeric_columns(self) -> tuple[Numbers, ...]:
        """The columns of numbers that are released as numbers."""
        return tuple(column for column in self.ordered_columns if not column.is_ordinal)

    @property
    def is_all_numeric(self) -> bool:
        """True if all columns are numeric."""
        return bool(self.columns) and len(self.numeric_columns) == len(self.columns)

    def scores(self, columns: tuple[Numbers, ...]) -> tuple[Floats, Floats]:
        """Return z-scores of originals, float64 (n, p), and of released values, float64 (m, p).

        Both use the mean and the sample deviation of the originals. Scores are 0 in constant
        columns and for NULL.
        """
        transform = Standardization.of([column.scale for column in columns])
        scores = []
        for values, nulls in (
            ([c.original for c in columns], [c.original_nulls for c in columns]),
            ([c.released for c in columns], [c.released_nulls for c in columns]),
        ):
            points = np.empty((len(values[0]) if values else 0, len(columns)))
            for column, (numbers, is_null) in enumerate(zip(values, nulls, strict=True)):
                points[:, column] = numbers if is_null is None else np.where(is_null, 0.0, numbers)
            points = transform.apply(points)
            for column, is_null in enumerate(nulls):
                if is_null is not None:
                    points[is_null, column] = 0.0
            scores.append(points)
        return scores[0], scores[1]

    @cached_property
    def points(self) -> tuple[Floats, Floats]:
        """The ``scores`` of the numeric columns, in C order."""
        return self.scores(self.numeric_columns)

    @cached_property
    def moments(self) -> Moments:
        """The covariances of numeric columns, before and after release."""
        return compute_moments(*self.points, self.labels, self.valid_cells(self.numeric_columns))

    def valid_cells(self, columns: Iterable[ColumnPair]) -> Flags | None:
        """Find the cells that are not NULL before and after release: bool (n, p), True if valid.

        Returns None if all cells are valid.
        """
        columns = tuple(columns)
        labels = self.labels
        if all(c.original_nulls is None and c.released_nulls is None for c in columns):
            return None
        is_valid = np.ones((self.n, len(columns)), bool)
        for index, column in enumerate(columns):
            if column.original_nulls is not None:
                is_valid[:, index] &= ~column.original_nulls
            if column.released_nulls is not None:
                is_valid[:, index] &= ~column.released_nulls[labels]
        return is_valid

    def valid_cells_of(self, column: ColumnPair) -> Flags | None:
        """Return ``valid_cells`` for a single column, bool (n,); None if all cells are valid."""
        is_valid = self.valid_cells([column])
        return None if is_valid is None else is_valid[:, 0]

    def chunks(self) -> Iterator[slice]:
        """Return slices that divide the records into chunks."""
        return (
            slice(start, min(start + CHUNK_RECORDS, self.n))
            for start in range(0, self.n, CHUNK_RECORDS)
        )

    # --- comparison by attackers -----------------------------------------------------------------

    @cached_property
    def groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The group of each record, int64 (n,), and of each class, int64 (m,); None for one group.

        Records and classes of a group have the same stratum and NULL in the same columns. Attackers
        see both, so they only compare records and rows of the same group. In columns with
        suppressed cells, they cannot tell which NULLs are original. There, the first record of
        all classes with the same released values decides: if it has NULL, so have these classes.
        """
        codes: list[AnyArray] = []
        first_records = self._first_records()
        for column in self.columns:
            if column.original_nulls is None and column.released_nulls is None:
                continue
            before = (
                np.zeros(self.n, bool) if column.original_nulls is None else column.original_nulls
            )
            after = (
                np.zeros(self.n_classes, bool)
                if column.released_nulls is None
                else column.released_nulls
            )
            if column.suppressed is not None:
                after = before[first_records]
            codes.append(np.concatenate((before, after)))
        if self.strata is not None:
            codes.append(np.concatenate((self.strata, self.strata[first_records])))
        if not codes:
            return None
        group_ids = combine_codes(codes)
        return group_ids[: self.n], group_ids[self.n :]

    def _first_records(self) -> NDArray[np.int64]:
        """Return the first record of each class, int64 (m,).

        If cells are suppressed, it is the first record of all classes with the same released
        values.
        """
        first_records = self.partition.members[self.partition.starts].astype(np.int64)
        if not self.suppressed_cells:
            return first_records
        codes: list[AnyArray] = [column.released_value_ids for column in self.columns]
        codes += [
            column.released_nulls for column in self.columns if column.released_nulls is not None
        ]
        if self.strata is not None:
            codes.append(self.strata[first_records])
        # The property ``row_ids`` depends on the groups, which are computed from this result.
        row_ids = combine_codes(codes, self.n_classes)
        first_of_row = np.full(self.n_classes, self.n, np.int64)
        np.minimum.at(first_of_row, row_ids, first_records)
        return first_of_row[row_ids]

    @cached_property
    def suppressed_distance(self) -> Floats:
        """float64 (m,), the distance that suppressed cells add to each row in record linkage.

        If ``suppressed_weight`` is 1, each cell adds the column's mean distance between records and
        random released values. So rows with many suppressed cells are not nearer than rows with the
        right values.
        """
        row_distances = np.zeros(self.n_classes)
        order = np.random.default_rng(0).permutation(self.n)
        for column in self.columns:
            if column.suppressed is None:
                continue
            random_rows = self.labels[order]
            is_compared = ~column.suppressed[random_rows]
            if column.original_nulls is not None:
                is_compared &= ~column.original_nulls
            distances = column.distances(np.flatnonzero(is_compared), random_rows[is_compared])
            row_distances[column.suppressed] += float(distances.mean()) if len(distances) else 1.0
        return row_distances * self.suppressed_weight

    @cached_property
    def row_ids(self) -> NDArray[np.int64]:
        """int64 (m,), the id of each class's released row, from 0.

        Classes of a group with identical released values have the same id.
        """
        codes: list[AnyArray] = [column.released_value_ids for column in self.columns]
        if self.groups is not None:
            codes.append(self.groups[1])
        ids = combine_codes(codes, self.n_classes)
        # Number rows in the order of classes, so that later searches use caches well.
        first_classes = np.unique(ids, return_index=True)[1]
        new_ids = np.empty(len(first_classes), np.int64)
        new_ids[np.argsort(first_classes)] = np.arange(len(first_classes))
        return new_ids[ids]

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of records with each id in ``row_ids``, int64; with entities, of persons."""
        row_of_record = self.row_ids[self.partition.labels]
        if self.entities is None:
            return np.bincount(row_of_record).astype(np.int64)
        persons = combine_codes([self.entities])
        n_persons = int(persons.max(initial=0)) + 1
        row_persons = np.unique(row_of_record * n_persons + persons)
        return np.bincount(row_persons // n_persons).astype(np.int64)
