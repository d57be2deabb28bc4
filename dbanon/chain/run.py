"""A release of a chain: the state goes on first, and the release is what the state says.

In one database both are one transaction, with files of this machine: until the commit only their
owner can read them, under names of their own. Where the release goes elsewhere, or into objects and
tables that others may see before, the state is committed before anything leaves the source's
database: from then on the release counts as published, whether or not it is confirmed.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from dbanon.chain import recount
from dbanon.chain import state as chain_state
from dbanon.chain.key import note_published, read_key
from dbanon.chain.membership import CellState
from dbanon.chain.pair import pair_sizes
from dbanon.chain.publish import publish_tables
from dbanon.chain.staging import chain_session, keeper
from dbanon.chain.state import ChainKept
from dbanon.chain.step import Advanced, Begun, advance, begin
from dbanon.chain.tables import planned_of
from dbanon.data.counts import Histories
from dbanon.data.microdata import Microdata
from dbanon.errors import (
    ChainChanged,
    DbanonError,
    ReleaseNotNoted,
    ReleaseNotPublished,
    warn_caller,
)
from dbanon.job.chain import MEASURE
from dbanon.job.job import Job
from dbanon.ledger.entries import trusted
from dbanon.release.outcome import losses_of
from dbanon.release.recode import Release, combinations
from dbanon.release.report import Report
from dbanon.run.disclosure import (
    telling_columns,
    warn_of_homogeneity,
    warn_of_identifiers,
    warn_of_spellings,
)
from dbanon.run.files import files_of
from dbanon.run.run import (
    Clock,
    PhaseProgress,
    read_and_cluster,
    recode_release,
)
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import PRESENT, TRACES
from dbanon.sessions.session import Session
from dbanon.sessions.store import ClientStore, Store


def refine(state: CellState, relation: Relation, microdata: Microdata, release: Release) -> None:
    """Refine everybody's history by the combination that they have in this release."""
    session, member, partition = state.session, state.name("chain_member"), release.partition
    session.stage_labels(microdata, partition, relation.located.types)
    combined = combinations(microdata, release)
    numbers = session.class_numbers(partition)
    session.load_rows([], [(numbers, combined, [()] * len(numbers))])
    rows = statements.released_rows(relation.from_clause, relation.located.expressions)
    now = (
        f"SELECT p.tag, p.cell, c.position AS combination FROM {rows}"
        f" JOIN {quote(statements.ROWS)} AS c ON c.class = l.class"
        f" JOIN {quote(PRESENT)} AS p ON p.person = s.{quote(state.chain.entity)}"
    )
    state.make(
        TRACES,
        "SELECT tag, known, dense_rank() OVER (ORDER BY cell, combination) AS cell FROM"
        " (SELECT m.tag, 1 AS known, m.cell, coalesce(n.combination, -1) AS combination"
        f" FROM {member} AS m LEFT JOIN ({now}) AS n ON n.tag = m.tag WHERE m.{state.of_chain}"
        f" UNION ALL SELECT n.tag, 0, 0, n.combination FROM ({now}) AS n WHERE n.cell IS NULL"
        ") AS histories",
    )
    session.run(
        f"UPDATE {member} AS m SET cell = t.cell FROM {quote(TRACES)} AS t"
        f" WHERE m.{state.of_chain} AND m.tag = t.tag AND t.known = 1"
    )
    session.run(
        f"INSERT INTO {member} (chain_id, tag, cell) SELECT {int(state.chain.chain_id)}, t.tag,"
        f" t.cell FROM {quote(TRACES)} AS t WHERE t.known = 0"
    )


