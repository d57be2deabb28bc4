"""Attacks on a release of half of the persons, with the other half as control group.

The half is released with the same options. A release of all records leaves no control group, so
it could not separate disclosure about its persons from facts that are true of everybody.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.errors import DbanonError, TooFewRecords
from dbanon.hierarchy.leaves import take_records
from dbanon.job.policy import Policy
from dbanon.methods.registry import Tick
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.sets import coarsen_for_sets
from dbanon.partitioning.strata import count_for_k, group_positions, stratum_numbers
from dbanon.release.attacks import Attacks, attack_data_of, attacks_of
from dbanon.release.recode import recode
from dbanon.run.plan import Plan
from dbanon.run.totals import totals_of


def attacks_on_half(microdata: Microdata, planned: Plan, tick: Tick) -> Attacks:
    """Attack a release of half of the records, then discard that release.

    Raises
    ------
    TooFewRecords : half of the records make no class, or all of them would be withheld.
    """
    policy = planned.policy
    members, others = _halves(microdata, policy)
    if not len(members):
        raise TooFewRecords("Half of the records are too few for a class.")
    mine = take_records(microdata, members)
    try:
        clustering = partition_for(
            mine,
            policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
            tick=lambda share: tick(share / 2),
        )
        clustering = coarsen_for_sets(mine, clustering, policy, planned.job.memory_limit)
    except DbanonError as error:
        # The error's own text may contain a count, and more people read the ledger than the run.
        reason = (type(error).__doc__ or "").partition("\n")[0].rstrip(".")
        raise TooFewRecords(
            f"Half of the records cannot be released by the same options: {reason}."
        ) from None
    release = recode(mine, clustering, policy, totals_of(mine))
    if not release.partition.n_classes:
        raise TooFewRecords("All records of the half would be suppressed.")
    return attacks_of(
        attack_data_of(
            take_records(microdata, np.concatenate((members, others))),
            len(members),
            release.columns,
            np.asarray(release.partition.sizes, np.int64),
            release.hierarchies,
            seed=policy.seed,
            tick=lambda share: tick((1 + share) / 2),
        )
    )


def _halves(microdata: Microdata, policy: Policy) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The records of a random half of the persons, and those of the others.

    Rows of one person stay together: a control group that shares persons with the release would
    hide what the release reveals of them. Strata whose half is no class are in neither.
    """
    persons = microdata.entities
    if persons is None:
        persons = np.arange(microdata.n_records, dtype=np.int32)
    named, places = np.unique(persons, return_inverse=True)
    half = len(named) // 2
    inside = np.zeros(len(named), np.bool_)
    inside[np.random.default_rng([policy.seed, half]).permutation(len(named))[:half]] = True
    parts: tuple[list[NDArray[np.int64]], list[NDArray[np.int64]]] = ([], [])
    for records in group_positions(stratum_numbers(microdata)):
        chosen = inside[places[records]]
        if count_for_k(microdata, records[chosen]) >= policy.k:
            parts[0].append(records[chosen])
            parts[1].append(records[~chosen])
    none = np.zeros(0, np.int64)
    return np.sort(np.concatenate([none, *parts[0]])), np.sort(np.concatenate([none, *parts[1]]))
