"""Recursive k-Ward: cut the sorted records into parts, recursively, and apply k-Ward to each part.

A set is cut into J parts of equal size along the axis. If the sum of the variances of the parts,
divided by the variance of the set, is less than theta, the set is not cut and k-Ward is applied to
it. Otherwise the same procedure is applied to each part. The variance of several attributes is the
sum of their variances, and k-Ward uses all attributes. A set is not cut if it has fewer than 2k
records, or if its parts would have fewer than k. If J does not divide n, the first (n mod J) parts
have one record more; the source does not specify this.

Source: E. Fayyoumi and B. J. Oommen, "On optimizing the k-Ward micro-aggregation technique for
secure statistical databases", ACISP 2006, LNCS 4058.
Classes: k to 2k-1.
Cost: O(n log n) to sort, plus O(m^2) for each set of m records that k-Ward partitions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.methods.axes import AXIS, project, sort_records
from dbanon.methods.kward import kward
from dbanon.methods.registry import Method, Tick, run_on_parts
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
    record_sets = cut_into_kward_sets(
        space.points, sort_records(project(space, axis)), k, theta, parts
    )
    return run_on_parts(
        space, record_sets, lambda part, part_tick: kward(part, k, tick=part_tick, rng=rng), tick
    )


def cut_into_kward_sets(
    points: NDArray[np.float64], order: NDArray[np.int64], k: int, theta: float, parts: int
) -> list[NDArray[np.int64]]:
    """Cut records into the sets that k-Ward partitions.

    Parameters
    ----------
    points : float64 (n, p), all records.
    order : int64 (m,), the records to cut, sorted along the axis.
    theta : a set is cut if the summed variance of its parts is at least theta times its own.
    parts : the number of parts that a set is cut into.

    Returns
    -------
    The records of each set, int64, ascending, so that ties go to the smaller index.
    """
    if len(order) >= 2 * k and len(order) // parts >= k:
        part_orders = np.array_split(order, parts)
        total_variance = _variance(points[order])
        within_variance = sum(_variance(points[part_order]) for part_order in part_orders)
        if total_variance > 0 and within_variance >= theta * total_variance:
            return [
                kward_set
                for part_order in part_orders
                for kward_set in cut_into_kward_sets(points, part_order, k, theta, parts)
            ]
    return [np.sort(order)]


def _variance(points: NDArray[np.float64]) -> float:
    """Return the sum of the variances of the attributes of points, float64 (m, p)."""
    # Compute each variance on a contiguous array: a sum over rows would be rounded differently
    # depending on the number of attributes.
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
            Option(
                "A set is cut if the summed variance of its parts is at least theta times its own.",
                minimum=0.0,
            ),
        ),
        Parameter("parts", int, 2, Option("Parts that a set is cut into (J).", minimum=2)),
    ),
)
