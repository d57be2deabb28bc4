"""Persons of many records: the method clusters persons, so that k counts them.

All records of a person become one unit that stands for them: the mean of numbers, the most frequent
of other values (the first in order, where several are). Units are in the order of their first
records, and every record gets the class of its unit. So each class holds k persons whatever the
method does, and no two classes share one: what several records tell of a person cannot be
intersected. Records of different strata, or of different patterns of NULLs, are different units.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind, Role
from dbanon.errors import UnsupportedType


@dataclass(frozen=True)
class Units:
    """What is clustered in place of records.

    Parameters
    ----------
    microdata : the units, m of them, without entities.
    of_record : int64 (n,), the unit of each record.
    """

    microdata: Microdata
    of_record: NDArray[np.int64]


def as_identifier(attribute: Attribute) -> Attribute:
    """The entity column as it is read: codes of values that are equal to the database.

    Raises
    ------
    UnsupportedType : its type has no equality that all databases have.
    """
    if attribute.kind is Kind.OTHER:
        raise UnsupportedType(
            f'The entity column "{attribute.name}" is of type {attribute.sql_type}.',
            hint="Cast it to text or to a number in a view.",
        )
    return replace(attribute, kind=Kind.CATEGORY, role=Role.IDENTIFIER)


def units_of(microdata: Microdata, as_categories: Collection[str] = ()) -> Units:
    """The units of microdata that has entities.

    Parameters
    ----------
    as_categories : numeric attributes whose most frequent value is taken, as a mean may be no leaf
        of their hierarchy.
    """
    assert microdata.entities is not None
    parts = [microdata.entities, microdata.strata, microdata.valid]
    key = np.column_stack([part for part in parts if part is not None])
    _, first, unit = np.unique(key, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    of_record, first = rank[unit.reshape(-1)], first[order]
    numbers = np.empty((len(first), len(microdata.numeric)))
    for column, attribute in enumerate(microdata.numeric):
        values = microdata.numbers[:, column]
        if attribute.name in as_categories:
            known, places = np.unique(values, return_inverse=True)
            numbers[:, column] = known[_most_frequent(places.reshape(-1), of_record)]
        else:
            numbers[:, column] = _means(values, of_record, first)
    codes = np.empty((len(first), microdata.codes.shape[1]), np.int32)
    for column in range(codes.shape[1]):
        codes[:, column] = _most_frequent(microdata.codes[:, column], of_record)
    units = replace(
        microdata,
        keys=microdata.keys[first],
        numbers=numbers,
        codes=codes,
        valid=None if microdata.valid is None else microdata.valid[first],
        strata=None if microdata.strata is None else microdata.strata[first],
        entities=None,
        sensitive={},
    )
    return Units(units, of_record)


def _means(
    values: NDArray[np.float64], unit: NDArray[np.int64], first: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The mean of each unit, float64 (m,): exact where its values are all the same."""
    base = values[first]
    sizes = np.bincount(unit)
    # Halves, so that no difference of finite numbers overflows.
    apart = np.bincount(unit, (values / 2 - base[unit] / 2) / sizes[unit])
    return base + 2 * apart


def _most_frequent(codes: NDArray[np.integer], unit: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most frequent code of each unit, int64 (m,), the smallest of several."""
    pairs, counts = np.unique(np.column_stack([unit, codes]), axis=0, return_counts=True)
    order = np.lexsort((pairs[:, 1], -counts, pairs[:, 0]))
    _, start = np.unique(pairs[order, 0], return_index=True)
    found: NDArray[np.int64] = pairs[order[start], 1]
    return found
