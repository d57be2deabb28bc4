"""Persons with several records: the method clusters persons, so that k counts them.

All records of a person become one unit with the mean of numbers and the most frequent of other
values (the first in order among equals). Units are in the order of their first records, and every
record gets the class of its unit. So each class contains k persons with any method, and no person
is in two classes: an attacker cannot intersect several records of a person. Records of different
strata, or of different patterns of NULLs, are different units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata, first_of_each, most_frequent
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind, Role
from dbanon.errors import UnsupportedType


@dataclass(frozen=True)
class Units:
    """The units that are clustered in place of records.

    Parameters
    ----------
    microdata : the units, m of them, without entities.
    of_record : int64 (n,), the unit of each record.
    """

    microdata: Microdata
    of_record: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Persons:
    """Selects the records to count if privacy models count persons; all records otherwise.

    Parameters
    ----------
    units : as ``Microdata.units``.
    first : by sensitive attribute, bool (n,): the first record of each unit and value.
    """

    units: NDArray[np.int64] | None
    first: Mapping[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, microdata: Microdata, codes: Mapping[str, NDArray[np.int32]]) -> Persons:
        """Of microdata; ``codes`` by sensitive attribute, int32 (n,)."""
        units = microdata.units
        if units is None:
            return cls(None, {})
        return cls(units, {name: first_of_each(units, column) for name, column in codes.items()})

    def of_records(self, records: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """The units of some records, bool (n,)."""
        return None if self.units is None else self.units[records]

    def first_occurrences(self, name: str, places: NDArray[np.int32]) -> NDArray[np.int32]:
        """Value codes, int32 (n,), -1 where the unit has an earlier record with the value."""
        if self.units is None:
            return places
        return np.where(self.first[name], places, np.int32(-1)).astype(np.int32)

    @property
    def column(self) -> list[NDArray[np.int32]]:
        """Column for counting persons, int32 (n,): 0 in each person's first record, -1 in others.

        Empty list if each record is a person.
        """
        if self.units is None:
            return []
        return [np.where(first_of_each(self.units), 0, -1).astype(np.int32)]

    def persons_per_class(self, partition: Partition) -> NDArray[np.int64] | None:
        """The number of persons per class, int64 (n_classes,); None if each record is a person."""
        if self.units is None:
            return None
        labels = partition.labels[first_of_each(self.units)]
        return np.bincount(labels[labels >= 0], minlength=partition.n_classes).astype(np.int64)


def as_identifier(attribute: Attribute, normalize: str | None = None) -> Attribute:
    """The entity column for reading: equal codes for values that the database considers equal.

    Parameters
    ----------
    normalize : how texts are spelled alike before they are compared, one of ``NORMALIZE``.

    Raises
    ------
    UnsupportedType : its type has no equality that all databases have.
    """
    if attribute.kind is Kind.OTHER:
        raise UnsupportedType(
            f'The entity column "{attribute.name}" is of type {attribute.sql_type}.',
            hint="Cast it to text or to a number in a view.",
        )
    spelled = str(normalize or "") if attribute.kind is Kind.CATEGORY else ""
    return replace(attribute, kind=Kind.CATEGORY, role=Role.IDENTIFIER, normalize=spelled)


def build_units(microdata: Microdata, as_categories: Collection[str] = ()) -> Units:
    """The units of microdata that has entities.

    Parameters
    ----------
    as_categories : numeric attributes that use the most frequent value, because a mean may not be
        a leaf of their hierarchy.
    """
    units = microdata.units
    assert units is not None
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    of_record, first = rank[unit.reshape(-1)], first[order]
    numbers = np.empty((len(first), len(microdata.numeric)))
    for column, attribute in enumerate(microdata.numeric):
        values = microdata.numbers[:, column]
        if attribute.name in as_categories:
            distinct_values, places = np.unique(values, return_inverse=True)
            numbers[:, column] = distinct_values[most_frequent(places.reshape(-1), of_record)]
        else:
            numbers[:, column] = _means(values, of_record, first)
    codes = np.empty((len(first), microdata.codes.shape[1]), np.int32)
    for column in range(codes.shape[1]):
        codes[:, column] = most_frequent(microdata.codes[:, column], of_record)
    stand_ins = replace(
        microdata,
        keys=microdata.keys[first],
        numbers=numbers,
        codes=codes,
        valid=None if microdata.valid is None else microdata.valid[first],
        strata=None if microdata.strata is None else microdata.strata[first],
        layers=None if microdata.layers is None else microdata.layers[first],
        entities=None,
        sensitive={},
        suppressed=None,
    )
    return Units(stand_ins, of_record)


def _means(
    values: NDArray[np.float64], unit: NDArray[np.int64], first: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The mean of each unit, float64 (m,): exact where its values are all the same."""
    base = values[first]
    sizes = np.bincount(unit)
    # Halves, so that no difference of finite numbers overflows.
    apart = np.bincount(unit, (values / 2 - base[unit] / 2) / sizes[unit])
    return base + 2 * apart
