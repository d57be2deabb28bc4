"""Newcomers of a chain: decide who waits and who is excluded, and cluster the others.

Newcomers are persons in the source who are not members of a *cell* yet, which is a class that the
chain keeps in all later releases. To *admit* newcomers means to release them, as new cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.errors import TooFewRecords
from dbanon.extensions.chains import definition
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.quality import (
    GOOD_LOSS_FACTOR,
    compute_class_losses,
    compute_typical_loss,
)
from dbanon.extensions.chains.reference import (
    References,
    encode_by_reference,
    references_from_plain,
)
from dbanon.hierarchy.leaves import take_records
from dbanon.job.chain import ChainRules
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.partitioning.partition_for import partition_for, partition_of, protect_classes
from dbanon.partitioning.strata import group_positions
from dbanon.run.plan import Plan
from dbanon.run.run import Clock
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True, eq=False)
class NewcomerClasses:
    """The newcomers that a release admits, in classes, and those it excludes.

    Parameters
    ----------
    microdata : the admitted records.
    policy : the policy of the release, with the hierarchies for recoding the records.
    clustering : the classes of the admitted records.
    column_statistics : those of the first release, extended by new values; None if this is
        the first release.
    excluded_keys : int64 (m, n_key_columns), the keys of the rows of persons whom privacy models
        exclude permanently.
    typical_class_loss : at the first release, the typical loss of its classes, from
        ``compute_typical_loss``; None at later releases.
    """

    microdata: Microdata
    policy: Policy
    clustering: ClusteringResult
    column_statistics: ColumnStatistics | None
    excluded_keys: NDArray[np.int64]
    typical_class_loss: float | None = None


def admits_newcomers(state: ChainState) -> bool:
    """Whether this release admits newcomers at all."""
    return (state.release_number - 1) % state.chain.rules.admit_every == 0


def select_classes(
    rules: ChainRules,
    k: int,
    losses: NDArray[np.float64],
    waiting_times: NDArray[np.int64],
    n_newcomers: int,
    typical_class_loss: float | None,
) -> NDArray[np.bool_]:
    """Select the classes of newcomers to admit, bool (n_classes,).

    If few newcomers were admitted at once, an attacker who knows all but one of them (or has
    invented them) could single out the last one. Classes of few newcomers also lose much
    information. So newcomers wait, for at most ``max_wait`` releases. The selection must depend on
    nothing but these arguments.

    Parameters
    ----------
    losses : float64 (n_classes,), from ``compute_class_losses``.
    waiting_times : int64 (n_classes,), the number of releases for which the longest-waiting member
        has waited.
    n_newcomers : the number of newcomers in all strata.
    typical_class_loss : the typical loss of the first release's classes, from
        ``compute_typical_loss``; None if the chain has not stored it.
    """
    has_waited_long = waiting_times >= rules.max_wait
    # Too few newcomers for a batch: admit only the classes in which someone has waited long.
    if n_newcomers < rules.min_group_size(k):
        return has_waited_long
    if typical_class_loss is None:
        return np.ones(len(losses), np.bool_)
    # Rounding errors must not exclude a class whose loss equals the limit.
    return has_waited_long | (losses <= GOOD_LOSS_FACTOR * typical_class_loss * (1 + 1e-9) + 1e-12)


def _too_few_newcomers_error(chain_name: str, n_newcomers: int, class_size: int) -> TooFewRecords:
    """The error for a first release that would be empty."""
    return TooFewRecords(
        f"No one can be admitted to chain {chain_name} yet: {n_newcomers} persons wait.",
        hint=f"Release it once there are at least {class_size} persons"
        " (with `by`: in one stratum).",
    )


def classify_newcomers(
    job: Job, planned: Plan, source: SqlSource, state: ChainState, clock: Clock
) -> NewcomerClasses:
    """Select and cluster the newcomers to admit; the others wait or are excluded permanently.

    Newcomers are clustered before sensitive values are used, so only quasi-identifiers and waiting
    times decide who waits; only then are the models enforced. When persons have to wait or are
    excluded, the others are recoded again: hierarchies and statistics must not contain values that
    only persons who are not admitted have. A person whom a privacy model excludes is never
    clustered again: otherwise sensitive values would influence which persons share a class.

    The number of newcomers on which the selection depends includes those whose rows are withheld
    because of NULLs. With ``max_wait = 0``, newcomers do not wait for good classes, so losses are
    not computed at later releases.

    Raises
    ------
    TooFewRecords : the first release has too few persons to admit any.
    ModelInfeasible : a stratum of the first release cannot satisfy the models.
    """
    chain = state.chain
    class_size = chain.rules.target_class_size(state.k)
    is_first = chain.definition is None
    policy = replace(planned.policy, k=class_size)
    column_statistics = None if is_first else definition.read_column_statistics(chain)
    with clock.phase("read") as tick:
        with nullcontext() if is_first else state.session.chain_dialect.tune_for_lookup():
            microdata = source.read(planned.relation, planned.roles, job, tick)
            n_newcomers = microdata.n_read
            order, waiting_times = state.order_by_tag(planned.relation, microdata)
        microdata = take_records(microdata, order)
        records = _select_admissible(microdata, class_size if admits_newcomers(state) else None)
        if not len(records) and is_first:
            raise _too_few_newcomers_error(chain.name, n_newcomers, class_size)
        candidates, waiting_times = _take_unless_all(microdata, records), waiting_times[records]
    nobody_admitted = NewcomerClasses(
        microdata=take_records(microdata, records[:0]),
        policy=policy,
        clustering=ClusteringResult(Partition(np.empty(0, np.int32))),
        column_statistics=column_statistics,
        excluded_keys=microdata.keys[:0],
    )
    if not candidates.n_records:
        return nobody_admitted
    recoded, policy, recoded_statistics = _recode_as_first_release(
        planned, state, candidates, policy, column_statistics
    )
    policy_without_models = replace(policy, models=(), withhold_failing=False)
    with clock.phase("cluster") as tick:
        tick(0.0)
        clustering = partition_for(
            recoded, policy_without_models, tick=tick, column_statistics=recoded_statistics
        )
        losses, typical_class_loss = np.empty(0), None
        if is_first or chain.rules.max_wait:
            assert clustering.column_statistics is not None
            losses = compute_class_losses(recoded, clustering.column_statistics, clustering, policy)
    if is_first:
        typical_class_loss = compute_typical_loss(losses)
    elif chain.rules.max_wait:
        classes = partition_of(clustering)
        is_admitted = select_classes(
            chain.rules,
            state.k,
            losses,
            _find_longest_waits(classes, waiting_times),
            n_newcomers,
            definition.read_typical_class_loss(chain),
        )
        records = np.flatnonzero(is_admitted[classes.labels])
        candidates = _take_unless_all(candidates, records)
        clustering = restrict_clustering(clustering, records)
    excluded_keys = candidates.keys[:0]
    references = references_from_plain(chain.definition, policy.models, planned.sensitive)
    if not is_first and candidates.n_records:
        satisfying_records = _select_satisfying(candidates, policy.models, references)
        clustering = restrict_clustering(clustering, satisfying_records)
        candidates, excluded_keys = _split_records(candidates, satisfying_records)
    if not candidates.n_records:
        return replace(nobody_admitted, excluded_keys=excluded_keys)
    if candidates.n_records < recoded.n_records:
        recoded, policy, recoded_statistics = _recode_as_first_release(
            planned, state, candidates, policy, column_statistics
        )
    if recoded_statistics is not None:
        clustering = replace(clustering, column_statistics=recoded_statistics)
    batch = NewcomerClasses(
        microdata=recoded,
        policy=policy,
        clustering=clustering,
        column_statistics=recoded_statistics,
        excluded_keys=excluded_keys,
        typical_class_loss=typical_class_loss,
    )
    if not policy.models:
        return batch
    return _enforce_models(batch, planned, state, candidates, references, clock)


def _find_longest_waits(classes: Partition, waiting_times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the longest waiting time of the records of each class, int64 (n_classes,)."""
    # ``members`` has the records class by class, and ``starts`` where each class begins.
    return np.maximum.reduceat(waiting_times[classes.members], classes.starts)


