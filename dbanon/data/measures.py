"""What a table is measured by, found once and handed to whoever sees the table or a part of it.

Scales of numbers, dictionaries with counts, distributions of sensitive columns: small, whatever the
table's size. Spaces, recodings, losses and models take them from here and never from the records at
hand, so that a part of a table is treated as the table: its grids, shares and distances do not tell
what is in the part. It is made from records that are released: withheld ones shape nothing.

(The room ``measures`` has what is said of a release: losses and privacy models.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Coded, Microdata, first_of_each
from dbanon.data.pieces import Each, pieces
from dbanon.data.scales import Scale, Standardization, Sums, Whitening, whitening
from dbanon.data.schema import Kind
from dbanon.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class Distribution:
    """How often each value of a column occurs.

    Parameters
    ----------
    counts : int64 (s,), read-only, by code.
    values : the values where they are known: s, or one less where the last code is NULL's.
    size : what shares are shares of, where ``counts`` are of persons, who may have several values:
        the persons. None for the sum of the counts.
    fixed : True where it is another table's than that of the records which are compared with it: it
        may lack their values, and stays as it is when some of them are withheld.
    """

    counts: NDArray[np.int64]
    values: tuple[str, ...] = ()
    size: int | None = None
    fixed: bool = False

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    @classmethod
    def of(
        cls,
        codes: NDArray[np.int32],
        values: Sequence[str] = (),
        width: int = 0,
        units: NDArray[np.int64] | None = None,
    ) -> Distribution:
        """Of codes, int32 (m,), where -1 counts nowhere; of at least ``width`` values.

        With ``units``, int64 (m,), persons count: once for each of their values.
        """
        codes, persons = _once(codes, units)
        counts = np.bincount(codes[codes >= 0], minlength=max(len(values), width))
        return cls(counts.astype(np.int64), tuple(values), persons)

    @classmethod
    def of_column(cls, column: Coded, units: NDArray[np.int64] | None = None) -> Distribution:
        """Of a column, NULL as one more value, the last; ``units`` as in ``of``."""
        null = len(column.values)
        codes = np.where(column.codes < 0, np.int32(null), column.codes)
        return cls.of(codes, column.values, null + 1, units)

    @property
    def shares(self) -> NDArray[np.float64]:
        """float64 (s,), the share of each value; of persons those who have it."""
        size = int(self.counts.sum()) if self.size is None else self.size
        shares: NDArray[np.float64] = self.counts / max(size, 1)
        return shares

    @property
    def places(self) -> NDArray[np.int32]:
        """int32 (s,), the place of each value among those that occur."""
        return (np.cumsum(self.counts > 0) - 1).astype(np.int32)

    def occurring(self) -> Distribution:
        """The distribution of the values that occur, in their order."""
        occurs = self.counts > 0
        values = [value for value, found in zip(self.values, occurs, strict=False) if found]
        return Distribution(self.counts[occurs], tuple(values), self.size)

    def without(
        self, codes: NDArray[np.int32], units: NDArray[np.int64] | None = None
    ) -> Distribution:
        """The distribution after records with these codes, int32 (m,), are withheld.

        With ``units``, as in ``of``, all records of each.
        """
        if self.fixed:
            return self
        codes, persons = _once(codes, units)
        gone = np.bincount(codes[codes >= 0], minlength=len(self.counts))
        left = None if self.size is None else self.size - (persons or 0)
        return Distribution(self.counts - gone, self.values, left)


def _once(
    codes: NDArray[np.int32], units: NDArray[np.int64] | None
) -> tuple[NDArray[np.int32], int | None]:
    """The codes, -1 where the unit had it before, and the number of units."""
    if units is None:
        return codes, None
    return np.where(first_of_each(units, codes), codes, np.int32(-1)), len(np.unique(units))


@dataclass(frozen=True, eq=False)
class Measures:
    """What a table is measured by, by column.

    Parameters
    ----------
    numbers : the scales of numeric attributes, ranks among them.
    categories : the dictionaries of the other attributes, with counts.
    sensitive : the distributions of the columns that privacy models ask for; NULL is a value.
    whitenings : by which of the numeric attributes are not NULL, in their order: the map that makes
        the z-scores of records that hold these uncorrelated. Only for Mahalanobis distances.
    ranks : of ordinal attributes, float64 (s,), those that occur, ascending.
    """

    numbers: Mapping[str, Scale] = field(default_factory=dict)
    categories: Mapping[str, Distribution] = field(default_factory=dict)
    sensitive: Mapping[str, Distribution] = field(default_factory=dict)
    whitenings: Mapping[tuple[bool, ...], Whitening] = field(default_factory=dict)
    ranks: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("numbers", "categories", "sensitive", "whitenings", "ranks"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Plain dictionaries, as views of them do not travel."""
        found = (self.numbers, self.categories, self.sensitive, self.whitenings, self.ranks)
        return Measures, tuple(dict(part) for part in found)

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        *,
        covariance: bool = False,
        each: Each = map,
    ) -> Measures:
        """The measures of a table, every record of which is released.

        Parameters
        ----------
        covariance : True for Mahalanobis distances.
        each : ``on_all_cores``, or one after the other; the measures are the same.
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
            for attribute, scale in zip(columns, _scales(list(columns.values()), each), strict=True)
        }
        categories = {
            attribute.name: Distribution.of(codes, values)
            for attribute, codes, values in zip(
                microdata.categorical, microdata.codes.T, microdata.categories, strict=True
            )
        }
        sensitive = microdata.sensitive.items()
        units = microdata.units if sensitive else None
        return cls(
            numbers,
            categories,
            {name: Distribution.of_column(column, units) for name, column in sensitive},
            _whitenings(microdata, list(numbers.values())) if covariance else {},
            {a.name: np.unique(x) for a, x in columns.items() if a.kind is Kind.ORDINAL},
        )

    def whitening_of(self, present: NDArray[np.bool_]) -> Whitening:
        """The map for records that hold these of the numeric attributes, bool (p,).

        Raises
        ------
        InvalidParameter : it is not among these measures.
        """
        pattern = tuple(present.tolist())
        if pattern not in self.whitenings:
            raise InvalidParameter(
                "Mahalanobis distances need a covariance, which these measures do not hold.",
                hint="Measure the table with its covariance.",
            )
        return self.whitenings[pattern]


def _scales(columns: Sequence[NDArray[np.float64]], each: Each) -> list[Scale]:
    """The scale of each column, float64 (m,); sums are exact, so that pieces change nothing."""
    parts = [(at, piece) for at, column in enumerate(columns) for piece in pieces(len(column))]
    sums = [Sums() for _ in columns]
    found = each(lambda part: Sums.of(columns[part[0]][part[1]]), parts)
    for (at, _), own in zip(parts, found, strict=True):
        sums[at] += own
    return [Scale.of_sums(one) for one in sums]


def _whitenings(microdata: Microdata, scales: list[Scale]) -> dict[tuple[bool, ...], Whitening]:
    """For each pattern of NULLs that occurs, from all records that hold a value where it does."""
    transform = Standardization.of(scales)
    valid = microdata.numeric_valid()
    if valid is None:
        return {(True,) * len(scales): whitening(transform.apply(microdata.numbers))}
    found = {}
    for present in np.unique(valid, axis=0):
        holding = valid[:, present].all(axis=1)
        points = transform.apply(microdata.numbers[holding])
        points[:, ~present] = 0.0
        found[tuple(present.tolist())] = whitening(points)
    return found
