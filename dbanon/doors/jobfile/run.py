"""Jobs of a file, run one after the other: each its own transaction, lock and ledger row."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.doors.dispatch import plan_classes, run_any
from dbanon.doors.jobfile.chain import chain_to_create, create_chain
from dbanon.doors.jobfile.field_types import in_its_words
from dbanon.doors.jobfile.file import FileJob, JobFile, read_job_file
from dbanon.doors.jobfile.outcome import Outcome, notify, write_metrics
from dbanon.doors.jobfile.reports import drop_reports
from dbanon.doors.progress import Wanted, shown
from dbanon.errors import (
    DbanonError,
    InvalidParameter,
    JobsFailed,
    OutcomeUnknown,
    TablesLeft,
    warn_caller,
)
from dbanon.job.expectations import require_accepted
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob
from dbanon.release.private_report import PrivateReport
from dbanon.release.report import Report
from dbanon.run.changes import unchanged_since
from dbanon.run.gc import collect_garbage
from dbanon.run.open import open_source, open_store
from dbanon.run.outlook import Outlook
from dbanon.run.rules import by_rules
from dbanon.sessions.names import parse_relation
from dbanon.sessions.store import ClientStore, Store
from dbanon.stores.exports.places import file_for

if TYPE_CHECKING:
    from dbanon.run.run import PhaseProgress
    from dbanon.sessions.base import OnSql

# Seconds before a job is run again: twice as many each time, up to the second number.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_RETRIED = 4
# A variable of the environment with a secret of whoever runs jobs.
FINGERPRINT_KEY = "DBANON_FINGERPRINT_KEY"


@dataclass(frozen=True)
class Published:
    """What a job made.

    Parameters
    ----------
    unclassified : columns without a role, which were not released.
    dropped : tables that its view showed before, and that were more than are kept.
    attempts : runs until it succeeded.
    """

    report: Report | PrivateReport
    unclassified: tuple[str, ...]
    dropped: tuple[str, ...]
    attempts: int


@dataclass(frozen=True)
class Skipped:
    """A job that had nothing to do.

    Parameters
    ----------
    release_id : its last release, which a run would make again.
    """

    release_id: str


def stores_of(job: FileJob, on_sql: OnSql | None = None) -> tuple[ClientStore, ClientStore | None]:
    """The databases of a job: what is read, and what is written where that is another one."""
    if isinstance(job.job, Job):
        source = open_source(job.source, on_sql, job.job, job.target)
    else:
        source = open_store(job.source, on_sql, table=job.job.table, memory=job.job.memory_limit)
    target = (
        None if job.target is None else open_store(job.target, on_sql, memory=job.job.memory_limit)
    )
    if target is not None and target.same_database(source):
        target = None
    return source, target


@in_its_words()
def run_file_job(
    job: FileJob,
    *,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
    began: Callable[[], None] = lambda: None,
    committed: Callable[[Published], None] = lambda made: None,
    retried: Callable[[DbanonError, float], None] = lambda error, seconds: None,
    skip_unchanged: bool = False,
    accept_types: Sequence[str] = (),
    accept_counts: Sequence[str] = (),
) -> Published | Skipped:
    """Run a job under its lock, again where its database failed and the file says so.

    Parameters
    ----------
    skip_unchanged : do nothing if source, job and release are as at its last release.
    accept_types : columns that may have another kind of type than then.
    accept_counts : expectations that this run need not meet: ``rows``, ``persons``, ``share_null``.
    began : called when the job has its lock.
    committed : called when the release is visible, before older ones are dropped.
    retried : called with what failed, and the seconds until the next attempt.

    Raises
    ------
    JobRunning : it runs already.
    InvalidParameter : a job of a chain is not skipped.
    DbanonError : what the last attempt raised; nothing was published.
    """
    if skip_unchanged:
        job.job.require_takes("skip_unchanged")
        if job.engine is not None:
            raise InvalidParameter(
                "A job of a cluster is never skipped: what it reads has no fingerprint.",
                hint="Run it whether or not something changed.",
            )
    job = replace(job, job=_accepting(job.job, accept_types, accept_counts))
    source, target = stores_of(job, on_sql)
    attempt = 1
    if skip_unchanged and isinstance(job.job, Job):
        job = replace(job, job=replace(job.job, fingerprint_key=_key_for(source)))
    with (target or source).job_lock(job.name):
        began()
        if job.creates_chain and isinstance(job.job, Job):
            create_chain(job.job, source, target)
        while True:
            try:
                job = _by_rules(job, source)
                last = _unchanged(job, source, target) if skip_unchanged else None
                if last is not None:
                    return Skipped(last)
                report = _run(job, source, target, progress)
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
        made = Published(report, unclassified(job, report.not_copied), (), attempt)
        committed(made)
        return replace(made, dropped=_drop_old(job, target or source))


def _accepting(
    job: Job | PrivateJob, accept_types: Sequence[str], accept_counts: Sequence[str]
) -> Job | PrivateJob:
    """The job with what this run accepts; raises InvalidParameter."""
    if isinstance(accept_types, str) or not isinstance(accept_types, Sequence):
        raise InvalidParameter(
            "accept_types must be a list of columns.",
            hint='Name the columns that the error names, as in `accept_types=["age"]`.',
        )
    job = replace(job, accept_types=tuple(accept_types))
    require_accepted(accept_counts)
    if isinstance(job, PrivateJob):
        return job
    return replace(job, accept_counts=tuple(accept_counts))


def _by_rules(job: FileJob, source: Store) -> FileJob:
    """The job with the columns that its table's rules name, where it names none."""
    return replace(job, job=by_rules(job.job, source)) if isinstance(job.job, Job) else job


