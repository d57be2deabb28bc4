"""Attack a release of half of the persons; the other half is the control group.

The first half is released with the options of the planned release. An attack that works equally
well on the control group exploits facts about everybody, not disclosure about the released persons.
A release of all records would leave no control group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.types import JsonObject
from dbanon.errors import DbanonError, TooFewRecords
from dbanon.extensions.attacks.results import Attacks, build_attack_data, run_all_attacks
from dbanon.hierarchy.leaves import take_records
from dbanon.job.policy import Policy
from dbanon.methods.registry import Tick
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.sets import coarsen_for_column_sets
from dbanon.partitioning.strata import count_for_k, group_positions, stratum_numbers
from dbanon.release.recode import Release, recode
from dbanon.run.plan import Plan
from dbanon.run.totals import exact_totals_of


def attack_half(microdata: Microdata, planned: Plan, tick: Tick) -> Attacks:
    """Attack a release of half of the records, then discard that release.

    Parameters
    ----------
    microdata : all records that were read.
    planned : the plan of the run, whose policy has the hierarchies of these records.
    tick : called with the share of the work that is done, 0 to 1.

    Raises
    ------
    TooFewRecords : half of the records are fewer than k, or all of them would be withheld.
    """
    policy = planned.policy
    released_half, control_half = _split_persons(microdata, policy)
    if not len(released_half):
        raise TooFewRecords("Half of the records are too few for a class.")
    half_records = take_records(microdata, released_half)
    try:
        clustering = partition_for(
            half_records,
            policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
            tick=lambda share: tick(share / 2),
        )
        clustering = coarsen_for_column_sets(
            half_records, clustering, policy, planned.job.memory_limit
        )
    except DbanonError as error:
        # Use the description of the error's class: its message may contain a count, and more
        # people can read the ledger than the output of this run.
        reason = (type(error).__doc__ or "").partition("\n")[0].rstrip(".")
        raise TooFewRecords(
            f"Half of the records cannot be released with the same options: {reason}."
        ) from None
    # Exact totals serve means of numbers that float64 cannot add exactly.
    release = recode(half_records, clustering, policy, exact_totals_of(half_records))
    if not release.partition.n_classes:
        raise TooFewRecords("All records of the half would be suppressed.")
    return run_all_attacks(
        build_attack_data(
            take_records(microdata, np.concatenate((released_half, control_half))),
            n_members=len(released_half),
            columns=release.columns,
            # All rows of a class are equal, so each class counts as one distinct row.
            weights=np.asarray(release.partition.sizes, np.int64),
            hierarchies=release.hierarchies,
            seed=policy.seed,
            tick=lambda share: tick((1 + share) / 2),
        )
    )


def evaluate_attacks(
    microdata: Microdata, planned: Plan, release: Release, tick: Tick
) -> JsonObject:
    """Attack a release of half of the records, for the report; see ``attack_half``."""
    del release  # It has no control group.
    return attack_half(microdata, planned, tick).to_dict()


def _split_persons(
    microdata: Microdata, policy: Policy
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split the records into those of a random half of the persons and those of the other half.

    All rows of a person are in the same half: a control group that shares persons with the release
    would hide what the release reveals about them. A stratum with fewer than k rows (or persons,
    if k counts persons) in the first half is left out of both halves.

    Returns two arrays of record indices, int64, ascending: the records to release, and those of the
    control group.
    """
    persons = microdata.entities
    if persons is None:
        persons = np.arange(microdata.n_records, dtype=np.int32)
    distinct_persons, person_codes = np.unique(persons, return_inverse=True)
    n_persons = len(distinct_persons)
    n_half = n_persons // 2
    is_released = np.zeros(n_persons, np.bool_)
    is_released[np.random.default_rng([policy.seed, n_half]).permutation(n_persons)[:n_half]] = True
    # Start with an empty array, because concatenate needs at least one.
    released_records = [np.zeros(0, np.int64)]
    control_records = [np.zeros(0, np.int64)]
    for records in group_positions(stratum_numbers(microdata)):
        is_in_release = is_released[person_codes[records]]
        if count_for_k(microdata, records[is_in_release]) >= policy.k:
            released_records.append(records[is_in_release])
            control_records.append(records[~is_in_release])
    return np.sort(np.concatenate(released_records)), np.sort(np.concatenate(control_records))
