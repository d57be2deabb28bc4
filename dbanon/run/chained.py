"""A release of a chain: the state goes on first, and the release is what the state says.

In one database both are one transaction. Where the release goes elsewhere, or into files, the state
is committed before anything leaves the source's database: from then on the release counts as
published, whether or not it is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dbanon.data import frozen
from dbanon.data.counts import Counts, Histories
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DbanonError, InvalidParameter, SourceChanged
from dbanon.hierarchy.subset import only
from dbanon.job.chain import MEASURE
from dbanon.job.chain_guarantee import OfChain
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.job.verdict import Expected
from dbanon.partitioning.partition_for import partition_for
from dbanon.partitioning.strata import groups
from dbanon.recoding import ReleasedColumn
from dbanon.release.recode import Release
from dbanon.release.report import Report, TellingColumn
from dbanon.run import chain_definition as definition
from dbanon.run.chain_key import read_key
from dbanon.run.files import files_of
from dbanon.run.plan import Plan, plan
from dbanon.run.run import (
    Clock,
    ExportFiles,
    PhaseProgress,
    questions_of,
    recoded,
    report_of,
    tell,
)
from dbanon.stores import chain_recount as recount
from dbanon.stores import chain_state
from dbanon.stores.base import Relation
from dbanon.stores.chain_cells import CellState, Presence
from dbanon.stores.chain_state import ChainKept
from dbanon.stores.chain_target import ChainTarget
from dbanon.stores.ports import Draft
from dbanon.stores.sql import Session
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget
from dbanon.stores.store import ClientStore, Store


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
    policy: Policy
    microdata: Microdata
    found: Found
    release: Release
    columns: tuple[tuple[str, str, str], ...]
    histories: Histories
    tells: tuple[TellingColumn, ...]
    presence: Presence


def run_chained(
    job: Job, source: Store, target: Store | None, progress: PhaseProgress | None = None
) -> Report:
    """Run a job that is the next release of a chain.

    Raises
    ------
    DbanonError : of the class that says what went wrong. What was committed before counts as
        published, and is kept as such.
    """
    assert job.chain is not None
    if source.url.startswith("file:"):
        raise InvalidParameter(
            "A chain keeps its state in the database that it reads, and a file has none.",
            hint="Load the rows into a database, and release from there.",
        )
    key = read_key(job.chain.key)
    database = cast(ClientStore, source)
    elsewhere = target is not None and not target.same_database(source)
    clock = Clock(progress)
    with database.job_lock(f"chain-{job.chain.name}"):
        if not elsewhere and not job.exports:
            with database.session(write=True) as session:
                made = advance(job, session, key, clock, None)
                report = publish(job, made, session, session, clock)
            return report.made(seconds=dict(report.seconds) | {"total": clock.elapsed})
        to = cast(ClientStore, target) if elsewhere else database
        return _in_two(job, database, to, key, clock)


def _in_two(
    job: Job, source: ClientStore, target: ClientStore, key: bytes, clock: Clock
) -> Report:
    """The state first, committed; then the release, in another transaction."""
    same = target is source
    with files_of(job, target) as exporter:
        with ExitStack() as stack:
            looked: Session | None = None
            if not same:
                looked = stack.enter_context(target.planning(staging=False, create=True))
            session = stack.enter_context(source.session(write=True))
            if exporter is not None:
                exporter.require_places(looked or session)
            made = advance(job, session, key, clock, looked or session)
        with ExitStack() as stack:
            writes = stack.enter_context(target.session(write=True, create=not same))
            reads = writes if same else stack.enter_context(source.session(write=False))
            report = publish(job, made, reads, writes, clock, exporter)
            if exporter is not None:
                exporter.committing = True
            stack.close()
        if not same:
            # It counts as published all the same.
            with suppress(DbanonError), source.session(write=True) as session:
                state = made.state
                chain_state.confirmed(session, state.chain, state.sequence)
    return report.made(seconds=dict(report.seconds) | {"total": clock.elapsed})


# -- the state ------------------------------------------------------------------------------------


def advance(
    job: Job, session: Session, key: bytes, clock: Clock, looked: Session | None
) -> Advanced:
    """Take a chain one release further: who came, who left, and the rows that are to be shown.

    Parameters
    ----------
    looked : a session on the database that the release goes to, where it is made in another
        transaction; None where it is made in this one.
    """
    asked = job.chain
    assert asked is not None
    with clock.phase("read") as tick:
        tick(0.0)
        chain = chain_state.opened(session, asked, key)
        source = SqlSource(session)
        to = SqlTarget(session if looked is None else looked)
        planned = plan(job, source, SqlTarget(session), lambda: tick(0.0))
        definition.require_source(chain, job, session, planned.relation)
        if looked is not None:
            _require_target(job, planned, to, looked is not session, chain)
        k = int(job.policy.k)
        if chain.definition is not None:
            definition.require_same(chain, definition.told(job, planned))
        state = CellState(session, chain, chain.sequence + 1, k)
        blocks = chain_state.blocks(key, chain.identity)
        presence = state.stage_persons(planned.relation, blocks)
        if not asked.accept_turnover:
            state.require_turnover(presence, _absent_before(session, chain))
        whole = planned.relation
        planned = replace(planned, relation=_newcomers(source, job, planned, state))
    microdata, policy, found, frozen_measures = _classes(job, planned, source, state, clock)
    with clock.phase("write") as tick:
        tick(0.0)
        admitted = microdata.n_records > 0
        if admitted:
            release = recoded(planned, policy, source, microdata, found)
        else:
            release = _of_nobody(session, state, frozen_measures)
        made = _advanced(job, state, planned, whole, microdata, release)
        changed, columns, release = made
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        histories = _histories(job, state, presence, changed, len(microdata.keys))
        tells: tuple[TellingColumn, ...] = ()
        if admitted and state.sequence == 1:
            # Later ones show some newcomers, of whom a column may tell what it tells of nobody else.
            draft = Draft(job, planned.place, planned.relation, planned.wanted, microdata, release)
            tells = tell(draft, source, {})
    told = {**histories.told, "persons": histories.persons, "waiting": histories.waiting,
            "returned": histories.returned, "loss": release.loss}  # fmt: skip
    chain_state.noted(session, chain, state.sequence, planned.release_id, told)
    return Advanced(
        state, planned, policy, microdata, found, release, columns, histories, tells, presence
    )


def _require_target(
    job: Job, planned: Plan, to: SqlTarget, elsewhere: bool, chain: ChainKept
) -> None:
    """Refuse what the release's database would refuse, while nothing is committed yet."""
    to.plan(job, planned.release_id)
    if not elsewhere:
        return
    chain_state.require_not_behind(to.session, chain)
    for name in job.named:
        to.require_type(planned.relation.attribute(name))
    if job.policy.intervals == "range":
        raise InvalidParameter(
            "Ranges of a database's own type do not travel to another one.",
            hint='Use `intervals="text"` or `intervals="bounds"`.',
        )


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
    if not first:
        policy = replace(policy, hierarchies=definition.trees(chain))
    frozen_measures = None if first else definition.measures(chain)
    with clock.phase("read") as tick:
        microdata = source.read(planned.relation, planned.wanted, job, tick)
        due = (state.sequence - 1) % chain.rules.admit_every == 0
        microdata = _admissible(microdata, size if due else None)
        if not microdata.n_records:
            return microdata, policy, Found(Partition(np.empty(0, np.int32))), frozen_measures
        if frozen_measures is None:
            policy = replace(policy, hierarchies=planned.trees(microdata))
        else:
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
    if chain.definition is None and not microdata.n_records:
        return changed, (), release
    if chain.definition is None:
        target.columns(Draft(job, planned.place, whole, planned.wanted, microdata, release),
                       typed, False)  # fmt: skip
        told = definition.made(job, planned, release)
        columns = told["columns"]
        defined = session.ledger_name("chain_definition")
        row = (chain.chain_id, state.k, definition.as_text(told))
        session.insert_rows(defined, ["chain_id", "k", "definition"], [row])
        state.make_tables(
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
    changed = state.rewrite(whole, kept, newcomers, first)
    changed["rewritten"] = recount.rewritten(state, len(kept))
    state.settle(kept)
    return changed, tuple((name, place, of) for name, place, of in columns), release


def _histories(
    job: Job, state: CellState, presence: Presence, changed: dict[str, int], admitted: int
) -> Histories:
    """What the new state holds, counted again."""
    told = {**state.counted, "members": presence.members, "joined": admitted, **changed}
    session = state.session
    begun = state.sequence > 1 or admitted
    [(shown, absent)] = session.rows(
        "SELECT count(*), coalesce(sum(m.absent), 0) FROM (SELECT CASE WHEN EXISTS"
        ' (SELECT 1 FROM "dbanon_present" AS p WHERE p.tag = n.tag) THEN 0 ELSE 1 END AS absent'
        f" FROM {state.name('chain_member')} AS n"
        f" WHERE n.{state.of_chain} AND n.left_at_release IS NULL) AS m"
    )
    told["absent"] = int(absent)
    sizes = recount.sizes(state)
    return Histories(
        sequence=state.sequence,
        persons=int(shown),
        known=sum(size * many for size, many in sizes.items()),
        smallest=min(sizes, default=0),
        exposed=sum(size * many for size, many in sizes.items() if size < state.k),
        waiting=presence.newcomers - admitted,
        returned=presence.returned,
        misplaced=recount.misplaced(state) if begun else 0,
        rewritten=changed["rewritten"],
        told=told,
    )


# -- the release ----------------------------------------------------------------------------------


def publish(
    job: Job,
    made: Advanced,
    reads: Session,
    writes: Session,
    clock: Clock,
    export: ExportFiles | None = None,
) -> Report:
    """Write the release that the state says, count it, and publish it.

    Parameters
    ----------
    reads : on the chain's database.
    """
    state = replace(made.state, session=reads)
    if reads is not made.state.session and (
        chain_state.find(reads, state.chain.name).sequence != state.sequence
    ):
        raise SourceChanged(
            f"Another release of chain {state.chain.name} was made meanwhile: this one counts as"
            " published, and is not.",
            hint="Run it again.",
        )
    guarantee = cast(OfChain, made.planned.guarantee)
    target = ChainTarget(writes, state, made.columns)
    with clock.phase("write") as tick:
        tick(0.0)
        output = target.plan(job, made.planned.release_id)
        whole = made.planned.relation
        draft = Draft(job, output, whole, made.planned.wanted, made.microdata, made.release)
        written = target.write(draft, SqlSource(reads), tick)
        tick(1.0)
    with clock.phase("verify") as tick:
        tick(0.0)
        questions = questions_of(made.planned, made.release)
        counts = target.count(written, questions)
        histories = replace(made.histories, uneven=target.uneven(written, questions))
        counts = Counts(counts.rows, counts.persons, counts.cells, histories)
        nulls = counts.rows.null_rows if job.policy.nulls == "category" else 0
        holds = guarantee.check(counts, Expected(histories.persons, nulls, {}))
    with clock.phase("digest"):
        report = report_of(
            made.planned, replace(made.policy, k=state.k), draft, made.found, counts, holds, made.tells
        )
        report = told_of_chain(report, made, histories)
        report = report.made(digest=target.digest(written), seconds=dict(clock.seconds))
    if export is not None:
        with clock.phase("export") as tick:
            tick(0.0)
            files = export(target, written, questions, counts, guarantee, holds, report)
            report = report.exported(files, dict(clock.seconds))
    with clock.phase("write"):
        noted = target.publish(written, report, counts, clock.elapsed)
        if reads is writes:
            chain_state.confirmed(reads, state.chain, state.sequence)
    clock.tell("verify", 1.0)
    return report.made(created_at=noted, seconds=clock.seconds | {"total": clock.elapsed})


def told_of_chain(report: Report, made: Advanced, histories: Histories) -> Report:
    """The report with what the chain has to say, and the rows of all its persons."""
    state, k = made.state, made.state.k
    few: Callable[[int], Any] = lambda n: n if n == 0 or n >= k else f"fewer than {k}"  # noqa: E731
    chain = {
        "name": state.chain.name,
        "chain_id": state.chain.identity,
        "sequence": histories.sequence,
        **{name: getattr(state.chain.rules, name) for name in ("mode", "changes")},
        "waiting": few(histories.waiting),
        "returned": few(histories.returned),
    }
    through = (
        f"release {histories.sequence}: every history over "
        + ("it" if histories.sequence == 1 else f"releases 1 to {histories.sequence}")
        + f" is shared by at least {k} persons"
    )
    line = f"chain {state.chain.name}, {through}"
    for name, word in (("waiting", "wait"), ("returned", "returned")):
        if chain[name]:
            line += f"; {chain[name]} {word}"
    request = replace(report.request, arguments={**report.request.arguments, "chain": chain})
    counted = replace(report.counts, rows_in=made.presence.rows,
                      suppressed=max(made.presence.rows - histories.persons, 0))  # fmt: skip
    return replace(report, request=request, counts=counted).made(earlier_releases=line)


__all__ = ["MEASURE", "Advanced", "advance", "publish", "run_chained", "told_of_chain"]
