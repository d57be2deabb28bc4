"""Newcomers of a chain: who waits, who is kept out for good, and the classes of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.chain import definition
from dbanon.chain.membership import CellState
from dbanon.chain.state import history
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.errors import TooFewRecords
from dbanon.hierarchy.leaves import only
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.partitioning.strata import groups
from dbanon.run.plan import Plan
from dbanon.run.run import Clock, clustered
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
    let_in : whether this release admits, where strata and patterns of NULLs have enough.
    """

    microdata: Microdata
    policy: Policy
    found: Found
    measures: Measures | None
    refused: NDArray[np.int64]
    let_in: bool


def lets_in(state: CellState, count: int) -> bool:
    """Whether so many newcomers, of all strata, are admitted with a release; by counts alone.

    Few are alone for those who know all others of them, such as whoever made these up.
    """
    rules = state.chain.rules
    if state.sequence == 1:
        return True
    if (state.sequence - 1) % rules.admit_every:
        return False
    waited = 0
    for one in reversed(history(state.session, state.chain)):
        if one.get("let_in", 1) or not one.get("waiting"):
            break
        waited += 1
    return count >= rules.fewest(state.k) or waited >= rules.max_wait


def newcomers(
    job: Job, planned: Plan, source: SqlSource, state: CellState, clock: Clock
) -> Newcomers:
    """The newcomers who can be admitted now, in classes; the others wait, or stay out for good.

    Who waits, counts alone decide. Whom a model keeps out is never clustered again: else values
    would decide who shares a class with whom.

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
        microdata = source.read(planned.relation, planned.wanted, job, tick)
        waiting = microdata.n_read
        microdata = only(microdata, state.in_order(planned.relation, microdata))
        let_in = lets_in(state, waiting)
        microdata = _admissible(microdata, size if let_in else None)
        if not microdata.n_records and first:
            raise TooFewRecords(
                f"Nobody can be admitted to chain {chain.name} yet: {waiting} persons wait.",
                hint="Its first release needs as many persons as a class has.",
            )
        refused = microdata.keys[:0]
        if not first:
            microdata, refused = _parted(microdata, _keeping(microdata, policy.models))
        if not microdata.n_records:
            nobody = Found(Partition(np.empty(0, np.int32)))
            return Newcomers(microdata, policy, nobody, measures, refused, let_in)
        microdata, policy, measures = _as_known(planned, state, microdata, policy, measures)
    found = clustered(planned, policy, microdata, clock, measures=measures)
    assert isinstance(found.classes, Partition)
    if not found.classes.n_suppressed:
        return Newcomers(microdata, policy, found, measures, refused, let_in)
    # As if those who are withheld had never come.
    records = np.flatnonzero(found.classes.labels >= 0)
    microdata, withheld = _parted(microdata, records)
    microdata, policy, measures = _as_known(planned, state, microdata, policy, measures)
    levels = None if found.levels is None else found.levels.of(records)
    found = Found(found.classes.of(records), levels, measures)
    refused = np.concatenate([refused, withheld])
    return Newcomers(microdata, policy, found, measures, refused, let_in)


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


def _admissible(microdata: Microdata, size: int | None) -> Microdata:
    """The records of strata and patterns of NULLs that have as many as a class; None: of none."""
    if size is None or not microdata.n_records:
        return only(microdata, np.empty(0, np.int64))
    enough = _together([group for group in _apart(microdata) if len(group) >= size])
    return microdata if len(enough) == microdata.n_records else only(microdata, enough)


def _keeping(microdata: Microdata, models: Sequence[Model]) -> NDArray[np.int64]:
    """The records of strata and patterns of NULLs that, as one class, keep to the models."""

    def keeps(group: NDArray[np.int64]) -> bool:
        for model in models:
            # NULL, -1, is a value, too.
            counts = np.bincount(microdata.sensitive[model.attribute].codes[group] + 1)
            if not model.satisfied(counts[None], np.empty(0))[0]:
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
    return only(microdata, records), microdata.keys[others]
