"""Statistics of the columns of a table, which are computed once.

They are the range, mean and deviation of numeric columns, and the counts of the values of all other
columns. They stay small for any table. Code that processes a part of the table (for distances,
recodings, losses and privacy models) uses these statistics, not those of the part. Grids, shares
and distances are therefore the same for all parts, and reveal nothing about a single part. Withheld
records are not counted.

(The package ``dbanon.measures`` is about something else: it computes properties of releases, such
as losses and privacy models.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import islice
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import CodedColumn, Microdata, first_record_mask
from dbanon.data.pieces import ParallelMap, split_records
from dbanon.data.scales import Scale, Standardization, Sums, Whitening, compute_whitening
from dbanon.data.schema import Kind
from dbanon.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class ValueFrequencies:
    """The frequency of each value of a column.

    Parameters
    ----------
    counts : int64 (s,), read-only, by code.
    values : the values by code, as text; empty if unknown. If NULL is counted, it has the last
        code, and no entry here.
    share_base : the total by which counts are divided to get shares. If ``counts`` count persons,
        it is the number of persons, who may have several values each; None for the sum of the
        counts.
    is_fixed : True if the frequencies come from another table, such as the first release of a
        chain. Values of the records to compare may then be missing here, and the frequencies do not
        change if records are withheld.
    """

    counts: NDArray[np.int64]
    values: tuple[str, ...] = ()
    share_base: int | None = None
    is_fixed: bool = False

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    @classmethod
    def of(
        cls,
        codes: NDArray[np.int32],
        values: Sequence[str] = (),
        min_length: int = 0,
        person_units: NDArray[np.int64] | None = None,
    ) -> ValueFrequencies:
        """Count codes, ignoring -1.

        Parameters
        ----------
        codes : int32 (m,), the code of each record's value.
        values : the values by code, as text; empty if unknown.
        min_length : the result has at least this many counts; those of codes that do not occur
            are 0.
        person_units : int64 (m,), the unit of each record (see ``Microdata.person_units``), mostly
            a person. A unit counts once per value. None to count every record.
        """
        codes, n_units = _drop_repeated_codes(codes, person_units)
        counts = np.bincount(codes[codes >= 0], minlength=max(len(values), min_length))
        return cls(counts.astype(np.int64), tuple(values), n_units)

    @classmethod
    def of_column(
        cls, column: CodedColumn, person_units: NDArray[np.int64] | None = None
    ) -> ValueFrequencies:
        """Count the values of a column, with NULL as the last value.

        Parameters
        ----------
        person_units : int64 (n,), the unit of each record, which counts once per value; None to
            count every record.
        """
        null_code = len(column.values)
        codes = np.where(column.codes < 0, np.int32(null_code), column.codes)
        return cls.of(codes, column.values, min_length=null_code + 1, person_units=person_units)

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of records, or of persons, that have each value, float64 (s,)."""
        base = int(self.counts.sum()) if self.share_base is None else self.share_base
        shares: NDArray[np.float64] = self.counts / max(base, 1)
        return shares

    @property
    def occurring_positions(self) -> NDArray[np.int32]:
        """The index of each value among those that occur, int32 (s,); arbitrary for others."""
        return (np.cumsum(self.counts > 0) - 1).astype(np.int32)

    def occurring_values(self) -> ValueFrequencies:
        """Return the frequencies of only the values that occur."""
        is_occurring = self.counts > 0
        values = [value for value, occurs in zip(self.values, is_occurring, strict=False) if occurs]
        return ValueFrequencies(self.counts[is_occurring], tuple(values), self.share_base)

    def after_withholding(
        self, codes: NDArray[np.int32], person_units: NDArray[np.int64] | None = None
    ) -> ValueFrequencies:
        """Return the frequencies without some records.

        Parameters
        ----------
        codes : int32 (m,), the codes of the records to withhold.
        person_units : int64 (m,), the units of these records; all records of a unit must be
            withheld. None if the counts are of records.
        """
        if self.is_fixed:
            return self
        codes, n_units = _drop_repeated_codes(codes, person_units)
        withheld_counts = np.bincount(codes[codes >= 0], minlength=len(self.counts))
        share_base = None if self.share_base is None else self.share_base - (n_units or 0)
        return ValueFrequencies(self.counts - withheld_counts, self.values, share_base)