def _run(
    job: FileJob, source: Store, target: Store | None, progress: PhaseProgress | None
) -> Report | PrivateReport:
    if job.engine is None:
        return run_any(job.job, source, target, progress)
    assert isinstance(job.job, Job)
    return job.engine.run(job.job, job.source, job.target or job.source)


def _drop_old(job: FileJob, store: Store) -> tuple[str, ...]:
    """Drop what the job's view showed before, but for as many as are kept, and their reports."""
    output = parse_relation(job.job.output)
    try:
        kept = job.superseded_kept
        dropped = [] if kept is None else collect_garbage(store, kept, output)
        drop_reports(job, store, output)
        return tuple(dropped)
    except DbanonError as error:
        # The release is there: its job did not fail, and another run would make another release.
        what = (
            f"Tables of earlier releases were not dropped. {error.message} The next run drops them."
        )
        warn_caller(TablesLeft(what))
        return ()


def _key_for(source: ClientStore) -> bytes:
    """What fingerprints are taken under: a secret of the environment, if any, and the database."""
    return f"{os.environ.get(FINGERPRINT_KEY, '')}\0{source.url}".encode()


def _unchanged(job: FileJob, source: ClientStore, target: ClientStore | None) -> str | None:
    """The last release where it is as a run would make it, with its report."""
    assert isinstance(job.job, Job)
    try:
        last = unchanged_since(job.job, source, target)
    except DbanonError as error:
        # What the run raises is noted in the ledger.
        if error.exit_code == _RETRIED:
            raise
        return None
    if last is None or job.report is None:
        return last
    return last if file_for(job.report.replace("{job}", job.name), last).is_file() else None


def again(job: FileJob) -> Job | PrivateJob:
    """The job as a run of its own."""
    return replace(job.job, run_id=str(uuid.uuid4()))


def unclassified(job: FileJob, not_copied: Sequence[str]) -> tuple[str, ...]:
    """The columns that have no role in the file."""
    return tuple(name for name in not_copied if name not in (job.job.roles or ()))


def run_job(
    path: str | Path,
    *,
    job: str | None = None,
    skip_unchanged: bool = False,
    accept_types: Sequence[str] = (),
    accept_counts: Sequence[str] = (),
    progress: Wanted = None,
    on_sql: OnSql | None = None,
) -> Report | PrivateReport | None:
    """Run a job of a job file; None if it was skipped.

    Parameters
    ----------
    path : the file.
    job : the job's name; it may be omitted if the file has one job.
    skip_unchanged : do nothing where source, job and release are as at its last release.
    accept_types : columns that may have another kind of type than then.
    accept_counts : expectations that this run need not meet: ``rows``, ``persons``, ``share_null``.
    progress, on_sql : as for ``anonymize``.

    Raises
    ------
    JobFileInvalid : the file is wrong.
    JobRunning : the job runs already.
    DbanonError : its class says what went wrong; nothing was published.
    """
    file = read_job_file(path).with_variables()
    [chosen] = _one(file, job)
    with shown(progress) as told:
        made = run_in_file(
            file,
            chosen,
            progress=told,
            on_sql=on_sql,
            skip_unchanged=skip_unchanged,
            accept_types=accept_types,
            accept_counts=accept_counts,
        )
    return None if isinstance(made, Skipped) else made.report


def run_in_file(file: JobFile, job: FileJob, **how: Any) -> Published | Skipped:
    """Run a job, and tell those whom its file names how it ended.

    Parameters
    ----------
    job : one of the file's.
    how : as ``run_file_job`` takes it, ``began`` aside.

    Raises
    ------
    DbanonError : as ``run_file_job``.
    """
    try:
        made = run_file_job(job, began=lambda: _write(file, begun=job.name), **how)
    except Exception as error:
        _ended(file, job, Outcome.failed(job.name, error))
        raise
    except BaseException:
        _write(file, Outcome.interrupted(job.name))
        raise
    if isinstance(made, Skipped):
        _ended(file, job, Outcome.skipped(job.name, made.release_id))
    else:
        _ended(file, job, Outcome.released(job.name, made.report))
    return made


def _ended(file: JobFile, job: FileJob, outcome: Outcome) -> None:
    """Tell how a job ended, as its file says."""
    _write(file, outcome)
    notify(job.notices, outcome)


def _write(file: JobFile, *outcomes: Outcome, begun: str | None = None) -> None:
    if file.metrics is not None:
        names = [one.name for one in file.jobs]
        write_metrics(Path(file.metrics), names, outcomes, begun)


def _one(file: JobFile, name: str | None) -> tuple[FileJob, ...]:
    chosen = file.chosen([] if name is None else [name])
    if len(chosen) > 1:
        names = ", ".join(job.name for job in chosen)
        raise InvalidParameter(
            f"The job file has {len(chosen)} jobs.", hint=f"Say which: job, one of {names}."
        )
    return chosen


@in_its_words()
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
    job.job.require_takes("plan")
    assert isinstance(job.job, Job)
    source, target = stores_of(job, on_sql)
    planned = chain_to_create(job.job, source, target) if job.creates_chain else None
    asked = job.job if planned is None else replace(job.job, chain=None)
    outlook = plan_classes(
        asked, source, target, cluster=cluster, keep_last=job.superseded_kept, progress=progress
    )
    return outlook if planned is None else replace(outlook, chain=planned)


def missing_rights(job: FileJob, on_sql: OnSql | None = None) -> tuple[str, ...]:
    """The rights that a job's role lacks, as statements for who may give them."""
    source, target = stores_of(job, on_sql)
    job = _by_rules(job, source)
    with source.session(write=False) as session:
        found = session.missing_to_read(parse_relation(job.job.table), job.job.read)
    with (target or source).session(write=False) as session:
        found += session.missing_to_write(parse_relation(job.job.output))
    return tuple(dict.fromkeys(found))


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
