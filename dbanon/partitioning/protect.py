"""Enforces privacy models on sensitive attributes by changing classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures, ValueFrequencies
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
from dbanon.partitioning.infeasible import infeasible
from dbanon.partitioning.merge import Guard, keeps, merge, merge_block, split
from dbanon.partitioning.refine import refine_classes
from dbanon.partitioning.strata import groups, stratum_numbers
from dbanon.spaces.mixed import MixedSpace, mixed_space

# Larger than the number of distinct values of any column.
_LARGEST_L = 2**31 - 1


def protect(
    microdata: Microdata,
    partition: Partition,
    policy: Policy,
    codes: Mapping[str, NDArray[np.int32]],
    tick: Tick = lambda share: None,
    measures: Measures | None = None,
    table: Mapping[str, ValueFrequencies] | None = None,
    *,
    search: bool = True,
) -> Partition:
    """Merge classes until each satisfies the models of the policy.

    Never merges classes of different strata or patterns of NULLs. With entities, the models count
    persons, and all records of a person are in one class of a stratum. If the policy allows it,
    classes may be withheld instead. Afterwards classes are split again if both parts satisfy the
    models, and refined under the models if the policy asks for it. Both are skipped with entities,
    because they would separate records of a person.

    Parameters
    ----------
    codes : by sensitive attribute, int32 (n,), each record's value as 0, 1, ...; NULL is a value.
        For ordered and hierarchical t-closeness codes are positions in the order or of leaves.
    measures : of a larger table that contains the records; None if they are the table.
    table : distribution of these codes among the table's released records; None if those are the
        records with classes.
    search : False to only merge or withhold classes.

    Raises
    ------
    ModelInfeasible : the table as one class, or a pattern of NULLs, violates a model.
    """
    if not policy.models or not partition.n_classes:
        return partition
    measures = measures or Measures.of(microdata)
    if table is None:
        released = partition.labels >= 0
        units = Persons.of(microdata, codes).of_records(released)
        table = {
            name: ValueFrequencies.of(column[released], units=units)
            for name, column in codes.items()
        }
    try:
        return _protect(microdata, partition, policy, codes, tick, measures, table, search)
    except ModelInfeasible:
        # Withholding records changes the table, which may make other classes fail.
        without = replace(policy, withhold_failing=False)
        with suppress(ModelInfeasible):
            if policy.withhold_failing:
                return _protect(microdata, partition, without, codes, tick, measures, table, search)
        # Avoid a variable for the error, which would keep the arrays of all its frames alive.
        raise


def _protect(
    microdata: Microdata,
    partition: Partition,
    policy: Policy,
    codes: Mapping[str, NDArray[np.int32]],
    tick: Tick,
    measures: Measures,
    table: Mapping[str, ValueFrequencies],
    search: bool,
) -> Partition:
    n = microdata.n_records
    space = space_of_costs(microdata, measures, policy)
    persons, keys = Persons.of(microdata, codes), microdata.ordered_keys
    while True:
        before = partition
        counted, table_shares = _count_values(
            policy.models, codes, before.labels >= 0, table, persons
        )
        guard = _guard(policy.models, counted, table_shares, persons)
        strata = _strata(microdata, before)
        budget = _budget(policy, microdata, before)
        failing = [records for records in strata if not keeps(guard.take(records))]
        for records in failing:
            if len(records) > budget or len(failing) == len(strata):
                raise _infeasible_error(
                    policy.models, counted, table_shares, strata, persons, microdata, len(records)
                )
            budget -= len(records)
        parts = []
        for records in strata:
            stratum_space, guarded = space(records), guard.take(records)
            if not keeps(guarded):
                continue
            _, labels = np.unique(before.labels[records], return_inverse=True)
            part = Partition(labels.reshape(-1))
            if not budget:
                part = merge_by_blocks(stratum_space, part, keys[records], guarded, policy, tick)
            merged = merge(stratum_space, part, guarded, tick, budget)
            budget -= merged.n_suppressed
            parts.append((records, merged))
        partition = combine(parts, n)
        # Withholding records changes the table, and models compare classes with the table.
        if partition.n_suppressed == before.n_suppressed:
            break
        withheld = (before.labels >= 0) & (partition.labels < 0)
        units = persons.of_records(withheld)
        table = {
            name: table[name].after_withholding(codes[name][withheld], units) for name in counted
        }
    if not search or not _can_refine(microdata, policy):
        return partition
    k, better = int(policy.k), []
    for records, part in parts:
        stratum_space, guarded = space(records), guard.take(records)
        part = split(stratum_space, part, k, guarded, tick)
        if policy.refine is not None:
            part = refine_classes(
                "generalized", stratum_space, part, keys[records], policy, tick, guarded
            ).require(k)
            part = split(stratum_space, part, k, guarded, tick)
        better.append((records, part))
    return combine(better, n)


def space_of_costs(
    microdata: Microdata, measures: Measures, policy: Policy
) -> Callable[[NDArray[np.int64]], MixedSpace]:
    """A function from records to the space in which merging costs are measured."""
    return mixed_space(
        microdata,
        measures,
        standardize=str(policy.standardize),
        weights=policy.weights,
        hierarchies=policy.hierarchies,
        label_steps=policy.label_steps,
    )


def guard_of(
    microdata: Microdata,
    policy: Policy,
    codes: Mapping[str, NDArray[np.int32]],
    table: Mapping[str, ValueFrequencies],
) -> Guard:
    """The models with their sensitive values, for records that all have classes.

    Parameters
    ----------
    codes, table : as for ``protect``; ``table`` of the larger table, if there is one.
    """
    persons = Persons.of(microdata, codes)
    released = np.ones(microdata.n_records, np.bool_)
    counted, table_shares = _count_values(policy.models, codes, released, table, persons)
    return _guard(policy.models, counted, table_shares, persons)


def protect_block(
    space: MixedSpace, partition: Partition, guard: Guard, policy: Policy, tick: Tick
) -> Partition:
    """Merge the classes of a block until each satisfies the models; the whole block must do so.

    Splits classes again if both parts satisfy the models, as ``protect`` does without refinement.
    """
    merged = merge(space, partition, guard, tick)
    if guard.models.persons or find_method(policy.method).refine != "generalized":
        return merged
    return split(space, merged, int(policy.k), guard, tick)


def _count_values(
    models: Sequence[Model],
    codes: Mapping[str, NDArray[np.int32]],
    released: NDArray[np.bool_],
    table: Mapping[str, ValueFrequencies],
    persons: Persons,
) -> tuple[dict[str, NDArray[np.int32]], dict[str, NDArray[np.float64]]]:
    """Value codes to count, int32 (n,), and their shares in the table, by sensitive attribute."""
    counted, table_shares = {}, {}
    for name in dict.fromkeys(model.attribute for model in models):
        places, table_shares[name] = _as_recounted(models, name, codes[name], released, table[name])
        counted[name] = persons.first_occurrences(name, np.maximum(places, 0))
    return counted, table_shares


def _infeasible_error(
    models: Sequence[Model],
    counted: Mapping[str, NDArray[np.int32]],
    table_shares: Mapping[str, NDArray[np.float64]],
    strata: Sequence[NDArray[np.int64]],
    persons: Persons,
    microdata: Microdata,
    records: int,
) -> ModelInfeasible:
    """The error that describes the best levels, with each stratum as one class."""
    together = _one_class_per_stratum(strata, len(next(iter(counted.values()))))
    best = {
        name: sensitive_counts(together, codes, len(table_shares[name]))
        for name, codes in counted.items()
    }
    persons_per_class = persons.persons_per_class(together)
    by_columns = microdata.strata is not None or microdata.valid is None
    remedies = [
        *['use `nulls="suppress"`'] * (microdata.valid is not None),
        *["leave out `by`"] * by_columns,
    ]
    return infeasible(
        models,
        best,
        table_shares,
        together.sizes,
        persons_per_class,
        microdata.n_read,
        records,
        remedies,
    )


def _guard(
    models: Sequence[Model],
    counted: Mapping[str, NDArray[np.int32]],
    table_shares: Mapping[str, NDArray[np.float64]],
    persons: Persons,
) -> Guard:
    """The models with their sensitive values, plus a column for counting persons."""
    columns = [*counted.values(), *persons.column]
    values = np.column_stack(columns).astype(np.int32)
    return Guard(
        values, compile_models(models, list(counted), table_shares, persons.units is not None)
    )


def _as_recounted(
    models: Sequence[Model],
    name: str,
    codes: NDArray[np.int32],
    released: NDArray[np.bool_],
    table: ValueFrequencies,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Codes, int32 (n,), and shares of values as in a recount of the release.

    A recount covers all leaves of a hierarchy. For other columns it covers only released values, or
    all values of another table.
    """
    if table.is_fixed:
        return codes, table.shares
    if any(m.attribute == name and isinstance(m.distance, Hierarchy) for m in models):
        shares = table.shares
        leaves = count_values(models, name, codes)
        return codes, np.pad(shares, (0, max(leaves - len(shares), 0)))
    places = np.zeros_like(codes)
    places[released] = table.occurring_positions[codes[released]]
    return places, table.occurring_values().shares


