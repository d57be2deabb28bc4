"""Rows of one person in different classes: layers in which every person has one row.

The rows of each person are put in order, by the quasi-identifier that varies most within persons,
and the j-th row of each goes to layer j. No class crosses a layer, so a class that holds k units
holds k persons, whatever the method does: no kernel has to count distinct persons. Layers stop
where fewer than k persons of a stratum or pattern of NULLs have another row. The rows of a person
with more of them are spread over the layers in their order, and neighbors share a layer, where
they are one unit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.partitioning.strata import group_positions, stratum_numbers

# Each layer is a separate run of the method.
MOST_LAYERS = 1000


def with_layers(microdata: Microdata, k: int) -> Microdata:
    """Assign rows to layers, so that classes may part the rows of a person.

    Parameters
    ----------
    microdata : with entities; without them it is returned unchanged.
    k : the least number of persons in a layer, if the stratum and pattern of NULLs has so many.
    """
    if microdata.entities is None or not microdata.n_records:
        return microdata
    persons = microdata.entities.astype(np.int64)
    order = _order_within(microdata, persons)
    layers = np.empty(microdata.n_records, np.int32)
    for records in group_positions(stratum_numbers(replace(microdata, layers=None))):
        by_person = records[np.lexsort((order[records], persons[records]))]
        layers[by_person] = _layers_of(persons[by_person], k)
    return replace(microdata, layers=layers)


def _layers_of(persons: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """The layer of each record, int64 (m,); records are ordered by person, then within them."""
    starts = np.flatnonzero(np.diff(persons, prepend=persons[0] - 1))
    rows = np.diff(np.append(starts, len(persons)))
    # The last layer is the last one in which k persons have a row.
    n_layers = int(np.sort(rows)[-k]) if len(rows) >= k else 1
    n_layers = min(n_layers, MOST_LAYERS)
    rank = np.arange(len(persons)) - np.repeat(starts, rows)
    rows_of_person = np.repeat(rows, rows)
    return np.where(rows_of_person > n_layers, rank * n_layers // rows_of_person, rank)


def _order_within(microdata: Microdata, persons: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank of each record, int64 (n,), by which the rows of a person are ordered.

    The attribute with the largest share of variance within persons decides first, then the row key.
    """
    columns: list[NDArray[np.float64]] = []
    for j in range(microdata.numbers.shape[1]):
        columns.append(microdata.numbers[:, j])
    for j in range(microdata.codes.shape[1]):
        columns.append(microdata.codes[:, j].astype(np.float64))
    shares = [_share_within(column, persons) for column in columns]
    first = sorted(range(len(columns)), key=lambda j: -shares[j])
    # The last key of lexsort counts most.
    keys = [columns[j] for j in reversed(first) if shares[j] > 0]
    if not keys:
        return np.arange(microdata.n_records)
    ranks = np.empty(microdata.n_records, np.int64)
    ranks[np.lexsort(keys)] = np.arange(microdata.n_records)
    return ranks


def _share_within(values: NDArray[np.float64], persons: NDArray[np.int64]) -> float:
    """The share of a column's variance that is within persons, 0 to 1."""
    person_ids = np.unique(persons, return_inverse=True)[1].reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        ranks = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.float64)
        centered = ranks - ranks.mean()
        means = np.bincount(person_ids, centered) / np.bincount(person_ids)
        total = float((centered**2).sum())
        return float(((centered - means[person_ids]) ** 2).sum()) / total if total else 0.0
