"""Whether a job has nothing to do: what it reads and what it made are as at its last release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbanon.errors import DbanonError, ReleaseChanged, ReleaseNotFound, TableNotFound
from dbanon.job.job import Job
from dbanon.ledger import entries, job_history
from dbanon.ledger.rows import rows_of_release
from dbanon.run.comparison import Comparison
from dbanon.run.fingerprint import fingerprint, salt_of
from dbanon.run.outlook import planning_ports
from dbanon.run.plan import plan
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.store import Store
from dbanon.stores import digest
from dbanon.stores.exports import places


def unchanged_since(job: Job, source: Store, target: Store | None = None) -> str | None:
    """The id of a job's last release, where a run would make the same one; None where it may not.

    Its source, its definition and its version are the same by fingerprint, its output is there and
    as it was released, and so are its files. Nothing is changed.

    Raises
    ------
    DbanonError : what the run would be refused with.
    """
    assert job.name is not None
    # An output that is there is what is wanted here.
    wanted = replace(job, if_exists="replace")
    with planning_ports(source, target, staging=False) as (reads, writes):
        session = writes.session
        last = job_history.last_release(session, job.name)
        if last is None or last.fingerprint is None:
            return None
        planned = plan(wanted, reads, writes)
        taken = fingerprint(planned, reads, salt_of(last.fingerprint))
        if taken != last.fingerprint or not _is_as_released(session, job, last.release_id):
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
    return comparison.digest == digest.UNCHANGED


def _is_as_written(file: Mapping[str, Any]) -> bool:
    path = Path(file["path"])
    try:
        return places.is_file(places.found_at(path)) and places.sha256(path) == file["sha256"]
    except (OSError, DbanonError):
        return False
