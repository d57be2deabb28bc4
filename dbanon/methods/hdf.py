"""HDF: highest density first.

Each remaining record has a candidate class: itself and its k-1 nearest remaining records. The
"density" of equation 4 is the candidate's within-class sum of squares, so a large value means a low
density. While k records remain, the candidate with the smallest value becomes a class. Each of the
n mod k leftover records is then added to the class with the nearest centroid, without updating
centroids. This interpretation reproduces all values of the paper's table, to two decimals.

Source: T.-H. Wen, J.-L. Lin and C.-H. Wang, "A density-based microaggregation method" (in Chinese),
Yuan Ze University.
Classes: k records; those that leftover records are added to hold up to 2k-1.
Cost: O(n^2) in the worst case; only candidates that lost a member are recomputed.
"""

from __future__ import annotations

from dbanon.kernels import DensityFirst, MixedDensityFirst
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

# ``hdf`` and ``ldf`` share a kernel. This argument of it is True for ``ldf``.
_LOWEST_FIRST = False

METHOD = Method(
    name="hdf",
    run=on_points(DensityFirst, _LOWEST_FIRST, mixed_kernel=MixedDensityFirst),
    summary="Highest density first: the candidate class of smallest sum of squares each round",
    cost="O(n^2) at worst, near O(n log n) for few attributes",
    reference="Wen, Lin & Wang, Yuan Ze University",
    forecast=MethodForecast(
        mixed=PowerLaw(seconds=0.64, records=1.22, attributes=1.68, trees=3.16, categories=3.16)
    ),
)
