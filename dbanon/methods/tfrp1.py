"""TFRP-1: two fixed reference points, first stage.

The corners of the data's minima and of its maxima are used in turn: while k records remain, the one
farthest from the corner forms a class with its k-1 nearest records. The fewer than k left over
join, each by itself, the class with the nearest centroid, as the centroids were when it ended.

Source: C.-C. Chang, Y.-C. Li and W.-H. Huang, "TFRP: An efficient microaggregation algorithm for
statistical disclosure control", Journal of Systems and Software 80 (2007).
Classes: k to 2k-1 records.
Cost: O(n^2/k) in the worst case.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.kernels import Tfrp
from dbanon.methods.registry import Method, Tick, below_2k, drive
from dbanon.spaces.numeric import Space


def tfrp1(space: Space, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of at least k records."""
    return drive(Tfrp(space.points, k, False), tick)


METHOD = Method(
    name="tfrp1",
    run=tfrp1,
    summary="Two fixed reference points, used in turn",
    data="numeric, ordinal",
    class_sizes="k to 2k-1",
    cost="O(n^2/k) at worst",
    reference="Chang, Li & Huang 2007",
    max_size=below_2k,
)
