"""Single-axis sorting: sort the records by one number, and group them in that order.

The number is the sum of the standardized values (the default), the first principal component, or
one attribute. Classes of k records are formed from both ends of the order. If k does not divide n,
the class that contains the median takes the leftover records; only this class is larger than k. If
the number of classes is even, the median lies between two classes, and the lower one takes the
leftover records.

Source: D. Defays and P. Nanopoulos, "Panels of enterprises and confidentiality: the small
aggregates method" (1993); J. Domingo-Ferrer and J. M. Mateo-Sanz, IEEE TKDE 14 (2002), section
3.1.
Classes: k records, except that one holds k to 2k-1.
Cost: O(n log n).
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.methods.axes import AXIS, project, split_from_both_ends
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, Tick
from dbanon.spaces.numeric import Space


def single_axis(
    space: Space, k: int, *, tick: Tick, rng: np.random.Generator, axis: str
) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of k to 2k-1 records."""
    labels = split_from_both_ends(project(space, axis), k)
    tick(1.0)
    return Partition(labels)


METHOD = Method(
    name="single_axis",
    run=single_axis,
    summary="Sorts by one number and groups in that order: the fastest, for correlated attributes",
    class_sizes="k; the one that holds the median k to 2k-1",
    cost="O(n log n)",
    reference="Defays & Nanopoulos 1993",
    forecast=MethodForecast(numbers=PowerLaw(seconds=0.045, records=0.95, attributes=0.8)),
    options=(AXIS,),
)