def _drop_repeated_codes(
    codes: NDArray[np.int32], person_units: NDArray[np.int64] | None
) -> tuple[NDArray[np.int32], int | None]:
    """Set repetitions of a code within a unit to -1; return the codes and the number of units.

    The number is None if ``person_units`` is None.
    """
    if person_units is None:
        return codes, None
    is_first = first_record_mask(person_units, codes)
    return np.where(is_first, codes, np.int32(-1)), len(np.unique(person_units))


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Statistics of the columns of a table.

    Parameters
    ----------
    scales : the scales of numeric attributes, including ordinal ones.
    categories : the values of the other attributes, with their frequencies.
    sensitive : the frequencies of values in the columns of privacy models; NULL is a value.
    whitenings : the maps that decorrelate z-scores, only for Mahalanobis distances. There is one
        for each pattern of NULLs. A pattern has a bool for each numeric attribute: True if it is
        not NULL.
    ranks : by ordinal attribute, the ranks that occur, float64 (s,), ascending.
    """

    scales: Mapping[str, Scale] = field(default_factory=dict)
    categories: Mapping[str, ValueFrequencies] = field(default_factory=dict)
    sensitive: Mapping[str, ValueFrequencies] = field(default_factory=dict)
    whitenings: Mapping[tuple[bool, ...], Whitening] = field(default_factory=dict)
    ranks: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("scales", "categories", "sensitive", "whitenings", "ranks"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        *,
        covariance: bool = False,
        parallel_map: ParallelMap = map,
    ) -> ColumnStatistics:
        """Measure a table whose records are all released.

        Parameters
        ----------
        covariance : True to compute ``whitenings``.
        parallel_map : ``data.pieces.on_all_cores`` to process columns in parallel, or ``map``; the
            result is the same.
        """
        columns, categories, ranks = {}, {}, {}
        numbers, codes = iter(microdata.numbers.T), iter(microdata.codes.T)
        values_by_code = iter(microdata.categories)
        for position, attribute in enumerate(microdata.attributes):
            if not attribute.kind.is_numeric:
                categories[attribute.name] = ValueFrequencies.of(next(codes), next(values_by_code))
                continue
            column = next(numbers)
            if microdata.valid is not None:
                column = column[microdata.valid[:, position]]
            columns[attribute.name] = column
            if attribute.kind is Kind.ORDINAL:
                ranks[attribute.name] = np.unique(column)
        scales = dict(
            zip(columns, _compute_scales(list(columns.values()), parallel_map), strict=True)
        )
        sensitive = {}
        if microdata.sensitive:
            person_units = microdata.person_units
            for name, sensitive_column in microdata.sensitive.items():
                sensitive[name] = ValueFrequencies.of_column(sensitive_column, person_units)
        whitenings = _compute_whitenings(microdata, list(scales.values())) if covariance else {}
        return cls(scales, categories, sensitive, whitenings, ranks)

    def whitening_of(self, present: NDArray[np.bool_]) -> Whitening:
        """Return the whitening for records with a pattern of NULLs.

        Parameters
        ----------
        present : bool (p,), which numeric attributes are not NULL.

        Raises
        ------
        InvalidParameter : these statistics have no whitening for the pattern.
        """
        pattern = tuple(present.tolist())
        if pattern not in self.whitenings:
            raise InvalidParameter(
                "Mahalanobis distances need a covariance, which these statistics do not contain.",
                hint="This is an error in dbanon: please report it.",
            )
        return self.whitenings[pattern]


def _compute_scales(
    columns: Sequence[NDArray[np.float64]], parallel_map: ParallelMap
) -> list[Scale]:
    """Compute the scale of each column, float64 (m,).

    Columns are summed in pieces, which are slices of records, so that threads can share a column.
    """
    pieces, piece_counts = [], []
    for column in columns:
        column_pieces = split_records(len(column))
        pieces += [column[piece] for piece in column_pieces]
        piece_counts.append(len(column_pieces))
    piece_sums = iter(parallel_map(Sums.of, pieces))
    return [Scale.of_sums(sum(islice(piece_sums, n), Sums())) for n in piece_counts]


def _compute_whitenings(
    microdata: Microdata, scales: list[Scale]
) -> dict[tuple[bool, ...], Whitening]:
    """Compute a whitening for each pattern of NULLs that occurs.

    A pattern's whitening is computed from all records that have values in all attributes that are
    not NULL in the pattern.
    """
    transform = Standardization.of(scales)
    valid = microdata.numeric_valid()
    if valid is None:
        return {(True,) * len(scales): compute_whitening(transform.apply(microdata.numbers))}
    whitening_by_pattern = {}
    for present in np.unique(valid, axis=0):
        has_values = valid[:, present].all(axis=1)
        points = transform.apply(microdata.numbers[has_values])
        points[:, ~present] = 0.0
        whitening_by_pattern[tuple(present.tolist())] = compute_whitening(points)
    return whitening_by_pattern
