"""Minimum spanning tree partitioning: ``mst_forest`` and ``mst_diameter``.

Both consider the edges of the minimum spanning tree, longest first, and remove an edge if k or more
records remain on both sides. Each connected component is then a class. ``mst_diameter`` (M-d) also
splits classes of 2k or more records by the diameter-based method. While 2k records remain, the two
most distant ones each form a class with their k-1 nearest records. The remaining records form a
class if there are k or more; otherwise each is added to the class with the nearest centroid,
without updating centroids.

Ties: Prim's algorithm builds the tree from record 0; among equal distances, the record with the
smaller index enters first. An edge belongs to the record that entered the tree by it; among edges
of equal length, the edge of the record with the smaller index is removed first. For each record in
the tree, only the nearest record outside is stored; a spatial index finds a new one when needed.

Source: M. Laszlo and S. Mukherjee, "Minimum spanning tree partitioning algorithm for
microaggregation", IEEE TKDE 17 (2005).
Classes: k or more, without a bound for mst_forest (a star of many records cannot be cut); k to
2k-1 for mst_diameter.
Cost: O(n^2 p) at worst, about O(n^1.4) for few attributes; memory O(n p).
"""

from __future__ import annotations

from dbanon.kernels import Mst
from dbanon.methods.registry import Method, on_points

# The kernel's argument: whether to split classes of 2k or more.
_KEEPS_LARGE_CLASSES, _SPLITS_LARGE_CLASSES = False, True

FOREST = Method(
    name="mst_forest",
    run=on_points(Mst, _KEEPS_LARGE_CLASSES),
    summary="Cuts the long edges of the minimum spanning tree: for well separated clusters",
    class_sizes="k or more, no bound",
    cost="O(n^2) at worst, about O(n^1.4) for few attributes",
    reference="Laszlo & Mukherjee 2005",
    max_size=None,
)
DIAMETER = Method(
    name="mst_diameter",
    run=on_points(Mst, _SPLITS_LARGE_CLASSES),
    summary="As mst_forest, and large trees are split by the diameter-based method",
    cost="O(n^2) at worst, about O(n^1.4) for few attributes",
    reference="Laszlo & Mukherjee 2005",
)
