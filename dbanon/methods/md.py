"""MD (DBFS): diameter-based fixed size.

While 2k records remain, the two most distant ones each form a class with their k-1 nearest records.
Of what is left, k or more form a class; fewer than k join, each by itself, the class with the
nearest centroid, as the centroids were when the loop ended.

Source: J. Domingo-Ferrer and J. M. Mateo-Sanz, "Practical data-oriented microaggregation for
statistical disclosure control", IEEE TKDE 14 (2002), section 3; M. Laszlo and S. Mukherjee (2005).
Classes: k to 2k-1 records.
Cost: O(n^3/k) in the worst case, without a matrix of distances.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.kernels import Md
from dbanon.methods.registry import Method, Tick, below_2k, drive
from dbanon.spaces.numeric import Space


def md(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of at least k records."""
    return drive(Md(space.points, k), tick)


METHOD = Method(
    name="md",
    run=md,
    summary="Diameter-based fixed size: classes around the two most distant records",
    data="numeric, ordinal",
    class_sizes="k to 2k-1",
    cost="O(n^3/k) at worst, O(n) memory",
    reference="Domingo-Ferrer & Mateo-Sanz 2002",
    max_size=below_2k,
)