def _budget(policy: Policy, microdata: Microdata, partition: Partition) -> int:
    """The number of further records that may be withheld to satisfy the models."""
    if not policy.withhold_failing or policy.max_suppression is None:
        return 0
    allowed = max_count_of_share(policy.max_suppression, microdata.n_read)
    return max(allowed - microdata.n_withheld - partition.n_suppressed, 0)


def _can_refine(microdata: Microdata, policy: Policy) -> bool:
    """Whether the method's search minimizes loss, and each record is a separate person."""
    return microdata.entities is None and find_method(policy.method).refine == "generalized"


def merge_by_blocks(
    space: MixedSpace,
    part: Partition,
    keys: NDArray[np.int64],
    guard: Guard,
    policy: Policy,
    tick: Tick,
) -> Partition:
    """Merge classes inside blocks as far as possible; returns them unchanged without blocks."""
    blocks = Blocks.of(policy)
    if blocks is None or blocks.block_count_for(space.n_records) is None:
        return part

    def run(number: int, records: NDArray[np.int64], tick: Tick) -> Partition:
        _, labels = np.unique(part.labels[records], return_inverse=True)
        return merge_block(space.take(records), Partition(labels), guard.take(records), tick)

    cut = blocks.cut_classes(space, part, keys, 0, guard.allows, guard.counts)
    return partition_blocks(cut, run, tick)


