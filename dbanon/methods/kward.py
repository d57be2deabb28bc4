"""k-Ward: Ward's hierarchical clustering with classes of at least k records.

The method starts with a class of k records around each of the two most distant records; all other
records are classes of one. It repeatedly merges the two classes with the least cost, until every
class holds k or more records; two classes of k or more never merge. The cost is n m / (n + m) times
the squared distance of the centroids, for classes of n and m records. The same is then done within
each class of 2k or more. This is the rule of the paper. (The slides of P. Fink, 2009, merge only
classes below k and continue within classes above 2k, which can leave a class that is too small.)

The kernel follows chains of nearest neighbours and merges mutual ones. This gives the same classes
as always making the cheapest merge, without a matrix of distances. This also holds although some
merges are forbidden, because forbidding a merge only lengthens distances. A spatial index of the
classes finds the neighbours. Among equal costs the previous class in the chain comes first, then
the class whose first record has the smaller index.

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
    forecast=MethodForecast(numbers=PowerLaw(seconds=2.5, records=1.4, attributes=2.16)),
)
