"""A chain goes on: who came and who left, the cells that follow, and the rows that they show.

All of it in one transaction on the database that the chain reads; nothing leaves it here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from dbanon.data import frozen
from dbanon.data.counts import Histories
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.hierarchy.subset import only
from dbanon.job.chain import MEASURE
from dbanon.job.chain_guarantee import OfChain
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.strata import groups
from dbanon.recoding import ReleasedColumn
from dbanon.release.recode import Release
from dbanon.release.report import TellingColumn
from dbanon.run import chain_definition as definition
from dbanon.run.plan import Plan, plan
from dbanon.run.run import (
    Clock,
    recoded,
    tell,
)
from dbanon.stores import chain_recount as recount
from dbanon.stores import chain_rows as rows
from dbanon.stores import chain_state
from dbanon.stores.base import Relation
from dbanon.stores.chain_cells import CellState, Presence
from dbanon.stores.chain_state import ChainKept
from dbanon.stores.ports import Draft
from dbanon.stores.sql import Session
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget


@dataclass(frozen=True, eq=False)
class Advanced:
    """A chain whose state has gone on, and what its release is made of.

    Parameters
    ----------
    planned : with the rows of newcomers as what was read.
    policy : with the hierarchies that they were recoded by.
    release : the classes of those who were admitted; its columns are those of all.
    columns : of the release: name, place in the state, and what it stands for.
    """

    state: CellState
    planned: Plan
    guarantee: OfChain
    policy: Policy
    microdata: Microdata
    found: Found
    release: Release
    columns: tuple[tuple[str, str, str], ...]
    histories: Histories
    tells: tuple[TellingColumn, ...]
    presence: Presence


@dataclass(frozen=True, eq=False)
class Begun:
    """A release of a chain once everybody in the source was tagged, and nothing else was done.

    Parameters
    ----------
    planned : with all rows of the source.
    guarantee : what the release is to hold.
    """

    state: CellState
    source: SqlSource
    planned: Plan
    guarantee: OfChain
    presence: Presence


def begin(job: Job, session: Session, key: bytes, clock: Clock, looked: Session | None) -> Begun:
    """Lock a chain, refuse what can be refused, and tag everybody in the source.

    Parameters
    ----------
    looked : a session on the database that the release goes to; None where it is this one.
    """
    asked = job.chain
    assert asked is not None
    with clock.phase("read") as tick:
        tick(0.0)
        chain = chain_state.opened(session, asked, key)
        source = SqlSource(session)
        here = None if looked is not None else SqlTarget(session)
        planned = plan(job, source, here, lambda: tick(0.0))
        definition.require_source(chain, job, session, planned.relation)
        if looked is not None:
            planned = _with_target(job, planned, SqlTarget(looked), chain)
        measures = chain.rules.mode == MEASURE
        if chain.definition is not None and not measures:
            definition.require_same(chain, definition.told(job, planned))
        state = CellState(session, chain, chain.sequence + 1, int(job.policy.k))
        presence = state.stage_persons(planned.relation, chain_state.blocks(key, chain.identity))
        if not asked.accept_turnover:
            state.require_turnover(presence, _absent_before(session, chain))
    guarantee = replace(
        cast(OfChain, planned.guarantee), only_measured=measures, max_exposed=asked.max_exposed
    )
    return Begun(state, source, planned, guarantee, presence)


def advance(begun: Begun, clock: Clock) -> Advanced:
    """Take a chain one release further: who came, who left, and the rows that are to be shown.

    Raises
    ------
    TraceTooSmall, RecountFailed : what was written is not as it must be.
    """
    state, planned, source, presence = begun.state, begun.planned, begun.source, begun.presence
    job, session, whole = planned.job, state.session, planned.relation
    planned = replace(planned, relation=_newcomers(source, job, planned, state))
    microdata, policy, found, frozen_measures = _classes(job, planned, source, state, clock)
    with clock.phase("write") as tick:
        tick(0.0)
        admitted = microdata.n_records > 0
        if admitted:
            release = recoded(planned, policy, source, microdata, found)
        else:
            release = _of_nobody(session, state, frozen_measures)
        changed, columns, release = _advanced(job, state, planned, whole, microdata, release)
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        histories = _histories(state, presence, changed, len(microdata.keys))
        begun.guarantee.require_histories(histories)
        tells: tuple[TellingColumn, ...] = ()
        if admitted and state.sequence == 1:
            # Of the few who come later a column tells what it tells of nobody else.
            # Rows of those who wait are in the relation, and not looked at.
            seen = replace(microdata, withheld=presence.newcomers - microdata.n_records)
            draft = Draft(job, planned.place, planned.relation, planned.wanted, seen, release)
            # What an exchange inside a cell changes is told to nobody, not even by a refusal.
            tells = tell(draft, source, {}, of_itself=True)
    return Advanced(
        state, planned, begun.guarantee, replace(policy, k=state.k), microdata, found, release,
        columns, histories, tells, presence,
    )  # fmt: skip


def _with_target(job: Job, planned: Plan, to: SqlTarget, chain: ChainKept) -> Plan:
    """The plan with its place in another database, which refuses while nothing is committed yet."""
    chain_state.require_not_behind(to.session, chain)
    for name in job.named:
        to.require_type(planned.relation.attribute(name))
    if job.policy.intervals == "range":
        raise InvalidParameter(
            "Ranges of a database's own type do not travel to another one.",
            hint='Use `intervals="text"` or `intervals="bounds"`.',
        )
    return replace(planned, output=to.plan(job, planned.release_id))


def _absent_before(session: Session, chain: ChainKept) -> int:
    known = chain_state.history(session, chain)
    return int(known[-1].get("absent", 0)) if known else 0


def _newcomers(source: SqlSource, job: Job, planned: Plan, state: CellState) -> Relation:
    """The rows of those who are not in the chain yet: others are never clustered again."""
    if state.sequence == 1:
        return planned.relation
    names = [*job.named, state.chain.entity]
    return source.narrowed(planned.relation, job, names, state.newcomers)


def _classes(
    job: Job, planned: Plan, source: SqlSource, state: CellState, clock: Clock
) -> tuple[Microdata, Policy, Found, Measures | None]:
    """The newcomers who can be admitted now, in classes; the others wait."""
    chain = state.chain
    size = chain.rules.size(state.k)
    first = chain.definition is None
    policy = replace(planned.policy, k=size)
    frozen_measures = None if first else definition.measures(chain)
    with clock.phase("read") as tick:
        microdata = source.read(planned.relation, planned.wanted, job, tick)
        waiting = microdata.n_read
        microdata = only(microdata, state.in_order(planned.relation, microdata))
        due = (state.sequence - 1) % chain.rules.admit_every == 0
        microdata = _admissible(microdata, size if due else None)
        if not microdata.n_records and first:
            raise TooFewRecords(
                f"Nobody can be admitted to chain {chain.name} yet: {waiting} persons wait.",
                hint="Its first release needs as many persons as a class has.",
            )
        if not microdata.n_records:
            return microdata, policy, Found(Partition(np.empty(0, np.int32))), frozen_measures
        if frozen_measures is None:
            policy = replace(policy, hierarchies=planned.trees(microdata))
        else:
            policy = replace(policy, hierarchies=definition.trees(chain, planned, microdata))
            microdata, frozen_measures = frozen.as_part(
                microdata, frozen_measures, policy.hierarchies
            )
    with clock.phase("cluster") as tick:
        found = partition_for(
            microdata, policy, memory_limit=job.memory_limit, tick=tick, measures=frozen_measures
        )
    return microdata, policy, found, frozen_measures


def _admissible(microdata: Microdata, size: int | None) -> Microdata:
    """The records of strata and patterns of NULLs that have as many as a class; None: of none."""
    nobody = np.empty(0, np.int64)
    if size is None or not microdata.n_records:
        return only(microdata, nobody)
    parts = [part for part in (microdata.strata, microdata.valid) if part is not None]
    apart = np.column_stack(parts) if parts else np.zeros(microdata.n_records, np.int64)
    enough = [group for group in groups(apart) if len(group) >= size]
    if sum(map(len, enough)) == microdata.n_records:
        return microdata
    return only(microdata, np.sort(np.concatenate([nobody, *enough])))


def _of_nobody(session: Session, state: CellState, measures: Measures | None) -> Release:
    """The release of no newcomers, with the columns that the chain has."""
    chain = state.chain
    told = {} if chain.definition is None else chain.definition
    columns: list[ReleasedColumn] = []
    if told:
        types = dict(session.columns_of(chain.table(session, "value")))
        columns = [
            ReleasedColumn(
                Attribute(name, Kind.CATEGORY, sql_type=types[place]), np.empty(0, object), of=of
            )
            for name, place, of in sorted(told["columns"], key=lambda one: int(one[1][1:]))
            if place.startswith("v") and of not in dict(told["job"]["by"])
        ]
    measure = told.get("loss_measure", "sse")
    nobody = Partition(np.empty(0, np.int32))
    return Release(nobody, tuple(columns), (), 0.0, 0.0, measure, measures)


def _advanced(
    job: Job,
    state: CellState,
    planned: Plan,
    whole: Relation,
    microdata: Microdata,
    release: Release,
) -> tuple[dict[str, int], tuple[tuple[str, str, str], ...], Release]:
    """Write the next state; what changed, and the columns of the release."""
    session, chain, relation = state.session, state.chain, planned.relation
    kept = [whole.attribute(name) for name in (*job.sensitive, *job.keep)]
    by = [whole.attribute(name) for name in job.by]
    target = SqlTarget(session)
    typed = tuple(target.typed(column, False) for column in release.columns)
    release = replace(release, columns=typed)
    newcomers, first, changed = None, 0, {"drifted": 0, "changed": 0, "rewritten": 0}
    if chain.definition is None:
        target.columns(Draft(job, planned.place, whole, planned.wanted, microdata, release),
                       typed, False)  # fmt: skip
        told = definition.made(job, planned, release)
        columns = told["columns"]
        defined = session.ledger_name("chain_definition")
        row = (chain.chain_id, state.k, definition.as_text(told))
        session.insert_rows(defined, ["chain_id", "k", "definition"], [row])
        rows.make_tables(
            state,
            [*(column.attribute.sql_type for column in typed), *(a.sql_type for a in by)],
            [a.sql_type for a in kept],
        )
    else:
        columns = chain.definition["columns"]
    state.decide()
    state.apply()
    if microdata.n_records:
        newcomers = relation
        first = state.admit(relation, microdata, release.partition, typed, by)
    changed = rows.rewrite(state, whole, kept, newcomers, first)
    changed["rewritten"] = recount.rewritten(state, len(kept)) if state.sequence > 1 else 0
    rows.settle(state, kept)
    return changed, tuple((name, place, of) for name, place, of in columns), release


def _histories(
    state: CellState, presence: Presence, changed: dict[str, int], admitted: int
) -> Histories:
    """What the new state holds, counted again."""
    told = {**state.counted, "members": presence.members, "joined": admitted, **changed}
    shown, absent = recount.on_display(state)
    told["absent"] = absent
    sizes = recount.sizes(state)
    return Histories(
        sequence=state.sequence,
        persons=shown,
        known=sum(size * many for size, many in sizes.items()),
        smallest=min(sizes, default=0),
        exposed=recount.exposed(sizes, state.k),
        waiting=presence.newcomers - admitted,
        returned=presence.returned,
        misplaced=recount.misplaced(state),
        rewritten=changed["rewritten"],
        told=told,
    )
