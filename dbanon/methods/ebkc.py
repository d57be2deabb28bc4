"""EBKC: entropy-based k-anonymity clustering.

Each distinct record joins the nearest class within the distance ``threshold``, or starts one;
random classes below k merge with the class that makes the loss grow least; classes of 2k and more
are cut in two halves, in the order of the attribute of largest entropy, until all are below 2k or
of equal records.

Source: Zhang J. P., Zhao Y., Yang Y. and Yang J., "A k-anonymity clustering algorithm based on the
information entropy", CSCWD 2014, as described in Jiang, Zeng and Ma, Journal of Software 28 (2017),
section 1; the distance is that of GAA-CP, a mean over the attributes. The default threshold is the
one of the comparison there.
Classes: k to 2k-1; larger ones hold equal records.
Cost: O(m c) for m distinct records and c classes within the threshold, then as KACA on these.
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
    """Partition the records of ``space`` into classes of k and more records."""
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
            Option("Largest distance of a record to a first class.", minimum=0, maximum=1),
        ),
    ),
)
