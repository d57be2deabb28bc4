"""Recursive k-Ward: the sorted records are cut into parts as long as that pays, then k-Ward.

A set is cut into J parts of equal length along the axis. When theta is greater than the sum of the
variances of the parts over the variance of the set, k-Ward is called on the whole set, else the
same is done with each part. Of several attributes the variance is the sum over the attributes, and
the sums of classes are k-Ward's on all of them. A set under 2k records, or whose parts would be
under k, is not cut. The slide leaves open how parts are cut: here the first (n mod J) are one
record longer.

Source: E. Fayyoumi and B. J. Oommen, "On optimizing the k-Ward micro-aggregation technique for
secure statistical databases", ACISP 2006, LNCS 4058.
Classes: k to 2k-1.
Cost: O(n log n) to sort, then O(m^2) for each set of m records left to k-Ward.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.methods.axes import AXIS, order_of, positions
from dbanon.methods.kward import kward
from dbanon.methods.registry import Method, Tick, on_parts
from dbanon.spaces.numeric import Space


def recursive_kward(
    space: Space,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    axis: str,
    theta: float,
    parts: int,
) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of k to 2k-1 records."""
    sets = leaves(space.points, order_of(positions(space, axis)), k, theta, parts)
    return on_parts(space, sets, lambda inside, part: kward(inside, k, tick=part, rng=rng), tick)


def leaves(
    points: NDArray[np.float64], order: NDArray[np.int64], k: int, theta: float, parts: int
) -> list[NDArray[np.int64]]:
    """The sets left to k-Ward, each in record order so that its ties go to the smaller index."""
    if len(order) >= 2 * k and len(order) // parts >= k:
        pieces = np.array_split(order, parts)
        total_variance = _variance(points[order])
        inside = sum(_variance(points[piece]) for piece in pieces)
        if total_variance > 0 and inside >= theta * total_variance:
            return [leaf for piece in pieces for leaf in leaves(points, piece, k, theta, parts)]
    return [np.sort(order)]


def _variance(points: NDArray[np.float64]) -> float:
    # Attribute by attribute: over rows, rounding would depend on how many attributes there are.
    return float(np.ascontiguousarray(points.T).var(axis=1).sum())


METHOD = Method(
    name="recursive_kward",
    run=recursive_kward,
    summary="k-Ward on parts of the sorted records: faster on large tables",
    cost="O(n log n) and O(m^2) for each part of m records",
    reference="Fayyoumi & Oommen 2006",
    options=(
        AXIS,
        Parameter(
            "theta",
            float,
            0.5,
            Option("A set is cut while theta is not above the ratio.", minimum=0.0),
        ),
        Parameter("parts", int, 2, Option("Parts that a set is cut into (J).", minimum=2)),
    ),
)
