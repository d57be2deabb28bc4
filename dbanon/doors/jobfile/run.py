"""Runs the jobs of a file in sequence, each with its own transaction, lock and ledger row."""

from __future__ import annotations

import glob
import os
import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.doors.dispatch import plan_classes, run_any
from dbanon.doors.jobfile.chain import chain_to_create, create_chain
from dbanon.doors.jobfile.field_types import with_job_file_hints
from dbanon.doors.jobfile.file import FileJob, JobFile, read_job_file
from dbanon.doors.jobfile.outcome import Outcome, notify, write_metrics
from dbanon.doors.progress import ProgressOption, progress_callback
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
from dbanon.run.changes import find_unchanged_release
from dbanon.run.gc import collect_garbage, releases_without_data
from dbanon.run.open import open_source, open_store
from dbanon.run.outlook import Outlook
from dbanon.run.rules import apply_table_rules
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.store import ClientStore, Store
from dbanon.stores.exports.places import file_for

if TYPE_CHECKING:
    from dbanon.run.run import PhaseProgress
    from dbanon.sessions.base import OnSql

# Seconds before the first retry, doubled for each further one, and their maximum.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_RETRIED = 4
# Environment variable with a secret of the account that runs jobs.
FINGERPRINT_KEY = "DBANON_FINGERPRINT_KEY"
_RELEASE = "{release}"
_ID = "(?P<release>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"


@dataclass(frozen=True)
class CompletedJob:
    """The result of a job that made a release.

    Parameters
    ----------
    unclassified : columns without a role, which were not released.
    dropped : superseded tables of its view that were dropped.
    attempts : number of runs until it succeeded.
    """

    report: Report | PrivateReport
    unclassified: tuple[str, ...]
    dropped: tuple[str, ...]
    attempts: int


@dataclass(frozen=True)
class SkippedJob:
    """The result of a job that had nothing to do.

    Parameters
    ----------
    release_id : of its last release, which a run would reproduce.
    """

    release_id: str


def stores_of(job: FileJob, on_sql: OnSql | None = None) -> tuple[ClientStore, ClientStore | None]:
    """Return the source's store and the target's, None if both are the same database."""
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


@with_job_file_hints()
def run_file_job(
    job: FileJob,
    *,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
    began: Callable[[], None] = lambda: None,
    committed: Callable[[CompletedJob], None] = lambda published: None,
    retried: Callable[[DbanonError, float], None] = lambda error, seconds: None,
    skip_unchanged: bool = False,
    accept_types: Sequence[str] = (),
    accept_counts: Sequence[str] = (),
) -> CompletedJob | SkippedJob:
    """Run a job under its lock, with the file's number of retries after database failures.

    Parameters
    ----------
    skip_unchanged : do nothing if source, job and release are as at its last release.
    accept_types : columns whose type may differ from that of the last release.
    accept_counts : expectations that this run need not meet: ``rows``, ``persons``, ``share_null``.
    began : called when the job has its lock.
    committed : called when the release is visible, before older ones are dropped.
    retried : called with the error, and the seconds until the next attempt.

    Raises
    ------
    JobRunning : another process runs the job.
    InvalidParameter : jobs of a chain or a cluster cannot be skipped.
    DbanonError : the error of the last attempt; nothing was published.
    """
    if skip_unchanged:
        job.job.require_takes("skip_unchanged")
        if job.engine is not None:
            raise InvalidParameter(
                "A job on a cluster is never skipped, because its input has no fingerprint.",
                hint="Leave out `skip_unchanged`.",
            )
    job = replace(job, job=_with_accepted(job.job, accept_types, accept_counts))
    source, target = stores_of(job, on_sql)
    attempt = 1
    if skip_unchanged and isinstance(job.job, Job):
        job = replace(job, job=replace(job.job, fingerprint_key=_fingerprint_key(source)))
    with (target or source).job_lock(job.name):
        began()
        if job.creates_chain and isinstance(job.job, Job):
            create_chain(job.job, source, target)
        while True:
            try:
                job = _apply_rules(job, source)
                last = _unchanged_release(job, source, target) if skip_unchanged else None
                if last is not None:
                    return SkippedJob(last)
                report = _run(job, source, target, progress)
                break
            except DbanonError as error:
                if error.exit_code != _RETRIED or attempt > job.retries:
                    raise
                seconds = min(_FIRST_WAIT * 2 ** (attempt - 1), _LONGEST_WAIT)
                retried(error, seconds)
                time.sleep(seconds)
                attempt += 1
                # Each attempt is recorded as a separate run in the ledger.
                job = replace(job, job=as_new_run(job))
        published = CompletedJob(report, columns_without_role(job, report.not_copied), (), attempt)
        committed(published)
        return replace(published, dropped=_drop_old(job, target or source))