def advance_measured(begun: Begun, clock: Clock) -> Advanced:
    """Find the classes of everybody in the source, and count whose histories few share then.

    Raises
    ------
    ChainChanged : another k than that of the first release.
    ChainExposed : more persons than allowed would be exposed.
    """
    state, planned, source, chain = begun.state, begun.planned, begun.source, begun.state.chain
    session = state.session
    if chain.k is None:
        row = (chain.chain_id, state.k, json.dumps({"job": {}}))
        defined = session.ledger_name("chain_definition")
        session.insert_rows(defined, ["chain_id", "k", "definition"], [row])
    elif chain.k != state.k:
        raise ChainChanged(f"Chain {chain.name} counts by k = {chain.k}.", hint="Begin another.")
    before = recount.exposed(recount.sizes(state), state.k)
    microdata, policy, found = read_and_cluster(planned, source, clock)
    with clock.phase("write"):
        release = recode_release(planned, policy, source, microdata, found)
    with clock.phase("verify"):
        refine(state, planned.relation, microdata, release)
        sizes = recount.sizes(state)
        exposed = recount.exposed(sizes, state.k)
        histories = Histories(
            sequence=state.sequence,
            persons=int(release.partition.sizes.sum()),
            known=sum(size * many for size, many in sizes.items()),
            smallest=min(sizes, default=0),
            exposed=exposed,
            told={"exposed": exposed, "more": exposed - before,
                  "alone": sizes.get(1, 0), "members": begun.presence.members,
                  "absent": begun.presence.absent, "joined": begun.presence.newcomers},
        )  # fmt: skip
        begun.guarantee.require_histories(histories)
        draft = planned.draft(microdata, release)
        tells = telling_columns(planned.job, draft.originals, partial(source.groups, draft), {})
    planned = replace(planned, policy=policy)
    return Advanced(state, planned, begun.guarantee, microdata, found, release, (), histories,
                    tells, begun.presence)  # fmt: skip


def run_chained(
    job: Job, source: Store, target: Store | None, progress: PhaseProgress | None = None
) -> Report:
    """Run a job that is the next release of a chain.

    Raises
    ------
    DbanonError : its class says what went wrong.  What was committed before counts as
        published, and is kept as such.
    """
    assert job.chain is not None
    database, file = keeper(source, target)
    key = read_key(job.chain.key)
    elsewhere = target is not None and not target.same_database(database)
    clock = Clock(progress)
    with database.job_lock(f"chain-{job.chain.name}"):
        if not elsewhere and _writes_own_files(job):
            return _in_one(job, database, file, key, clock)
        to = cast(ClientStore, target) if elsewhere else database
        return _in_two(job, database, file, to, key, clock)


def _writes_own_files(job: Job) -> bool:
    """Whether all files are of this machine: nobody but their owner sees them before the commit."""
    if not job.exports:
        return True
    from dbanon.stores.exports import places

    found = (places.resolve_destination(export.path, job.run_id) for export in job.exports)
    return all(isinstance(place, Path) for place in found)


def _in_one(
    job: Job, database: ClientStore, file: Store | None, key: bytes, clock: Clock
) -> Report:
    """The state, the release and its files in one transaction; then the files get their places."""
    with files_of(job, database) as exporter:
        with chain_session(database, file, job) as session:
            if exporter is not None:
                exporter.require_places(session)
            made = _go_on(job, session, key, clock)
            report = publish_tables(made, session, session, clock, exporter)
            if exporter is not None:
                exporter.committing = True
        noted = _note(job, made)
    _warn_unnoted(job, noted)
    # Once it is published: whether it is may not depend on who of a class has which value.
    warn_of_homogeneity(report)
    return report.made(seconds=dict(report.seconds) | {"total": clock.elapsed})


def _in_two(
    job: Job,
    source: ClientStore,
    file: Store | None,
    target: ClientStore,
    key: bytes,
    clock: Clock,
) -> Report:
    """The state first, committed; then the release, in another transaction.

    Parameters
    ----------
    source : the database of the chain. file : that the job reads, if it reads no table there.
    """
    same = target is source
    with files_of(job, target) as exporter:
        with ExitStack() as stack:
            # Of another database: it has the lock of the output before the state is committed, so
            # that no other run takes the place of a release that counts as published.
            looked: Session | None = None
            if not same:
                looked = stack.enter_context(target.session(write=True, create=True))
            with chain_session(source, file, job) as session:
                if exporter is not None:
                    exporter.require_places(looked or session)
                made = _go_on(job, session, key, clock, looked)
            noted = _note(job, made)
            reads = stack.enter_context(chain_session(source, file, job, write=same))
            writes = reads if looked is None else looked
            report = publish_tables(made, reads, writes, clock, exporter)
            if exporter is not None:
                exporter.committing = True
            stack.close()
        if not same:
            # It counts as published all the same.
            with suppress(DbanonError), source.session(write=True) as session:
                state = made.state
                chain_state.confirmed(session, state.chain, state.sequence)
    _warn_unnoted(job, noted)
    return report.made(seconds=dict(report.seconds) | {"total": clock.elapsed})


def _note(job: Job, made: Advanced) -> bool:
    """Note beside the key that the state is committed: from then on the release is published."""
    assert job.chain is not None
    return note_published(job.chain.key, made.state.chain.identity, made.state.sequence)


