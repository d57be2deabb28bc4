"""V-MDAV: variable-size maximum distance to average vector.

While k records remain, the one farthest from the centroid of the whole table (computed once) forms
a class with its k-1 nearest records. The class then grows to at most 2k-1 records. Let x be the
remaining record nearest to any member of the class, d_in the distance from x to that member, and
d_out the distance from x to the nearest other remaining record (infinite if there is none). While
d_in < lambda * d_out, x is added. Each leftover record, fewer than k, is then added to the class
with the nearest centroid.

Source: A. Solanas and A. Martinez-Balleste, "V-MDAV: a multivariate microaggregation with variable
group size", COMPSTAT 2006.
Classes: k to 2k-1 records; leftover records add up to k-1 more, so 3k-2 at most.
Cost: O(n^2) in the worst case.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.kernels import MixedVmdav, Vmdav
from dbanon.methods.registry import Method, Tick, drive
from dbanon.spaces.numeric import Space


def vmdav(
    space: Space, k: int, *, tick: Tick, rng: np.random.Generator, lambda_: float
) -> Partition:
    """Partition the records of ``space`` into classes of at least k records."""
    return drive(space.kernel(Vmdav, MixedVmdav)(k, lambda_), tick)


METHOD = Method(
    name="vmdav",
    run=vmdav,
    summary="MDAV whose classes grow while a near record is nearer to them than to others",
    class_sizes="k to 3k-2",
    cost="O(n^2) at worst",
    reference="Solanas & Martinez-Balleste 2006",
    max_size=lambda k: 3 * k - 2,
    options=(
        Parameter(
            "lambda_",
            float,
            0.2,
            Option("How far classes grow: 0.2 suits scattered, 1.1 clustered data.", minimum=0.0),
        ),
    ),
)
