"""Enforce privacy models on sensitive attributes by merging, withholding and splitting classes.

A model is enforced in each stratum separately. Here a stratum is a set of records that classes must
not cross: those with the same values of the strata columns, the same layer and the same pattern of
NULLs. Layers separate the rows of a person (``person_rows``). A ``Guard`` holds the models with the
sensitive values of the records that they check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition, combine_partitions, max_count_of_share
from dbanon.errors import ModelInfeasible
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.kernels import Models
from dbanon.measures import Model, sensitive_counts
from dbanon.measures.recount import count_values
from dbanon.methods import find_method
from dbanon.methods.registry import Tick
from dbanon.partitioning.blocks import Blocks, partition_blocks
from dbanon.partitioning.cells import merging_weights
from dbanon.partitioning.entities import Persons
from dbanon.partitioning.infeasible import infeasible_error
from dbanon.partitioning.merge import (
    Guard,
    merge_block,
    merge_classes,
    satisfies_models,
    split_classes,
)
from dbanon.partitioning.refine import refine_classes
from dbanon.partitioning.strata import group_positions, stratum_numbers
from dbanon.spaces.mixed import MixedSpace, mixed_space

# The kernels' largest l of l-diversity; no column has as many distinct values.
_MAX_L = 2**31 - 1


def protect(
    microdata: Microdata,
    partition: Partition,
    policy: Policy,
    codes: Mapping[str, NDArray[np.int32]],
    tick: Tick = lambda share: None,
    column_statistics: ColumnStatistics | None = None,
    table_frequencies: Mapping[str, ValueFrequencies] | None = None,
    *,
    split_and_refine: bool = True,
) -> Partition:
    """Merge classes until each satisfies the models of the policy.

    Never merges classes of different strata or patterns of NULLs. With entities, the models count
    persons, and all records of a person are in one class of a stratum. If the policy allows it,
    classes may be withheld instead. Afterwards classes are split again if both parts satisfy the
    models, and refined under the models if the policy asks for it. Both are skipped with entities,
    because they would separate records of a person.

    Parameters
    ----------
    codes : by sensitive attribute, int32 (n,), the value code of each record, from 0; NULL is a
        value. For t-closeness with an order or a hierarchy, codes are positions in the order, or
        of leaves in the hierarchy.
    column_statistics : statistics of a larger table that contains the records; None if the records
        are the whole table.
    table_frequencies : by sensitive attribute, the frequencies of the codes among the released
        records of the table; None to count the codes of the records that have a class.
    split_and_refine : False to only merge or withhold classes.

    Raises
    ------
    ModelInfeasible : the whole table as one class violates a model, or so many strata do that
        withholding them is not allowed.
    """
    if not policy.models or not partition.n_classes:
        return partition
    column_statistics = column_statistics or ColumnStatistics.of(microdata)
    if table_frequencies is None:
        is_released = partition.labels >= 0
        released_units = Persons.of(microdata, codes).units_of_records(is_released)
        table_frequencies = {
            name: ValueFrequencies.of(column[is_released], person_units=released_units)
            for name, column in codes.items()
        }
    try:
        return _protect(
            microdata,
            partition,
            policy,
            codes,
            tick,
            column_statistics,
            table_frequencies,
            split_and_refine,
        )
    except ModelInfeasible:
        # Withholding records changes the table, which may make other classes fail.
        policy_without_withholding = replace(policy, withhold_failing=False)
        with suppress(ModelInfeasible):
            if policy.withhold_failing:
                return _protect(
                    microdata,
                    partition,
                    policy_without_withholding,
                    codes,
                    tick,
                    column_statistics,
                    table_frequencies,
                    split_and_refine,
                )
        # Avoid a variable for the error, which would keep the arrays of all its frames alive.
        raise


def _protect(
    microdata: Microdata,
    partition: Partition,
    policy: Policy,
    codes: Mapping[str, NDArray[np.int32]],
    tick: Tick,
    column_statistics: ColumnStatistics,
    table_frequencies: Mapping[str, ValueFrequencies],
    split_and_refine: bool,
) -> Partition:
    """Enforce the models as ``protect`` does, without a second attempt if they are infeasible."""
    n_records = microdata.n_records
    build_space = make_cost_space_builder(microdata, column_statistics, policy)
    # Cuts into blocks use these keys for samples and ties.
    record_keys = microdata.ordered_keys
    persons = Persons.of(microdata, codes)
    while True:
        partition_before = partition
        counted_codes, table_shares = _codes_and_shares(
            policy.models, codes, partition_before.labels >= 0, table_frequencies, persons
        )
        guard = _guard_from_codes(policy.models, counted_codes, table_shares, persons)
        strata = _released_strata(microdata, partition_before)
        max_withheld = _max_further_withheld(policy, microdata, partition_before)
        failing_strata = [
            records for records in strata if not satisfies_models(guard.take(records))
        ]
        # Merging ends at the latest with the whole stratum as one class. If that class violates the
        # models, the stratum is withheld, as long as that is allowed and another one remains.
        for records in failing_strata:
            if len(records) > max_withheld or len(failing_strata) == len(strata):
                raise _infeasible_error(
                    policy.models,
                    counted_codes,
                    table_shares,
                    strata,
                    persons,
                    microdata,
                    len(records),
                )
            max_withheld -= len(records)
        stratum_partitions = []
        for records in strata:
            space, stratum_guard = build_space(records), guard.take(records)
            if not satisfies_models(stratum_guard):
                continue
            _, labels = np.unique(partition_before.labels[records], return_inverse=True)
            stratum_partition = Partition(labels.reshape(-1))
            # Blocks are merged in parallel, and could not share a number of records to withhold.
            if not max_withheld:
                stratum_partition = merge_by_blocks(
                    space, stratum_partition, record_keys[records], stratum_guard, policy, tick
                )
            merged = merge_classes(space, stratum_partition, stratum_guard, tick, max_withheld)
            max_withheld -= merged.n_suppressed
            stratum_partitions.append((records, merged))
        partition = combine_partitions(stratum_partitions, n_records)
        # Withholding records changes the table, and models compare classes with the table.
        if partition.n_suppressed == partition_before.n_suppressed:
            break
        is_withheld = (partition_before.labels >= 0) & (partition.labels < 0)
        withheld_units = persons.units_of_records(is_withheld)
        table_frequencies = {
            name: table_frequencies[name].after_withholding(
                codes[name][is_withheld], withheld_units
            )
            for name in counted_codes
        }
    if not split_and_refine or not _can_refine(microdata, policy):
        return partition
    k, refined_partitions = int(policy.k), []
    for records, stratum_partition in stratum_partitions:
        space, stratum_guard = build_space(records), guard.take(records)
        refined = split_classes(space, stratum_partition, k, stratum_guard, tick)
        if policy.refine is not None:
            refined = refine_classes(
                "generalized", space, refined, record_keys[records], policy, tick, stratum_guard
            ).require(k)
            refined = split_classes(space, refined, k, stratum_guard, tick)
        refined_partitions.append((records, refined))
    return combine_partitions(refined_partitions, n_records)


def make_cost_space_builder(
    microdata: Microdata, column_statistics: ColumnStatistics, policy: Policy
) -> Callable[[NDArray[np.int64]], MixedSpace]:
    """Return a function that builds, for given records, the space that measures merging costs."""
    names = [attribute.name for attribute in microdata.attributes]
    return mixed_space(
        microdata,
        column_statistics,
        standardize=str(policy.standardize),
        weights=merging_weights(policy, names),
        hierarchies=policy.hierarchies,
        label_steps=policy.label_steps,
    )


def build_guard(
    microdata: Microdata,
    policy: Policy,
    codes: Mapping[str, NDArray[np.int32]],
    table_frequencies: Mapping[str, ValueFrequencies],
) -> Guard:
    """Build the guard of the policy's models for records all of which have a class.

    Parameters
    ----------
    codes, table_frequencies : as for ``protect``.
    """
    persons = Persons.of(microdata, codes)
    is_released = np.ones(microdata.n_records, np.bool_)
    counted_codes, table_shares = _codes_and_shares(
        policy.models, codes, is_released, table_frequencies, persons
    )
    return _guard_from_codes(policy.models, counted_codes, table_shares, persons)


def protect_block(
    space: MixedSpace, partition: Partition, guard: Guard, policy: Policy, tick: Tick
) -> Partition:
    """Merge the classes of a block until each satisfies the models; then split classes.

    The whole block, as one class, must satisfy the models. A class is split if both halves satisfy
    them, under the same conditions as in ``protect``.
    """
    merged = merge_classes(space, partition, guard, tick)
    # If the models count persons, splitting would separate records of a person.
    if guard.models.persons or find_method(policy.method).refine != "generalized":
        return merged
    return split_classes(space, merged, int(policy.k), guard, tick)


def _codes_and_shares(
    models: Sequence[Model],
    codes: Mapping[str, NDArray[np.int32]],
    is_released: NDArray[np.bool_],
    table_frequencies: Mapping[str, ValueFrequencies],
    persons: Persons,
) -> tuple[dict[str, NDArray[np.int32]], dict[str, NDArray[np.float64]]]:
    """Return two dicts by sensitive attribute: the codes to count, and shares of values.

    The codes, int32 (n,), are -1 in records that are not counted. The shares, float64 (s,), are
    those of each value in the table.
    """
    counted_codes, table_shares = {}, {}
    for name in dict.fromkeys(model.attribute for model in models):
        recounted_codes, table_shares[name] = _codes_as_recounted(
            models, name, codes[name], is_released, table_frequencies[name]
        )
        # The kernels do not count -1. ``codes_counted_once`` sets it in all but the first record of
        # each person and value, and -1 may not have any other meaning.
        counted_codes[name] = persons.codes_counted_once(name, np.maximum(recounted_codes, 0))
    return counted_codes, table_shares


def _infeasible_error(
    models: Sequence[Model],
    counted_codes: Mapping[str, NDArray[np.int32]],
    table_shares: Mapping[str, NDArray[np.float64]],
    strata: Sequence[NDArray[np.int64]],
    persons: Persons,
    microdata: Microdata,
    n_records: int,
) -> ModelInfeasible:
    """Build the error with the feasible levels, which each stratum satisfies as one class.

    Parameters
    ----------
    n_records : the number of records in the failing stratum.
    """
    one_class_strata = _one_class_per_stratum(strata, len(next(iter(counted_codes.values()))))
    stratum_counts = {
        name: sensitive_counts(one_class_strata, codes, len(table_shares[name]))
        for name, codes in counted_codes.items()
    }
    persons_per_class = persons.persons_per_class(one_class_strata)
    remedies = []
    if microdata.valid is not None:
        remedies.append('use `nulls="suppress"`')
    if microdata.strata is not None or microdata.valid is None:
        remedies.append("leave out `by`")
    return infeasible_error(
        models,
        stratum_counts,
        table_shares,
        one_class_strata.sizes,
        persons_per_class,
        microdata.n_read,
        n_records,
        remedies,
    )


def _guard_from_codes(
    models: Sequence[Model],
    counted_codes: Mapping[str, NDArray[np.int32]],
    table_shares: Mapping[str, NDArray[np.float64]],
    persons: Persons,
) -> Guard:
    """Build a guard from the results of ``_codes_and_shares``.

    If the models count persons, the guard has one more column, which counts them.
    """
    columns = [*counted_codes.values(), *persons.counting_columns]
    values = np.column_stack(columns).astype(np.int32)
    compiled_models = compile_models(
        models, list(counted_codes), table_shares, counts_persons=persons.units is not None
    )
    return Guard(values, compiled_models)


def _codes_as_recounted(
    models: Sequence[Model],
    name: str,
    codes: NDArray[np.int32],
    is_released: NDArray[np.bool_],
    table_frequencies: ValueFrequencies,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return codes, int32 (n,), and shares of values, float64 (s,), as a recount would find them.

    A recount reads the written release. With a hierarchy it counts all leaves. Otherwise it counts
    the released values only, or, if classes are compared with another table, all values there.
    """
    # Fixed frequencies come from another table: the first release of a chain.
    if table_frequencies.is_fixed:
        return codes, table_frequencies.shares
    if any(m.attribute == name and isinstance(m.distance, Hierarchy) for m in models):
        shares = table_frequencies.shares
        # With a hierarchy, ``count_values`` returns the number of its leaves.
        n_leaves = count_values(models, name, codes)
        return codes, np.pad(shares, (0, max(n_leaves - len(shares), 0)))
    # Renumber the values that occur among released records, without gaps.
    released_codes = np.zeros_like(codes)
    released_codes[is_released] = table_frequencies.occurring_positions[codes[is_released]]
    return released_codes, table_frequencies.occurring_values().shares