def _warn_unnoted(job: Job, noted: bool) -> None:
    """Warn where the note failed, once the release is published: it is not undone by a warning."""
    assert job.chain is not None
    if not noted:
        warn_caller(
            ReleaseNotNoted(
                f"The last release of chain {job.chain.name} could not be noted beside its key: a"
                " database that is restored from a backup would not be noticed by it. Let this"
                " role write the directory of the key."
            )
        )


def _require_exports(job: Job, chain: ChainKept) -> None:
    """Check that no file whose place an export takes is of a release that the state has not.

    Raises
    ------
    ChainBehind : one is.
    """
    for export in job.exports:
        from dbanon.stores.exports import places
        from dbanon.stores.exports.formats import metadata_of

        place = places.resolve_destination(export.path, job.run_id)
        with suppress(ValueError, OSError):
            said = metadata_of(place)
            if said.get("chain") == chain.identity:
                latest = int(said["chain_sequence"])
                chain_state.require_not_before(chain, latest, f"in {place.name}")


def _go_on(
    job: Job, session: Session, key: bytes, clock: Clock, looked: Session | None = None
) -> Advanced:
    """The next state of the chain, as its rules say, and what is kept of this release."""
    begun = begin(job, session, key, clock, looked)
    _require_exports(job, begun.state.chain)
    _confirm_earlier(begun.state.chain, session, looked or session)
    for part in begun.parts:
        warn_of_identifiers(planned_of(begun.planned, part))
    spellings = warn_of_spellings(begun.planned, begun.source)
    measures = begun.state.chain.rules.mode == MEASURE
    made = (advance_measured if measures else advance)(begun, clock)
    made = replace(made, spellings=spellings)
    if begun.state.chain.rules.new_chain_from is not None and begun.state.sequence == 1:
        with clock.phase("verify"):
            made = _with_earlier(made, begun, key)
    found = made.histories
    # As readers may see it: dbanon chain show prints it.
    loss, _ = losses_of(made.release, None, ())
    told = {**found.told, "persons": found.persons, "waiting": found.waiting,
            "returned": found.returned, "loss": loss.released}  # fmt: skip
    state = made.state
    chain_state.add_release(session, state.chain, state.sequence, made.planned.release_id, told)
    return made


def _confirm_earlier(chain: ChainKept, session: Session, published_in: Session) -> None:
    """Confirm earlier releases that were published before their run ended; warn of the last one.

    Warns with ``ReleaseNotPublished``.

    Parameters
    ----------
    published_in : a session on the database that releases go to.
    """
    if chain.sequence in _unpublished(session, chain, published_in):
        warn_caller(
            ReleaseNotPublished(
                f"Release {chain.sequence} of chain {chain.name} was not published here: its run"
                " ended after the state was committed, or it went to another database. It counts"
                f" as published, and this one is release {chain.sequence + 1}."
            )
        )


def _unpublished(session: Session, chain: ChainKept, published_in: Session) -> set[int]:
    """Confirm the releases that were published after all; the numbers of those that were not.

    Parameters
    ----------
    published_in : a session on the database whose ledger has them.
    """
    open_releases = session.rows(
        "SELECT sequence, CAST(release_id AS VARCHAR(36)) FROM"
        f" {session.ledger_name('chain_release').quoted}"
        " WHERE chain_id = ? AND confirmed_at IS NULL",
        (chain.chain_id,),
    )
    release, published = published_in.ledger_name("release"), set()
    if open_releases and trusted(published_in):
        published = {
            str(release_id)
            for (release_id,) in published_in.rows(
                f"SELECT CAST(release_id AS VARCHAR(36)) FROM {release.quoted}"
                " WHERE CAST(chain_id AS VARCHAR(36)) = ?",
                (chain.identity,),
            )
        }
    missing = set()
    for sequence, release_id in open_releases:
        if release_id in published:
            chain_state.confirmed(session, chain, int(sequence))
        else:
            missing.add(int(sequence))
    return missing


def _with_earlier(made: Advanced, begun: Begun, key: bytes) -> Advanced:
    """The first release with what it tells together with the chain that this one follows.

    Raises
    ------
    ChainExposed : more persons than allowed would be exposed by both.
    """
    sizes, k = pair_sizes(made.state, begun.planned.relation, key), made.state.k
    pair = {
        "pair_exposed": recount.exposed(sizes, k),
        "pair_known": sum(size * many for size, many in sizes.items()),
    }
    made.guarantee.require_few(pair["pair_exposed"], pair["pair_known"])
    histories = replace(made.histories, told={**made.histories.told, **pair})
    return replace(made, histories=histories)
