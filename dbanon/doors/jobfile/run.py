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
from typing import TYPE_CHECKING, TypedDict, Unpack

from dbanon.data.extension import load_runner
from dbanon.doors.dispatch import plan_anonymization, run_any_job
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
from dbanon.job.expectations import require_expectation_names
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob
from dbanon.release.private_report import PrivateReport
from dbanon.release.report import Report
from dbanon.run.changes import find_unchanged_release
from dbanon.run.gc import collect_garbage, find_releases_without_data
from dbanon.run.open import open_stores
from dbanon.run.outlook import Outlook
from dbanon.run.rules import apply_table_rules
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.store import ClientStore, Store
from dbanon.stores.exports.destinations import file_for

if TYPE_CHECKING:
    from dbanon.doors.engines import Engine
    from dbanon.run.run import PhaseProgress
    from dbanon.sessions.base import OnSql

# Seconds before the first retry, doubled for each further one, and their maximum.
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 60.0
# The exit code of database failures; only these are retried.
_RETRIED_EXIT_CODE = 4
# Environment variable with a secret that is part of the key for hashing sources to fingerprints.
FINGERPRINT_KEY = "DBANON_FINGERPRINT_KEY"
# The placeholder of the release id in the path of a report.
_RELEASE_PLACEHOLDER = "{release}"
_RELEASE_ID_PATTERN = "(?P<release>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"


@dataclass(frozen=True)
class CompletedJob:
    """The result of a job that made a release.

    Parameters
    ----------
    unclassified : columns without a role, which were not released.
    dropped : the names of dropped tables, which held earlier releases of the job's view.
    attempts : number of runs until one succeeded, 1 without retries.
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
    release_id : the id of the job's last release, which a run would reproduce.
    """

    release_id: str


@with_job_file_hints()
def run_file_job(
    file_job: FileJob,
    *,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
    on_begin: Callable[[], None] = lambda: None,
    on_commit: Callable[[CompletedJob], None] = lambda completed_job: None,
    on_retry: Callable[[DbanonError, float], None] = lambda error, seconds: None,
    skip_unchanged: bool = False,
    accept_types: Sequence[str] = (),
    accept_counts: Sequence[str] = (),
) -> CompletedJob | SkippedJob:
    """Run a job under its lock, with as many retries after database failures as the file allows.

    Parameters
    ----------
    progress : called with a phase and its completed share, 0 to 1.
    on_sql : called with the text of each SQL statement before it runs.
    skip_unchanged : do nothing if neither source nor job nor release has changed since the job's
        last release.
    accept_types : columns whose type may differ from that of the last release.
    accept_counts : expectations that this run need not meet: ``rows``, ``persons``, ``share_null``.
    on_begin : called when the job has its lock.
    on_commit : called when the release is visible, before older ones are dropped.
    on_retry : called with the error, and the seconds until the next attempt.

    Raises
    ------
    JobRunning : another process runs the job.
    InvalidParameter : jobs of a chain or a cluster cannot be skipped.
    DbanonError : the error of the last attempt; nothing was published, unless it is an
        OutcomeUnknown.
    """
    if skip_unchanged:
        # Refuses jobs of chains, and jobs whose rows are synthetic.
        file_job.job.require_option_allowed("skip_unchanged")
        if file_job.engine is not None:
            raise InvalidParameter(
                "A job on a cluster is never skipped, because its input has no fingerprint.",
                hint="Leave out `skip_unchanged`.",
            )
    file_job = replace(file_job, job=_accept_changes(file_job.job, accept_types, accept_counts))
    source, target = open_stores(file_job.job, file_job.source, file_job.target, on_sql)
    attempt = 1
    if skip_unchanged and isinstance(file_job.job, Job):
        file_job = replace(
            file_job, job=replace(file_job.job, fingerprint_key=_build_fingerprint_key(source))
        )
    # The lock is in the database of the releases, which has the ledger.
    with (target or source).job_lock(file_job.name):
        on_begin()
        # Create the chain and its key, unless an earlier run did.
        if file_job.creates_chain and isinstance(file_job.job, Job):
            load_runner("chain").prepare(file_job.job, source, target)
        while True:
            try:
                file_job = _apply_rules(file_job, source)
                if skip_unchanged:
                    last_release_id = _find_unchanged_release_id(file_job, source, target)
                    if last_release_id is not None:
                        return SkippedJob(last_release_id)
                report = (
                    run_any_job(file_job.job, source, target, progress)
                    if file_job.engine is None
                    else _run_on_cluster(file_job, file_job.engine)
                )
                break
            except DbanonError as error:
                if error.exit_code != _RETRIED_EXIT_CODE or attempt > file_job.retries:
                    raise
                seconds = min(_FIRST_WAIT_SECONDS * 2 ** (attempt - 1), _LONGEST_WAIT_SECONDS)
                on_retry(error, seconds)
                time.sleep(seconds)
                attempt += 1
                # Each attempt is recorded as a separate run in the ledger.
                file_job = replace(file_job, job=replace(file_job.job, run_id=str(uuid.uuid4())))
        completed_job = CompletedJob(
            report,
            unclassified=find_columns_without_role(file_job, report.not_copied),
            dropped=(),
            attempts=attempt,
        )
        on_commit(completed_job)
        return replace(completed_job, dropped=_drop_superseded_tables(file_job, target or source))