def compile_models(
    models: Sequence[Model],
    names: Sequence[str],
    table_shares: Mapping[str, NDArray[np.float64]],
    persons: bool = False,
) -> Models:
    """The models in the form that kernels use, with one more column if they count persons."""
    widths = [len(table_shares[name]) for name in names] + [1] * persons
    compiled_models = Models(np.array(widths, np.int32), persons)
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


def with_null_leaves(models: Sequence[Model]) -> tuple[Model, ...]:
    """The models with an additional last leaf for NULL below the root of each hierarchy."""
    return tuple(
        replace(model, distance=_with_null(model.distance))
        if isinstance(model.distance, Hierarchy)
        else model
        for model in models
    )


def _with_null(tree: Hierarchy) -> Hierarchy:
    label = "NULL"
    while label in tree.labels:
        label += "*"
    if len(tree.labels) == 1:
        return flat_hierarchy([*tree.labels, label])
    return Hierarchy([*tree.labels, label], [*tree.parents.tolist(), 0])


def _strata(microdata: Microdata, partition: Partition) -> list[NDArray[np.int64]]:
    """The released records of each stratum, layer and pattern of NULLs."""
    released = np.flatnonzero(partition.labels >= 0)
    if not len(released):
        return []
    if all(part is None for part in (microdata.strata, microdata.layers, microdata.valid)):
        return [released]
    return [released[group] for group in groups(stratum_numbers(microdata)[released])]


def _one_class_per_stratum(strata: Sequence[NDArray[np.int64]], n: int) -> Partition:
    """Each stratum as one class, which no other partition can improve on for the models."""
    labels = np.full(n, -1, np.int32)
    for number, records in enumerate(strata):
        labels[records] = number
    return Partition(labels)
