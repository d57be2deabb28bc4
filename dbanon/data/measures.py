"""What a table is measured by, found once and handed to whoever sees the table or a part of it.

Scales of numbers, dictionaries with counts, distributions of sensitive columns: small, whatever the
table's size. Spaces, recodings, losses and models take them from here and never from the records at
hand, so that a part of a table is treated as the table: its grids, shares and distances do not tell
what is in the part. It is made from records that are released: withheld ones shape nothing.

(The room ``measures`` has what is said of a release: losses and privacy models.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Coded, Microdata
from dbanon.data.scales import Scale, Standardization, Whitening, whitening
from dbanon.errors import InvalidParameter


@dataclass(frozen=True, eq=False)
class Distribution:
    """How often each value of a column occurs.

    Parameters
    ----------
    counts : int64 (s,), read-only, by code.
    values : the values where they are known: s, or one less where the last code is NULL's.
    """

    counts: NDArray[np.int64]
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    @classmethod
    def of(
        cls, codes: NDArray[np.int32], values: Sequence[str] = (), width: int = 0
    ) -> Distribution:
        """Of codes, int32 (m,), where -1 counts nowhere; of at least ``width`` values."""
        counts = np.bincount(codes[codes >= 0], minlength=max(len(values), width))
        return cls(counts.astype(np.int64), tuple(values))

    @classmethod
    def of_column(cls, column: Coded) -> Distribution:
        """Of a column, NULL as one more value, the last."""
        null = len(column.values)
        codes = np.where(column.codes < 0, np.int32(null), column.codes)
        return cls.of(codes, column.values, null + 1)

    @property
    def shares(self) -> NDArray[np.float64]:
        """float64 (s,), the share of each value."""
        shares: NDArray[np.float64] = self.counts / max(int(self.counts.sum()), 1)
        return shares

    @property
    def places(self) -> NDArray[np.int32]:
        """int32 (s,), the place of each value among those that occur."""
        return (np.cumsum(self.counts > 0) - 1).astype(np.int32)

    def occurring(self) -> Distribution:
        """The distribution of the values that occur, in their order."""
        occurs = self.counts > 0
        values = [value for value, found in zip(self.values, occurs, strict=False) if found]
        return Distribution(self.counts[occurs], tuple(values))

    def without(self, codes: NDArray[np.int32]) -> Distribution:
        """The distribution after records with these codes, int32 (m,), are withheld."""
        gone = np.bincount(codes[codes >= 0], minlength=len(self.counts))
        return Distribution(self.counts - gone, self.values)


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
    """

    numbers: Mapping[str, Scale] = field(default_factory=dict)
    categories: Mapping[str, Distribution] = field(default_factory=dict)
    sensitive: Mapping[str, Distribution] = field(default_factory=dict)
    whitenings: Mapping[tuple[bool, ...], Whitening] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("numbers", "categories", "sensitive", "whitenings"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Plain dictionaries, as views of them do not travel."""
        found = (self.numbers, self.categories, self.sensitive, self.whitenings)
        return Measures, tuple(dict(part) for part in found)

    @classmethod
    def of(
        cls,
        microdata: Microdata,
        *,
        covariance: bool = False,
    ) -> Measures:
        """The measures of a table, every record of which is released.

        Parameters
        ----------
        covariance : True for Mahalanobis distances.
        """
        valid = microdata.numeric_valid()
        numbers = {
            attribute.name: Scale.of(values if valid is None else values[valid[:, column]])
            for column, (attribute, values) in enumerate(
                zip(microdata.numeric, microdata.numbers.T, strict=True)
            )
        }
        categories = {
            attribute.name: Distribution.of(codes, values)
            for attribute, codes, values in zip(
                microdata.categorical, microdata.codes.T, microdata.categories, strict=True
            )
        }
        sensitive = microdata.sensitive.items()
        return cls(
            numbers,
            categories,
            {name: Distribution.of_column(column) for name, column in sensitive},
            _whitenings(microdata, list(numbers.values())) if covariance else {},
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
