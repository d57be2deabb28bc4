"""The classes that a policy asks for: found, refined, and protected by its models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Distribution, Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import SUPPRESSED, Found, Partition, places_of
from dbanon.data.pieces import on_all_cores
from dbanon.data.scales import MAHALANOBIS
from dbanon.data.schema import Attribute
from dbanon.hierarchy.leaves import Trees, take_records
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.methods.registry import Tick
from dbanon.partitioning.classes import find_attribute_classes, find_classes, require_budget
from dbanon.partitioning.protect import protect
from dbanon.partitioning.sets import feasible_records, require_feasible_sets
from dbanon.partitioning.strata import rare_records, released_places


def partition_for(
    microdata: Microdata,
    policy: Policy,
    *,
    trees: Trees | None = None,
    sensitive: Mapping[str, Attribute] | None = None,
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
    measures: Measures | None = None,
) -> Found:
    """Put the records into classes that keep to what the policy says.

    Records of strata below k are withheld before, where the policy allows that, as if there were no
    such records; then those whose sets of columns (``also_k``) cannot be k-anonymous. What the
    others' sets are released by, ``with_sets`` finds.

    Parameters
    ----------
    trees : makes the hierarchies of some records where others are withheld; None for those of the
        policy.
    sensitive : what the columns of the policy's models are.
    memory_limit : bytes that counts of their values may use; None for no limit.
    measures : of the table that the records are a part of, of its released records; None where
        they are the table, as they are where there are such sets.

    Raises
    ------
    DbanonError : as ``find_classes``, ``find_attribute_classes``, ``protect`` and
        ``require_reach``.
    """
    more: dict[str, Any] = {
        "trees": trees, "sensitive": sensitive, "memory_limit": memory_limit, "tick": tick,
    }  # fmt: skip
    n = microdata.n_records
    rare = rare_records(microdata, policy)
    if rare is not None:
        require_budget(policy, microdata.withheld + len(rare), microdata.n_read)
        records = np.setdiff1d(np.arange(n), rare, assume_unique=True)
        remaining, policy = _without_others(microdata, policy, records, trees)
        return _expand_to_table(
            partition_for(remaining, policy, measures=measures, **more), records, n
        )
    if not policy.also_k:
        return _partition_for(microdata, policy, measures=measures, **more)
    records = np.arange(n)
    while True:
        # Whoever is withheld for another reason is missing in the sets of others.
        records = feasible_records(microdata, policy, records)
        require_feasible_sets(microdata, policy, len(records))
        remaining = microdata
        if len(records) < n:
            remaining, policy = _without_others(microdata, policy, records, trees)
        clustering = _partition_for(remaining, policy, **more)
        released = records[partition_of(clustering).labels >= 0]
        if len(feasible_records(microdata, policy, released)) == len(released):
            break
        records = released
    return clustering if len(records) == n else _expand_to_table(clustering, records, n)


def _without_others(
    microdata: Microdata, policy: Policy, records: NDArray[np.int64], trees: Trees | None
) -> tuple[Microdata, Policy]:
    """Some of the records, int64 (m,), as if there were no others, and the policy for these."""
    selected = replace(take_records(microdata, records), withheld=microdata.n_read - len(records))
    return selected, policy if trees is None else replace(policy, hierarchies=trees(selected))


def _expand_to_table(clustering: Found, records: NDArray[np.int64], n: int) -> Found:
    """Classes of some of n records, int64 (m,), as classes of all; the others are withheld."""
    places = places_of(records, n)
    levels = None if clustering.levels is None else clustering.levels.of(places)
    return replace(clustering, classes=clustering.classes.of(places), levels=levels, measures=None)


def _partition_for(
    microdata: Microdata,
    policy: Policy,
    *,
    trees: Trees | None,
    sensitive: Mapping[str, Attribute] | None,
    memory_limit: int | None,
    tick: Tick,
    measures: Measures | None = None,
) -> Found:
    table_measures = measures
    if measures is None:
        measures = Measures.of(
            microdata,
            covariance=policy.standardize == MAHALANOBIS,
            each=map if policy.block_size is None else on_all_cores,
        )
    if not find_method(policy.method).gives.of_rows:
        return Found(find_attribute_classes(microdata, policy, tick, measures), measures=measures)
    share = 0.5 if policy.models else 1.0
    partition = find_classes(
        microdata,
        policy,
        lambda done: tick(share * done),
        trees,
        # Units of entities are a table of their own.
        measures if microdata.entities is None else table_measures,
    )
    clustering = Found(partition, partition.levels_found, measures, partition.told)
    if policy.models:
        clustering = protect_classes(
            microdata,
            clustering,
            policy,
            sensitive=sensitive or {},
            memory_limit=memory_limit,
            tick=lambda done: tick(share + (1 - share) * done),
        )
    return (
        replace(clustering, measures=table_measures)
        if partition_of(clustering).n_suppressed
        else clustering
    )


def partition_of(clustering: Found) -> Partition:
    """The classes of rows that were found."""
    assert isinstance(clustering.classes, Partition)
    return clustering.classes


def protect_classes(
    microdata: Microdata,
    clustering: Found,
    policy: Policy,
    *,
    sensitive: Mapping[str, Attribute],
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
    compared: Mapping[str, tuple[NDArray[np.int32], Distribution]] | None = None,
) -> Found:
    """Classes that were found by quasi-identifiers, such that they keep to the policy's models.

    Parameters
    ----------
    found : with the measures of the table.
    beside : by sensitive column, where classes are compared with another table: the place of each
        record's value, int32 (n,), and how often each place occurs there.

    Raises
    ------
    DbanonError : as ``protect``.
    """
    partition, measures = partition_of(clustering), clustering.measures
    assert measures is not None
    compared = compared or {}
    own_models = [model for model in policy.models if model.attribute not in compared]
    positions, table = released_places(
        microdata, partition, own_models, sensitive, measures, memory_limit
    )
    positions |= {name: codes for name, (codes, _) in compared.items()}
    table |= {name: distribution for name, (_, distribution) in compared.items()}
    merged = protect(microdata, partition, policy, positions, tick, measures, table)
    return replace(clustering, classes=merged)


def joined_for(
    microdata: Microdata,
    clustering: Found,
    group_of_class: NDArray[np.int32],
    policy: Policy,
    *,
    sensitive: Mapping[str, Attribute],
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
) -> Found:
    """The classes once those that are released alike are one, and keep to the models as one.

    Readers have them as one class, which may break a model that each of them keeps to
    (``Model.holds_together``). Classes are then joined, and merged or withheld as ``protect`` does
    it, so that they are fewer; ``found`` itself where none breaks a model.

    Parameters
    ----------
    alike : int32 (n_classes,), a number from 0, without gaps, for each set of classes alike.

    Raises
    ------
    DbanonError : as ``partition_for``.
    """
    partition = clustering.classes
    assert isinstance(partition, Partition)
    of_records = np.append(group_of_class, SUPPRESSED)[partition.labels]
    joined = Partition(of_records)
    if joined.n_classes == partition.n_classes:
        return clustering
    measures = clustering.measures or Measures.of(
        microdata, covariance=policy.standardize == MAHALANOBIS
    )
    places, table = released_places(
        microdata, joined, policy.models, sensitive, measures, memory_limit
    )
    merged = protect(microdata, joined, policy, places, tick, measures, table, search=False)
    if (merged.n_classes, merged.n_suppressed) == (joined.n_classes, joined.n_suppressed):
        return clustering
    return replace(clustering, classes=merged, measures=None if merged.n_suppressed else measures)
