"""Measures of a table, computed once and shared by all code that processes any part of it.

They are scales of numbers, dictionaries with counts, and distributions of sensitive columns, and
stay small for any table. Spaces, recodings, losses and models use these measures instead of the
records that they process: so a part of a table has the same grids, shares and distances as the
table, and these reveal nothing about the part. Only released records count; withheld ones do not.

(The package ``measures`` computes properties of releases: losses and privacy models.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

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
    values : the s values, without NULL, which has the last code if it is counted; empty if unknown.
    share_base : the total that shares refer to: the number of persons if ``counts`` count persons,
        each of whom may have several values; None for the sum of the counts.
    is_fixed : True for the distribution of a table other than that of the compared records. It may
        lack some of their values, and does not change if records are withheld.
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
        least_width: int = 0,
        units: NDArray[np.int64] | None = None,
    ) -> ValueFrequencies:
        """Count codes, int32 (m,), ignoring -1; the result has at least ``least_width`` counts.

        With ``units``, int64 (m,), each unit counts once per value.
        """
        codes, n_units = _drop_repeated_codes(codes, units)
        counts = np.bincount(codes[codes >= 0], minlength=max(len(values), least_width))
        return cls(counts.astype(np.int64), tuple(values), n_units)

    @classmethod
    def of_column(
        cls, column: CodedColumn, units: NDArray[np.int64] | None = None
    ) -> ValueFrequencies:
        """Count the values of a column, with NULL as the last value; ``units`` as in ``of``."""
        null_code = len(column.values)
        codes = np.where(column.codes < 0, np.int32(null_code), column.codes)
        return cls.of(codes, column.values, least_width=null_code + 1, units=units)

    @property
    def shares(self) -> NDArray[np.float64]:
        """float64 (s,), the share of each value among records, or of persons who have it."""
        base = int(self.counts.sum()) if self.share_base is None else self.share_base
        shares: NDArray[np.float64] = self.counts / max(base, 1)
        return shares

    @property
    def occurring_positions(self) -> NDArray[np.int32]:
        """int32 (s,), the index of each value among the values that occur."""
        return (np.cumsum(self.counts > 0) - 1).astype(np.int32)

    def occurring_values(self) -> ValueFrequencies:
        """The distribution without values that do not occur."""
        is_occurring = self.counts > 0
        values = [value for value, occurs in zip(self.values, is_occurring, strict=False) if occurs]
        return ValueFrequencies(self.counts[is_occurring], tuple(values), self.share_base)

    def after_withholding(
        self, codes: NDArray[np.int32], units: NDArray[np.int64] | None = None
    ) -> ValueFrequencies:
        """The distribution after withholding records with these codes, int32 (m,).

        With ``units``, as in ``of``, all records of each unit are withheld.
        """
        if self.is_fixed:
            return self
        codes, n_units = _drop_repeated_codes(codes, units)
        withheld_counts = np.bincount(codes[codes >= 0], minlength=len(self.counts))
        share_base = None if self.share_base is None else self.share_base - (n_units or 0)
        return ValueFrequencies(self.counts - withheld_counts, self.values, share_base)


def _drop_repeated_codes(
    codes: NDArray[np.int32], units: NDArray[np.int64] | None
) -> tuple[NDArray[np.int32], int | None]:
    """The codes with repetitions within a unit set to -1, and the number of units."""
    if units is None:
        return codes, None
    return np.where(first_record_mask(units, codes), codes, np.int32(-1)), len(np.unique(units))


@dataclass(frozen=True, eq=False)
class Measures:
    """The measures of a table, by column.

    Parameters
    ----------
    numbers : the scales of numeric attributes, including ordinal ones.
    categories : the values and counts of the other attributes.
    sensitive : the distributions of the columns of privacy models; NULL is a value.
    whitenings : the maps that decorrelate z-scores, by pattern: whether each numeric attribute is
        not NULL. Only for Mahalanobis distances.
    ranks : the ranks that occur in ordinal attributes, float64 (s,), ascending.
    """

    numbers: Mapping[str, Scale] = field(default_factory=dict)
    categories: Mapping[str, ValueFrequencies] = field(default_factory=dict)
    sensitive: Mapping[str, ValueFrequencies] = field(default_factory=dict)
    whitenings: Mapping[tuple[bool, ...], Whitening] = field(default_factory=dict)
    ranks: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("numbers", "categories", "sensitive", "whitenings", "ranks"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle plain dictionaries, since mapping proxies cannot be pickled."""
        mappings = (self.numbers, self.categories, self.sensitive, self.whitenings, self.ranks)
        return Measures, tuple(dict(mapping) for mapping in mappings)

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        *,
        covariance: bool = False,
        parallel_map: ParallelMap = map,
    ) -> Measures:
        """The measures of a table whose records are all released.

        Parameters
        ----------
        covariance : whether to compute whitenings, for Mahalanobis distances.
        parallel_map : ``on_all_cores``, or ``map`` to process one after the other; the result is
            the same.
        """
        valid = microdata.numeric_valid()
        columns = {
            attribute: values if valid is None else values[valid[:, column]]
            for column, (attribute, values) in enumerate(
                zip(microdata.numeric, microdata.numbers.T, strict=True)
            )
        }
        numbers = {
            attribute.name: scale
            for attribute, scale in zip(
                columns, _scales(list(columns.values()), parallel_map), strict=True
            )
        }
        categories = {
            attribute.name: ValueFrequencies.of(codes, values)
            for attribute, codes, values in zip(
                microdata.categorical, microdata.codes.T, microdata.categories, strict=True
            )
        }
        sensitive = microdata.sensitive.items()
        units = microdata.units if sensitive else None
        return cls(
            numbers=numbers,
            categories=categories,
            sensitive={
                name: ValueFrequencies.of_column(column, units) for name, column in sensitive
            },
            whitenings=_whitenings(microdata, list(numbers.values())) if covariance else {},
            ranks={a.name: np.unique(x) for a, x in columns.items() if a.kind is Kind.ORDINAL},
        )

    def whitening_of(self, present: NDArray[np.bool_]) -> Whitening:
        """The map for records with this pattern of numeric attributes that are not NULL, bool (p,).

        Raises
        ------
        InvalidParameter : these measures have no map for the pattern.
        """
        pattern = tuple(present.tolist())
        if pattern not in self.whitenings:
            raise InvalidParameter(
                "Mahalanobis distances need a covariance, which these measures do not contain.",
                hint="This is an error in dbanon: please report it.",
            )
        return self.whitenings[pattern]


def _scales(columns: Sequence[NDArray[np.float64]], parallel_map: ParallelMap) -> list[Scale]:
    """The scale of each column, float64 (m,); it does not depend on how columns are split."""
    pieces = [
        (index, piece)
        for index, column in enumerate(columns)
        for piece in split_records(len(column))
    ]
    sums = [Sums() for _ in columns]
    sums_of_pieces = parallel_map(
        lambda indexed_piece: Sums.of(columns[indexed_piece[0]][indexed_piece[1]]), pieces
    )
    for (index, _), piece_sums in zip(pieces, sums_of_pieces, strict=True):
        sums[index] += piece_sums
    return [Scale.of_sums(column_sums) for column_sums in sums]


def _whitenings(microdata: Microdata, scales: list[Scale]) -> dict[tuple[bool, ...], Whitening]:
    """The map of each pattern of NULLs, from all records with values where the pattern has them."""
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
