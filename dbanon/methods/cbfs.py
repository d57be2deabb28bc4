"""CBFS: centroid-based fixed size.

While k records remain, the record farthest from their centroid forms a class with its k-1 nearest
records. Each leftover record, fewer than k, is then added to the class with the nearest centroid;
centroids are not updated in this step (the paper only says that leftover records are distributed).

Source: M. Laszlo and S. Mukherjee, "Minimum spanning tree partitioning algorithm for
microaggregation", IEEE TKDE 17 (2005), section 3.
Classes: k records; those that leftover records are added to hold up to 2k-1.
Cost: O(n^2) in the worst case; far less for few attributes, thanks to a spatial index.
"""

from __future__ import annotations

from dbanon.kernels import Cbfs, MixedCbfs
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

METHOD = Method(
    name="cbfs",
    run=on_points(Cbfs, mixed_kernel=MixedCbfs),
    summary="Centroid-based fixed size: one class around the farthest record each round",
    cost="O(n^2) at worst, near O(n log n) for few attributes",
    reference="Laszlo & Mukherjee 2005",
    forecast=MethodForecast(
        numbers=PowerLaw(seconds=0.33, records=1.3, attributes=1.3, interaction=0.33),
        mixed=PowerLaw(seconds=0.31, records=1.33, attributes=1.43, trees=1.94, categories=2.15),
    ),
)
