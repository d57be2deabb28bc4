"""k-member clustering.

The first class starts with record 0 and takes, one at a time, the remaining record that raises its
loss least, until it holds k. The next class starts with the record farthest from the seed of the
class before. The last records, fewer than k, join one by one the class whose loss they raise least.
Ties go to the record of smaller index, then to the class made first.

Source: J.-W. Byun, A. Kamra, E. Bertino and N. Li, "Efficient k-anonymization using clustering
techniques", DASFAA 2007. The paper starts with a random record; loss is iloss, distance that of
GAA-CP.
Classes: k records; those that take the last records more, 2k-1 at most.
Cost: O(n^2) in the worst case; a tree of boxes over the distinct records leaves out most of it.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.partition import Partition
from dbanon.kernels import KMember
from dbanon.methods.registry import Method, Tick, below_2k, drive
from dbanon.spaces.mixed import MixedSpace, mixed_space


def kmember(space: MixedSpace, k: int, *, tick: Tick, rng: np.random.Generator) -> Partition:
    """Partition the records of ``space`` into classes of k to 2k-1 records."""
    return drive(KMember(space.table(), k), tick)


METHOD = Method(
    name="kmember",
    run=kmember,
    summary="Greedy clustering by the loss of the growing class",
    data="numeric, ordinal, categorical",
    class_sizes="k; the last records make some larger, up to 2k-1",
    cost="O(n^2) at worst, far less with many identical records",
    reference="Byun, Kamra, Bertino & Li 2007",
    max_size=below_2k,
    recoding="generalization",
    takes_categories=True,
    space=mixed_space,
    refine="generalized",
)
