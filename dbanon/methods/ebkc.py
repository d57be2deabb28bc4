"""EBKC: entropy-based k-anonymity clustering.

Each distinct record is added to the nearest class within the distance ``threshold``, or starts a
new class. Then classes below k, in random order, are merged with the class for which the loss grows
least. Classes of 2k or more are sorted by the attribute with the largest entropy and cut in half,
until each holds fewer than 2k records or only equal ones.

Source: Zhang J. P., Zhao Y., Yang Y. and Yang J., "A k-anonymity clustering algorithm based on the
information entropy", CSCWD 2014, as described in Jiang, Zeng and Ma, Journal of Software 28 (2017),
section 1. The distance is that of GAA-CP, a mean over the attributes. The default threshold is the
one used in that article's comparison.
Classes: k to 2k-1; larger ones hold equal records.
Cost: O(m c) for m distinct records and c initial classes, plus the cost of KACA.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.kernels import Merging
from dbanon.methods.registry import MixedMethod, Tick, drive
from dbanon.spaces.mixed import MixedSpace


def ebkc(
    space: MixedSpace, k: int, *, tick: Tick, rng: np.random.Generator, threshold: float
) -> Partition:
    """Partition the records of ``space`` into classes of k or more records."""
    return drive(Merging(space.table(), k, int(rng.integers(2**63)), threshold), tick)


METHOD = MixedMethod(
    name="ebkc",
    run=ebkc,
    summary="Classes within a distance, small ones merged, large ones cut by entropy",
    class_sizes="k to 2k-1; more when all records of a class are equal",
    cost="O(m^2) for m distinct records at worst",
    reference="Zhang, Zhao, Yang & Yang 2014",
    max_size=None,
    random=True,
    options=(
        Parameter(
            "threshold",
            float,
            0.5,
            Option("Largest distance of a record to an initial class.", minimum=0, maximum=1),
        ),
    ),
)
