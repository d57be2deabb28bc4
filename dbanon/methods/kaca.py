"""KACA: k-anonymization by clustering in attribute hierarchies.

Classes start as the distinct records. A random class below k merges with the class that makes the
loss grow least, until no class is below k. Ties go to the class of the record of smaller index.

Source: J. Li, R. Wong, A. Fu and J. Pei, "Achieving k-anonymity by clustering in attribute
hierarchical structures", DaWaK 2006, LNCS 4081. Loss is iloss: numbers need no hierarchy.
Classes: k and more; there is no largest size.
Cost: O(m^2) in the worst case for m distinct records: of two trees of boxes, one finds the nearest
class of one record, one the nearest of the others.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.kernels import Merging
from dbanon.methods.registry import MixedMethod, Tick, drive
from dbanon.spaces.mixed import MixedSpace


def kaca(space: MixedSpace, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the records of ``space`` into classes of k and more records."""
    return drive(Merging(space.table(), k, int(rng.integers(2**63)), -1.0), tick)


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
