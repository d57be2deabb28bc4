"""Relations and files that a run would change. Finding out changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from dbanon.errors import DbanonError, ReleaseChanged, ReleaseNotFound, TableNotFound
from dbanon.job.job import Job
from dbanon.job.requirements import INDEPENDENT
from dbanon.ledger import entries, job_history, release_tables, releases
from dbanon.ledger.recorded_report import rows_of_release
from dbanon.run.comparison import Comparison
from dbanon.run.export import Exporter
from dbanon.run.fingerprint import fingerprint, has_other_rows, salt_of
from dbanon.run.plan import plan
from dbanon.sessions.base import Output
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores.exports import places
from dbanon.stores.lake_catalog import open_catalogs
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget

LEDGER = "ledger"


def with_exact_staleness(store: Store, listed: Sequence[releases.Listed]) -> list[releases.Listed]:
    """The releases, with ``stale`` decided by the source's rows where a digest was recorded.

    Reads rows with the rights of this role. Where a right is missing, the result of the counters
    stays.
    """
    result = []
    for listed_release in listed:
        stale = None
        if listed_release.state == releases.CURRENT and listed_release.epsilon is None:
            # Use one transaction per release, so that one failing source does not affect others.
            with suppress(DbanonError), store.session(write=False) as session:
                stale = has_other_rows(session, listed_release.release_id)
        if stale is not None:
            listed_release = replace(listed_release, stale=stale, stale_by=releases.DIGEST)
        result.append(listed_release)
    return result


@contextmanager
def planning_ports(
    source: Store, target: Store | None, staging: bool
) -> Iterator[tuple[SqlSource, SqlTarget]]:
    """Source and target of a plan, on transactions that change nothing."""
    with ExitStack() as stack:
        if target is None or target.same_database(source):
            session = stack.enter_context(source.planning(staging=staging))
            yield SqlSource(session), SqlTarget(session)
        else:
            # The rows of a file are staged where the chain is.
            in_target = staging and not source.is_persistent
            writes = stack.enter_context(target.planning(staging=in_target, create=True))
            reads = stack.enter_context(source.session(write=False))
            yield SqlSource(reads), SqlTarget(writes)


@dataclass(frozen=True)
class PlannedFile:
    """A file that would be written.

    Parameters
    ----------
    path : its place, with ``{release}`` for the id that the release gets.
    replaces : True where a file of an earlier release has the place.
    keep_last : how many files stay, with this one; None for all.
    """

    path: str
    format: str
    replaces: bool
    keep_last: int | None


@dataclass(frozen=True)
class Changes:
    """What a run would change.

    Parameters
    ----------
    creates : relations, and the ledger where there is none.
    drops : tables of earlier releases of the view.
    files : that would be written.
    """

    creates: tuple[str, ...]
    drops: tuple[str, ...]
    files: tuple[PlannedFile, ...]


@open_catalogs()
def changes(
    job: Job, output: Output, session: Session, target: Store, keep_last: int | None
) -> Changes:
    """What a run would change, after the checks that it would make of places of files.

    Parameters
    ----------
    session, target : of the database that would be written to.
    keep_last : replaced releases of the view that stay; None for all.

    Raises
    ------
    OutputExists, InsufficientRights, InvalidParameter : a file cannot have its place.
    """
    created = [] if session.has_ledger() else [LEDGER]
    if output.creates_schema:
        created.append(f"schema {output.name.schema}, which is missing")
    if output.replaces is None:
        created.append(f"{output.kind} {output.name}")
    if output.relation != output.name:
        created.append(f"a table for {output.kind} {output.name}")
    if job.exports:
        Exporter(job, target).require_places(session, make=False)
    return Changes(tuple(created), _drops(session, output, keep_last), tuple(_files(job)))


def _drops(session: Session, output: Output, keep_last: int | None) -> tuple[str, ...]:
    """Tables that the view shows no longer once it is replaced, and that are not kept."""
    if keep_last is None or output.kind != "view" or output.replaces is None:
        return ()
    # The one that it shows now is then the newest of those that were replaced.
    before = release_tables.superseded_tables(session, max(keep_last - 1, 0), output.name)
    current = [] if keep_last else release_tables.tables_shown_by(session, output.name)
    return tuple(str(name) for name in (*current, *before))


def _files(job: Job) -> list[PlannedFile]:
    return [
        PlannedFile(
            str(places.resolve_destination(export.path, "{release}")),
            export.format,
            "{release}" not in export.path
            and places.status_of(places.resolve_destination(export.path, "")) is not None,
            export.keep_last,
        )
        for export in job.exports
    ]


def unchanged_since(job: Job, source: Store, target: Store | None = None) -> str | None:
    """The id of a job's last release, where a run would make the same one; None where it may not.

    Its source, its definition and its version are the same by fingerprint, its output is there and
    as it was released, and so are its files. Nothing is changed.

    Raises
    ------
    DbanonError : what the run would be refused with.
    """
    assert job.name is not None
    # Here the output and its release are expected to exist.
    replacing_job = replace(job, if_exists="replace")
    if job.chain is None:
        replacing_job = replace(replacing_job, releases=INDEPENDENT)
    with planning_ports(source, target, staging=False) as (reads, writes):
        session = writes.session
        last = job_history.last_release(session, job.name)
        if last is None or last.fingerprint is None:
            return None
        planned = plan(replacing_job, reads, writes)
        current_fingerprint = fingerprint(planned, reads, salt_of(last.fingerprint))
        if current_fingerprint != last.fingerprint or not _is_as_released(
            session, job, last.release_id
        ):
            return None
        [row] = rows_of_release(session, "release", last.release_id)
    files = row["arguments"].get("exports", ())
    return last.release_id if all(map(_is_as_written, files)) else None


def _is_as_released(session: Session, job: Job, release_id: str) -> bool:
    """True where the job's output is this release still, by the digest of its rows."""
    try:
        entry = entries.find_release(session, parse_relation(job.output))
        if entry.release_id != release_id:
            return False
        # Looked at as a source is: its owner may have made a view of it.
        session.find_source(entry.name)
        comparison = Comparison(session, entry.name, entry)
        comparison.compare_rows()
    except (ReleaseChanged, ReleaseNotFound, TableNotFound):
        return False
    return bool(comparison.unchanged)


@open_catalogs()
def _is_as_written(file: Mapping[str, Any]) -> bool:
    try:
        path = places.resolve_destination(file["path"], "")
        return places.is_file(places.status_of(path)) and places.sha256(path) == file["sha256"]
    except (OSError, DbanonError):
        return False