def restrict_clustering(
    clustering: ClusteringResult, records: NDArray[np.int64]
) -> ClusteringResult:
    """Restrict a clustering to some of its classes.

    Parameters
    ----------
    records : int64 (m,), the indices of all records in these classes.
    """
    partition = partition_of(clustering)
    if len(records) == len(partition.labels):
        return clustering
    if clustering.levels is not None:
        # The levels of full-domain generalization are a partition themselves (``Levels``).
        levels = clustering.levels.take(records)
        return replace(clustering, classes=levels, levels=levels)
    _, labels = np.unique(partition.labels[records], return_inverse=True)
    # ``method_counts`` are what the method reports of its work, which stays the same.
    return replace(clustering, classes=Partition(labels.reshape(-1), partition.method_counts))


def _enforce_models(
    batch: NewcomerClasses,
    planned: Plan,
    state: ChainState,
    candidates: Microdata,
    references: References,
    clock: Clock,
) -> NewcomerClasses:
    """Enforce the models on the classes, and exclude permanently the newcomers they withhold.

    Parameters
    ----------
    batch : the newcomers to admit, in classes that do not satisfy the models yet.
    candidates : the records of ``batch`` before recoding.
    references : by sensitive column, the tables that models compare classes with; empty at the
        first release.
    """
    is_first = state.chain.definition is None
    with clock.phase("cluster") as tick:
        clustering = protect_classes(
            batch.microdata,
            batch.clustering,
            batch.policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
            tick=tick,
            compared_columns=encode_by_reference(references, batch.microdata.sensitive),
        )
    classes = partition_of(clustering)
    if not classes.n_suppressed:
        return replace(batch, clustering=clustering)
    # Continue as if the withheld records had never existed.
    records = np.flatnonzero(classes.labels >= 0)
    microdata, withheld_keys = _split_records(candidates, records)
    microdata, policy, column_statistics = _recode_as_first_release(
        planned, state, microdata, batch.policy, None if is_first else batch.column_statistics
    )
    levels = None if clustering.levels is None else clustering.levels.take(records)
    clustering = ClusteringResult(
        classes.take(records), levels, column_statistics, clustering.method_counts
    )
    excluded_keys = np.concatenate([batch.excluded_keys, withheld_keys])
    return replace(
        batch,
        microdata=microdata,
        policy=policy,
        clustering=clustering,
        column_statistics=column_statistics,
        excluded_keys=excluded_keys,
    )


