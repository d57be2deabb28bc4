"""TFRP-1: two fixed reference points, first stage.

The reference points are the corner with the minimum of each attribute and the corner with each
maximum; they are used alternately. While k records remain, the record farthest from the reference
point forms a class with its k-1 nearest records. Each leftover record, fewer than k, is then added
to the class with the nearest centroid, without updating centroids.

Source: C.-C. Chang, Y.-C. Li and W.-H. Huang, "TFRP: An efficient microaggregation algorithm for
statistical disclosure control", Journal of Systems and Software 80 (2007).
Classes: k to 2k-1 records.
Cost: O(n^2/k) in the worst case.
"""

from __future__ import annotations

from dbanon.kernels import MixedTfrp, Tfrp
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

# An argument of the kernel: only TFRP-2 runs the second stage, which dissolves classes.
_DISSOLVES_CLASSES = False

METHOD = Method(
    name="tfrp1",
    run=on_points(Tfrp, _DISSOLVES_CLASSES, mixed_kernel=MixedTfrp),
    summary="Two fixed reference points, used in turn",
    cost="O(n^2/k) at worst",
    reference="Chang, Li & Huang 2007",
    forecast=MethodForecast(
        mixed=PowerLaw(seconds=0.22, records=1.29, attributes=1.7, trees=2.04, categories=2.26)
    ),
)
