"""Put the rows of one person into different layers, so that they may be in different classes.

The rows of each person are ordered by the quasi-identifier that varies most within persons, and the
j-th row goes to layer j. No class crosses layers, so every class with k units has k persons,
whatever the method: no kernel has to count distinct persons. (A unit, see ``entities``, is all rows
of a person that are clustered together.) Each stratum and pattern of NULLs has as many layers as
possible (up to ``MAX_LAYERS``) while k persons have a row in the last one. If a person has more
rows than there are layers, the rows are spread over the layers in order, and those in the same
layer are one unit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.partitioning.strata import group_positions, stratum_numbers

# The maximum number of layers; the method runs once for each layer.
MAX_LAYERS = 1000


def with_layers(microdata: Microdata, k: int) -> Microdata:
    """Assign rows to layers, so that the rows of a person may be in different classes.

    Parameters
    ----------
    microdata : the records; returned unchanged if they have no entities.
    k : the minimum number of persons in a layer. A stratum and pattern of NULLs with fewer persons
        is a single layer.
    """
    if microdata.entities is None or not microdata.n_records:
        return microdata
    persons = microdata.entities.astype(np.int64)
    ranks = _rank_records(microdata, persons)
    layers = np.empty(microdata.n_records, np.int32)
    # Leave out the layers of an earlier assignment: ``stratum_numbers`` would separate them, too.
    for records in group_positions(stratum_numbers(replace(microdata, layers=None))):
        ordered_records = records[np.lexsort((ranks[records], persons[records]))]
        layers[ordered_records] = _assign_layers(persons[ordered_records], k)
    return replace(microdata, layers=layers)


def _assign_layers(persons: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the layer of each record, int64 (m,), from 0.

    Parameters
    ----------
    persons : int64 (m,), the person of each record: records are sorted by person, and within a
        person by rank.
    k : the minimum number of persons in a layer, if there are as many.
    """
    # Where the person differs from that of the row before; the prepended value starts the first.
    starts = np.flatnonzero(np.diff(persons, prepend=persons[0] - 1))
    row_counts = np.diff(np.append(starts, len(persons)))
    # The k-th largest row count: in this layer k persons still have a row, so it is the last one.
    n_layers = int(np.sort(row_counts)[-k]) if len(row_counts) >= k else 1
    n_layers = min(n_layers, MAX_LAYERS)
    row_ranks = np.arange(len(persons)) - np.repeat(starts, row_counts)
    row_count_of_person = np.repeat(row_counts, row_counts)
    return np.where(
        row_count_of_person > n_layers, row_ranks * n_layers // row_count_of_person, row_ranks
    )


def _rank_records(microdata: Microdata, persons: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each record, int64 (n,), by which the rows of a person are ordered.

    Records are sorted by the attribute with the largest share of variance within persons, then by
    the one with the next largest share, and so on; ties are sorted by position.
    """
    columns: list[NDArray[np.float64]] = []
    for j in range(microdata.numbers.shape[1]):
        columns.append(microdata.numbers[:, j])
    for j in range(microdata.codes.shape[1]):
        columns.append(microdata.codes[:, j].astype(np.float64))
    shares = [_variance_share_within_persons(column, persons) for column in columns]
    columns_by_share = sorted(range(len(columns)), key=lambda j: -shares[j])
    # The last key of lexsort counts most.
    keys = [columns[j] for j in reversed(columns_by_share) if shares[j] > 0]
    if not keys:
        return np.arange(microdata.n_records)
    ranks = np.empty(microdata.n_records, np.int64)
    ranks[np.lexsort(keys)] = np.arange(microdata.n_records)
    return ranks


def _variance_share_within_persons(
    values: NDArray[np.float64], persons: NDArray[np.int64]
) -> float:
    """Return the share of the variance of a column's ranks that is within persons, 0 to 1."""
    person_numbers = np.unique(persons, return_inverse=True)[1].reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        ranks = np.unique(values, return_inverse=True)[1].reshape(-1).astype(np.float64)
        centered = ranks - ranks.mean()
        means = np.bincount(person_numbers, centered) / np.bincount(person_numbers)
        total = float((centered**2).sum())
        return float(((centered - means[person_numbers]) ** 2).sum()) / total if total else 0.0
