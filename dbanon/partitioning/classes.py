"""Assignment of records to classes: NULLs, strata, method and refinement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
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
from dbanon.errors import InvalidParameter, RowsNotAnonymous, SuppressionOverBudget, warn_caller
from dbanon.hierarchy.leaves import TreeBuilder, take_records
from dbanon.job.policy import Policy
from dbanon.job.requirements import require_kinds
from dbanon.methods import find_method
from dbanon.methods.registry import Method, Tick
from dbanon.partitioning.blocks import Blocks, DeferredSpace, partition_blocks
from dbanon.partitioning.entities import units_of
from dbanon.partitioning.refine import max_refined_size, refine_classes
from dbanon.partitioning.strata import count_of, strata_of, too_few

# Share of the progress for the method if a refinement follows.
_METHOD_SHARE = 0.5


def find_classes(
    microdata: Microdata,
    policy: Policy,
    tick: Tick | None = None,
    trees: TreeBuilder | None = None,
    measures: Measures | None = None,
) -> Partition:
    """Put the records into equivalence classes as the policy says.

    With entities, classes contain k of them, and all of an entity's records (in a stratum). If
    full-domain levels withhold records, the levels are determined again without these records, as
    for a table that never contained them. ``trees`` makes the hierarchies of that table; None for
    those of the policy.

    Parameters
    ----------
    measures : of a larger table that contains the records. None if the records are the table; the
        clustered records, or units of entities, are then measured.

    Raises
    ------
    TooFewRecords : fewer than k records or entities, in all or in a stratum.
    NullInQuasiIdentifier : there are NULLs, and the policy does not say how to treat them.
    SuppressionOverBudget : more records would be suppressed than allowed.
    """
    policy.guarantee_for().check_method(find_method(policy.method))
    strata = _feasible_strata(microdata, policy)
    units = level_measures = None
    clustered = microdata
    if microdata.entities is not None:
        units = units_of(microdata, policy.hierarchies)
        clustered = units.microdata
        strata = strata_of(clustered, policy)
        if find_method(policy.method).result_type.sees_all_strata:
            # Cells of levels are released, so compute them from records rather than units.
            level_measures = measures or Measures.of(microdata)
    partition = _run_strata(clustered, strata, policy, tick, measures, level_measures)
    assert isinstance(partition, Partition)
    if units is not None:
        partition = partition.take(units.of_record)
    require_budget(policy, partition.n_suppressed + microdata.n_withheld, microdata.n_read)
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
    """Determine the levels again from the records that were not withheld, withholding no others."""
    records = np.flatnonzero(partition.labels >= 0)
    remaining = replace(take_records(microdata, records), n_withheld=0)
    options = {**policy.options, "suppression": 0.0}
    hierarchies = policy.hierarchies if trees is None else trees(remaining)
    policy = replace(policy, options=options, hierarchies=hierarchies)
    again = find_classes(remaining, policy, None if tick is None else lambda share: tick(1.0))
    return again.take(positions_among(records, microdata.n_records))


def find_attribute_classes(
    microdata: Microdata,
    policy: Policy,
    tick: Tick | None = None,
    measures: Measures | None = None,
) -> AttributePartition:
    """Group the values of each attribute separately, so that rows have no common class.

    Warns with ``RowsNotAnonymous``; ``measures`` are as for ``find_classes``. Raises the same
    errors, and InvalidParameter if records have entities.
    """
    if microdata.entities is not None:
        raise InvalidParameter(
            "A release per attribute counts rows, not persons.",
            hint="Leave out `entity`.",
        )
    warn_caller(RowsNotAnonymous(RowsNotAnonymous.__doc__))
    partition = _run_strata(microdata, _feasible_strata(microdata, policy), policy, tick, measures)
    assert isinstance(partition, AttributePartition)
    return partition


def _feasible_strata(microdata: Microdata, policy: Policy) -> list[NDArray[np.int64]]:
    """The strata, after a check that the method takes the attributes and each stratum has k."""
    require_kinds(policy, microdata.attributes)
    strata = strata_of(microdata, policy)
    require_budget(policy, microdata.n_withheld, microdata.n_read)
    for records in strata:
        if count_of(microdata, records) < policy.k:
            raise too_few(microdata, policy, records, len(strata))
    return strata


def _run_strata(
    microdata: Microdata,
    strata: list[NDArray[np.int64]],
    policy: Policy,
    tick: Tick | None,
    measures: Measures | None,
    level_measures: Measures | None = None,
) -> MethodResult:
    """Run the method on the strata, separately or all at once.

    Consumes the list of strata, to free memory.
    """
    n = microdata.n_records
    method = find_method(policy.method)
    if measures is None:
        measures = Measures.of(
            microdata,
            covariance=policy.standardize == MAHALANOBIS,
            parallel_map=map if policy.block_size is None else on_all_cores,
        )
    space = space_of(microdata, measures, policy, level_measures)
    rng = _random_generator(method, policy.seed)
    tick = tick or _silent
    keys = microdata.ordered_keys
    if method.result_type.sees_all_strata:
        # One level for the whole table, whatever its strata are.
        records = np.concatenate(strata)
        stratum_of_record = np.repeat(np.arange(len(strata)), [len(part) for part in strata])
        result = _run(
            method, space(records), keys[records], policy, tick, rng, strata=stratum_of_record
        )
        return method.result_type.join_results([(records, result)], n)
    parts: list[tuple[NDArray[np.int64], MethodResult]] = []
    blocks = Blocks.of(policy)
    done = 0
    for i in range(len(strata)):
        records = strata[i]
        share, before = len(records) / n, done / n

        def advance(fraction: float, share: float = share, before: float = before) -> None:
            tick(before + share * fraction)

        # Build the space block by block if it is cut: it may not fit into memory.
        is_cut = blocks is not None and blocks.block_count_for(len(records)) is not None
        stratum_space = DeferredSpace(space, records) if is_cut else space(records)
        done += len(records)
        # Strata are ascending, so a stratum with all records is simply 0 to n - 1. Drop its
        # array while the method runs.
        is_all = len(records) == n
        stratum_keys = keys if is_all else keys[records]
        if is_all:
            strata[i] = records = np.empty(0, np.int64)
        result = _run(method, stratum_space, stratum_keys, policy, advance, rng)
        parts.append((np.arange(n) if is_all else records, result))
    return method.result_type.join_results(parts, n)


def space_of(
    microdata: Microdata,
    measures: Measures,
    policy: Policy,
    level_measures: Measures | None = None,
) -> Callable[[NDArray[np.int64]], Any]:
    """Return a function that builds the method's space of records of a stratum, int64 (m,).

    Parameters
    ----------
    level_measures : as for ``level_space``.

    Raises
    ------
    DbanonError : as ``Method.space``.
    """
    method = find_method(policy.method)
    more: dict[str, Any] = {}
    if method.refine == "generalized":
        more = {"label_steps": policy.label_steps}
    elif method.result_type.sees_all_strata:
        more = {"level_steps": policy.steps, "level_measures": level_measures}
    return method.space(
        microdata,
        measures,
        standardize=str(policy.standardize),
        weights=policy.weights,
        hierarchies=policy.hierarchies,
        **more,
    )


def _run(
    method: Method,
    space: Any,
    keys: NDArray[np.int64],
    policy: Policy,
    tick: Tick,
    rng: np.random.Generator | None,
    **more: Any,
) -> MethodResult:
    share = 1.0 if policy.refine is None else _METHOD_SHARE
    result = _run_method(method, space, keys, policy, lambda done: tick(share * done), rng, **more)
    max_size = method.max_size(policy.k) if method.max_size else None
    result.require(policy.k, max_size)
    if policy.refine is None or method.refine is None:
        return result
    assert isinstance(result, Partition)
    refined = refine_classes(
        method.refine,
        space,
        result,
        keys,
        policy,
        lambda share: tick(_METHOD_SHARE + (1 - _METHOD_SHARE) * share),
    )
    refined.require(policy.k, max_refined_size(method.refine, policy.k))
    return Partition(refined.labels, result.method_counts)


def _random_generator(method: Method, seed: int | list[int]) -> np.random.Generator | None:
    """The random generator of a randomized method; created only then, as loading it is slow."""
    return np.random.Generator(np.random.PCG64(seed)) if method.random else None


def _run_method(
    method: Method,
    space: Any,
    keys: NDArray[np.int64],
    policy: Policy,
    tick: Tick,
    rng: np.random.Generator | None,
    **more: Any,
) -> MethodResult:
    """Run the method on all records at once, or on blocks of them."""
    blocks = Blocks.of(policy)
    if blocks is None:
        return method.run(space, int(policy.k), tick=tick, rng=rng, **policy.options, **more)
    if blocks.block_count_for(space.n_records) is None:
        # Randomized methods use a new generator in each stratum, as in each block.
        return run_block(method, space, policy, None, tick)

    def run(number: int, records: NDArray[np.int64], tick: Tick) -> Partition:
        return run_block(method, space.take(records), policy, number, tick)

    return partition_blocks(blocks.cut(space, keys), run, tick)


def run_block(
    method: Method, space: Any, policy: Policy, number: int | None, tick: Tick
) -> Partition:
    """Run the method on one block; the result does not depend on where other blocks run.

    Parameters
    ----------
    number : the index of the block in its stratum; None if the stratum is not cut.
    """
    # Use one generator per block, so that the order in which blocks end does not matter.
    seed = policy.seed if number is None else [policy.seed, number]
    rng = _random_generator(method, seed)
    result = method.run(space, int(policy.k), tick=tick, rng=rng, **policy.options)
    assert isinstance(result, Partition)
    return result


def cluster_block(
    space: Any, keys: NDArray[np.int64], policy: Policy, number: int | None, tick: Tick
) -> Partition:
    """Find the classes of a block by ``run_block``, or of a stratum that is not cut.

    The latter are also refined. Blocks are refined once all have classes (``refine_block``).

    Parameters
    ----------
    keys : int64 (n,), the key of each record, ascending.
    number : as for ``run_block``.
    """
    method = find_method(policy.method)
    if number is None:
        rng = _random_generator(method, policy.seed)
        result = _run(method, space, keys, policy, tick, rng)
        assert isinstance(result, Partition)
        return result
    result = run_block(method, space, policy, number, tick)
    return result.require(policy.k, method.max_size(policy.k) if method.max_size else None)


def require_budget(policy: Policy, withheld: int, n: int) -> None:
    """Check that the share of withheld records is within the policy's limit.

    Raises
    ------
    SuppressionOverBudget : it is larger.
    """
    if policy.max_suppression is not None and withheld > max_count_of_share(
        policy.max_suppression, n
    ):
        needed = required_share_text(withheld, n)
        raise SuppressionOverBudget(
            f"{withheld} of {n} records would be suppressed, more than the allowed share"
            f" {policy.max_suppression:g}.",
            hint=f"It would be feasible with `max_suppression={needed}` or more.",
        )


def _silent(fraction: float) -> None:
    """A tick for callers that ignore progress."""
