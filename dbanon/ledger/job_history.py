"""Runs of a job of a file, as the ledger of its target has them."""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.frozen import dataclass
from dbanon.ledger import entries
from dbanon.ledger.entry_of import published_by_us
from dbanon.ledger.tables import as_text
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session


@dataclass(frozen=True)
class LastRelease:
    """What is known of a job's last release.

    Parameters
    ----------
    source : what was read.
    source_types : the type of each of its columns then.
    fingerprint : of what was read, and how; None where none was taken.
    """

    release_id: str
    source: str
    source_types: Mapping[str, str]
    fingerprint: str | None


@dataclass(frozen=True)
class Attempt:
    """A run of a job.

    Parameters
    ----------
    state : ``done`` or ``failed``.
    error_code : of the error that ended it; None for one that succeeded.
    release_id : the release that it made; None for one that failed.
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
    """The last release of a job that this role made; None where there is none.

    What another role recorded under the job's name is not looked at: it could say anything.
    """
    if not _knows_jobs(session):
        return None
    is_ours, parameters = published_by_us(session, "r.")
    found = session.rows(
        "SELECT CAST(u.release_id AS VARCHAR(36)), r.source, u.source_types, u.fingerprint"
        f" FROM {session.ledger_name('run').quoted} AS u"
        f" JOIN {session.ledger_name('release').quoted} AS r ON r.release_id = u.release_id"
        f" WHERE u.job = ? AND u.state = 'done' AND {is_ours}"
        " ORDER BY r.created_at DESC LIMIT 1",
        (job, *parameters),
    )
    if not found:
        return None
    [(release_id, source, types, fingerprint)] = found
    return LastRelease(str(release_id), source, entries.parsed(types) or {}, fingerprint)


def last_counts(
    session: Session, job: str, source: str, output: RelationName
) -> tuple[str, dict[str, int]] | None:
    """The id of a job's last release of a source and output by this role, and its counts.

    Those are ``rows``, and ``persons`` where they were counted. None where there is no release.
    """
    if not _knows_jobs(session):
        return None
    is_ours, parameters = published_by_us(session, "r.")
    found = session.rows(
        "SELECT CAST(r.release_id AS VARCHAR(36)), r.rows_in,"
        f" {entries.newer(session, 'source_counts', 'run')}"
        f" FROM {session.ledger_name('run').quoted} AS u"
        f" JOIN {session.ledger_name('release').quoted} AS r ON r.release_id = u.release_id"
        f" WHERE u.job = ? AND u.state = 'done' AND r.source = ? AND r.output_name = ?"
        f" AND coalesce(r.output_schema, '') = ? AND {is_ours}"
        " ORDER BY r.created_at DESC LIMIT 1",
        (job, source, output.name, output.schema or "", *parameters),
    )
    if not found:
        return None
    [(release_id, rows, counts)] = found
    counted = entries.parsed(counts) or {}
    return str(release_id), {"rows": int(rows)} | {name: int(n) for name, n in counted.items()}


def attempts(session: Session, job: str) -> list[Attempt]:
    """Each run of a job, whoever ran it, the newest first."""
    if not _knows_jobs(session):
        return []
    own = ("run_id", "started_at", "finished_at", "state", "error_code", "release_id")
    found = session.rows(
        f"SELECT {as_text('run', (*own, 'output_schema', 'output_name', 'run_by'))}"
        f" FROM {session.ledger_name('run').quoted} WHERE job = ?"
        " ORDER BY finished_at DESC, run_id",
        (job,),
    )
    rows = ((*told, str(RelationName(schema, name)), by) for *told, schema, name, by in found)
    return [Attempt(*row) for row in rows]


def _knows_jobs(session: Session) -> bool:
    """True where there is a ledger that says of runs which job they were of."""
    if not entries.trusted(session):
        return False
    relation = session.ledger_name("run")
    if session.find_existing(relation) is None:
        return False
    return "job" in dict(session.columns_of(relation))
