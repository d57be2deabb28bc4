"""HDF: highest density first.

Each remaining record has a candidate class: itself and its k-1 nearest remaining records. The
density value of equation 4 is the candidate's within-class sum of squares, so that a large value
is a low density. Each round takes the candidate with the smallest value, while k records remain;
the n mod k left over join, each by itself, the class with the nearest centroid, as the centroids
were when the loop ended. This reading gives all figures of the paper's table, to two decimals.

Source: T.-H. Wen, J.-L. Lin and C.-H. Wang, "A density-based microaggregation method" (in Chinese),
Yuan Ze University.
Classes: k records; a class that leftover records join up to 2k-1.
Cost: O(n^2) in the worst case; only candidates that lost a member are computed anew.
"""

from __future__ import annotations

from dbanon.kernels import DensityFirst, MixedDensityFirst
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

METHOD = Method(
    name="hdf",
    run=on_points(DensityFirst, False, places=MixedDensityFirst),
    summary="Highest density first: the candidate class of smallest sum of squares each round",
    cost="O(n^2) at worst, near O(n log n) for few attributes",
    reference="Wen, Lin & Wang, Yuan Ze University",
    forecast=MethodForecast(mixed=PowerLaw(0.64, 1.22, 1.68, trees=3.16, categories=3.16)),
)
