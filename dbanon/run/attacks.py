"""Attacks on a release of half of the records, made as the release is, with the others as control.

Of a release of all records nobody is left whom it was not made of, so that nothing would tell what
it gives away of its persons from what is true of everybody.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.microdata import Microdata
from dbanon.errors import TooFewRecords
from dbanon.hierarchy.leaves import only
from dbanon.methods.registry import Tick
from dbanon.partitioning.partition_for import partition_for
from dbanon.release.attacks import Attacks, attacks_of, exposed_of
from dbanon.release.recode import recode
from dbanon.run.plan import Plan
from dbanon.run.totals import totals_of


def attacks_on_half(microdata: Microdata, planned: Plan, tick: Tick) -> Attacks:
    """What attacks reach; nothing of that release is kept.

    Raises
    ------
    TooFewRecords : half of the records make no class, or all of them would be withheld.
    DbanonError : as finding classes raises.
    """
    policy, n = planned.policy, microdata.n_records
    half = n // 2
    if half < policy.k:
        raise TooFewRecords("Half of the records are too few for a class.")
    order = np.random.default_rng([policy.seed, half]).permutation(n)
    members, others = np.sort(order[:half]), np.sort(order[half : 2 * half])
    mine = only(microdata, members)
    found = partition_for(
        mine,
        policy,
        sensitive=planned.sensitive,
        memory_limit=planned.job.memory_limit,
        tick=lambda share: tick(share / 2),
    )
    release = recode(mine, found, policy, totals_of(mine))
    if not release.partition.n_classes:
        raise TooFewRecords("All records of the half would be withheld.")
    return attacks_of(
        exposed_of(
            only(microdata, np.concatenate((members, others))),
            half,
            release.columns,
            np.asarray(release.partition.sizes, np.int64),
            release.hierarchies,
            seed=policy.seed,
            tick=lambda share: tick((1 + share) / 2),
        )
    )
