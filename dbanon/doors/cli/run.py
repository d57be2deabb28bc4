"""The command ``dbanon run``: the jobs of a file, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dbanon.doors.cli.cautions import show_progress, warn_of
from dbanon.doors.cli.jobs import FILE, JOBS, PASSWORD, open_jobs
from dbanon.doors.cli.log import current, say
from dbanon.doors.cli.releases import write_report
from dbanon.doors.cli.support import Names, commit_guard, common, errors, show, signals, sql_printer
from dbanon.errors import (
    NOTHING_TO_DO,
    DbanonError,
    InvalidParameter,
    JobRunning,
    OutcomeUnknown,
)
from dbanon.stores.exports.places import file_for, make_directories

if TYPE_CHECKING:
    from dbanon.doors.jobfile.file import FileJob, JobFile
    from dbanon.doors.jobfile.outcome import Outcome
    from dbanon.doors.jobfile.run import CompletedJob
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report


def report_path(path: str, job: str, release_id: str) -> Path:
    """Expand ``{job}`` and ``{release}`` in a path, and create its directories with mode 0700.

    Raises
    ------
    InsufficientRights, InvalidParameter : a directory cannot be created.
    """
    file = file_for(path.replace("{job}", job), release_id)
    make_directories(file.parent)
    return file


_ACCEPT_TYPES = click.option(
    "--accept-types",
    type=Names(),
    default=(),
    metavar="A,B",
    help="Accept that these columns have other types than at the job's last release.",
)
_ACCEPT_COUNTS = click.option(
    "--accept-counts",
    type=Names(),
    default=(),
    metavar="A,B",
    help="Accept, for this run, counts that differ from what the job expects: rows, persons,"
    " share_null.",
)


@click.command()
@FILE
@JOBS
@click.option("--fail-fast", is_flag=True, help="Stop after the first job that fails.")
@click.option(
    "--skip-unchanged",
    is_flag=True,
    help=(
        "Skip a job whose rows, definition and release are the same as at its last release. The"
        " exit code is 99 if all jobs are skipped."
    ),
)
@_ACCEPT_TYPES
@_ACCEPT_COUNTS
@click.option(
    "--metrics",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.prom",
    help="The file to write metrics for monitoring to. Default: the one in the job file.",
)
@PASSWORD
@click.option("--no-progress", is_flag=True, help="Show no progress on stderr.")
@common
def run(
    file: Path,
    names: tuple[str, ...],
    fail_fast: bool,
    skip_unchanged: bool,
    accept_types: tuple[str, ...],
    accept_counts: tuple[str, ...],
    metrics: Path | None,
    inline_password: bool,
    no_progress: bool,
    form: str,
    print_sql: bool,
) -> None:
    """Run the jobs of a file in its order, each with its own transaction, lock and ledger row.

    A failed job does not stop the next one. The exit code is that of the job if only one ran, 8 if
    any of several failed, and 99 if all were skipped.
    """
    with errors(form), signals() as arrived:
        from dbanon.doors.jobfile.run import combine_errors

        if metrics is not None and metrics.suffix != ".prom":
            raise InvalidParameter(
                "The name of a file of metrics must end in .prom.",
                hint="The collector ignores other files.",
            )
        job_file = open_jobs(file, inline_password)
        jobs = job_file.select_jobs(names)
        write_outcomes = _metrics_of(job_file, metrics)
        write_begin = partial(write_outcomes, [])
        accepted = accept_types, accept_counts
        options = _RunOptions(
            form, no_progress, print_sql, skip_unchanged, *accepted, began=write_begin
        )
        results = _RunResults([], [], [])
        try:
            _run_all(jobs, options, results, arrived, fail_fast=fail_fast)
        finally:
            current().job = None
            write_outcomes(results.outcomes)
            batch_error = combine_errors(results.failed, len(jobs))
            if form == "json":
                with commit_guard() as committed:
                    committed()
                    show(form, {"jobs": results.documents}, lambda: None)
        if batch_error is not None and len(jobs) > 1:
            current().error(batch_error)
        if arrived and any(isinstance(error, OutcomeUnknown) for _, error in results.failed):
            sys.exit(OutcomeUnknown.exit_code)
        if arrived and len(results.outcomes) < len(jobs):
            raise KeyboardInterrupt
        if batch_error is not None:
            sys.exit(batch_error.exit_code)
        if all(outcome.event == "skipped" for outcome in results.outcomes):
            sys.exit(NOTHING_TO_DO)


def _metrics_of(file: JobFile, path: Path | None) -> Callable[..., None]:
    """Return a function that writes metrics: outcomes and the running job. A no-op without a
    metrics file."""
    from dbanon.doors.jobfile.outcome import write_metrics

    metrics_path = path or file.metrics
    if metrics_path is None:
        return lambda outcomes, running_job=None: None
    names = [job.name for job in file.jobs]
    return lambda outcomes, running_job=None: write_metrics(
        Path(metrics_path), names, outcomes, running_job
    )


@dataclass(frozen=True)
class _RunOptions:
    """The command's options for running and reporting jobs."""

    form: str
    no_progress: bool
    print_sql: bool
    skip_unchanged: bool
    accept_types: tuple[str, ...]
    accept_counts: tuple[str, ...]
    began: Callable[[str], None]


