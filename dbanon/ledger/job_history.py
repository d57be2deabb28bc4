"""Read the runs and releases of a job from the ledger of its target database."""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.frozen import dataclass
from dbanon.ledger import entries
from dbanon.ledger.relation_entries import own_entries_condition
from dbanon.ledger.tables import as_text
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session


@dataclass(frozen=True)
class LastRelease:
    """The last release of a job.

    Parameters
    ----------
    source : the relation or file that was read.
    source_types : the SQL type of each column of the source at the time.
    fingerprint : a digest of the input and options; None if none was computed.
    """

    release_id: str
    source: str
    source_types: Mapping[str, str]
    fingerprint: str | None


@dataclass(frozen=True)
class Attempt:
    """A run of a job, whether it succeeded or not.

    Parameters
    ----------
    state : ``done`` or ``failed``.
    error_code : the code of the error that ended it; None if it succeeded.
    release_id : the release that it published; None if it failed.
    output : the name of the output.
    run_by : the role that ran it; None if the database has no roles.
    """

    run_id: str
    started_at: str
    finished_at: str | None
    state: str
    error_code: str | None
    release_id: str | None
    output: str
    run_by: str | None


def last_release(session: Session, job: str) -> LastRelease | None:
    """Return the last release of a job by this role; None if there is none.

    Entries of other roles under the job's name are ignored, since they could be forged.
    """
    if not _records_jobs(session):
        return None
    own_entries, parameters = own_entries_condition(session, "r.")
    rows = session.rows(
        "SELECT CAST(u.release_id AS VARCHAR(36)), r.source, u.source_types, u.fingerprint"
        f" FROM {session.ledger.table('run').quoted} AS u"
        f" JOIN {session.ledger.table('release').quoted} AS r ON r.release_id = u.release_id"
        f" WHERE u.job = ? AND u.state = 'done' AND {own_entries}"
        " ORDER BY r.created_at DESC LIMIT 1",
        (job, *parameters),
    )
    if not rows:
        return None
    [(release_id, source, types, fingerprint)] = rows
    return LastRelease(str(release_id), source, entries.parse_json(types) or {}, fingerprint)


def last_release_counts(
    session: Session, job: str, source: str, output: RelationName
) -> tuple[str, dict[str, int]] | None:
    """Return the id and counts of a job's last release of a source and output by this role.

    The counts are those of the source: ``rows`` and, if recorded, ``persons``. Returns None if
    there is no such release.
    """
    if not _records_jobs(session):
        return None
    own_entries, parameters = own_entries_condition(session, "r.")
    rows = session.rows(
        "SELECT CAST(r.release_id AS VARCHAR(36)), r.rows_in,"
        f" {entries.optional_column(session, 'source_counts', 'run')}"
        f" FROM {session.ledger.table('run').quoted} AS u"
        f" JOIN {session.ledger.table('release').quoted} AS r ON r.release_id = u.release_id"
        f" WHERE u.job = ? AND u.state = 'done' AND r.source = ? AND r.output_name = ?"
        f" AND coalesce(r.output_schema, '') = ? AND {own_entries}"
        " ORDER BY r.created_at DESC LIMIT 1",
        (job, source, output.name, output.schema or "", *parameters),
    )
    if not rows:
        return None
    [(release_id, n_rows, counts)] = rows
    recorded_counts = entries.parse_json(counts) or {}
    return str(release_id), {"rows": int(n_rows)} | {
        name: int(n) for name, n in recorded_counts.items()
    }


def list_attempts(session: Session, job: str) -> list[Attempt]:
    """List the runs of a job by any role, newest first."""
    if not _records_jobs(session):
        return []
    columns = ("run_id", "started_at", "finished_at", "state", "error_code", "release_id")
    rows = session.rows(
        f"SELECT {as_text('run', (*columns, 'output_schema', 'output_name', 'run_by'))}"
        f" FROM {session.ledger.table('run').quoted} WHERE job = ?"
        " ORDER BY finished_at DESC, run_id",
        (job,),
    )
    return [
        Attempt(
            run_id=run_id,
            started_at=started_at,
            finished_at=finished_at,
            state=state,
            error_code=error_code,
            release_id=release_id,
            output=str(RelationName(schema, name)),
            run_by=run_by,
        )
        for (
            run_id,
            started_at,
            finished_at,
            state,
            error_code,
            release_id,
            schema,
            name,
            run_by,
        ) in rows
    ]


def _records_jobs(session: Session) -> bool:
    """Return True if there is a ledger that records the jobs of runs."""
    if not entries.has_trusted_ledger(session):
        return False
    relation = session.ledger.table("run")
    if session.catalog.find_existing(relation) is None:
        return False
    return "job" in dict(session.catalog.list_columns(relation))