def _with_accepted(
    job: Job | PrivateJob, accept_types: Sequence[str], accept_counts: Sequence[str]
) -> Job | PrivateJob:
    """Return the job with the changes that this run accepts; raises InvalidParameter."""
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


def _apply_rules(job: FileJob, source: Store) -> FileJob:
    """If the job names no columns, take them from the rules of its table."""
    return replace(job, job=apply_table_rules(job.job, source)) if isinstance(job.job, Job) else job


def _run(
    job: FileJob, source: Store, target: Store | None, progress: PhaseProgress | None
) -> Report | PrivateReport:
    if job.engine is None:
        return run_any(job.job, source, target, progress)
    assert isinstance(job.job, Job)
    return job.engine.run(job.job, job.source, job.target or job.source)


def _drop_old(job: FileJob, store: Store) -> tuple[str, ...]:
    """Drop superseded tables of the job's view beyond the number to keep, and their reports."""
    output = parse_relation(job.job.output)
    try:
        n_superseded = job.max_superseded
        dropped = [] if n_superseded is None else collect_garbage(store, n_superseded, output)
        drop_reports(job, store, output)
        return tuple(dropped)
    except DbanonError as error:
        # The release is published: failing the job would make a scheduler release again.
        message = (
            f"Tables of earlier releases were not dropped. {error.message} The next run drops them."
        )
        warn_caller(TablesLeft(message))
        return ()


def _fingerprint_key(source: ClientStore) -> bytes:
    """Return the key of fingerprints: the environment's secret, if any, and the database."""
    return f"{os.environ.get(FINGERPRINT_KEY, '')}\0{source.url}".encode()


def _unchanged_release(job: FileJob, source: ClientStore, target: ClientStore | None) -> str | None:
    """Return the last release if a run would reproduce it and its report exists; else None."""
    assert isinstance(job.job, Job)
    try:
        last = find_unchanged_release(job.job, source, target)
    except DbanonError as error:
        # The run will raise the error again, and record it in the ledger.
        if error.exit_code == _RETRIED:
            raise
        return None
    if last is None or job.report is None:
        return last
    return last if file_for(job.report.replace("{job}", job.name), last).is_file() else None


def as_new_run(job: FileJob) -> Job | PrivateJob:
    """Return the job with a new run id."""
    return replace(job.job, run_id=str(uuid.uuid4()))