def _max_further_withheld(policy: Policy, microdata: Microdata, partition: Partition) -> int:
    """Return the number of further records that may be withheld to satisfy the models."""
    if not policy.withhold_failing or policy.max_suppression is None:
        return 0
    allowed = max_count_of_share(policy.max_suppression, microdata.n_read)
    return max(allowed - microdata.n_withheld - partition.n_suppressed, 0)


def _can_refine(microdata: Microdata, policy: Policy) -> bool:
    """Return True if the refinement minimizes generalization loss and records have no entities."""
    return microdata.entities is None and find_method(policy.method).refine == "generalized"


def merge_by_blocks(
    space: MixedSpace,
    partition: Partition,
    keys: NDArray[np.int64],
    guard: Guard,
    policy: Policy,
    tick: Tick,
) -> Partition:
    """Merge classes within blocks until all satisfy the models, if the policy has blocks."""
    blocks = Blocks.of(policy)
    if blocks is None or blocks.block_count_for(space.n_records) is None:
        return partition

    def merge_in_block(block_index: int, records: NDArray[np.int64], tick: Tick) -> Partition:
        _, labels = np.unique(partition.labels[records], return_inverse=True)
        return merge_block(space.take(records), Partition(labels), guard.take(records), tick)

    block_positions = blocks.cut_classes(
        space, partition, keys, satisfies_models=guard.allows, count_values=guard.counts
    )
    return partition_blocks(block_positions, merge_in_block, tick)