def _recode_as_first_release(
    planned: Plan,
    state: ChainState,
    microdata: Microdata,
    policy: Policy,
    column_statistics: ColumnStatistics | None,
) -> tuple[Microdata, Policy, ColumnStatistics | None]:
    """Recode records with hierarchies and column statistics of the first release, if any."""
    if column_statistics is None:
        return microdata, replace(policy, hierarchies=planned.build_trees(microdata)), None
    policy = replace(
        policy, hierarchies=definition.rebuild_hierarchies(state.chain, planned, microdata)
    )
    microdata, column_statistics = definition.recode_as_first_release(
        microdata, column_statistics, policy.hierarchies
    )
    return microdata, policy, column_statistics


def _split_by_stratum(microdata: Microdata) -> list[NDArray[np.int64]]:
    """Return the indices of the records of each stratum and pattern of NULLs."""
    columns = [array for array in (microdata.strata, microdata.valid) if array is not None]
    return group_positions(
        np.column_stack(columns) if columns else np.zeros(microdata.n_records, np.int64)
    )


def _merge_records(groups_of_records: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Merge groups of record indices into one ascending array."""
    return np.sort(np.concatenate([np.empty(0, np.int64), *groups_of_records]))


def _take_unless_all(microdata: Microdata, records: NDArray[np.int64]) -> Microdata:
    """Take some records of the microdata, or return the same object if these are all records."""
    return microdata if len(records) == microdata.n_records else take_records(microdata, records)


def _select_admissible(microdata: Microdata, min_size: int | None) -> NDArray[np.int64]:
    """Select the records of strata and NULL patterns that have at least ``min_size`` records.

    Returns indices, int64 (m,), ascending; none if ``min_size`` is None.
    """
    if min_size is None or not microdata.n_records:
        return np.empty(0, np.int64)
    return _merge_records(
        [group for group in _split_by_stratum(microdata) if len(group) >= min_size]
    )


def _select_satisfying(
    microdata: Microdata, models: Sequence[Model], references: References
) -> NDArray[np.int64]:
    """Select the records of strata and NULL patterns that would satisfy the models as one class.

    Returns indices, int64 (m,), ascending.
    """
    compared_columns = encode_by_reference(references, microdata.sensitive)

    def satisfies_models(group: NDArray[np.int64]) -> bool:
        for model in models:
            # NULL (-1) counts as a value.
            codes, shares = microdata.sensitive[model.attribute].codes + 1, np.empty(0)
            if model.attribute in compared_columns:
                # Count the positions of values in the first release (see ``Reference``), as
                # ``protect_classes`` does later.
                codes, table = compared_columns[model.attribute]
                shares = table.shares
            counts = np.bincount(codes[group], minlength=len(shares))
            if not model.is_satisfied(counts[None], shares)[0]:
                return False
        return True

    return _merge_records(
        [group for group in _split_by_stratum(microdata) if len(group) and satisfies_models(group)]
    )


def _split_records(
    microdata: Microdata, records: NDArray[np.int64]
) -> tuple[Microdata, NDArray[np.int64]]:
    """Return the microdata of these records, int64 (m,), and the row keys of all other records."""
    if len(records) == microdata.n_records:
        return microdata, microdata.keys[:0]
    is_other = np.ones(microdata.n_records, np.bool_)
    is_other[records] = False
    return take_records(microdata, records), microdata.keys[is_other]
