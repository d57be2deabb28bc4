"""Persons with several records: cluster persons instead of records, so that k counts persons.

All records of a person become one unit. It has the mean of each number, and the most frequent of
other values (the first in order if several are equally frequent). Units are in the order of their
first records, and every record gets the class of its unit. So each class contains k persons
whatever the method, and no person is in two classes: an attacker cannot intersect the classes of a
person's records. A person's records in different strata, or with different patterns of NULLs,
belong to different units, though.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata, first_record_mask, most_frequent_codes
from dbanon.data.partition import Partition


@dataclass(frozen=True)
class Units:
    """The units that are clustered in place of records.

    Parameters
    ----------
    microdata : the m units as records, without entities.
    unit_of_record : int64 (n,), the unit of each record.
    """

    microdata: Microdata
    unit_of_record: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Persons:
    """Selects the records that privacy models count: all, or one per unit and value.

    Parameters
    ----------
    units : int64 (n,), the unit of each record (``Microdata.person_units``): a number for the
        combination of person, stratum, layer and pattern of NULLs. None if models count records.
    is_first : by sensitive attribute, bool (n,): True for the first record of each unit and value.
    """

    units: NDArray[np.int64] | None
    is_first: Mapping[str, NDArray[np.bool_]]

    @classmethod
    def of(cls, microdata: Microdata, codes: Mapping[str, NDArray[np.int32]]) -> Persons:
        """Build from microdata and, by sensitive attribute, the code of each value, int32 (n,)."""
        units = microdata.person_units
        if units is None:
            return cls(None, {})
        return cls(
            units, {name: first_record_mask(units, column) for name, column in codes.items()}
        )

    def units_of_records(self, records: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """The units of records, selected by bool (n,); None if models count records."""
        return None if self.units is None else self.units[records]

    def codes_counted_once(self, name: str, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the value codes with -1 in all but the first record of each unit and value.

        So each person counts once per value. If models count records, all codes are unchanged.

        Parameters
        ----------
        name : the sensitive attribute.
        codes : int32 (n,), its value codes.
        """
        if self.units is None:
            return codes
        return np.where(self.is_first[name], codes, np.int32(-1)).astype(np.int32)

    @property
    def counting_columns(self) -> list[NDArray[np.int32]]:
        """A column for counting persons, int32 (n,): 0 in each person's first record, -1 in others.

        The list is empty if models count records.
        """
        if self.units is None:
            return []
        return [np.where(first_record_mask(self.units), 0, -1).astype(np.int32)]

    def persons_per_class(self, partition: Partition) -> NDArray[np.int64] | None:
        """The number of persons per class, int64 (n_classes,); None if models count records."""
        if self.units is None:
            return None
        labels = partition.labels[first_record_mask(self.units)]
        return np.bincount(labels[labels >= 0], minlength=partition.n_classes).astype(np.int64)


def build_units(microdata: Microdata, as_categories: Collection[str] = ()) -> Units:
    """Build the units of microdata that has entities.

    Parameters
    ----------
    as_categories : names of numeric attributes with a hierarchy. Their units get the most frequent
        value, since a mean may not be a leaf of the hierarchy.
    """
    units = microdata.person_units
    assert units is not None
    _, first_records, unit_numbers = np.unique(units, return_index=True, return_inverse=True)
    # ``unique`` numbers units by their identifiers; number them by their first records instead.
    order = np.argsort(first_records)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    unit_of_record, first_records = rank[unit_numbers.reshape(-1)], first_records[order]
    numbers = np.empty((len(first_records), len(microdata.numeric)))
    for column, attribute in enumerate(microdata.numeric):
        values = microdata.numbers[:, column]
        if attribute.name in as_categories:
            distinct_values, value_codes = np.unique(values, return_inverse=True)
            numbers[:, column] = distinct_values[
                most_frequent_codes(value_codes.reshape(-1), unit_of_record)
            ]
        else:
            numbers[:, column] = _means(values, unit_of_record, first_records)
    codes = np.empty((len(first_records), microdata.codes.shape[1]), np.int32)
    for column in range(codes.shape[1]):
        codes[:, column] = most_frequent_codes(microdata.codes[:, column], unit_of_record)
    unit_microdata = replace(
        microdata,
        keys=microdata.keys[first_records],
        numbers=numbers,
        codes=codes,
        valid=None if microdata.valid is None else microdata.valid[first_records],
        strata=None if microdata.strata is None else microdata.strata[first_records],
        # Layers keep rows of a person apart, see ``person_rows``.
        layers=None if microdata.layers is None else microdata.layers[first_records],
        # Each unit counts once for k. Models are enforced later, on the records.
        entities=None,
        sensitive={},
        suppressed=None,
        # Classes are built without weights; their values are computed from the records.
        weights=None,
    )
    return Units(unit_microdata, unit_of_record)


def _means(
    values: NDArray[np.float64], unit_numbers: NDArray[np.int64], first_records: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mean of each unit, float64 (m,); it is exact if all of its values are equal.

    Parameters
    ----------
    values : float64 (n,), the value of each record.
    unit_numbers : int64 (n,), the unit of each record.
    first_records : the first record of each unit, int64 (m,).
    """
    first_values = values[first_records]
    sizes = np.bincount(unit_numbers)
    # Use halves, so that the difference of two finite numbers cannot overflow.
    differences = np.bincount(
        unit_numbers, (values / 2 - first_values[unit_numbers] / 2) / sizes[unit_numbers]
    )
    return first_values + 2 * differences
