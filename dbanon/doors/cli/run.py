"""The command ``dbanon run``: the jobs of a file, one after the other.

A ``FileJob`` is a job of a file with its databases; its field ``job`` is the job in the form that
all interfaces share. An outcome is how a job ended.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from dbanon.data.types import JsonObject
from dbanon.doors.cli.jobs import FILE_ARGUMENT, JOB_OPTION, PASSWORD_OPTION
from dbanon.doors.cli.log import current_log, print_message
from dbanon.doors.cli.progress import print_warnings, show_progress
from dbanon.doors.cli.report_files import write_report
from dbanon.doors.cli.support import (
    Names,
    commit_guard,
    handle_signals,
    report_errors,
    show,
    show_pairs,
    sql_printer,
    with_common_options,
)
from dbanon.errors import (
    NOTHING_TO_DO,
    DbanonError,
    InvalidParameter,
    JobRunning,
    OutcomeUnknown,
)
from dbanon.job.job import Job
from dbanon.stores.exports.destinations import file_for, make_directories

if TYPE_CHECKING:
    from dbanon.doors.jobfile.file import FileJob, JobFile
    from dbanon.doors.jobfile.outcome import Outcome
    from dbanon.doors.jobfile.run import CompletedJob
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report


def prepare_report_path(path: str, job: str, release_id: str) -> Path:
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
@FILE_ARGUMENT
@JOB_OPTION
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
@PASSWORD_OPTION
@click.option("--no-progress", is_flag=True, help="Show no progress on stderr.")
@with_common_options
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
    output_format: str,
    print_sql: bool,
) -> None:
    """Run the jobs of a file in its order, each with its own transaction, lock and ledger row.

    A failed job does not stop the next one. The exit code is that of the job if only one ran, 8 if
    any of several failed, and 99 if all were skipped.
    """
    with report_errors(output_format), handle_signals() as received_signals:
        from dbanon.doors.jobfile.file import open_jobs
        from dbanon.doors.jobfile.run import combine_errors, write_job_metrics

        if metrics is not None and metrics.suffix != ".prom":
            raise InvalidParameter(
                "The name of a file of metrics must end in .prom.",
                hint="The collector ignores other files.",
            )
        job_file = open_jobs(file, allow_inline_password=inline_password)
        if metrics is not None:
            job_file = replace(job_file, metrics=str(metrics))
        jobs = job_file.select_jobs(names)
        options = _RunOptions(
            job_file=job_file,
            output_format=output_format,
            no_progress=no_progress,
            print_sql=print_sql,
            skip_unchanged=skip_unchanged,
            accept_types=accept_types,
            accept_counts=accept_counts,
        )
        results = _RunResults(outcomes=[], documents=[], failures=[])
        try:
            _run_all(jobs, options, results, received_signals, fail_fast=fail_fast)
        finally:
            current_log().job = None
            write_job_metrics(job_file, results.outcomes)
            batch_error = combine_errors(results.failures, len(jobs))
            if output_format == "json":
                # Releases may be published, so a broken stdout must not make the command fail.
                with commit_guard() as mark_committed:
                    mark_committed()
                    show(output_format, {"jobs": results.documents}, lambda: None)
        # The error of a single job is already in the log.
        if batch_error is not None and len(jobs) > 1:
            current_log().error(batch_error)
        # An unknown outcome is more important than the signal.
        if received_signals and any(
            isinstance(error, OutcomeUnknown) for _, error in results.failures
        ):
            sys.exit(OutcomeUnknown.exit_code)
        # The signal does not matter if all jobs have ended.
        if received_signals and len(results.outcomes) < len(jobs):
            raise KeyboardInterrupt
        if batch_error is not None:
            sys.exit(batch_error.exit_code)
        if all(outcome.event == "skipped" for outcome in results.outcomes):
            sys.exit(NOTHING_TO_DO)


@dataclass(frozen=True)
class _RunOptions:
    """The command's options for running and reporting the jobs of a file."""

    job_file: JobFile
    output_format: str
    no_progress: bool
    print_sql: bool
    skip_unchanged: bool
    accept_types: tuple[str, ...]
    accept_counts: tuple[str, ...]


class _RunResults(NamedTuple):
    """The results so far: outcomes, a JSON document per job, and pairs of job name and error."""

    outcomes: list[Outcome]
    documents: list[JsonObject]
    failures: list[tuple[str, DbanonError]]


def _run_all(
    jobs: Sequence[FileJob],
    options: _RunOptions,
    results: _RunResults,
    received_signals: Sequence[int],
    *,
    fail_fast: bool,
) -> None:
    """Run jobs, and append each one's result to ``results`` as soon as it ends.

    Parameters
    ----------
    received_signals : numbers of the signals received so far. If there is one, no other job starts.
    """
    from dbanon.doors.jobfile.outcome import Outcome, notify

    for file_job in jobs:
        if received_signals:
            # The signal may have been received while the previous job was committing.
            break
        try:
            outcome, document = _run_job(file_job, options)
        except Exception as error:
            outcome = Outcome.failed(file_job.name, error)
            results.outcomes.append(outcome)
            if isinstance(error, DbanonError):
                current_log().error(error)
                results.failures.append((file_job.name, error))
                results.documents.append({"job": file_job.name, "error": error.to_dict()})
                _save_refusal(file_job, error)
            notify(file_job.notices, outcome)
            if not isinstance(error, DbanonError):
                raise
            if fail_fast:
                break
        except BaseException:
            results.outcomes.append(Outcome.interrupted(file_job.name))
            raise
        else:
            results.outcomes.append(outcome)
            results.documents.append(document)
            notify(file_job.notices, outcome)


