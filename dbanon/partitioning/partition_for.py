"""Computes the classes of a policy: clusters, refines, and enforces its privacy models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures, ValueFrequencies
from dbanon.data.microdata import Microdata
from dbanon.data.partition import SUPPRESSED, ClusteringResult, Partition, positions_among
from dbanon.data.pieces import on_all_cores
from dbanon.data.scales import MAHALANOBIS
from dbanon.data.schema import Attribute
from dbanon.hierarchy.leaves import TreeBuilder, take_records
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
    trees: TreeBuilder | None = None,
    sensitive: Mapping[str, Attribute] | None = None,
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
    measures: Measures | None = None,
) -> ClusteringResult:
    """Put the records into classes that satisfy the policy.

    First withholds records of strata below k, if the policy allows that, and then records whose
    sets of columns (``also_k``) cannot be k-anonymous. ``with_sets`` later finds the classes that
    release these sets.

    Parameters
    ----------
    trees : makes the hierarchies for a subset of the records; None to use those of the policy.
    sensitive : attributes of the policy's models, by name.
    memory_limit : bytes that counts of their values may use; None for no limit.
    measures : of the released records of a larger table; None if the records are the whole table,
        which policies with sets require.

    Raises
    ------
    DbanonError : as ``find_classes``, ``find_attribute_classes``, ``protect`` and
        ``require_feasible_sets``.
    """
    more: dict[str, Any] = {
        "trees": trees,
        "sensitive": sensitive,
        "memory_limit": memory_limit,
        "tick": tick,
    }
    n = microdata.n_records
    rare = rare_records(microdata, policy)
    if rare is not None:
        require_budget(policy, microdata.n_withheld + len(rare), microdata.n_read)
        records = np.setdiff1d(np.arange(n), rare, assume_unique=True)
        remaining, policy = _without_others(microdata, policy, records, trees)
        return _expand_to_table(
            partition_for(remaining, policy, measures=measures, **more), records, n
        )
    if not policy.also_k:
        return _partition_for(microdata, policy, measures=measures, **more)
    records = np.arange(n)
    while True:
        # Records withheld for other reasons no longer count in the sets of other records.
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
    microdata: Microdata, policy: Policy, records: NDArray[np.int64], trees: TreeBuilder | None
) -> tuple[Microdata, Policy]:
    """A subset of the records, int64 (m,), as a separate table, and the policy for it."""
    selected = replace(take_records(microdata, records), n_withheld=microdata.n_read - len(records))
    return selected, policy if trees is None else replace(policy, hierarchies=trees(selected))


def _expand_to_table(
    clustering: ClusteringResult, records: NDArray[np.int64], n: int
) -> ClusteringResult:
    """Extend classes of a subset, int64 (m,), to all n records; the others are withheld."""
    places = positions_among(records, n)
    levels = None if clustering.levels is None else clustering.levels.take(places)
    return replace(
        clustering, classes=clustering.classes.take(places), levels=levels, measures=None
    )


def _partition_for(
    microdata: Microdata,
    policy: Policy,
    *,
    trees: TreeBuilder | None,
    sensitive: Mapping[str, Attribute] | None,
    memory_limit: int | None,
    tick: Tick,
    measures: Measures | None = None,
) -> ClusteringResult:
    table_measures = measures
    if measures is None:
        measures = Measures.of(
            microdata,
            covariance=policy.standardize == MAHALANOBIS,
            parallel_map=map if policy.block_size is None else on_all_cores,
        )
    if not find_method(policy.method).result_type.has_row_classes:
        return ClusteringResult(
            find_attribute_classes(microdata, policy, tick, measures), measures=measures
        )
    share = 0.5 if policy.models else 1.0
    partition = find_classes(
        microdata,
        policy,
        lambda done: tick(share * done),
        trees,
        # Units of entities form a separate table.
        measures if microdata.entities is None else table_measures,
    )
    clustering = ClusteringResult(
        partition, partition.grouping_levels, measures, partition.method_counts
    )
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


def partition_of(clustering: ClusteringResult) -> Partition:
    """The classes of rows of a clustering."""
    assert isinstance(clustering.classes, Partition)
    return clustering.classes


def protect_classes(
    microdata: Microdata,
    clustering: ClusteringResult,
    policy: Policy,
    *,
    sensitive: Mapping[str, Attribute],
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
    compared: Mapping[str, tuple[NDArray[np.int32], ValueFrequencies]] | None = None,
) -> ClusteringResult:
    """Change the classes of quasi-identifiers until they satisfy the policy's models.

    Parameters
    ----------
    clustering : with the measures of the table.
    compared : for sensitive columns whose classes are compared with another table: the code of each
        record's value, int32 (n,), and the distribution of the codes in that table.

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
    clustering: ClusteringResult,
    group_of_class: NDArray[np.int32],
    policy: Policy,
    *,
    sensitive: Mapping[str, Attribute],
    memory_limit: int | None = None,
    tick: Tick = lambda share: None,
) -> ClusteringResult:
    """Join classes with the same released values, and make them satisfy the models as one class.

    Readers cannot tell such classes apart, and together they may violate a model that each of them
    satisfies (``Model.is_union_closed``). They are then joined, and merged or withheld as in
    ``protect``, so that the result has fewer classes. Returns ``clustering`` itself if no model is
    violated.

    Parameters
    ----------
    group_of_class : int32 (n_classes,), numbers classes with the same released values, from 0
        without gaps.

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
