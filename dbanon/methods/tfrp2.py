"""TFRP-2: two fixed reference points, both stages.

TFRP-1; then each class, in the order of descending sum of squares, is dissolved when its records,
each put into the class with the nearest centroid at that moment, add less to the sums of squares
there than the class itself had.

Source: C.-C. Chang, Y.-C. Li and W.-H. Huang, "TFRP: An efficient microaggregation algorithm for
statistical disclosure control", Journal of Systems and Software 80 (2007).
Classes: k or more records; a class may take up records of several dissolved ones.
Cost: O(n^2/k) in the worst case.
"""

from __future__ import annotations

from dbanon.kernels import MixedTfrp, Tfrp
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

METHOD = Method(
    name="tfrp2",
    run=on_points(Tfrp, True, places=MixedTfrp),
    summary="TFRP-1, then classes are dissolved where their records fit better elsewhere",
    class_sizes="k or more",
    cost="O(n^2/k) at worst",
    reference="Chang, Li & Huang 2007",
    max_size=None,
    forecast=MethodForecast(mixed=PowerLaw(90.0, 2.0, 1.27, trees=1.35, categories=1.35)),
)