def compile_models(
    models: Sequence[Model],
    names: Sequence[str],
    table_shares: Mapping[str, NDArray[np.float64]],
    counts_persons: bool = False,
) -> Models:
    """Convert models to the form that the kernels use.

    Parameters
    ----------
    names : the sensitive attributes, in the order of the columns.
    table_shares : by sensitive attribute, the share of each value in the table, float64 (s,).
    counts_persons : True if a last column of values counts persons.
    """
    # A column that counts persons has one value, 0.
    n_values_by_column = [len(table_shares[name]) for name in names] + [1] * counts_persons
    compiled_models = Models(np.array(n_values_by_column, np.int32), counts_persons)
    for model in models:
        kind, parents, ranges = model.kind, np.empty(0, np.int32), np.empty((0, 2), np.int32)
        if isinstance(model.distance, Hierarchy):
            kind = "hierarchical_t"
            parents, ranges = model.distance.parents, model.distance.leaf_ranges
        elif kind == "t_closeness":
            # The distance is ``equal`` or ``ordered``.
            kind = f"{model.distance}_t"
        compiled_models.add(
            kind,
            names.index(model.attribute),
            model.level,
            min(model.l, _MAX_L),
            table_shares[model.attribute],
            np.ascontiguousarray(parents, np.int32),
            np.ascontiguousarray(ranges, np.int32),
        )
    return compiled_models


def _released_strata(microdata: Microdata, partition: Partition) -> list[NDArray[np.int64]]:
    """Return the released records of each stratum, int64 (m,) each."""
    released = np.flatnonzero(partition.labels >= 0)
    if not len(released):
        return []
    if all(column is None for column in (microdata.strata, microdata.layers, microdata.valid)):
        return [released]
    return [released[group] for group in group_positions(stratum_numbers(microdata)[released])]


def _one_class_per_stratum(strata: Sequence[NDArray[np.int64]], n: int) -> Partition:
    """Return the partition whose classes are the strata, the coarsest that merging can reach.

    Parameters
    ----------
    n : the number of records.
    """
    labels = np.full(n, -1, np.int32)
    for index, records in enumerate(strata):
        labels[records] = index
    return Partition(labels)
