"""Find the relations and files that a run would change, without changing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from dbanon.data.types import JsonMapping
from dbanon.errors import DbanonError, ReleaseChanged, ReleaseNotFound, TableNotFound
from dbanon.job.job import Job
from dbanon.job.requirements import INDEPENDENT
from dbanon.ledger import entries, job_history, release_tables, releases
from dbanon.ledger.recorded_report import rows_of_release
from dbanon.run.comparison import Comparison
from dbanon.run.export import Exporter
from dbanon.run.fingerprint import compute_fingerprint, has_changed_rows, parse_salt
from dbanon.run.plan import plan
from dbanon.sessions.base import Output
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.exports import destinations
from dbanon.stores.shared_clients import keep_clients_open
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget

_LEDGER = "ledger"


def with_exact_staleness(
    store: Store, listed_releases: Sequence[releases.Listed]
) -> list[releases.Listed]:
    """Set ``stale``, whether the source has changed since the release, by comparing digests.

    The digest of the source's rows is compared with the one recorded for the release. The rows are
    read with the rights of the current role. If a right or a digest is missing, ``stale`` keeps its
    value, which comes from the database's counters of changes.
    """
    result = []
    for listed_release in listed_releases:
        is_stale = None
        # Differentially private releases record no digest of their source.
        if listed_release.state == releases.CURRENT and listed_release.epsilon is None:
            # Use a transaction per release, so that a failing source does not affect the others.
            with suppress(DbanonError), store.session(write=False) as session:
                is_stale = has_changed_rows(session, listed_release.release_id)
        if is_stale is not None:
            listed_release = replace(listed_release, stale=is_stale, stale_by=releases.DIGEST)
        result.append(listed_release)
    return result


@contextmanager
def open_planning_ports(
    source: Store, target: Store | None, staging: bool
) -> Iterator[tuple[SqlSource, SqlTarget]]:
    """Yield source and target of a plan, in transactions that change nothing.

    The target's session comes from ``Store.planning``, which makes the checks of a session that
    writes.

    Parameters
    ----------
    staging : True if the plan needs temporary tables.
    target : the store to release into; None for the store of the source.
    """
    with ExitStack() as stack:
        if target is None or target.is_same_database(source):
            session = stack.enter_context(source.planning(staging=staging))
            yield SqlSource(session), SqlTarget(session)
        else:
            # For the plan of a chain, the rows of a source that is not persistent, such as a file,
            # are staged in the target, where the chain is stored.
            stages_in_target = staging and not source.is_persistent
            # With ``create``, a missing database file counts as an empty database.
            target_session = stack.enter_context(
                target.planning(staging=stages_in_target, create=True)
            )
            source_session = stack.enter_context(source.session(write=False))
            yield SqlSource(source_session), SqlTarget(target_session)


@dataclass(frozen=True)
class PlannedFile:
    """A file that would be written.

    Parameters
    ----------
    path : its path, with ``{release}`` in place of the id that the release will have.
    format : the file format, such as ``parquet``.
    replaces : True if it would replace the file of an earlier release.
    keep_last : number of files to keep, including this one; None to keep all.
    """

    path: str
    format: str
    replaces: bool
    keep_last: int | None


@dataclass(frozen=True)
class Changes:
    """The changes that a run would make.

    Parameters
    ----------
    creates : descriptions of relations to create, and of the ledger if there is none.
    drops : names of tables of earlier releases of the view.
    files : the files to write.
    """

    creates: tuple[str, ...]
    drops: tuple[str, ...]
    files: tuple[PlannedFile, ...]


# The checks of all exports share one client for each catalog of tables.
@keep_clients_open()
def plan_changes(
    job: Job, output: Output, session: Session, target: Store, keep_last: int | None
) -> Changes:
    """List the changes that a run would make, and check that its files could be written.

    Parameters
    ----------
    session, target : a session of the database to write to, and the store of that database.
    keep_last : number of replaced releases of the view to keep; None to keep all.

    Raises
    ------
    OutputExists, InsufficientRights, InvalidParameter : a file cannot be written.
    """
    created_relations = [] if session.ledger.exists() else [_LEDGER]
    if output.creates_schema:
        created_relations.append(f"schema {output.name.schema}, which is missing")
    if output.replaced_kind is None:
        created_relations.append(f"{output.kind} {output.name}")
    # ``output.relation`` has the rows. A view has them in a table of its own, under another name.
    # A table is its own relation.
    if output.relation != output.name:
        created_relations.append(f"a table for {output.kind} {output.name}")
    if job.exports:
        Exporter(job, target).require_destinations(session, create_directories=False)
    return Changes(
        tuple(created_relations),
        _find_superseded_tables(session, output, keep_last),
        tuple(_plan_files(job)),
    )


def _find_superseded_tables(
    session: Session, output: Output, keep_last: int | None
) -> tuple[str, ...]:
    """Return the tables of earlier releases to drop once the view shows the new release."""
    if keep_last is None or output.kind != "view" or output.replaced_kind is None:
        return ()
    # The table that the view shows now will be the newest of the replaced tables, and count as one
    # of those to keep.
    n_older_to_keep = max(keep_last - 1, 0)
    older_tables = release_tables.superseded_tables(session, n_older_to_keep, output.name)
    # With 0 to keep, the table that the view shows now is dropped, too.
    current_table = [] if keep_last else release_tables.tables_shown_by(session, output.name)
    return tuple(str(name) for name in (*current_table, *older_tables))


def _plan_files(job: Job) -> list[PlannedFile]:
    """Describe the files that the exports of a job would write."""
    return [
        PlannedFile(
            path=str(destinations.resolve_destination(export.path, "{release}")),
            format=export.format,
            # With the id of the release in its path, each file is new. In other paths there is no
            # id to insert.
            replaces="{release}" not in export.path
            and destinations.status_of(destinations.resolve_destination(export.path, release_id=""))
            is not None,
            keep_last=export.keep_last,
        )
        for export in job.exports
    ]


def find_unchanged_release(job: Job, source: Store, target: Store | None = None) -> str | None:
    """Return the id of the job's last release if a run would only repeat it, else None.

    A run would repeat it if source rows, job and version of dbanon still have the fingerprint of
    the last release, and if the output and its files are unchanged.

    Raises
    ------
    DbanonError : the run would be refused with this error.
    """
    assert job.name is not None
    # The output and its release usually exist, so plan to replace them. ``INDEPENDENT`` keeps the
    # plan from refusing a second release of the same persons.
    replacing_job = replace(job, if_exists="replace")
    if job.chain is None:
        replacing_job = replace(replacing_job, releases=INDEPENDENT)
    with open_planning_ports(source, target, staging=False) as (sql_source, sql_target):
        session = sql_target.session
        last_release = job_history.last_release(session, job.name)
        if last_release is None or last_release.fingerprint is None:
            return None
        planned = plan(replacing_job, sql_source, sql_target)
        # Fingerprints of the same rows are equal only if they have the same salt.
        current_fingerprint = compute_fingerprint(
            planned, sql_source, parse_salt(last_release.fingerprint)
        )
        if current_fingerprint != last_release.fingerprint or not _is_output_unchanged(
            session, job, last_release.release_id
        ):
            return None
        # The ledger's table ``release`` has one row for each release.
        [ledger_row] = rows_of_release(session, "release", last_release.release_id)
    exported_files = ledger_row["arguments"].get("exports", ())
    return last_release.release_id if all(map(_is_file_unchanged, exported_files)) else None


def _is_output_unchanged(session: Session, job: Job, release_id: str) -> bool:
    """Return True if the job's output is this release, and the digest of its rows is unchanged."""
    try:
        entry = entries.find_release(session, parse_relation(job.output))
        if entry.release_id != release_id:
            return False
        # Check the relation like a source: its owner may have replaced it by a view.
        session.catalog.find_source(entry.name)
        comparison = Comparison(session, entry.name, entry)
        comparison.compare_rows()
    except (ReleaseChanged, ReleaseNotFound, TableNotFound):
        return False
    return bool(comparison.unchanged)


# If the export is a table of a catalog, all requests share one client.
@keep_clients_open()
def _is_file_unchanged(file: JsonMapping) -> bool:
    """Return True if an exported file has the SHA-256 that the ledger recorded."""
    try:
        # Recorded paths already have the id of their release.
        path = destinations.resolve_destination(file["path"], release_id="")
        return (
            destinations.is_file(destinations.status_of(path))
            and destinations.sha256(path) == file["sha256"]
        )
    except (OSError, DbanonError):
        return False