def _accept_changes(
    job: Job | PrivateJob, accept_types: Sequence[str], accept_counts: Sequence[str]
) -> Job | PrivateJob:
    """Return the job with the changes that this run accepts; raises InvalidParameter."""
    if isinstance(accept_types, str) or not isinstance(accept_types, Sequence):
        raise InvalidParameter(
            "accept_types must be a list of columns.",
            hint='Name the columns that the error names, as in `accept_types=["age"]`.',
        )
    job = replace(job, accept_types=tuple(accept_types))
    require_expectation_names(accept_counts)
    if isinstance(job, PrivateJob):
        # Such jobs have no expectations about counts.
        return job
    return replace(job, accept_counts=tuple(accept_counts))


def _apply_rules(file_job: FileJob, source: Store) -> FileJob:
    """If the job names no columns, take them from the rules of its table."""
    return (
        replace(file_job, job=apply_table_rules(file_job.job, source))
        if isinstance(file_job.job, Job)
        else file_job
    )


def _run_on_cluster(file_job: FileJob, engine: Engine) -> Report:
    """Run a job on its cluster, which opens the databases itself."""
    assert isinstance(file_job.job, Job)
    return engine.run(file_job.job, file_job.source, file_job.target or file_job.source)


def _drop_superseded_tables(file_job: FileJob, store: Store) -> tuple[str, ...]:
    """Drop the tables of earlier releases that the job does not keep, and their reports.

    Return the names of the dropped tables.
    """
    output = parse_relation(file_job.job.output)
    try:
        # None keeps all earlier releases.
        n_superseded = file_job.max_superseded
        dropped = [] if n_superseded is None else collect_garbage(store, n_superseded, output)
        drop_reports(file_job, store, output)
        return tuple(dropped)
    except DbanonError as error:
        # The release is published. If the job failed now, a scheduler would repeat the release.
        message = (
            f"Tables of earlier releases were not dropped. {error.message} The next run drops them."
        )
        warn_caller(TablesLeft(message))
        return ()


def _build_fingerprint_key(source: ClientStore) -> bytes:
    """Return the key of the source's fingerprint, from which later runs detect changed rows.

    The key consists of the secret in the environment, if there is one, and the database's URL.
    """
    return f"{os.environ.get(FINGERPRINT_KEY, '')}\0{source.url}".encode()


def _find_unchanged_release_id(
    file_job: FileJob, source: ClientStore, target: ClientStore | None
) -> str | None:
    """Return the id of the last release if a run would reproduce it and its report exists."""
    assert isinstance(file_job.job, Job)
    try:
        last_release_id = find_unchanged_release(file_job.job, source, target)
    except DbanonError as error:
        # The run will raise the error again, and record it in the ledger.
        if error.exit_code == _RETRIED_EXIT_CODE:
            raise
        return None
    if last_release_id is None or file_job.report is None:
        return last_release_id
    report_path = file_for(file_job.report.replace("{job}", file_job.name), last_release_id)
    return last_release_id if report_path.is_file() else None


