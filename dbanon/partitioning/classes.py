"""Assign records to classes: check the strata, run the method and the refinement."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import (
    AttributePartition,
    MethodResult,
    Partition,
    max_count_of_share,
    positions_among,
    required_share_text,
)
from dbanon.data.pieces import on_all_cores
from dbanon.data.scales import MAHALANOBIS
from dbanon.data.types import KeywordArguments
from dbanon.errors import InvalidParameter, RowsNotAnonymous, SuppressionOverBudget, warn_caller
from dbanon.hierarchy.leaves import TreeBuilder, take_records
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_kinds
from dbanon.methods import find_method
from dbanon.methods.registry import BuildSpace, Method, MethodSpace, Tick, tick_of_part
from dbanon.partitioning.cells import code_for_method, merging_weights, sets_to_search
from dbanon.partitioning.strata import count_for_k, find_strata, too_few_error

if TYPE_CHECKING:
    from dbanon.partitioning.blocks import DeferredSpace

# The share of the progress bar for the method if a refinement follows.
_METHOD_PROGRESS = 0.5


def find_classes(
    microdata: Microdata,
    policy: Policy,
    tick: Tick | None = None,
    trees: TreeBuilder | None = None,
    column_statistics: ColumnStatistics | None = None,
) -> Partition:
    """Put the records into equivalence classes that satisfy the policy.

    With entities, the method clusters units (``entities``) instead of records. A unit stands for
    all records of a person in a stratum, so a class contains at least k persons. If the method
    ``full_domain`` withholds records, the levels are determined again without these records, as for
    a table that never contained them.

    Parameters
    ----------
    tick : called with the share that is done, 0 to 1; None for no progress.
    trees : builds the hierarchies for a table without the withheld records; None to use those of
        the policy.
    column_statistics : statistics of a larger table that contains the records. None if the records
        are the whole table; the statistics are then computed from the records or, with entities,
        from the units.

    Raises
    ------
    TooFewRecords : the table or a stratum has fewer than k records or entities.
    NullInQuasiIdentifier : there are NULLs, and the policy does not say how to treat them.
    SuppressionOverBudget : more records would be suppressed than allowed.
    """
    # Raises an error for methods that group each attribute separately, which do not give the
    # guarantee of row classes; for those see ``find_attribute_classes``.
    policy.guarantee_for().check_method(find_method(policy.method))
    microdata = code_for_method(microdata, policy)
    strata = _feasible_strata(microdata, policy)
    units = level_statistics = None
    clustered_microdata = microdata
    if microdata.entities is not None:
        from dbanon.partitioning.entities import build_units

        units = build_units(microdata, policy.hierarchies)
        clustered_microdata = units.microdata
        strata = find_strata(clustered_microdata, policy)
        if find_method(policy.method).result_type.sees_all_strata:
            # The method chooses levels. Intervals at these levels are released for records, so
            # measure records instead of units.
            level_statistics = column_statistics or ColumnStatistics.of(microdata)
    partition = _run_strata(
        clustered_microdata, strata, policy, tick, column_statistics, level_statistics
    )
    assert isinstance(partition, Partition)
    if units is not None:
        # Each record gets the class of its unit.
        partition = partition.take(units.unit_of_record)
    # ``n_withheld`` records are not in the microdata any more; ``n_read`` includes them.
    require_budget(policy, partition.n_suppressed + microdata.n_withheld, microdata.n_read)
    # Only a method that chooses levels (``full_domain``) withholds records.
    if partition.n_suppressed:
        return _find_levels_again(microdata, partition, policy, tick, trees)
    return partition


def _find_levels_again(
    microdata: Microdata,
    partition: Partition,
    policy: Policy,
    tick: Tick | None,
    trees: TreeBuilder | None,
) -> Partition:
    """Determine the levels again from the records that were not withheld; withholds no more."""
    records = np.flatnonzero(partition.labels >= 0)
    # The caller has checked the share of withheld records, so none are counted here.
    remaining = replace(take_records(microdata, records), n_withheld=0)
    options = {**policy.options, "suppression": 0.0}
    hierarchies = policy.hierarchies if trees is None else trees(remaining)
    policy = replace(policy, options=options, hierarchies=hierarchies)
    # The first search has completed the progress. Still call ``tick``: it may interrupt the run.
    repeated = find_classes(remaining, policy, None if tick is None else lambda share: tick(1.0))
    # The position of a withheld record is -1, for which ``take`` suppresses the record.
    repeated = repeated.take(positions_among(records, microdata.n_records))
    first_levels, levels = partition.grouping_levels, repeated.grouping_levels
    if first_levels is None or levels is None:
        return repeated
    # Figures of the first search, which knew the withheld records, are for the owner alone.
    return levels.with_owner_figures(
        {
            f"{name}_before_withholding": figure
            for name, figure in first_levels.owner_figures.items()
        }
    )


def find_attribute_classes(
    microdata: Microdata,
    policy: Policy,
    tick: Tick | None = None,
    column_statistics: ColumnStatistics | None = None,
) -> AttributePartition:
    """Group the values of each attribute separately, so that rows have no classes.

    Warns with ``RowsNotAnonymous``.

    Parameters
    ----------
    tick : called with the share that is done, 0 to 1; None for no progress.
    column_statistics : statistics of a larger table that contains the records; None if the records
        are the whole table.

    Raises
    ------
    InvalidParameter : the records have entities.
    DbanonError : as ``find_classes``.
    """
    if microdata.entities is not None:
        raise InvalidParameter(
            "A release per attribute counts rows, not persons.",
            hint="Leave out `entity`.",
        )
    warn_caller(RowsNotAnonymous(RowsNotAnonymous.__doc__))
    partition = _run_strata(
        microdata, _feasible_strata(microdata, policy), policy, tick, column_statistics
    )
    assert isinstance(partition, AttributePartition)
    return partition


def _feasible_strata(microdata: Microdata, policy: Policy) -> list[NDArray[np.int64]]:
    """Return the records of each stratum, int64 (m,) each.

    Checks that each stratum has k records or persons, and that the method supports the attributes.
    """
    require_kinds(policy, microdata.attributes)
    strata = find_strata(microdata, policy)
    require_budget(policy, microdata.n_withheld, microdata.n_read)
    for records in strata:
        if count_for_k(microdata, records) < policy.k:
            raise too_few_error(microdata, policy, records, len(strata))
    return strata


def _run_strata(
    microdata: Microdata,
    strata: list[NDArray[np.int64]],
    policy: Policy,
    tick: Tick | None,
    column_statistics: ColumnStatistics | None,
    level_statistics: ColumnStatistics | None = None,
) -> MethodResult:
    """Run the method on the strata, separately or all at once.

    Parameters
    ----------
    strata : the records of each stratum, int64 each; the list is consumed, to free memory.
    column_statistics : statistics of the table, for standardization and distances; None to measure
        the records.
    level_statistics : statistics from which intervals of numbers are computed, for methods that
        choose levels; None to use ``column_statistics``.
    """
    n = microdata.n_records
    method = find_method(policy.method)
    if column_statistics is None:
        column_statistics = ColumnStatistics.of(
            microdata,
            covariance=policy.standardize == MAHALANOBIS,
            parallel_map=map if policy.block_size is None else on_all_cores,
        )
    build_space = make_space_builder(microdata, column_statistics, policy, level_statistics)
    rng = _make_generator(method, policy.seed)
    tick = tick or ignore_progress
    # Cuts into blocks use these keys for samples and ties.
    record_keys = microdata.ordered_keys
    if method.result_type.sees_all_strata:
        # Such a method chooses one level per attribute for the whole table.
        records = np.concatenate(strata)
        stratum_of_record = np.repeat(np.arange(len(strata)), [len(stratum) for stratum in strata])
        result = _run_and_refine(
            method,
            build_space(records),
            record_keys[records],
            policy,
            tick,
            rng,
            strata=stratum_of_record,
        )
        return method.result_type.join_results([(records, result)], n)
    results: list[tuple[NDArray[np.int64], MethodResult]] = []
    n_done = 0
    for i in range(len(strata)):
        records = strata[i]
        # If the stratum is cut into blocks, build its space block by block to save memory.
        is_cut = policy.block_size is not None and len(records) > policy.block_size
        is_whole_table = len(records) == n
        stratum_space: MethodSpace | DeferredSpace
        if is_cut:
            from dbanon.partitioning.blocks import DeferredSpace

            stratum_space = DeferredSpace(
                build_space, len(records), None if is_whole_table else records
            )
        else:
            stratum_space = build_space(records)
        if is_whole_table:
            # Free the positions of its records.
            del records, strata[i]
            return _run_and_refine(method, stratum_space, record_keys, policy, tick, rng)
        stratum_tick = tick_of_part(tick, n_done / n, len(records) / n)
        n_done += len(records)
        result = _run_and_refine(
            method, stratum_space, record_keys[records], policy, stratum_tick, rng
        )
        results.append((records, result))
    return method.result_type.join_results(results, n)


def make_space_builder(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    policy: Policy,
    level_statistics: ColumnStatistics | None = None,
) -> BuildSpace:
    """Return a function that builds the method's space of given records, int64 (m,).

    Parameters
    ----------
    column_statistics : statistics of the table, for standardization and distances.
    level_statistics : statistics from which intervals of numbers are computed, for methods that
        choose levels; None to use ``column_statistics``.

    Raises
    ------
    DbanonError : the records cannot be represented, for example because of a bad option.
    """
    method = find_method(policy.method)
    names = [attribute.name for attribute in microdata.attributes]
    extra_options: KeywordArguments = {}
    # ``steps`` are the widths of the grids, by column, from which ranges of numbers are released.
    # ``label_steps`` is None if the recoding does not release numbers as such ranges.
    if method.result_type.sees_all_strata:
        extra_options = {"level_steps": policy.steps, "level_statistics": level_statistics}
    elif method.suppresses_cells:
        extra_options = {"column_sets": sets_to_search(policy, names)}
    elif method.refine == "generalized":
        extra_options = {"label_steps": policy.label_steps}
    return method.space(
        microdata,
        column_statistics,
        standardize=str(policy.standardize),
        weights=merging_weights(policy, names),
        hierarchies=policy.hierarchies,
        **extra_options,
    )


def _run_and_refine(
    method: Method,
    space: MethodSpace,
    keys: NDArray[np.int64],
    policy: Policy,
    tick: Tick,
    rng: np.random.Generator | None,
    **method_arguments: object,
) -> MethodResult:
    """Run the method on a stratum, check its classes, and refine them if the policy says so.

    Parameters
    ----------
    keys : int64 (n,), the key of each record, ascending.
    method_arguments : further arguments for the method, by name.
    """
    method_tick = tick if policy.refine is None else lambda share: tick(_METHOD_PROGRESS * share)
    if policy.block_size is None:
        result = method.run(
            space, int(policy.k), tick=method_tick, rng=rng, **policy.options, **method_arguments
        )
    else:
        result = _run_in_blocks(method, space, keys, policy, method_tick)
    max_size = method.max_size(policy.k) if method.max_size else None
    # Raises an error if a class has fewer than k records or more than ``max_size``.
    result.require(policy.k, max_size)
    if policy.refine is None or method.refine is None:
        return result
    assert isinstance(result, Partition)
    from dbanon.partitioning.refine import max_refined_size, refine_classes

    refined = refine_classes(
        method.refine,
        space,
        # A partition of its own, so that what it caches is freed when its classes are refined.
        Partition.without_copy(result.labels),
        keys,
        policy,
        lambda share: tick(_METHOD_PROGRESS + (1 - _METHOD_PROGRESS) * share),
    )
    refined.require(policy.k, max_refined_size(method.refine, policy.k))
    # The refinement has no counts of its own: report those of the method.
    return Partition.without_copy(refined.labels, result.method_counts)


def _make_generator(method: Method, seed: int | list[int]) -> np.random.Generator | None:
    """Return a generator for a randomized method; None for others, since loading it is slow."""
    return np.random.Generator(np.random.PCG64(seed)) if method.random else None


def _run_in_blocks(
    method: Method, space: MethodSpace, keys: NDArray[np.int64], policy: Policy, tick: Tick
) -> Partition:
    """Run the method on the blocks of a stratum.

    Parameters
    ----------
    keys : int64 (n,), the key of each record, ascending.
    """
    from dbanon.partitioning.blocks import Blocks, partition_blocks

    blocks = Blocks.of(policy)
    assert blocks is not None
    if blocks.block_count_for(space.n_records) is None:
        # With blocks, randomized methods use a new generator in each stratum that is not cut, too.
        return run_block(method, space, policy, block_index=None, tick=tick)

    def partition_block(block_index: int, records: NDArray[np.int64], tick: Tick) -> Partition:
        return run_block(method, space.take(records), policy, block_index, tick)

    return partition_blocks(blocks.cut(space, keys), partition_block, tick)


def run_block(
    method: Method, space: MethodSpace, policy: Policy, block_index: int | None, tick: Tick
) -> Partition:
    """Run the method on one block; the result does not depend on the order of blocks.

    Parameters
    ----------
    block_index : the index of the block in its stratum; None if the stratum is not cut.
    """
    # Use one generator per block, so that the order in which blocks end does not matter.
    seed = policy.seed if block_index is None else [policy.seed, block_index]
    rng = _make_generator(method, seed)
    result = method.run(space, int(policy.k), tick=tick, rng=rng, **policy.options)
    assert isinstance(result, Partition)
    return result


def cluster_block(
    space: MethodSpace, keys: NDArray[np.int64], policy: Policy, block_index: int | None, tick: Tick
) -> Partition:
    """Find the classes of a block, or of a stratum that is not cut.

    A stratum that is not cut is also refined. Blocks are refined later (``refine_block``), once all
    of them have classes.

    Parameters
    ----------
    keys : int64 (n,), the key of each record, ascending.
    block_index : as for ``run_block``.
    """
    method = find_method(policy.method)
    if block_index is None:
        rng = _make_generator(method, policy.seed)
        result = _run_and_refine(method, space, keys, policy, tick, rng)
        assert isinstance(result, Partition)
        return result
    result = run_block(method, space, policy, block_index, tick)
    return result.require(policy.k, method.max_size(policy.k) if method.max_size else None)


def require_budget(policy: Policy, n_withheld: int, n_records: int) -> None:
    """Check that the share of withheld records does not exceed ``max_suppression`` of the policy.

    Parameters
    ----------
    n_withheld : the number of records that are withheld for any reason.
    n_records : the number of all records, including withheld ones.

    Raises
    ------
    SuppressionOverBudget : the share exceeds this limit, which is unrelated to privacy budgets.
    """
    limit = policy.max_suppression
    if limit is not None and n_withheld > max_count_of_share(limit, n_records):
        needed = required_share_text(n_withheld, n_records)
        raise SuppressionOverBudget(
            f"{n_withheld} of {n_records} records would be suppressed, more than the allowed share"
            f" {limit:g}.",
            hint=f"It would be feasible with `max_suppression={needed}` or more.",
        )


def ignore_progress(share: float) -> None:
    """Do nothing; a tick for callers without a progress bar."""
