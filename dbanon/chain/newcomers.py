"""Newcomers of a chain: decide who waits and who is excluded, and cluster the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.chain import definition
from dbanon.chain.membership import CellState
from dbanon.chain.quality import GOOD, class_losses, typical_loss
from dbanon.chain.reference import References, of_plain, place_values
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.errors import TooFewRecords
from dbanon.hierarchy.leaves import take_records
from dbanon.job.chain import ChainRules
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.partitioning.partition_for import partition_of, protect_classes
from dbanon.partitioning.strata import group_positions
from dbanon.run.plan import Plan
from dbanon.run.run import Clock, cluster_records
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True, eq=False)
class NewcomerClasses:
    """The newcomers that a release admits or refuses.

    Parameters
    ----------
    microdata : the admitted records.
    policy : with the hierarchies for recoding them.
    clustering : the classes of the admitted records.
    measures : of the first release; None if this is the first release.
    refused : int64 (m, c), row keys of persons whom privacy models exclude permanently.
    typical : at the first release, the ``typical_loss`` of its classes.
    """

    microdata: Microdata
    policy: Policy
    clustering: ClusteringResult
    measures: Measures | None
    refused: NDArray[np.int64]
    typical: float | None = None


def is_due(state: CellState) -> bool:
    """Whether this release admits newcomers at all."""
    return (state.sequence - 1) % state.chain.rules.admit_every == 0


def select_classes(
    rules: ChainRules,
    k: int,
    losses: NDArray[np.float64],
    waited: NDArray[np.int64],
    pool: int,
    typical: float | None,
) -> NDArray[np.bool_]:
    """Select the classes of newcomers to admit, bool (n_classes,), using only these arguments.

    In a small batch, an attacker who knows (or invented) all other newcomers could single out the
    remaining one, and classes of small batches lose much information. Such newcomers wait, for at
    most as many releases as the rules say.

    Parameters
    ----------
    losses : float64 (n_classes,), from ``class_losses``.
    waited : int64 (n_classes,), releases that the longest-waiting member has waited.
    pool : the number of newcomers in all strata.
    typical : ``typical_loss`` of the first release; None if the chain has not stored it.
    """
    waited_long = waited >= rules.max_wait
    if pool < rules.fewest(k):
        return waited_long
    if typical is None:
        return np.ones(len(losses), np.bool_)
    # Admit ties despite rounding errors.
    return waited_long | (losses <= GOOD * typical * (1 + 1e-9) + 1e-12)


def classify_newcomers(
    job: Job, planned: Plan, source: SqlSource, state: CellState, clock: Clock
) -> NewcomerClasses:
    """Cluster the newcomers who are admitted now; the others wait or are excluded permanently.

    Only quasi-identifiers and waiting times decide who waits: newcomers are clustered before any
    sensitive value is read. A person whom a model excludes is never clustered again; otherwise
    sensitive values would decide who shares a class with whom.

    Raises
    ------
    TooFewRecords : the first release has too few persons to admit any.
    ModelInfeasible : a stratum of the first release cannot satisfy the models.
    """
    chain = state.chain
    size = chain.rules.size(state.k)
    first = chain.definition is None
    policy = replace(planned.policy, k=size)
    measures = None if first else definition.measures(chain)
    with clock.phase("read") as tick:
        with nullcontext() if first else state.session.prepare_lookup():
            microdata = source.read(planned.relation, planned.roles, job, tick)
            waiting = microdata.n_read
            order, waited = state.in_order(planned.relation, microdata)
        microdata = take_records(microdata, order)
        records = _select_admissible(microdata, size if is_due(state) else None)
        if not len(records) and first:
            raise TooFewRecords(
                f"Nobody can be admitted to chain {chain.name} yet: {waiting} persons wait.",
                hint=f"Release it once there are at least {size} persons (with `by`: in one"
                " stratum).",
            )
        pool, waited = _take(microdata, records), waited[records]
    no_newcomers = NewcomerClasses(
        take_records(microdata, records[:0]),
        policy,
        ClusteringResult(Partition(np.empty(0, np.int32))),
        measures,
        microdata.keys[:0],
    )
    if not pool.n_records:
        return no_newcomers
    coded, policy, seen = _recode_as_first(planned, state, pool, policy, measures)
    by_points = replace(policy, models=(), withhold_failing=False)
    clustering = cluster_records(planned, by_points, coded, clock, measures=seen)
    assert clustering.measures is not None
    losses, typical = np.empty(0), None
    if first or chain.rules.max_wait:
        with clock.phase("cluster"):
            losses = class_losses(coded, clustering.measures, clustering, policy)
    if first:
        typical = typical_loss(losses)
    elif chain.rules.max_wait:
        classes = partition_of(clustering)
        longest = np.maximum.reduceat(waited[classes.members], classes.starts)
        let_in = select_classes(
            chain.rules, state.k, losses, longest, waiting, definition.typical_class_loss(chain)
        )
        records = np.flatnonzero(let_in[classes.labels])
        pool, clustering = _take(pool, records), classes_of(clustering, records)
    refused = pool.keys[:0]
    references = of_plain(chain.definition, policy.models, planned.sensitive)
    if not first and pool.n_records:
        keeping = _select_satisfying(pool, policy.models, references)
        clustering = classes_of(clustering, keeping)
        pool, refused = _split_records(pool, keeping)
    if not pool.n_records:
        return replace(no_newcomers, refused=refused)
    if pool.n_records < coded.n_records:
        coded, policy, seen = _recode_as_first(planned, state, pool, policy, measures)
    if seen is not None:
        clustering = replace(clustering, measures=seen)
    batch = NewcomerClasses(coded, policy, clustering, seen, refused, typical)
    return (
        _enforce_models(batch, planned, state, pool, references, clock) if policy.models else batch
    )


def classes_of(clustering: ClusteringResult, records: NDArray[np.int64]) -> ClusteringResult:
    """Restrict a clustering to some records, int64 (m,), which must be whole classes."""
    partition = partition_of(clustering)
    if len(records) == len(partition.labels):
        return clustering
    if clustering.levels is not None:
        # With full-domain levels, classes follow from the levels.
        levels = clustering.levels.of(records)
        return replace(clustering, classes=levels, levels=levels)
    _, labels = np.unique(partition.labels[records], return_inverse=True)
    return replace(clustering, classes=Partition(labels.reshape(-1), partition.method_counts))


def _enforce_models(
    batch: NewcomerClasses,
    planned: Plan,
    state: CellState,
    pool: Microdata,
    references: References,
    clock: Clock,
) -> NewcomerClasses:
    """Enforce the models on the classes, and exclude withheld newcomers permanently.

    Parameters
    ----------
    pool : the records of ``batch`` before recoding.
    references : the tables that models compare classes with, after the first release.
    """
    first = state.chain.definition is None
    with clock.phase("cluster") as tick:
        clustering = protect_classes(
            batch.microdata,
            batch.clustering,
            batch.policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
            tick=tick,
            compared_columns=place_values(references, batch.microdata.sensitive),
        )
    classes = partition_of(clustering)
    if not classes.n_suppressed:
        return replace(batch, clustering=clustering)
    # Continue as if the withheld records had never existed.
    records = np.flatnonzero(classes.labels >= 0)
    microdata, withheld = _split_records(pool, records)
    microdata, policy, measures = _recode_as_first(
        planned, state, microdata, batch.policy, None if first else batch.measures
    )
    levels = None if clustering.levels is None else clustering.levels.of(records)
    clustering = ClusteringResult(classes.of(records), levels, measures, clustering.method_counts)
    refused = np.concatenate([batch.refused, withheld])
    return replace(
        batch,
        microdata=microdata,
        policy=policy,
        clustering=clustering,
        measures=measures,
        refused=refused,
    )


def _recode_as_first(
    planned: Plan,
    state: CellState,
    microdata: Microdata,
    policy: Policy,
    measures: Measures | None,
) -> tuple[Microdata, Policy, Measures | None]:
    """Recode records with the hierarchies and measures of the first release, if there was one."""
    if measures is None:
        return microdata, replace(policy, hierarchies=planned.trees(microdata)), None
    policy = replace(policy, hierarchies=definition.trees(state.chain, planned, microdata))
    microdata, measures = definition.as_part(microdata, measures, policy.hierarchies)
    return microdata, policy, measures


def _split_by_stratum(microdata: Microdata) -> list[NDArray[np.int64]]:
    """The records of each stratum and pattern of NULLs."""
    parts = [part for part in (microdata.strata, microdata.valid) if part is not None]
    return group_positions(
        np.column_stack(parts) if parts else np.zeros(microdata.n_records, np.int64)
    )


def _merge_records(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))


def _take(microdata: Microdata, records: NDArray[np.int64]) -> Microdata:
    return microdata if len(records) == microdata.n_records else take_records(microdata, records)


def _select_admissible(microdata: Microdata, size: int | None) -> NDArray[np.int64]:
    """The records of strata and NULL patterns of at least ``size`` records; none for None."""
    if size is None or not microdata.n_records:
        return np.empty(0, np.int64)
    return _merge_records([group for group in _split_by_stratum(microdata) if len(group) >= size])


def _select_satisfying(
    microdata: Microdata, models: Sequence[Model], references: References
) -> NDArray[np.int64]:
    """The records of strata and NULL patterns that satisfy the models as a single class."""
    placed = place_values(references, microdata.sensitive)

    def keeps(group: NDArray[np.int64]) -> bool:
        for model in models:
            # NULL (-1) counts as a value.
            codes, shares = microdata.sensitive[model.attribute].codes + 1, np.empty(0)
            if model.attribute in placed:
                # Count as for merged classes, where all new values are one value.
                codes, table = placed[model.attribute]
                shares = table.shares
            counts = np.bincount(codes[group], minlength=len(shares))
            if not model.satisfied(counts[None], shares)[0]:
                return False
        return True

    return _merge_records(
        [group for group in _split_by_stratum(microdata) if len(group) and keeps(group)]
    )


def _split_records(
    microdata: Microdata, records: NDArray[np.int64]
) -> tuple[Microdata, NDArray[np.int64]]:
    """These records, and the row keys of the others."""
    if len(records) == microdata.n_records:
        return microdata, microdata.keys[:0]
    others = np.ones(microdata.n_records, np.bool_)
    others[records] = False
    return take_records(microdata, records), microdata.keys[others]
