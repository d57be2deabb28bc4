"""Compute the classes of a policy: cluster, refine, and enforce the privacy models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import Microdata
from dbanon.data.partition import SUPPRESSED, ClusteringResult, Partition, positions_among
from dbanon.data.pieces import on_all_cores
from dbanon.data.scales import MAHALANOBIS
from dbanon.data.schema import Attribute
from dbanon.data.types import KeywordArguments
from dbanon.hierarchy.leaves import TreeBuilder, take_records
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.methods.registry import Tick
from dbanon.partitioning.cells import code_for_method
from dbanon.partitioning.classes import (
    find_attribute_classes,
    find_classes,
    ignore_progress,
    require_budget,
)
from dbanon.partitioning.strata import code_released_values, rare_records


def partition_for(
    microdata: Microdata,
    policy: Policy,
    *,
    trees: TreeBuilder | None = None,
    sensitive: Mapping[str, Attribute] | None = None,
    memory_limit: int | None = None,
    tick: Tick = ignore_progress,
    column_statistics: ColumnStatistics | None = None,
) -> ClusteringResult:
    """Put the records into classes that satisfy the policy.

    First withholds the records of strata below k, if the policy allows that, and then the records
    that prevent sets of columns (``also_k``) from being k-anonymous. Later,
    ``coarsen_for_column_sets`` coarsens the classes for these sets.

    Parameters
    ----------
    trees : builds the hierarchies for a subset of the records; None to use those of the policy.
    sensitive : the sensitive attributes of the policy's models, by name.
    memory_limit : the bytes that counts of sensitive values may use; None for no limit.
    tick : called with the share that is done, 0 to 1.
    column_statistics : statistics of the released records of a larger table. None if the records
        are the whole table; ignored with ``also_k``.

    Raises
    ------
    DbanonError : as ``find_classes``, ``find_attribute_classes``, ``protect`` and
        ``require_feasible_sets``.
    """
    shared_arguments: KeywordArguments = {
        "trees": trees,
        "sensitive": sensitive,
        "memory_limit": memory_limit,
        "tick": tick,
    }
    if find_method(policy.method).suppresses_cells:
        # Statistics of values do not describe codes.
        microdata, column_statistics = code_for_method(microdata, policy), None
    n = microdata.n_records
    rare_positions = rare_records(microdata, policy)
    if rare_positions is not None:
        require_budget(policy, microdata.n_withheld + len(rare_positions), microdata.n_read)
        records = np.setdiff1d(np.arange(n), rare_positions, assume_unique=True)
        remaining, policy = _select_records(microdata, policy, records, trees)
        return _expand_to_table(
            partition_for(
                remaining, policy, column_statistics=column_statistics, **shared_arguments
            ),
            records,
            n,
        )
    if not policy.also_k:
        return _cluster_and_protect(
            microdata, policy, column_statistics=column_statistics, **shared_arguments
        )
    records = np.arange(n)
    while True:
        from dbanon.partitioning.sets import feasible_records, require_feasible_sets

        # Some columns of a set may be copied unchanged. Without the withheld records, a combination
        # of copied values may have fewer than k records: check again.
        records = feasible_records(microdata, policy, records)
        require_feasible_sets(microdata, policy, len(records))
        remaining = microdata
        if len(records) < n:
            remaining, policy = _select_records(microdata, policy, records, trees)
        clustering = _cluster_and_protect(remaining, policy, **shared_arguments)
        released = records[partition_of(clustering).labels >= 0]
        if len(feasible_records(microdata, policy, released)) == len(released):
            break
        records = released
    return clustering if len(records) == n else _expand_to_table(clustering, records, n)


def _select_records(
    microdata: Microdata, policy: Policy, records: NDArray[np.int64], trees: TreeBuilder | None
) -> tuple[Microdata, Policy]:
    """Return some of the records, int64 (m,), as a separate table, and the policy for it."""
    selected = replace(take_records(microdata, records), n_withheld=microdata.n_read - len(records))
    return selected, policy if trees is None else replace(policy, hierarchies=trees(selected))


def _expand_to_table(
    clustering: ClusteringResult, records: NDArray[np.int64], n: int
) -> ClusteringResult:
    """Extend the classes of some records, int64 (m,), to a table of n records.

    The other records are withheld.
    """
    # The statistics describe these records only, so they are dropped below.
    positions = positions_among(records, n)
    # ``levels`` is a partition, too: the classes before merging, with the level of each column.
    levels = None if clustering.levels is None else clustering.levels.take(positions)
    return replace(
        clustering,
        classes=clustering.classes.take(positions),
        levels=levels,
        column_statistics=None,
    )


def _cluster_and_protect(
    microdata: Microdata,
    policy: Policy,
    *,
    trees: TreeBuilder | None,
    sensitive: Mapping[str, Attribute] | None,
    memory_limit: int | None,
    tick: Tick,
    column_statistics: ColumnStatistics | None = None,
) -> ClusteringResult:
    """Run the method, then enforce the models. For the parameters see ``partition_for``."""
    table_statistics = column_statistics
    if column_statistics is None:
        column_statistics = ColumnStatistics.of(
            microdata,
            covariance=policy.standardize == MAHALANOBIS,
            parallel_map=map if policy.block_size is None else on_all_cores,
        )
    if not find_method(policy.method).result_type.has_row_classes:
        return ClusteringResult(
            find_attribute_classes(microdata, policy, tick, column_statistics),
            column_statistics=column_statistics,
        )
    clustering_progress = 0.5 if policy.models else 1.0
    partition = find_classes(
        microdata,
        policy,
        lambda share: tick(clustering_progress * share),
        trees,
        # With entities the records are clustered as units, which form a separate table.
        column_statistics if microdata.entities is None else table_statistics,
    )
    # ``grouping_levels`` is None unless the method chose levels for the whole table.
    clustering = ClusteringResult(
        partition, partition.grouping_levels, column_statistics, partition.method_counts
    )
    if policy.models:
        clustering = protect_classes(
            microdata,
            clustering,
            policy,
            sensitive=sensitive or {},
            memory_limit=memory_limit,
            tick=lambda share: tick(clustering_progress + (1 - clustering_progress) * share),
        )
    # Statistics that include withheld records, or that are those of codes, do not describe the
    # released table: replace them by those of the caller, if any.
    if partition_of(clustering).n_suppressed or find_method(policy.method).suppresses_cells:
        return replace(clustering, column_statistics=table_statistics)
    return clustering


def partition_of(clustering: ClusteringResult) -> Partition:
    """Return the classes of a clustering by a method that puts rows into classes."""
    assert isinstance(clustering.classes, Partition)
    return clustering.classes


def protect_classes(
    microdata: Microdata,
    clustering: ClusteringResult,
    policy: Policy,
    *,
    sensitive: Mapping[str, Attribute],
    memory_limit: int | None = None,
    tick: Tick = ignore_progress,
    compared_columns: Mapping[str, tuple[NDArray[np.int32], ValueFrequencies]] | None = None,
) -> ClusteringResult:
    """Merge or withhold classes until they satisfy the policy's models.

    Parameters
    ----------
    clustering : the classes, and the statistics of the table's columns.
    sensitive : the sensitive attributes of the policy's models, by name.
    memory_limit : the bytes that counts of sensitive values may use; None for no limit.
    compared_columns : the sensitive columns whose models compare classes with another table than
        ``microdata``: with that of the first release of a chain. By column: the value code of each
        record, int32 (n,), and the frequencies of the codes in the other table.

    Raises
    ------
    DbanonError : as ``protect``.
    """
    from dbanon.partitioning.protect import protect

    partition, column_statistics = partition_of(clustering), clustering.column_statistics
    assert column_statistics is not None
    compared_columns = compared_columns or {}
    # The values of the other columns are counted here.
    own_models = [model for model in policy.models if model.attribute not in compared_columns]
    codes_by_column, frequencies_by_column = code_released_values(
        microdata, partition, own_models, sensitive, column_statistics, memory_limit
    )
    for name, (codes, frequencies) in compared_columns.items():
        codes_by_column[name] = codes
        frequencies_by_column[name] = frequencies
    merged = protect(
        microdata,
        partition,
        policy,
        codes_by_column,
        tick,
        column_statistics,
        frequencies_by_column,
    )
    return replace(clustering, classes=merged)


def join_equal_classes(
    microdata: Microdata,
    clustering: ClusteringResult,
    group_of_class: NDArray[np.int32],
    policy: Policy,
    *,
    sensitive: Mapping[str, Attribute],
    memory_limit: int | None = None,
    tick: Tick = ignore_progress,
) -> ClusteringResult:
    """Join classes with the same released values if they violate the models as one class.

    Readers cannot tell such classes apart, and together they may violate a model that each of them
    satisfies (see ``Model.is_union_closed``). Joined classes are then merged or withheld as in
    ``protect``. Returns ``clustering`` itself if no model is violated.

    Parameters
    ----------
    group_of_class : int32 (n_classes,), the group of each class, from 0 without gaps; classes with
        the same released values are in one group.
    sensitive : the sensitive attributes of the policy's models, by name.
    memory_limit : the bytes that counts of sensitive values may use; None for no limit.

    Raises
    ------
    DbanonError : as ``partition_for``.
    """
    microdata = code_for_method(microdata, policy)
    partition = clustering.classes
    assert isinstance(partition, Partition)
    group_of_record = np.append(group_of_class, SUPPRESSED)[partition.labels]
    joined_partition = Partition(group_of_record)
    if joined_partition.n_classes == partition.n_classes:
        return clustering
    from dbanon.partitioning.protect import protect

    column_statistics = clustering.column_statistics or ColumnStatistics.of(
        microdata, covariance=policy.standardize == MAHALANOBIS
    )
    codes_by_column, frequencies_by_column = code_released_values(
        microdata, joined_partition, policy.models, sensitive, column_statistics, memory_limit
    )
    merged = protect(
        microdata,
        joined_partition,
        policy,
        codes_by_column,
        tick,
        column_statistics,
        frequencies_by_column,
        split_and_refine=False,
    )
    if (merged.n_classes, merged.n_suppressed) == (
        joined_partition.n_classes,
        joined_partition.n_suppressed,
    ):
        return clustering
    return replace(
        clustering,
        classes=merged,
        column_statistics=None if merged.n_suppressed else column_statistics,
    )