class _RunResults(NamedTuple):
    """The results so far: outcomes, a JSON document per job, and errors by job name."""

    outcomes: list[Outcome]
    documents: list[dict[str, Any]]
    failed: list[tuple[str, DbanonError]]


def _run_all(
    jobs: Sequence[FileJob],
    options: _RunOptions,
    results: _RunResults,
    arrived: Sequence[int],
    *,
    fail_fast: bool,
) -> None:
    """Run jobs, and append each one's result to ``results`` as soon as it ends.

    Parameters
    ----------
    arrived : signals received; after one, no other job starts.
    """
    from dbanon.doors.jobfile.outcome import Outcome, notify

    for job in jobs:
        if arrived:
            # The signal may have arrived while the previous job was committing.
            break
        try:
            outcome, document = _run_one(job, options)
        except Exception as error:
            outcome = Outcome.failed(job.name, error)
            results.outcomes.append(outcome)
            if isinstance(error, DbanonError):
                current().error(error)
                results.failed.append((job.name, error))
                results.documents.append({"job": job.name, "error": error.to_dict()})
                _save_refusal(job, error)
            notify(job.notices, outcome)
            if not isinstance(error, DbanonError):
                raise
            if fail_fast:
                break
        except BaseException:
            results.outcomes.append(Outcome.interrupted(job.name))
            raise
        else:
            results.outcomes.append(outcome)
            results.documents.append(document)
            notify(job.notices, outcome)


def _run_one(job: FileJob, options: _RunOptions) -> tuple[Outcome, dict[str, Any]]:
    """Run a job and show its report. Return its outcome and its JSON document."""
    from dbanon.doors.cli.render import report_table
    from dbanon.doors.jobfile.outcome import Outcome
    from dbanon.doors.jobfile.run import SkippedJob, run_file_job

    log = current()
    log.begin_job(job.name, job.job.run_id)

    def report_retry(error: DbanonError, seconds: float) -> None:
        log.error(error)
        say(f"Warning: job {job.name} failed, and is run again in {seconds:g} seconds.")

    # Filled at the commit, so that a later signal does not lose the release.
    releases: list[CompletedJob] = []
    with commit_guard() as committed:

        def remember_release(release: CompletedJob) -> None:
            releases.append(release)
            committed()

        with show_progress(not options.no_progress) as progress:
            result = run_file_job(
                job,
                progress=progress,
                on_sql=sql_printer(options.print_sql),
                on_begin=lambda: options.began(job.name),
                on_commit=remember_release,
                on_retry=report_retry,
                skip_unchanged=options.skip_unchanged,
                accept_types=options.accept_types,
                accept_counts=options.accept_counts,
            )
        if isinstance(result, SkippedJob):
            log.release_id = result.release_id
            log.event("info", "skipped")
            if options.form != "json":
                click.echo(f"Job {job.name}: skipped, as nothing changed since its last release")
            document = {"job": job.name, "skipped": True, "release_id": result.release_id}
            return Outcome.skipped(job.name, result.release_id), document
        releases.append(result)
        report = result.report
        log.release_id = report.release_id
        warn_of(report)
        for name in result.unclassified:
            say(f'Warning: column "{name}" has no role, and was not released.')
        _report_not_compared(job.name, report)
        save_report(job, report)
        if options.form != "json":
            click.echo(f"Job {job.name}")
            show(options.form, None, lambda: report_table(report))
    result = releases[-1]
    document = {
        "job": job.name,
        "report": result.report.to_dict(),
        "unclassified": list(result.unclassified),
        "dropped": list(result.dropped),
        "attempts": result.attempts,
    }
    return Outcome.released(job.name, result.report), document


def _report_not_compared(name: str, report: Report | PrivateReport) -> None:
    """Say which counts had nothing to be compared with, as on a first run."""
    unknown = report.arguments.get("expect", {}).get("not_compared", ())
    if unknown:
        counts = " and ".join(unknown)
        say(
            f"Job {name}: no earlier release to compare {counts} with. Later runs will compare.",
            "info",
        )


def save_report(job: FileJob, report: Report | PrivateReport) -> None:
    """Write the job's report, creating its directories."""
    if job.report is not None:
        path = report_path(job.report, job.name, report.release_id)
        write_report(report, path, job.target or job.source)


def _save_refusal(job: FileJob, error: DbanonError) -> None:
    """If the job has a report, write the refusal next to it."""
    if job.report is None or isinstance(error, JobRunning):
        # The other process reports how the job ends.
        return
    from dbanon.doors.cli.render import save_refusal

    try:
        path = report_path(job.report, job.name, job.job.run_id)
    except DbanonError as failure:
        say(f"Warning: why job {job.name} released nothing was not written: {failure.message}")
        return
    names = {"output": str(job.job.output), "source": str(job.job.table), "job": job.name}
    save_refusal(error, path, **names, run_id=job.job.run_id)