def find_columns_without_role(file_job: FileJob, not_copied: Sequence[str]) -> tuple[str, ...]:
    """Return the columns in ``not_copied`` that have no role in the file."""
    return tuple(name for name in not_copied if name not in (file_job.job.roles or ()))


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
    skip_unchanged : do nothing if neither source nor job nor release has changed since the job's
        last release.
    accept_types : columns whose type may differ from that of the last release.
    accept_counts : expectations that this run need not meet: ``rows``, ``persons``, ``share_null``.
    progress : True for a progress bar, or a function that is called with a phase and its completed
        share, 0 to 1.
    on_sql : called with the text of each SQL statement before it runs.

    Raises
    ------
    JobFileInvalid : the file is invalid.
    JobRunning : another process runs the job.
    DbanonError : its class says what went wrong; nothing was published, unless it is an
        OutcomeUnknown.
    """
    file = read_job_file(path).with_variables()
    selected_job = _select_job(file, job)
    with progress_callback(progress) as phase_progress:
        result = run_job_from_file(
            file,
            selected_job,
            progress=phase_progress,
            on_sql=on_sql,
            skip_unchanged=skip_unchanged,
            accept_types=accept_types,
            accept_counts=accept_counts,
        )
    return None if isinstance(result, SkippedJob) else result.report


class FileJobOptions(TypedDict, total=False):
    """The keyword arguments of ``run_file_job``, except ``on_begin``."""

    progress: PhaseProgress | None
    on_sql: OnSql | None
    on_commit: Callable[[CompletedJob], None]
    on_retry: Callable[[DbanonError, float], None]
    skip_unchanged: bool
    accept_types: Sequence[str]
    accept_counts: Sequence[str]


def run_job_from_file(
    file: JobFile, file_job: FileJob, **options: Unpack[FileJobOptions]
) -> CompletedJob | SkippedJob:
    """Run a job, write metrics, and notify the recipients named in the file.

    Parameters
    ----------
    file_job : one of the file's jobs.
    options : as for ``run_file_job``.

    Raises
    ------
    DbanonError : the error that ``run_file_job`` raised.
    """
    try:
        result = run_file_job(
            file_job, on_begin=lambda: write_job_metrics(file, running_job=file_job.name), **options
        )
    except Exception as error:
        _report_end(file, file_job, Outcome.failed(file_job.name, error))
        raise
    except BaseException:
        write_job_metrics(file, [Outcome.interrupted(file_job.name)])
        raise
    if isinstance(result, SkippedJob):
        _report_end(file, file_job, Outcome.skipped(file_job.name, result.release_id))
    else:
        _report_end(file, file_job, Outcome.released(file_job.name, result.report))
    return result


def _report_end(file: JobFile, file_job: FileJob, outcome: Outcome) -> None:
    """Write metrics and notify recipients of how a job ended."""
    write_job_metrics(file, [outcome])
    notify(file_job.notices, outcome)


def write_job_metrics(
    file: JobFile, outcomes: Sequence[Outcome] = (), running_job: str | None = None
) -> None:
    """Write the outcomes of a file's jobs to its metrics, if it has any.

    Parameters
    ----------
    running_job : name of a job that begins now; None if none does.
    """
    if file.metrics is not None:
        names = [job.name for job in file.jobs]
        write_metrics(Path(file.metrics), names, outcomes, running_job)


def _select_job(file: JobFile, name: str | None) -> FileJob:
    """Return the named job, or the only one; raises InvalidParameter if there are several."""
    selected_jobs = file.select_jobs([] if name is None else [name])
    if len(selected_jobs) > 1:
        names = ", ".join(job.name for job in selected_jobs)
        raise InvalidParameter(
            f"The job file has {len(selected_jobs)} jobs.",
            hint=f"Name one of them as job: {names}.",
        )
    return selected_jobs[0]


@with_job_file_hints()
def plan_file_job(
    file_job: FileJob,
    *,
    cluster: bool = False,
    progress: PhaseProgress | None = None,
    on_sql: OnSql | None = None,
) -> Outlook:
    """Plan a job, or refuse it as its run would; nothing is changed.

    Raises
    ------
    DbanonError : the job cannot be planned, or its run would be refused.
    """
    # Refuses jobs whose rows are synthetic.
    file_job.job.require_option_allowed("plan")
    assert isinstance(file_job.job, Job)
    source, target = open_stores(file_job.job, file_job.source, file_job.target, on_sql)
    # Describes the chain that the run would create, if any. In this case, plan the job without a
    # chain, and add the description to the plan.
    new_chain = (
        load_runner("chain").plan_preparation(file_job.job, source, target)
        if file_job.creates_chain
        else None
    )
    planned_job = file_job.job if new_chain is None else replace(file_job.job, chain=None)
    outlook = plan_anonymization(
        planned_job,
        source,
        target,
        cluster=cluster,
        keep_last=file_job.max_superseded,
        progress=progress,
    )
    return outlook if new_chain is None else replace(outlook, chain=new_chain)


def find_missing_rights(file_job: FileJob, on_sql: OnSql | None = None) -> tuple[str, ...]:
    """Return the rights that the database roles of a job lack, as GRANT statements."""
    source, target = open_stores(file_job.job, file_job.source, file_job.target, on_sql)
    file_job = _apply_rules(file_job, source)
    with source.session(write=False) as session:
        statements = session.catalog.find_missing_read_grants(
            parse_relation(file_job.job.table), file_job.job.columns_to_read
        )
    with (target or source).session(write=False) as session:
        statements += session.catalog.find_missing_write_grants(parse_relation(file_job.job.output))
    return tuple(dict.fromkeys(statements))


def combine_errors(errors: Sequence[tuple[str, DbanonError]], n_jobs: int) -> DbanonError | None:
    """Combine the errors of a file's jobs into one; None if there are none.

    If only one job was run, its error is returned unchanged.

    Parameters
    ----------
    errors : pairs of the failed job's name and its error.
    n_jobs : number of jobs that were to be run.
    """
    if not errors:
        return None
    has_unknown_outcome = any(isinstance(error, OutcomeUnknown) for _, error in errors)
    if n_jobs == 1:
        return errors[0][1]
    names = ", ".join(name for name, _ in errors)
    codes = "; ".join(f"{name}: {error.code} ({error.exit_code})" for name, error in errors)
    return JobsFailed(
        f"{len(errors)} of {n_jobs} jobs failed.",
        detail=codes + ".",
        hint="Before you run a job with outcome_unknown again, check whether its release exists:"
        " dbanon releases."
        if has_unknown_outcome
        else f"Run the failed jobs again by name: {names}.",
    )


def drop_reports(file_job: FileJob, store: Store, output: RelationName) -> None:
    """Remove reports of releases whose data was dropped, if the job limits the releases it keeps.

    Reports of releases that are not in the ledger, and other files, are not touched.

    Parameters
    ----------
    store : the database with the ledger.
    output : the output of the job.

    Raises
    ------
    DbanonError : the ledger cannot be read.
    """
    exports = file_job.job.exports if isinstance(file_job.job, Job) else ()
    drops_releases = file_job.keep_last is not None or any(
        export.keep_last is not None for export in exports
    )
    if not drops_releases or file_job.report is None or _RELEASE_PLACEHOLDER not in file_job.report:
        return
    report_paths = _find_reports(file_job.report.replace("{job}", file_job.name))
    if not report_paths:
        return
    causes = []
    for release_id in sorted(find_releases_without_data(store, output, list(report_paths))):
        try:
            report_paths[release_id].unlink()
        except OSError as error:
            causes.append(error.strerror or type(error).__name__)
    if causes:
        reasons = ", ".join(dict.fromkeys(causes))
        warn_caller(
            TablesLeft(
                f"{len(causes)} reports of earlier releases could not be removed ({reasons})."
            )
        )


def _find_reports(template: str) -> dict[str, Path]:
    """Return the files that match a path with ``{release}``, by release id."""
    # The text before the first placeholder, and the text after each placeholder.
    prefix, *suffixes = template.split(_RELEASE_PLACEHOLDER)
    # The id may occur in the path several times.
    suffix_pattern = "(?P=release)".join(map(re.escape, suffixes))
    pattern = re.escape(prefix) + _RELEASE_ID_PATTERN + suffix_pattern
    matches = (
        (re.fullmatch(pattern, path), path)
        for path in glob.glob("*".join(map(glob.escape, (prefix, *suffixes))))
    )
    return {match["release"]: Path(path) for match, path in matches if match is not None}
