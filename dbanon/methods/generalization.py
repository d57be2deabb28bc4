"""What the methods of generalization share: the local search on the loss of their classes.

A round takes a class that loses something, with a few classes that hold neighbours of its records,
apart and puts their records together anew: randomized agglomeration in which copies of one record
may part, then moves of single records. The result is kept when it does not lose more. Rounds are
counted, not seconds, so that a seed gives the same classes everywhere.
"""

from __future__ import annotations

import numpy as np

from dbanon.kernels import RefineLoss
from dbanon.methods.registry import Tick, drive
from dbanon.mixed_space import MixedSpace
from dbanon.partitions import Partition

# Rounds for each class of k records that the table could hold.
ROUNDS = {"fast": 20, "thorough": 900}


def refine(
    space: MixedSpace,
    partition: Partition,
    k: int,
    level: str,
    *,
    tick: Tick,
    rng: np.random.Generator,
) -> Partition:
    """Classes of k or more with no larger loss; suppressed records stay suppressed."""
    rounds = ROUNDS[level] * (space.n_records // k)
    seed = int(rng.integers(2**63))
    return drive(RefineLoss(*space.arrays(), partition.labels, k, rounds, seed), tick)
