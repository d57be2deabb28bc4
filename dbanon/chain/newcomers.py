"""Newcomers of a chain: who waits, who is kept out for good, and the classes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.chain import definition
from dbanon.chain.membership import CellState
from dbanon.chain.quality import GOOD, class_losses, typical_loss
from dbanon.chain.reference import References, beside, of_plain
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.errors import TooFewRecords
from dbanon.hierarchy.leaves import take_records
from dbanon.job.chain import Rules
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.partitioning.partition_for import partition_of, protect_classes
from dbanon.partitioning.strata import groups
from dbanon.run.plan import Plan
from dbanon.run.run import Clock, cluster_records
from dbanon.stores.sql_source import SqlSource


@dataclass(frozen=True, eq=False)
class Newcomers:
    """The newcomers of a release.

    Parameters
    ----------
    microdata : those who are admitted.
    policy : with the hierarchies that they are recoded by.
    found : their classes.
    measures : of the first release; None when this is it.
    refused : int64 (m, c), the row keys of those whom privacy models keep out, for good.
    typical : where this is the first release, what its classes lose, as ``typical_loss`` has it.
    """

    microdata: Microdata
    policy: Policy
    found: Found
    measures: Measures | None
    refused: NDArray[np.int64]
    typical: float | None = None


def is_due(state: CellState) -> bool:
    """Whether a release admits newcomers at all, however many and whoever they are."""
    return (state.sequence - 1) % state.chain.rules.admit_every == 0


def admitted(
    rules: Rules,
    k: int,
    losses: NDArray[np.float64],
    waited: NDArray[np.int64],
    pool: int,
    typical: float | None,
) -> NDArray[np.bool_]:
    """Which classes of newcomers are let in, bool (n_classes,); nothing else is looked at.

    Few newcomers are alone for those who know all others of them, such as whoever made these up;
    and classes of few lose much. So both wait, for as many releases as the rules say.

    Parameters
    ----------
    losses : float64 (n_classes,), as ``class_losses`` gives them.
    waited : int64 (n_classes,), for how many releases the longest-waiting of each has waited.
    pool : newcomers in all, whatever their stratum.
    typical : what the classes of the first release lost, as ``typical_loss`` has it; None of a
        chain that does not know.
    """
    long = waited >= rules.max_wait
    if pool < rules.fewest(k):
        return long
    if typical is None:
        return np.ones(len(losses), np.bool_)
    # A tie is good, whatever the last digits of its floats.
    return long | (losses <= GOOD * typical * (1 + 1e-9) + 1e-12)


def newcomers(
    job: Job, planned: Plan, source: SqlSource, state: CellState, clock: Clock
) -> Newcomers:
    """The newcomers who are admitted now, in classes; the others wait, or stay out for good.

    Who waits, quasi-identifiers decide, and who waits since when: classes are found before anybody
    looks at a sensitive value. Whom a model keeps out is never clustered again: else values would
    decide who shares a class with whom.

    Raises
    ------
    TooFewRecords : nobody can be admitted to the first release.
    ModelInfeasible : a stratum of the first release does not keep to the models.
    """
    chain = state.chain
    size = chain.rules.size(state.k)
    first = chain.definition is None
    policy = replace(planned.policy, k=size)
    measures = None if first else definition.measures(chain)
    with clock.phase("read") as tick:
        with nullcontext() if first else state.session.seeking():
            microdata = source.read(planned.relation, planned.wanted, job, tick)
            waiting = microdata.n_read
            order, waited = state.in_order(planned.relation, microdata)
        microdata = take_records(microdata, order)
        records = _admissible(microdata, size if is_due(state) else None)
        if not len(records) and first:
            raise TooFewRecords(
                f"Nobody can be admitted to chain {chain.name} yet: {waiting} persons wait.",
                hint="Its first release needs as many persons as a class has.",
            )
        pool, waited = _of(microdata, records), waited[records]
    nobody = Newcomers(
        take_records(microdata, records[:0]), policy, Found(Partition(np.empty(0, np.int32))),
        measures, microdata.keys[:0],
    )  # fmt: skip
    if not pool.n_records:
        return nobody
    known, policy, seen = _as_known(planned, state, pool, policy, measures)
    by_points = replace(policy, models=(), withhold_failing=False)
    found = cluster_records(planned, by_points, known, clock, measures=seen)
    assert found.measures is not None
    losses, typical = np.empty(0), None
    if first or chain.rules.max_wait:
        with clock.phase("cluster"):
            losses = class_losses(known, found.measures, found, policy)
    if first:
        typical = typical_loss(losses)
    elif chain.rules.max_wait:
        classes = partition_of(found)
        longest = np.maximum.reduceat(waited[classes.members], classes.starts)
        let_in = admitted(
            chain.rules, state.k, losses, longest, waiting, definition.typical(chain)
        )  # fmt: skip
        records = np.flatnonzero(let_in[classes.labels])
        pool, found = _of(pool, records), classes_of(found, records)
    refused = pool.keys[:0]
    references = of_plain(chain.definition, policy.models, planned.sensitive)
    if not first and pool.n_records:
        keeping = _keeping(pool, policy.models, references)
        found = classes_of(found, keeping)
        pool, refused = _parted(pool, keeping)
    if not pool.n_records:
        return replace(nobody, refused=refused)
    if pool.n_records < known.n_records:
        known, policy, seen = _as_known(planned, state, pool, policy, measures)
    if seen is not None:
        found = replace(found, measures=seen)
    made = Newcomers(known, policy, found, seen, refused, typical)
    return _protected(made, planned, state, pool, references, clock) if policy.models else made


def classes_of(found: Found, records: NDArray[np.int64]) -> Found:
    """The classes of some of the records, int64 (m,), which are all or none of each class."""
    partition = partition_of(found)
    if len(records) == len(partition.labels):
        return found
    if found.levels is not None:
        # Where classes follow from levels, they are these as yet.
        levels = found.levels.of(records)
        return replace(found, classes=levels, levels=levels)
    _, labels = np.unique(partition.labels[records], return_inverse=True)
    return replace(found, classes=Partition(labels.reshape(-1), partition.told))


def _protected(
    made: Newcomers,
    planned: Plan,
    state: CellState,
    pool: Microdata,
    references: References,
    clock: Clock,
) -> Newcomers:
    """Newcomers whose classes keep to the models; whom these withhold is kept out for good.

    Parameters
    ----------
    pool : the records of ``made`` as they were read.
    references : what models compare classes with, after the first release.
    """
    first = state.chain.definition is None
    with clock.phase("cluster") as tick:
        found = protect_classes(
            made.microdata,
            made.found,
            made.policy,
            sensitive=planned.sensitive,
            memory_limit=planned.job.memory_limit,
            tick=tick,
            compared=beside(references, made.microdata.sensitive),
        )
    classes = partition_of(found)
    if not classes.n_suppressed:
        return replace(made, found=found)
    # As if those who are withheld had never come.
    records = np.flatnonzero(classes.labels >= 0)
    microdata, withheld = _parted(pool, records)
    microdata, policy, measures = _as_known(
        planned, state, microdata, made.policy, None if first else made.measures
    )
    levels = None if found.levels is None else found.levels.of(records)
    found = Found(classes.of(records), levels, measures, found.told)
    refused = np.concatenate([made.refused, withheld])
    return replace(
        made, microdata=microdata, policy=policy, found=found, measures=measures, refused=refused
    )


def _as_known(
    planned: Plan,
    state: CellState,
    microdata: Microdata,
    policy: Policy,
    measures: Measures | None,
) -> tuple[Microdata, Policy, Measures | None]:
    """The records with hierarchies and measures: those of the first release, after it."""
    if measures is None:
        return microdata, replace(policy, hierarchies=planned.trees(microdata)), None
    policy = replace(policy, hierarchies=definition.trees(state.chain, planned, microdata))
    microdata, measures = definition.as_part(microdata, measures, policy.hierarchies)
    return microdata, policy, measures


def _apart(microdata: Microdata) -> list[NDArray[np.int64]]:
    """The records of each stratum and pattern of NULLs."""
    parts = [part for part in (microdata.strata, microdata.valid) if part is not None]
    return groups(np.column_stack(parts) if parts else np.zeros(microdata.n_records, np.int64))


def _together(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.sort(np.concatenate([np.empty(0, np.int64), *parts]))


def _of(microdata: Microdata, records: NDArray[np.int64]) -> Microdata:
    return microdata if len(records) == microdata.n_records else take_records(microdata, records)


def _admissible(microdata: Microdata, size: int | None) -> NDArray[np.int64]:
    """The records of strata and patterns of NULLs that have as many as a class; None: of none."""
    if size is None or not microdata.n_records:
        return np.empty(0, np.int64)
    return _together([group for group in _apart(microdata) if len(group) >= size])


def _keeping(
    microdata: Microdata, models: Sequence[Model], references: References
) -> NDArray[np.int64]:
    """The records of strata and patterns of NULLs that, as one class, keep to the models."""
    known = beside(references, microdata.sensitive)

    def keeps(group: NDArray[np.int64]) -> bool:
        for model in models:
            # NULL, -1, is a value, too.
            codes, whole = microdata.sensitive[model.attribute].codes + 1, np.empty(0)
            if model.attribute in known:
                # As classes are counted that are merged: values that are new are one.
                codes, table = known[model.attribute]
                whole = table.shares
            counts = np.bincount(codes[group], minlength=len(whole))
            if not model.satisfied(counts[None], whole)[0]:
                return False
        return True

    return _together([group for group in _apart(microdata) if len(group) and keeps(group)])


def _parted(
    microdata: Microdata, records: NDArray[np.int64]
) -> tuple[Microdata, NDArray[np.int64]]:
    """These records, and the row keys of the others."""
    if len(records) == microdata.n_records:
        return microdata, microdata.keys[:0]
    others = np.ones(microdata.n_records, np.bool_)
    others[records] = False
    return take_records(microdata, records), microdata.keys[others]
