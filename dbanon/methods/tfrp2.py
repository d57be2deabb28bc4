"""TFRP-2: two fixed reference points, both stages.

Runs TFRP-1, then visits the classes in descending order of their sum of squares. If a class is
dissolved, each of its records moves to the class with the nearest centroid. A class is dissolved if
this adds less to the sums of squares of the other classes than its own sum of squares.

Source: C.-C. Chang, Y.-C. Li and W.-H. Huang, "TFRP: An efficient microaggregation algorithm for
statistical disclosure control", Journal of Systems and Software 80 (2007).
Classes: k or more records; a class may receive records of several dissolved classes.
Cost: O(n^2/k) in the worst case.
"""

from __future__ import annotations

from dbanon.kernels import MixedTfrp, Tfrp
from dbanon.methods.forecast import MethodForecast, PowerLaw
from dbanon.methods.registry import Method, on_points

# An argument of the kernel: only TFRP-2 runs the second stage, which dissolves classes.
_DISSOLVES_CLASSES = True

METHOD = Method(
    name="tfrp2",
    run=on_points(Tfrp, _DISSOLVES_CLASSES, mixed_kernel=MixedTfrp),
    summary="TFRP-1, then classes are dissolved where their records fit better elsewhere",
    class_sizes="k or more",
    cost="O(n^2/k) at worst",
    reference="Chang, Li & Huang 2007",
    max_size=None,
    forecast=MethodForecast(
        mixed=PowerLaw(seconds=90.0, records=2.0, attributes=1.27, trees=1.35, categories=1.35)
    ),
)
