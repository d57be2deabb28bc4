"""MDAV: maximum distance to average vector.

While 3k records remain, the record r farthest from their centroid and the record s farthest from r
each form a class with their k-1 nearest records. If 2k to 3k-1 records remain, one more class is
formed around the record farthest from the centroid. The remaining records form the last class.

Source: J. Domingo-Ferrer and V. Torra, "Ordinal, continuous and heterogeneous k-anonymity through
microaggregation", Data Mining and Knowledge Discovery 11 (2005), algorithm 2.
Classes: k records, except for the last one, which has k to 2k-1.
Cost: O(n^2) in the worst case; about O(n^1.3) for few attributes, thanks to a spatial index, which
does not affect the result. Mixed data is clustered without converting it to coordinates,
so memory is O(n p).
"""

from __future__ import annotations

from dbanon.kernels import Mdav, MixedMdav
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

mdav = on_points(Mdav, mixed_kernel=MixedMdav)

METHOD = Method(
    name="mdav",
    run=mdav,
    summary="Maximum distance to average vector: the default, exact and fast",
    class_sizes="k; the last one k to 2k-1",
    cost="O(n^2) at worst, about O(n^1.3) for few attributes",
    reference="Domingo-Ferrer & Torra 2005",
    forecast=MethodForecast(
        numbers=PowerLaw(seconds=0.27, records=1.3, attributes=1.79, interaction=0.52),
        mixed=PowerLaw(seconds=0.25, records=1.34, attributes=1.67, trees=2.48, categories=2.35),
    ),
)
