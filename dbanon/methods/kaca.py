"""KACA: k-anonymization by clustering in attribute hierarchies.

The method starts with a class for each distinct record. A random class below k merges with the
class for which the loss grows least, until no class is below k. Ties go to the class of the record
with the smaller index.

Source: J. Li, R. Wong, A. Fu and J. Pei, "Achieving k-anonymity by clustering in attribute
hierarchical structures", DaWaK 2006, LNCS 4081. The loss is iloss
(``measures.information_loss``), so numbers need no hierarchy.
Classes: k or more, without a bound.
Cost: O(m^2) in the worst case for m distinct records. Two trees of bounding boxes find the nearest
class: one holds the classes of one record, the other all larger classes. Once they rule out too few
classes, scans of all find it.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.kernels import Merging
from dbanon.methods.registry import MixedMethod, Tick, drive
from dbanon.spaces.mixed import MixedSpace

# With this value, the kernel starts with one class per distinct record.
_NO_THRESHOLD = -1.0


def kaca(space: MixedSpace, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the records of ``space`` into classes of k or more records."""
    return drive(Merging(space.table(), k, int(rng.integers(2**63)), _NO_THRESHOLD), tick)


METHOD = MixedMethod(
    name="kaca",
    run=kaca,
    summary="Merging of small classes with the least loss",
    class_sizes="k and more",
    cost="O(m^2) at worst for m distinct records",
    reference="Li, Wong, Fu & Pei 2006",
    max_size=None,
    random=True,
)
