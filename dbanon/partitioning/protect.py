"""Enforce privacy models on sensitive attributes by changing classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics, ValueFrequencies
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition, combine, max_count_of_share
from dbanon.errors import ModelInfeasible
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy
from dbanon.job.policy import Policy
from dbanon.kernels import Models
from dbanon.measures import Model, sensitive_counts
from dbanon.measures.recount import count_values
from dbanon.methods import find_method
from dbanon.methods.registry import Tick
from dbanon.partitioning.blocks import Blocks, partition_blocks
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

# Larger than the number of distinct values of any column.
_LARGEST_L = 2**31 - 1


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
        value. For t-closeness with order or hierarchy, codes are positions in the order or of the
        leaf.
    column_statistics : those of a larger table that contains the records; None if they are the
        table.
    table_frequencies : frequencies of these codes among the released records of the table; None if
        those are the records with classes.
    split_and_refine : False to only merge or withhold classes.

    Raises
    ------
    ModelInfeasible : the table as one class, or a pattern of NULLs, violates a model.
    """
    if not policy.models or not partition.n_classes:
        return partition
    column_statistics = column_statistics or ColumnStatistics.of(microdata)
    if table_frequencies is None:
        released = partition.labels >= 0
        units = Persons.of(microdata, codes).units_of_records(released)
        table_frequencies = {
            name: ValueFrequencies.of(column[released], units=units)
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
    n_records = microdata.n_records
    build_space = make_cost_space_builder(microdata, column_statistics, policy)
    persons, keys = Persons.of(microdata, codes), microdata.ordered_keys
    while True:
        before = partition
        counted_codes, table_shares = _count_values(
            policy.models, codes, before.labels >= 0, table_frequencies, persons
        )
        guard = _guard(policy.models, counted_codes, table_shares, persons)
        strata = _strata(microdata, before)
        budget = _budget(policy, microdata, before)
        failing_strata = [
            records for records in strata if not satisfies_models(guard.take(records))
        ]
        for records in failing_strata:
            if len(records) > budget or len(failing_strata) == len(strata):
                raise _infeasible_error(
                    policy.models,
                    counted_codes,
                    table_shares,
                    strata,
                    persons,
                    microdata,
                    len(records),
                )
            budget -= len(records)
        parts = []
        for records in strata:
            stratum_space, guarded = build_space(records), guard.take(records)
            if not satisfies_models(guarded):
                continue
            _, labels = np.unique(before.labels[records], return_inverse=True)
            part = Partition(labels.reshape(-1))
            if not budget:
                part = merge_by_blocks(stratum_space, part, keys[records], guarded, policy, tick)
            merged = merge_classes(stratum_space, part, guarded, tick, budget)
            budget -= merged.n_suppressed
            parts.append((records, merged))
        partition = combine(parts, n_records)
        # Withholding records changes the table, and models compare classes with the table.
        if partition.n_suppressed == before.n_suppressed:
            break
        withheld = (before.labels >= 0) & (partition.labels < 0)
        units = persons.units_of_records(withheld)
        table_frequencies = {
            name: table_frequencies[name].after_withholding(codes[name][withheld], units)
            for name in counted_codes
        }
    if not split_and_refine or not _can_refine(microdata, policy):
        return partition
    k, refined_parts = int(policy.k), []
    for records, part in parts:
        stratum_space, guarded = build_space(records), guard.take(records)
        part = split_classes(stratum_space, part, k, guarded, tick)
        if policy.refine is not None:
            part = refine_classes(
                "generalized", stratum_space, part, keys[records], policy, tick, guarded
            ).require(k)
            part = split_classes(stratum_space, part, k, guarded, tick)
        refined_parts.append((records, part))
    return combine(refined_parts, n_records)


def make_cost_space_builder(
    microdata: Microdata, column_statistics: ColumnStatistics, policy: Policy
) -> Callable[[NDArray[np.int64]], MixedSpace]:
    """Return a function that builds the space of some records that measures costs of merging."""
    return mixed_space(
        microdata,
        column_statistics,
        standardize=str(policy.standardize),
        weights=policy.weights,
        hierarchies=policy.hierarchies,
        label_steps=policy.label_steps,
    )


def build_guard(
    microdata: Microdata,
    policy: Policy,
    codes: Mapping[str, NDArray[np.int32]],
    table_frequencies: Mapping[str, ValueFrequencies],
) -> Guard:
    """Build the guard of the policy's models, for records that all have classes.

    Parameters
    ----------
    codes, table_frequencies : as for ``protect``.
    """
    persons = Persons.of(microdata, codes)
    released = np.ones(microdata.n_records, np.bool_)
    counted_codes, table_shares = _count_values(
        policy.models, codes, released, table_frequencies, persons
    )
    return _guard(policy.models, counted_codes, table_shares, persons)


def protect_block(
    space: MixedSpace, partition: Partition, guard: Guard, policy: Policy, tick: Tick
) -> Partition:
    """Merge the classes of a block, which satisfies the models, until each of them does.

    Then splits classes if both halves satisfy the models, as ``protect`` does without refinement.
    """
    merged = merge_classes(space, partition, guard, tick)
    if guard.models.persons or find_method(policy.method).refine != "generalized":
        return merged
    return split_classes(space, merged, int(policy.k), guard, tick)


def _count_values(
    models: Sequence[Model],
    codes: Mapping[str, NDArray[np.int32]],
    released: NDArray[np.bool_],
    table_frequencies: Mapping[str, ValueFrequencies],
    persons: Persons,
) -> tuple[dict[str, NDArray[np.int32]], dict[str, NDArray[np.float64]]]:
    """Return value codes to count, int32 (n,), and value shares in the table, by attribute."""
    counted_codes, table_shares = {}, {}
    for name in dict.fromkeys(model.attribute for model in models):
        positions, table_shares[name] = _codes_as_recounted(
            models, name, codes[name], released, table_frequencies[name]
        )
        counted_codes[name] = persons.codes_of_first_records(name, np.maximum(positions, 0))
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
    """Build the error with the feasible levels, which are those of each stratum as one class."""
    one_class_strata = _one_class_per_stratum(strata, len(next(iter(counted_codes.values()))))
    stratum_counts = {
        name: sensitive_counts(one_class_strata, codes, len(table_shares[name]))
        for name, codes in counted_codes.items()
    }
    persons_per_class = persons.persons_per_class(one_class_strata)
    can_leave_out_by = microdata.strata is not None or microdata.valid is None
    remedies = [
        *['use `nulls="suppress"`'] * (microdata.valid is not None),
        *["leave out `by`"] * can_leave_out_by,
    ]
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


def _guard(
    models: Sequence[Model],
    counted_codes: Mapping[str, NDArray[np.int32]],
    table_shares: Mapping[str, NDArray[np.float64]],
    persons: Persons,
) -> Guard:
    """Build a guard from value codes by sensitive attribute, and a column for counting persons."""
    columns = [*counted_codes.values(), *persons.counting_columns]
    values = np.column_stack(columns).astype(np.int32)
    return Guard(
        values, compile_models(models, list(counted_codes), table_shares, persons.units is not None)
    )


def _codes_as_recounted(
    models: Sequence[Model],
    name: str,
    codes: NDArray[np.int32],
    released: NDArray[np.bool_],
    table_frequencies: ValueFrequencies,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return codes, int32 (n,), and shares of values as a recount of the release sees them.

    A recount counts all leaves of a hierarchy. Otherwise it only counts released values, or all
    values of another table that classes are compared with.
    """
    if table_frequencies.is_fixed:
        return codes, table_frequencies.shares
    if any(m.attribute == name and isinstance(m.distance, Hierarchy) for m in models):
        shares = table_frequencies.shares
        leaves = count_values(models, name, codes)
        return codes, np.pad(shares, (0, max(leaves - len(shares), 0)))
    places = np.zeros_like(codes)
    places[released] = table_frequencies.occurring_positions[codes[released]]
    return places, table_frequencies.occurring_values().shares


def _budget(policy: Policy, microdata: Microdata, partition: Partition) -> int:
    """Return the number of further records that may be withheld to satisfy the models."""
    if not policy.withhold_failing or policy.max_suppression is None:
        return 0
    allowed = max_count_of_share(policy.max_suppression, microdata.n_read)
    return max(allowed - microdata.n_withheld - partition.n_suppressed, 0)


def _can_refine(microdata: Microdata, policy: Policy) -> bool:
    """Return True if refinement minimizes the generalization loss, and each record is a person."""
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

    def run(number: int, records: NDArray[np.int64], tick: Tick) -> Partition:
        _, labels = np.unique(partition.labels[records], return_inverse=True)
        return merge_block(space.take(records), Partition(labels), guard.take(records), tick)

    block_positions = blocks.cut_classes(space, partition, keys, 0, guard.allows, guard.counts)
    return partition_blocks(block_positions, run, tick)


def compile_models(
    models: Sequence[Model],
    names: Sequence[str],
    table_shares: Mapping[str, NDArray[np.float64]],
    counts_persons: bool = False,
) -> Models:
    """Compile models for the kernels, with one more column if they count persons.

    Parameters
    ----------
    names : the sensitive attributes, in the order of the columns.
    table_shares : by sensitive attribute, the share of each value in the table, float64 (s,).
    """
    widths = [len(table_shares[name]) for name in names] + [1] * counts_persons
    compiled_models = Models(np.array(widths, np.int32), counts_persons)
    for model in models:
        kind, parents, ranges = model.kind, np.empty(0, np.int32), np.empty((0, 2), np.int32)
        if isinstance(model.distance, Hierarchy):
            kind = "hierarchical_t"
            parents, ranges = model.distance.parents, model.distance.ranges
        elif kind == "t_closeness":
            kind = f"{model.distance}_t"
        compiled_models.add(
            kind,
            names.index(model.attribute),
            model.level,
            min(model.l, _LARGEST_L),
            table_shares[model.attribute],
            np.ascontiguousarray(parents, np.int32),
            np.ascontiguousarray(ranges, np.int32),
        )
    return compiled_models


def add_null_leaves(models: Sequence[Model]) -> tuple[Model, ...]:
    """Add a last leaf for NULL below the root of the hierarchy of each model that has one."""
    return tuple(
        replace(model, distance=_add_null_leaf(model.distance))
        if isinstance(model.distance, Hierarchy)
        else model
        for model in models
    )


def _add_null_leaf(tree: Hierarchy) -> Hierarchy:
    label = "NULL"
    while label in tree.labels:
        label += "*"
    if len(tree.labels) == 1:
        return flat_hierarchy([*tree.labels, label])
    return Hierarchy([*tree.labels, label], [*tree.parents.tolist(), 0])


def _strata(microdata: Microdata, partition: Partition) -> list[NDArray[np.int64]]:
    """Return the released records of each stratum, layer and pattern of NULLs."""
    released = np.flatnonzero(partition.labels >= 0)
    if not len(released):
        return []
    if all(part is None for part in (microdata.strata, microdata.layers, microdata.valid)):
        return [released]
    return [released[group] for group in group_positions(stratum_numbers(microdata)[released])]


def _one_class_per_stratum(strata: Sequence[NDArray[np.int64]], n: int) -> Partition:
    """Return the partition with each stratum as one class: no other satisfies the models better."""
    labels = np.full(n, -1, np.int32)
    for index, records in enumerate(strata):
        labels[records] = index
    return Partition(labels)