def columns_without_role(job: FileJob, not_copied: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that have no role in the file."""
    return tuple(name for name in not_copied if name not in (job.job.roles or ()))


def run_job(
    path: str | Path,
    *,
    job: str | None = None,
    skip_unchanged: bool = False,
    accept_types: Sequence[str] = (),
    accept_counts: Sequence[str] = (),
    progress: ProgressOption = None,
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
    [chosen] = _choose_job(file, job)
    with progress_callback(progress) as phase_progress:
        result = run_in_file(
            file,
            chosen,
            progress=phase_progress,
            on_sql=on_sql,
            skip_unchanged=skip_unchanged,
            accept_types=accept_types,
            accept_counts=accept_counts,
        )
    return None if isinstance(result, SkippedJob) else result.report


def run_in_file(file: JobFile, job: FileJob, **options: Any) -> CompletedJob | SkippedJob:
    """Run a job, write metrics, and notify the recipients named in the file.

    Parameters
    ----------
    job : of the file.
    options : of ``run_file_job``, except ``began``.

    Raises
    ------
    DbanonError : as ``run_file_job``.
    """
    try:
        result = run_file_job(job, began=lambda: _write(file, running_job=job.name), **options)
    except Exception as error:
        _report_end(file, job, Outcome.failed(job.name, error))
        raise
    except BaseException:
        _write(file, Outcome.interrupted(job.name))
        raise
    if isinstance(result, SkippedJob):
        _report_end(file, job, Outcome.skipped(job.name, result.release_id))
    else:
        _report_end(file, job, Outcome.released(job.name, result.report))
    return result


def _report_end(file: JobFile, job: FileJob, outcome: Outcome) -> None:
    """Write metrics and notify recipients of how a job ended."""
    _write(file, outcome)
    notify(job.notices, outcome)


def _write(file: JobFile, *outcomes: Outcome, running_job: str | None = None) -> None:
    if file.metrics is not None:
        names = [job.name for job in file.jobs]
        write_metrics(Path(file.metrics), names, outcomes, running_job)


def _choose_job(file: JobFile, name: str | None) -> tuple[FileJob, ...]:
    chosen = file.chosen([] if name is None else [name])
    if len(chosen) > 1:
        names = ", ".join(job.name for job in chosen)
        raise InvalidParameter(
            f"The job file has {len(chosen)} jobs.", hint=f"Name one: job, one of {names}."
        )
    return chosen


@with_job_file_hints()
def plan_file_job(
    job: FileJob,
    *,
    cluster: bool = False,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
) -> Outlook:
    """Plan a job, or refuse it as its run would; nothing is changed.

    Raises
    ------
    DbanonError : as ``dbanon.plan``.
    """
    job.job.require_takes("plan")
    assert isinstance(job.job, Job)
    source, target = stores_of(job, on_sql)
    new_chain = chain_to_create(job.job, source, target) if job.creates_chain else None
    planned_job = job.job if new_chain is None else replace(job.job, chain=None)
    outlook = plan_classes(
        planned_job,
        source,
        target,
        cluster=cluster,
        keep_last=job.max_superseded,
        progress=progress,
    )
    return outlook if new_chain is None else replace(outlook, chain=new_chain)


def missing_rights(job: FileJob, on_sql: OnSql | None = None) -> tuple[str, ...]:
    """Return the rights that a job's role lacks, as GRANT statements."""
    source, target = stores_of(job, on_sql)
    job = _apply_rules(job, source)
    with source.session(write=False) as session:
        statements = session.missing_to_read(parse_relation(job.job.table), job.job.read)
    with (target or source).session(write=False) as session:
        statements += session.missing_to_write(parse_relation(job.job.output))
    return tuple(dict.fromkeys(statements))


def combine_errors(errors: Sequence[tuple[str, DbanonError]], jobs: int) -> DbanonError | None:
    """Return the error of a file's run, or None; if there is only one job, its own error.

    Parameters
    ----------
    errors : names of the failed jobs, and their errors.
    jobs : number of jobs to run.
    """
    if not errors:
        return None
    unknown = [error for _, error in errors if isinstance(error, OutcomeUnknown)]
    if jobs == 1:
        return errors[0][1]
    names = ", ".join(name for name, _ in errors)
    codes = "; ".join(f"{name}: {error.code} ({error.exit_code})" for name, error in errors)
    return JobsFailed(
        f"{len(errors)} of {jobs} jobs failed.",
        detail=codes + ".",
        hint="Before you run a job with outcome_unknown again, look whether its release exists:"
        " dbanon releases."
        if unknown
        else f"Run the failed jobs again by name: {names}.",
    )


def drop_reports(job: FileJob, store: Store, output: RelationName) -> None:
    """Remove reports of releases without data, if the job limits how many releases it keeps.

    Parameters
    ----------
    store : of the ledger. Other files, and reports of releases that it does not list, stay.

    Raises
    ------
    DbanonError : the ledger cannot be read.
    """
    exports = job.job.exports if isinstance(job.job, Job) else ()
    drops = job.keep_last is not None or any(export.keep_last is not None for export in exports)
    if not drops or job.report is None or _RELEASE not in job.report:
        return
    reports = _reports(job.report.replace("{job}", job.name))
    if not reports:
        return
    causes = []
    for release_id in sorted(releases_without_data(store, output, list(reports))):
        try:
            reports[release_id].unlink()
        except OSError as error:
            causes.append(error.strerror or type(error).__name__)
    if causes:
        reasons = ", ".join(dict.fromkeys(causes))
        warn_caller(
            TablesLeft(
                f"{len(causes)} reports of earlier releases could not be removed ({reasons})."
            )
        )


def _reports(template: str) -> dict[str, Path]:
    """Find the files that match a path with ``{release}``, by release id."""
    first, *tail = template.split(_RELEASE)
    pattern = re.escape(first) + _ID + "(?P=release)".join(map(re.escape, tail))
    matches = (
        (re.fullmatch(pattern, path), path)
        for path in glob.glob("*".join(map(glob.escape, (first, *tail))))
    )
    return {match["release"]: Path(path) for match, path in matches if match is not None}
