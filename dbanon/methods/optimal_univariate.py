"""Optimal univariate microaggregation: the least possible information loss for one attribute.

There is an optimal partition whose classes are contiguous in sorted order and hold k to 2k-1
records. It is a shortest path along the sorted records. Among equally good partitions, the one with
the smaller last class is chosen, then the one with the smaller class before it, and so on.

Source: S. L. Hansen and S. Mukherjee, "A polynomial algorithm for optimal univariate
microaggregation", IEEE TKDE 15 (2003).
Classes: k to 2k-1.
Cost: O(n log n + k n).
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.kernels import PathCut
from dbanon.methods.axes import sort_records
from dbanon.methods.registry import Method, Tick, drive
from dbanon.spaces.numeric import Space


def optimal_univariate(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the points of ``space``, float64 (n, 1), into classes of k to 2k-1 records."""
    order = sort_records(space.points[:, 0]).astype(np.int32)
    return drive(PathCut(space.points, k, order), tick)


METHOD = Method(
    name="optimal_univariate",
    run=optimal_univariate,
    summary="The exact optimum for a single attribute",
    data="one numeric or ordinal attribute",
    cost="O(n log n + k n)",
    reference="Hansen & Mukherjee 2003",
    max_attributes=1,
)
