"""k-Ward: Ward's hierarchical clustering, held to classes of at least k.

One class of k records around each of the two most distant records, all others single. Then always
the two classes whose merging costs least, n m / (n + m) times the squared distance of their
centroids, until every record is in a class of k or more; two classes of k or more never merge.
Then the same again inside every class of 2k or more. The slide of P. Fink (2009) merges only
classes below k and goes on inside classes above 2k, which can strand a small class; this is the
rule of the paper.

Merging in the order of nearest-neighbour chains gives the same classes as always taking the least
cost (forbidding merges only lengthens distances, so that the chain stays valid), without a matrix
of distances; a spatial index of the clusters finds the neighbours. Where costs are equal the
partner before in the chain counts first, then the class with the smaller first number.

Source: J. Domingo-Ferrer and J. M. Mateo-Sanz, "Practical data-oriented microaggregation for
statistical disclosure control", IEEE TKDE 14 (2002), sections 4.1 and 4.2.
Classes: k to 2k-1.
Cost: O(n^2 p) at worst, about O(n^1.3) for few attributes; memory O(n p).
"""

from __future__ import annotations

from dbanon.kernels import Ward
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

kward = on_points(Ward)

METHOD = Method(
    name="kward",
    run=kward,
    summary="Ward's clustering with classes of at least k; for one or more attributes",
    cost="O(n^2) at worst, about O(n^1.3) for few attributes",
    reference="Domingo-Ferrer & Mateo-Sanz 2002",
    forecast=MethodForecast(numbers=PowerLaw(2.5, 1.4, 2.16)),
)
