"""MD (DBFS): diameter-based fixed size.

While 2k records remain, the two most distant ones each form a class with their k-1 nearest records.
The remaining records form a class if there are k or more; otherwise each is added to the class with
the nearest centroid, without updating centroids.

Source: J. Domingo-Ferrer and J. M. Mateo-Sanz, "Practical data-oriented microaggregation for
statistical disclosure control", IEEE TKDE 14 (2002), section 3; M. Laszlo and S. Mukherjee (2005).
Classes: k to 2k-1 records.
Cost: O(n^3/k) in the worst case, without a matrix of distances.
"""

from __future__ import annotations

from dbanon.kernels import Md, MixedMd
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

METHOD = Method(
    name="md",
    run=on_points(Md, mixed_kernel=MixedMd),
    summary="Diameter-based fixed size: classes around the two most distant records",
    cost="O(n^3/k) at worst, O(n) memory",
    reference="Domingo-Ferrer & Mateo-Sanz 2002",
    forecast=MethodForecast(
        mixed=PowerLaw(
            seconds=1.6,
            records=1.3,
            attributes=2.02,
            trees=0.99,
            categories=0.4,
            distinct_exponent=0.0,
        )
    ),
)
