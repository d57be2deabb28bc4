"""Run a release of a chain: advance the state of the chain, then write the release from it.

If the release goes to the chain's database, both happen in one transaction. Exports to local files
are included: until the commit they have temporary names, and only their owner can read them. If the
release goes to another database, or to an object store where others might see it early, the state
is committed before any data leaves the chain's database. From then on the release counts as
published, even if it is never *confirmed*, which means recorded as actually written.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from dbanon.data.counts import ChainCounts
from dbanon.data.microdata import Microdata
from dbanon.errors import (
    ChainChanged,
    DbanonError,
    ReleaseNotNoted,
    ReleaseNotPublished,
    warn_caller,
)
from dbanon.extensions.chains import recount
from dbanon.extensions.chains import state as chain_state
from dbanon.extensions.chains.key import note_published, read_key
from dbanon.extensions.chains.membership import ChainState
from dbanon.extensions.chains.pair import count_joint_histories
from dbanon.extensions.chains.publish import publish_tables
from dbanon.extensions.chains.staging import chain_session, find_chain_stores
from dbanon.extensions.chains.state import ChainRecord
from dbanon.extensions.chains.step import ChainUpdate, PendingRelease, advance_chain, begin_release
from dbanon.extensions.chains.tables import plan_table
from dbanon.job.chain import MEASURE
from dbanon.job.job import Job
from dbanon.ledger.entries import has_trusted_ledger
from dbanon.release.outcome import build_losses
from dbanon.release.recode import Release, number_combinations
from dbanon.release.report import Report
from dbanon.run.disclosure import (
    find_disclosive_columns,
    warn_of_homogeneity,
    warn_of_identifiers,
    warn_of_spellings,
)
from dbanon.run.files import open_exporter
from dbanon.run.run import (
    Clock,
    PhaseProgress,
    read_and_cluster,
    recode_release,
)
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.chain_staging import PERSON_TAGS, PRESENT_PERSONS
from dbanon.sessions.names import quote
from dbanon.sessions.session import Session
from dbanon.sessions.store import ClientStore, Store


def extend_histories(
    state: ChainState, relation: Relation, microdata: Microdata, release: Release
) -> None:
    """Extend the history of each person by the person's combination of values in this release.

    A chain that only measures has no *cells* (lasting classes). In the column for the cell, it
    stores a number that identifies the person's history so far: for each release, the combination
    of values with which the person was released, or the person's absence.

    Parameters
    ----------
    relation : the rows of the source, whose persons are staged.
    microdata, release : all records of the source, and their released classes.
    """
    session, partition = state.session, release.partition
    member_table = state.ledger_table("chain_member")
    session.stage_labels(microdata, partition, relation.required_locator.types)
    combination_numbers = number_combinations(microdata, release)
    class_numbers = session.class_numbers(partition)
    # Load a table that maps classes to combinations of values. It has the columns of staged rows,
    # so the number of the combination is stored as the row's position, and no values are stored.
    no_values: list[tuple[()]] = [()] * len(class_numbers)
    session.load_rows([], [(class_numbers, combination_numbers, no_values)])
    # The rows in the release have the alias s, and their labels (class and position) the alias l.
    rows = statements.released_rows(relation.from_clause, relation.required_locator.expressions)
    in_release = (
        f"SELECT p.tag, p.cell, c.position AS combination FROM {rows}"
        f" JOIN {quote(statements.ROWS)} AS c ON c.class = l.class"
        f" JOIN {quote(PRESENT_PERSONS)} AS p ON p.person = s.{quote(state.chain.entity)}"
    )
    # Number the pairs of the history so far (0 for newcomers) and the combination in this release
    # (-1 for persons who are not in it). Members are persons whom earlier releases contain.
    state.stage(
        PERSON_TAGS,
        "SELECT tag, is_member, dense_rank() OVER (ORDER BY cell, combination) AS cell FROM"
        " (SELECT m.tag, 1 AS is_member, m.cell, coalesce(n.combination, -1) AS combination"
        f" FROM {member_table} AS m LEFT JOIN ({in_release}) AS n ON n.tag = m.tag"
        f" WHERE m.{state.chain_condition}"
        f" UNION ALL SELECT n.tag, 0, 0, n.combination FROM ({in_release}) AS n"
        " WHERE n.cell IS NULL) AS histories",
    )
    session.run(
        f"UPDATE {member_table} AS m SET cell = t.cell FROM {quote(PERSON_TAGS)} AS t"
        f" WHERE m.{state.chain_condition} AND m.tag = t.tag AND t.is_member = 1"
    )
    session.run(
        f"INSERT INTO {member_table} (chain_id, tag, cell)"
        f" SELECT {int(state.chain.chain_id)}, t.tag,"
        f" t.cell FROM {quote(PERSON_TAGS)} AS t WHERE t.is_member = 0"
    )


def advance_measuring_chain(pending: PendingRelease, clock: Clock) -> ChainUpdate:
    """Cluster all persons in the source, and count the persons whose history is rare.

    Raises
    ------
    ChainChanged : k differs from that of the first release.
    ChainExposed : more persons than allowed would have a history shared by fewer than k persons.
    """
    state, planned, source = pending.state, pending.planned, pending.source
    chain = state.chain
    session = state.session
    if chain.k is None:
        # The definition holds no settings of the job: only k must stay the same.
        row = (chain.chain_id, state.k, json.dumps({"job": {}}))
        definition_table = session.ledger.table("chain_definition")
        session.connection.insert_rows(definition_table, ["chain_id", "k", "definition"], [row])
    elif chain.k != state.k:
        raise ChainChanged(
            f"Chain {chain.name} uses k = {chain.k}.",
            hint=f"Release it with `k={chain.k}`, or create another chain: dbanon chain create.",
        )
    n_exposed_before = recount.count_exposed(recount.count_histories(state), state.k)
    microdata, policy, clustering = read_and_cluster(planned, source, clock)
    with clock.phase("write"):
        release = recode_release(planned, policy, source, microdata, clustering)
    with clock.phase("verify"):
        extend_histories(state, planned.relation, microdata, release)
        history_counts = recount.count_histories(state)
        n_exposed = recount.count_exposed(history_counts, state.k)
        chain_counts = ChainCounts(
            sequence=state.release_number,
            persons=int(release.partition.sizes.sum()),
            persons_so_far=recount.count_persons(history_counts),
            rarest_history_persons=min(history_counts, default=0),
            exposed_persons=n_exposed,
            # For ``dbanon chain show``: "more" are the exposed persons that this release adds, and
            # "alone" the persons with a unique history.
            further_counts={
                "exposed": n_exposed,
                "more": n_exposed - n_exposed_before,
                "alone": history_counts.get(1, 0),
                "members": pending.presence.n_members,
                "absent": pending.presence.n_absent,
                "joined": pending.presence.n_newcomers,
            },
        )
        pending.guarantee.require_chain_counts(chain_counts)
        draft = planned.prepare_release(microdata, release)
        disclosive_columns = find_disclosive_columns(
            planned.job,
            draft.originals,
            partial(source.group_by_value, draft),
            # No sample was checked before, so all columns are.
            sample_findings={},
        )
    planned = replace(planned, policy=policy)
    return ChainUpdate(
        state=state,
        planned=planned,
        guarantee=pending.guarantee,
        microdata=microdata,
        clustering=clustering,
        release=release,
        # The columns of the chain's own tables, which a chain that only measures does not have.
        columns=(),
        chain_counts=chain_counts,
        disclosive_columns=disclosive_columns,
        presence=pending.presence,
    )


def run_chained(
    job: Job, source: Store, target: Store | None, progress: PhaseProgress | None = None
) -> Report:
    """Run a job that is the next release of a chain.

    Raises
    ------
    DbanonError : the release failed. If the state was committed before, the release counts as
        published anyway.
    """
    assert job.chain is not None
    chain_database, file_store = find_chain_stores(source, target)
    key = read_key(job.chain.key)
    is_other_database = target is not None and not target.is_same_database(chain_database)
    clock = Clock(progress)
    # Runs of one chain take turns.
    with chain_database.job_lock(f"chain-{job.chain.name}"):
        if not is_other_database and _writes_only_local_files(job):
            report = _run_in_one_transaction(job, chain_database, file_store, key, clock)
        else:
            release_store = cast(ClientStore, target) if is_other_database else chain_database
            report = _run_in_two_transactions(
                job, chain_database, file_store, release_store, key, clock
            )
        # Warn only after publishing: sensitive values may not decide whether that happens.
        warn_of_homogeneity(report)
        return report.with_provenance(seconds=dict(report.seconds) | {"total": clock.elapsed})


def _writes_only_local_files(job: Job) -> bool:
    """True if all exports are local files, which only their owner can read before the commit."""
    if not job.exports:
        return True
    from dbanon.stores.exports import destinations

    paths = (destinations.resolve_destination(export.path, job.run_id) for export in job.exports)
    return all(isinstance(path, Path) for path in paths)


def _run_in_one_transaction(
    job: Job, chain_database: ClientStore, file_store: Store | None, key: bytes, clock: Clock
) -> Report:
    """Write state, release and files in one transaction; then move the files into place."""
    with open_exporter(job, chain_database) as exporter:
        with chain_session(chain_database, file_store, job) as session:
            if exporter is not None:
                # Raises an error if a file cannot be written, before any row is read.
                exporter.require_destinations(session)
            update = _advance_state(job, session, key, clock)
            report = publish_tables(update, session, session, clock, exporter)
            # From here on, an error may mean that the commit succeeded, so files are kept.
            if exporter is not None:
                exporter.is_committing = True
        is_recorded = _record_published(job, update)
    _warn_not_recorded(job, is_recorded)
    return report


def _run_in_two_transactions(
    job: Job,
    chain_database: ClientStore,
    file_store: Store | None,
    release_store: ClientStore,
    key: bytes,
    clock: Clock,
) -> Report:
    """Commit the state first; then write the release in another transaction.

    Parameters
    ----------
    file_store : the store of the files that the job reads; None if it reads tables of
        ``chain_database``.
    release_store : the database of the release; the same object as ``chain_database`` if that is
        the same database.
    """
    is_same_database = release_store is chain_database
    with open_exporter(job, release_store) as exporter:
        with ExitStack() as stack:
            # Lock the output in the other database before the state is committed: no other run may
            # write to this output once the release counts as published.
            target_session: Session | None = None
            if not is_same_database:
                target_session = stack.enter_context(release_store.session(write=True, create=True))
            with chain_session(chain_database, file_store, job) as session:
                if exporter is not None:
                    exporter.require_destinations(target_session or session)
                update = _advance_state(job, session, key, clock, target_session)
            is_recorded = _record_published(job, update)
            chain_reader = stack.enter_context(
                chain_session(chain_database, file_store, job, write=is_same_database)
            )
            release_writer = chain_reader if target_session is None else target_session
            report = publish_tables(update, chain_reader, release_writer, clock, exporter)
            # From here on, an error may mean that the commit succeeded, so files are kept.
            if exporter is not None:
                exporter.is_committing = True
            # Commit the release.
            stack.close()
        if not is_same_database:
            # Ignore failures: the release counts as published even without this confirmation.
            with suppress(DbanonError), chain_database.session(write=True) as session:
                state = update.state
                chain_state.confirm_release(session, state.chain, state.release_number)
    _warn_not_recorded(job, is_recorded)
    return report


def _record_published(job: Job, update: ChainUpdate) -> bool:
    """Write beside the key file that the release counts as published; return False on failure."""
    assert job.chain is not None
    return note_published(job.chain.key, update.state.chain.identity, update.state.release_number)


def _warn_not_recorded(job: Job, is_recorded: bool) -> None:
    """Warn, after publishing, if ``_record_published`` could not write its note."""
    assert job.chain is not None
    if not is_recorded:
        warn_caller(
            ReleaseNotNoted(
                f"The number of the last release of chain {job.chain.name} could not be written"
                " beside the chain's key, so a database restored from a backup would not be"
                " detected. Allow this account to write to the directory of the key."
            )
        )


def _require_no_newer_exports(job: Job, chain: ChainRecord) -> None:
    """Check that no export would overwrite a file of a release that the chain's state lacks.

    Such a file shows that the database was restored from a backup.

    Raises
    ------
    ChainBehind : an export would overwrite such a file.
    """
    for export in job.exports:
        from dbanon.stores.exports import destinations
        from dbanon.stores.exports.formats import metadata_of

        destination = destinations.resolve_destination(export.path, job.run_id)
        # Most destinations have no file yet, or one that is no release.
        with suppress(ValueError, OSError):
            metadata = metadata_of(destination)
            if metadata.get("chain") == chain.identity:
                latest_release = int(metadata["chain_sequence"])
                chain_state.require_state_includes(chain, latest_release, f"in {destination.name}")


def _advance_state(
    job: Job, session: Session, key: bytes, clock: Clock, target_session: Session | None = None
) -> ChainUpdate:
    """Advance the chain to its next state, and record the release.

    Parameters
    ----------
    target_session : a session on the database of the release; None if it is the chain's database.
    """
    pending = begin_release(job, session, key, clock, target_session)
    _require_no_newer_exports(job, pending.state.chain)
    _confirm_earlier_releases(pending.state.chain, session, target_session or session)
    for chain_table in pending.chain_tables:
        warn_of_identifiers(plan_table(pending.planned, chain_table))
    entity = pending.planned.job.entity
    spellings = warn_of_spellings(pending.planned, pending.source, entity) if entity else ()
    only_measures = pending.state.chain.rules.mode == MEASURE
    update = (advance_measuring_chain if only_measures else advance_chain)(pending, clock)
    update = replace(update, spellings=spellings)
    if pending.state.chain.rules.new_chain_from is not None and pending.state.release_number == 1:
        with clock.phase("verify"):
            update = _add_predecessor_histories(update, pending, key)
    chain_counts = update.chain_counts
    # Store the loss that readers may see, not the exact one: ``dbanon chain show`` prints it.
    loss, _ = build_losses(update.release, levels=None, lost_columns=())
    counts = {
        **chain_counts.further_counts,
        "persons": chain_counts.persons,
        "waiting": chain_counts.waiting_persons,
        "returned": chain_counts.returned_persons,
        "loss": loss.released,
    }
    state = update.state
    chain_state.add_release(
        session, state.chain, state.release_number, update.planned.release_id, counts
    )
    return update


def _confirm_earlier_releases(
    chain: ChainRecord, session: Session, target_session: Session
) -> None:
    """Confirm earlier releases that were published but not confirmed.

    Warns with ``ReleaseNotPublished`` if the last release was not published.

    Parameters
    ----------
    target_session : a session on the database that the releases go to.
    """
    if chain.n_releases in _confirm_published(session, chain, target_session):
        warn_caller(
            ReleaseNotPublished(
                f"Release {chain.n_releases} of chain {chain.name} was not published here: its run"
                " ended after the state was committed, or it went to another database. It counts"
                f" as published, and this one is release {chain.n_releases + 1}."
            )
        )


def _confirm_published(session: Session, chain: ChainRecord, target_session: Session) -> set[int]:
    """Confirm the releases that were published; return the numbers of those that were not.

    Parameters
    ----------
    target_session : a session on the database that releases go to, whose ledger lists them.
    """
    unconfirmed_releases = session.rows(
        "SELECT sequence, CAST(release_id AS VARCHAR(36)) FROM"
        f" {session.ledger.table('chain_release').quoted}"
        " WHERE chain_id = ? AND confirmed_at IS NULL",
        (chain.chain_id,),
    )
    release_table, published_ids = target_session.ledger.table("release"), set()
    if unconfirmed_releases and has_trusted_ledger(target_session):
        published_ids = {
            str(release_id)
            for (release_id,) in target_session.rows(
                f"SELECT CAST(release_id AS VARCHAR(36)) FROM {release_table.quoted}"
                " WHERE CAST(chain_id AS VARCHAR(36)) = ?",
                (chain.identity,),
            )
        }
    unpublished_numbers = set()
    for sequence, release_id in unconfirmed_releases:
        if release_id in published_ids:
            chain_state.confirm_release(session, chain, int(sequence))
        else:
            unpublished_numbers.add(int(sequence))
    return unpublished_numbers


def _add_predecessor_histories(
    update: ChainUpdate, pending: PendingRelease, key: bytes
) -> ChainUpdate:
    """Count histories over this chain and its predecessor together; add the counts to the update.

    Raises
    ------
    ChainExposed : both chains together would expose more persons than allowed.
    """
    history_counts = count_joint_histories(update.state, pending.planned.relation, key)
    pair_counts = {
        "pair_exposed": recount.count_exposed(history_counts, update.state.k),
        "pair_known": recount.count_persons(history_counts),
    }
    update.guarantee.require_exposure_limit(pair_counts["pair_exposed"], pair_counts["pair_known"])
    chain_counts = replace(
        update.chain_counts, further_counts={**update.chain_counts.further_counts, **pair_counts}
    )
    return replace(update, chain_counts=chain_counts)
