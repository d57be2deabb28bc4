"""Jobs of a file, run one after the other: each its own transaction, lock and ledger row."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.doors.jobfile.file import FileJob, JobFile, read_job_file
from dbanon.errors import (
    DbanonError,
    InvalidParameter,
    JobsFailed,
    OutcomeUnknown,
    TablesLeft,
)
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.run.gc import collect_garbage
from dbanon.run.noted import run_noted
from dbanon.run.open import open_store
from dbanon.run.outlook import Outlook, outlook
from dbanon.stores.names import parse_relation
from dbanon.stores.store import ClientStore, Store

if TYPE_CHECKING:
    from dbanon.run.run import PhaseProgress
    from dbanon.stores.base import OnSql

# Seconds before a job is run again: twice as many each time, up to the second number.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_RETRIED = 4


@dataclass(frozen=True)
class Published:
    """What a job made.

    Parameters
    ----------
    unclassified : columns without a role, which were not released.
    dropped : tables that its view showed before, and that were more than are kept.
    attempts : runs until it succeeded.
    """

    report: Report
    unclassified: tuple[str, ...]
    dropped: tuple[str, ...]
    attempts: int


def stores_of(job: FileJob, on_sql: OnSql | None = None) -> tuple[ClientStore, ClientStore | None]:
    """The databases of a job: what is read, and what is written where that is another one."""
    source = open_store(job.source, on_sql)
    target = None if job.target is None else open_store(job.target, on_sql)
    if target is not None and target.same_database(source):
        target = None
    return source, target


def run_file_job(
    job: FileJob,
    *,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
    committed: Callable[[], None] = lambda: None,
    retried: Callable[[DbanonError, float], None] = lambda error, seconds: None,
) -> Published:
    """Run a job under its lock, again where its database failed and the file says so.

    Parameters
    ----------
    committed : called when the release is visible.
    retried : called with what failed, and the seconds until the next attempt.

    Raises
    ------
    JobRunning : it runs already.
    DbanonError : what the last attempt raised; nothing was published.
    """
    source, target = stores_of(job, on_sql)
    attempt = 1
    with (target or source).job_lock(job.name):
        while True:
            try:
                report = run_noted(job.job, source, target, progress)
                break
            except DbanonError as error:
                if error.exit_code != _RETRIED or attempt > job.retries:
                    raise
                seconds = min(_FIRST_WAIT * 2 ** (attempt - 1), _LONGEST_WAIT)
                retried(error, seconds)
                time.sleep(seconds)
                attempt += 1
                # Each attempt is a run of its own in the ledger.
                job = replace(job, job=again(job))
        committed()
        dropped = _drop_old(job, target or source)
    return Published(report, unclassified(job, report.not_copied), dropped, attempt)


def _drop_old(job: FileJob, store: Store) -> tuple[str, ...]:
    """Drop what the job's view showed before, but for as many as are kept."""
    if job.keep_last is None:
        return ()
    try:
        return tuple(collect_garbage(store, job.keep_last, parse_relation(job.job.output)))
    except DbanonError as error:
        # The release is there: its job did not fail, and another run would make another release.
        what = f"Tables of earlier releases were not dropped ({error.code}); the next run does it."
        warnings.warn(TablesLeft(what), stacklevel=3)
        return ()


def again(job: FileJob) -> Job:
    """The job as a run of its own."""
    return replace(job.job, run_id=str(uuid.uuid4()))


def unclassified(job: FileJob, not_copied: Sequence[str]) -> tuple[str, ...]:
    """The columns that have no role in the file."""
    return tuple(name for name in not_copied if name not in (job.job.roles or ()))


def run_job(
    path: str | Path,
    *,
    job: str | None = None,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
) -> Report:
    """Run a job of a job file.

    Parameters
    ----------
    path : the file.
    job : the job's name; it may be left out where the file has one.
    progress, on_sql : as for ``anonymize``.

    Raises
    ------
    JobFileInvalid : the file is wrong.
    JobRunning : the job runs already.
    DbanonError : of the class that says what went wrong; nothing was published then.
    """
    [chosen] = _one(read_job_file(path).with_variables(), job)
    return run_file_job(chosen, progress=progress, on_sql=on_sql).report


def _one(file: JobFile, name: str | None) -> tuple[FileJob, ...]:
    chosen = file.chosen([] if name is None else [name])
    if len(chosen) > 1:
        names = ", ".join(job.name for job in chosen)
        raise InvalidParameter(
            f"The job file has {len(chosen)} jobs.", hint=f"Say which: job, one of {names}."
        )
    return chosen


def plan_file_job(
    job: FileJob,
    *,
    cluster: bool = False,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
) -> Outlook:
    """Say what a job would do, or refuse it as its run would; nothing is changed.

    Raises
    ------
    DbanonError : as ``dbanon.plan``.
    """
    source, target = stores_of(job, on_sql)
    return outlook(job.job, source, target, cluster=cluster, progress=progress)


def failure(errors: Sequence[tuple[str, DbanonError]], jobs: int) -> DbanonError | None:
    """What the run of a file failed with: a job's own error where it is the only job.

    Parameters
    ----------
    errors : the jobs that failed, by name.
    jobs : how many were to be run.
    """
    if not errors:
        return None
    unknown = [error for _, error in errors if isinstance(error, OutcomeUnknown)]
    if jobs == 1:
        return errors[0][1]
    told = "; ".join(f"{name}: {error.code} ({error.exit_code})" for name, error in errors)
    return JobsFailed(
        f"{len(errors)} of {jobs} jobs failed.",
        detail=told + ".",
        hint="Look at the ones with outcome_unknown before they are run again."
        if unknown
        else "The others are done: those that failed can be run by their names.",
    )
