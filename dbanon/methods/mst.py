"""Minimum spanning tree partitioning, as it is (``mst_forest``) and with large trees split.

The edges of the minimum spanning tree are taken away, the longest first, where both sides keep k
records or more. What hangs together is a class. ``mst_diameter`` (M-d) splits trees of 2k records
or more by the diameter-based method: while 2k records remain, one class of k around each of the
two most distant ones; k or more left over form a class, fewer join one by one the class with the
nearest centroid, as centroids were when the loop ended.

Among equal distances the smaller record comes first into the tree (Prim from record 0); among
equal edges the one of the smaller record is taken away first. Of each record in the tree only the
nearest free record is kept, and looked for anew in a spatial index when it may be the next.

Source: M. Laszlo and S. Mukherjee, "Minimum spanning tree partitioning algorithm for
microaggregation", IEEE TKDE 17 (2005).
Classes: k or more, without a bound for mst_forest (a star of many records cannot be cut); k to
2k-1 for mst_diameter.
Cost: O(n^2 p) at worst, about O(n^1.4) for few attributes; memory O(n p).
"""

from __future__ import annotations

from dbanon.kernels import Mst
from dbanon.methods.registry import Method, on_points

FOREST = Method(
    name="mst_forest",
    run=on_points(Mst, False),
    summary="Cuts the long edges of the minimum spanning tree: for well separated clusters",
    class_sizes="k or more, no bound",
    cost="O(n^2) at worst, about O(n^1.4) for few attributes",
    reference="Laszlo & Mukherjee 2005",
    max_size=None,
)
DIAMETER = Method(
    name="mst_diameter",
    run=on_points(Mst, True),
    summary="As mst_forest, and large trees are split by the diameter-based method",
    cost="O(n^2) at worst, about O(n^1.4) for few attributes",
    reference="Laszlo & Mukherjee 2005",
)
