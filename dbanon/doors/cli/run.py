"""The command ``dbanon run``: the jobs of a file, one after the other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.doors.cli.cautions import warn_of, watched
from dbanon.doors.cli.jobs import FILE, JOBS, PASSWORD, chosen
from dbanon.doors.cli.log import current, say
from dbanon.doors.cli.report_file import write_report
from dbanon.doors.cli.support import common, errors, lasting, show, signals, sql_printer
from dbanon.errors import DbanonError

if TYPE_CHECKING:
    from dbanon.doors.jobfile.file import FileJob
    from dbanon.release.report import Report


@click.command()
@FILE
@JOBS
@click.option("--fail-fast", is_flag=True, help="Run no further job when one failed.")
@PASSWORD
@click.option("--no-progress", is_flag=True, help="No progress on stderr.")
@common
def run(
    file: Path,
    names: tuple[str, ...],
    fail_fast: bool,
    inline_password: bool,
    no_progress: bool,
    form: str,
    print_sql: bool,
) -> None:
    """Run the jobs of a file, in its order: each its own transaction, lock and ledger row.

    One that fails does not stop the next. Exit code: that of the job where there is one, else 8.
    """
    with errors(form), signals():
        from dbanon.doors.jobfile.run import failure

        jobs = chosen(file, inline_password, names)
        told: list[dict[str, Any]] = []
        failed: list[tuple[str, DbanonError]] = []
        try:
            for job in jobs:
                try:
                    told.append(_run_one(job, form, no_progress, print_sql))
                except DbanonError as error:
                    current().error(error)
                    failed.append((job.name, error))
                    told.append({"job": job.name, "error": error.to_dict()})
                    if fail_fast:
                        break
        finally:
            current().job = None
            ended = failure(failed, len(jobs))
            if form == "json":
                with lasting() as committed:
                    committed()
                    show(form, {"jobs": told}, lambda: None)
        if ended is not None:
            if len(jobs) > 1:
                current().error(ended)
            sys.exit(ended.exit_code)


def _run_one(job: FileJob, form: str, no_progress: bool, print_sql: bool) -> dict[str, Any]:
    """Run a job and show its report; as plain values."""
    from dbanon.doors.cli.render import report_table
    from dbanon.doors.jobfile.run import run_file_job

    log = current()
    log.begin_job(job.name, job.job.run_id)

    def retried(error: DbanonError, seconds: float) -> None:
        log.error(error)
        say(f"Warning: job {job.name} failed, and is run again in {seconds:g} seconds.")

    with lasting() as committed:
        with watched(not no_progress) as progress:
            made = run_file_job(
                job,
                progress=progress,
                on_sql=sql_printer(print_sql),
                committed=committed,
                retried=retried,
            )
        report = made.report
        log.release_id = report.release_id
        warn_of(report)
        for name in made.unclassified:
            say(f'Warning: column "{name}" has no role, and was not released.')
        _save(job, report)
        if form != "json":
            click.echo(f"Job {job.name}")
            show(form, None, lambda: report_table(report))
    return {
        "job": job.name,
        "report": report.to_dict(),
        "unclassified": list(made.unclassified),
        "dropped": list(made.dropped),
        "attempts": made.attempts,
    }


def _save(job: FileJob, report: Report) -> None:
    """Write the report where the job says, in directories that are made for it."""
    from dbanon.doors.jobfile.paths import place_of

    if job.report is not None:
        place = place_of(job.report, job.name, report.release_id)
        write_report(report, place, job.target or job.source)