def _run_job(file_job: FileJob, options: _RunOptions) -> tuple[Outcome, JsonObject]:
    """Run a job and show its report. Return its outcome and its JSON document."""
    from dbanon.doors.jobfile.outcome import Outcome
    from dbanon.doors.jobfile.run import SkippedJob, run_file_job, write_job_metrics

    log = current_log()
    log.begin_job(file_job.name, file_job.job.run_id)

    def report_retry(error: DbanonError, seconds: float) -> None:
        log.error(error)
        print_message(
            f"Warning: job {file_job.name} failed, and is run again in {seconds:g} seconds."
        )

    # Filled at the commit. ``commit_guard`` turns an error or a signal after it into a warning, so
    # ``run_file_job`` may return no result.
    completed_jobs: list[CompletedJob] = []
    with commit_guard() as mark_committed:

        def remember_release(completed_job: CompletedJob) -> None:
            completed_jobs.append(completed_job)
            mark_committed()

        with show_progress(not options.no_progress) as progress:
            result = run_file_job(
                file_job,
                progress=progress,
                on_sql=sql_printer(options.print_sql),
                on_begin=lambda: write_job_metrics(options.job_file, running_job=file_job.name),
                on_commit=remember_release,
                on_retry=report_retry,
                skip_unchanged=options.skip_unchanged,
                accept_types=options.accept_types,
                accept_counts=options.accept_counts,
            )
        if isinstance(result, SkippedJob):
            log.release_id = result.release_id
            log.event("info", "skipped")
            if options.output_format != "json":
                click.echo(
                    f"Job {file_job.name}: skipped, as nothing changed since its last release"
                )
            document = {"job": file_job.name, "skipped": True, "release_id": result.release_id}
            return Outcome.skipped(file_job.name, result.release_id), document
        # In addition to what ``remember_release`` stored, this result has the dropped tables.
        completed_jobs.append(result)
        report = result.report
        log.release_id = report.release_id
        print_warnings(report)
        for name in result.unclassified:
            print_message(f'Warning: column "{name}" has no role, and was not released.')
        _report_uncompared_counts(file_job.name, report)
        write_job_report(file_job, report)
        if options.output_format != "json":
            click.echo(f"Job {file_job.name}")
            show_pairs(options.output_format, None, "Report", report.pairs)
        _show_risk(file_job, report, options.output_format)
    result = completed_jobs[-1]
    document = {
        "job": file_job.name,
        "report": result.report.to_dict(),
        "unclassified": list(result.unclassified),
        "dropped": list(result.dropped),
        "attempts": result.attempts,
    }
    return Outcome.released(file_job.name, result.report), document


def _report_uncompared_counts(name: str, report: Report | PrivateReport) -> None:
    """Report counts that could not be compared with an earlier release, as on a first run."""
    uncompared_counts = report.arguments.get("expect", {}).get("not_compared", ())
    if uncompared_counts:
        counts = " and ".join(uncompared_counts)
        print_message(
            f"Job {name}: no earlier release to compare {counts} with. Later runs will compare.",
            event="info",
        )


def is_terminal() -> bool:
    """Whether stdout is a terminal, and not a file or a pipe."""
    return sys.stdout.isatty()


def _show_risk(file_job: FileJob, report: Report | PrivateReport, output_format: str) -> None:
    """Show the disclosure risk to whoever sits at the terminal, and say which file has it.

    Files and mails of a scheduler may have other readers, so nothing else gets the figures.
    """
    from dbanon.release.report import Report

    if not isinstance(report, Report) or report.internal is None:
        return
    job, risk = file_job.job, report.internal.risk
    if risk is None or not isinstance(job, Job) or job.risk is None:
        return
    if output_format != "json" and is_terminal():
        from dbanon.doors.cli.render import rows_table

        header = ("measure", "before", "after")
        show(output_format, None, lambda: rows_table("Disclosure risk", header, risk.table_rows()))
        show_pairs(output_format, None, "What it means", risk.pairs)
    if job.risk.file is not None:
        file = file_for(job.risk.file, report.release_id)
        print_message(f"Disclosure risk, private and not for publication: {file}", event="info")


def write_job_report(file_job: FileJob, report: Report | PrivateReport) -> None:
    """Write the job's report, creating its directories."""
    if file_job.report is not None:
        path = prepare_report_path(file_job.report, file_job.name, report.release_id)
        write_report(report, path, file_job.target or file_job.source)


def _save_refusal(file_job: FileJob, error: DbanonError) -> None:
    """If the job has a report, write why nothing was released to a file next to it."""
    if file_job.report is None or isinstance(error, JobRunning):
        # The process that runs the job reports its result.
        return
    from dbanon.doors.cli.render import save_refusal

    # A refusal has no release id; the run id takes its place in the path.
    try:
        path = prepare_report_path(file_job.report, file_job.name, file_job.job.run_id)
    except DbanonError as failure:
        print_message(
            f"Warning: the reason that job {file_job.name} released nothing could not be written:"
            f" {failure.message}"
        )
        return
    save_refusal(
        error,
        path,
        output=str(file_job.job.output),
        source=str(file_job.job.table),
        job=file_job.name,
        run_id=file_job.job.run_id,
    )
