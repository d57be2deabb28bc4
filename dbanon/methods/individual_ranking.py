"""Individual ranking: each attribute is sorted and grouped separately.

The method loses little information, but its rows are not k-anonymous: each released value is shared
by k or more records, yet the combination of a record's values may be unique. So the result is an
``AttributePartition``, which cannot be used for a release with k-anonymous rows.

Source: D. Defays and N. Anwar, "Masking microdata using micro-aggregation", Journal of Official
Statistics 14 (1998); attacks on it: J. Domingo-Ferrer et al., Int. J. of Uncertainty, Fuzziness
and Knowledge-Based Systems 10 (2002).
Classes: k records per attribute, except that the class of the median holds k to 2k-1.
Cost: O(p n log n).
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import AttributePartition, Partition
from dbanon.methods.axes import split_from_both_ends
from dbanon.methods.registry import Method, Tick
from dbanon.spaces.numeric import Space


def individual_ranking(
    space: Space, k: int, *, tick: Tick, rng: np.random.Generator
) -> AttributePartition:
    """Partition each column of the points, float64 (n, p), into classes of k to 2k-1 records."""
    partitions = []
    for n_done, column in enumerate(space.points.T, start=1):
        partitions.append(Partition(split_from_both_ends(column, k)))
        tick(n_done / space.points.shape[1])
    return AttributePartition(tuple(partitions))


METHOD = Method(
    name="individual_ranking",
    run=individual_ranking,
    summary="Groups each attribute by itself: rows are NOT k-anonymous",
    class_sizes="per attribute k; the one that holds the median k to 2k-1",
    cost="O(p n log n)",
    reference="Defays & Anwar 1998",
    sentence="k-anonymity per attribute only, not of rows",
    result_type=AttributePartition,
    refine=None,
)
