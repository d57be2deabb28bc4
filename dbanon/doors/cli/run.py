"""The command ``dbanon run``: the jobs of a file, one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from dbanon.doors.cli.cautions import warn_of, watched
from dbanon.doors.cli.jobs import FILE, JOBS, PASSWORD, opened
from dbanon.doors.cli.log import current, say
from dbanon.doors.cli.releases import write_report
from dbanon.doors.cli.support import Names, common, errors, lasting, show, signals, sql_printer
from dbanon.errors import DbanonError, InvalidParameter, JobRunning, OutcomeUnknown
from dbanon.stores.exports.places import file_for, make_directories

if TYPE_CHECKING:
    from dbanon.doors.jobfile.file import FileJob, JobFile
    from dbanon.doors.jobfile.outcome import Outcome
    from dbanon.doors.jobfile.run import Published
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report


def place_of(path: str, job: str, release_id: str) -> Path:
    """The file that a path with ``{job}`` and ``{release}`` means; directories are made, 0700.

    Raises
    ------
    InsufficientRights, InvalidParameter : a directory cannot be made.
    """
    place = file_for(path.replace("{job}", job), release_id)
    make_directories(place.parent)
    return place


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
    help="Accept, once, counts that are not as the job expects: rows, persons, share_null.",
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
@click.option("--no-progress", is_flag=True, help="No progress on stderr.")
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
        from dbanon.doors.jobfile.outcome import NOTHING_TO_DO
        from dbanon.doors.jobfile.run import failure

        if metrics is not None and metrics.suffix != ".prom":
            raise InvalidParameter(
                "The name of a file of metrics must end in .prom.",
                hint="The collector ignores other files.",
            )
        whole = opened(file, inline_password)
        jobs = whole.chosen(names)
        written = _metrics_of(whole, metrics)
        began = partial(written, [])
        accepted = accept_types, accept_counts
        way = _Way(form, no_progress, print_sql, skip_unchanged, *accepted, began=began)
        ends = _Ends([], [], [])
        try:
            _run_all(jobs, way, ends, arrived, fail_fast=fail_fast)
        finally:
            current().job = None
            written(ends.outcomes)
            ended = failure(ends.failed, len(jobs))
            if form == "json":
                with lasting() as committed:
                    committed()
                    show(form, {"jobs": ends.told}, lambda: None)
        if ended is not None and len(jobs) > 1:
            current().error(ended)
        if arrived and any(isinstance(error, OutcomeUnknown) for _, error in ends.failed):
            sys.exit(OutcomeUnknown.exit_code)
        if arrived and len(ends.outcomes) < len(jobs):
            raise KeyboardInterrupt
        if ended is not None:
            sys.exit(ended.exit_code)
        if all(outcome.event == "skipped" for outcome in ends.outcomes):
            sys.exit(NOTHING_TO_DO)


def _metrics_of(file: JobFile, asked: Path | None) -> Callable[..., None]:
    """What writes outcomes, and which job begins, for monitoring; nothing where nobody asked."""
    from dbanon.doors.jobfile.outcome import write_metrics

    place = asked or file.metrics
    if place is None:
        return lambda outcomes, begun=None: None
    names = [job.name for job in file.jobs]
    return lambda outcomes, begun=None: write_metrics(Path(place), names, outcomes, begun)


@dataclass(frozen=True)
class _Way:
    """How jobs are run and shown, as the options of the command say."""

    form: str
    no_progress: bool
    print_sql: bool
    skip_unchanged: bool
    accept_types: tuple[str, ...]
    accept_counts: tuple[str, ...]
    began: Callable[[str], None]


class _Ends(NamedTuple):
    """How jobs ended until now: outcomes, what is told of each, and errors by name."""

    outcomes: list[Outcome]
    told: list[dict[str, Any]]
    failed: list[tuple[str, DbanonError]]


def _run_all(
    jobs: Sequence[FileJob], way: _Way, ends: _Ends, arrived: Sequence[int], *, fail_fast: bool
) -> None:
    """Run jobs, and note in ``ends`` how each ended, as soon as it did.

    Parameters
    ----------
    arrived : signals that told the command to end: no other job is begun then.
    """
    from dbanon.doors.jobfile.outcome import Outcome, notify

    for job in jobs:
        if arrived:
            # It came when the job before was being committed, perhaps.
            break
        try:
            outcome, plain = _run_one(job, way)
        except Exception as error:
            outcome = Outcome.failed(job.name, error)
            ends.outcomes.append(outcome)
            if isinstance(error, DbanonError):
                current().error(error)
                ends.failed.append((job.name, error))
                ends.told.append({"job": job.name, "error": error.to_dict()})
                _save_refusal(job, error)
            notify(job.notices, outcome)
            if not isinstance(error, DbanonError):
                raise
            if fail_fast:
                break
        except BaseException:
            ends.outcomes.append(Outcome.interrupted(job.name))
            raise
        else:
            ends.outcomes.append(outcome)
            ends.told.append(plain)
            notify(job.notices, outcome)


def _run_one(job: FileJob, way: _Way) -> tuple[Outcome, dict[str, Any]]:
    """Run a job and show its report; how it ended, and what it made as plain values."""
    from dbanon.doors.cli.render import report_table
    from dbanon.doors.jobfile.outcome import Outcome
    from dbanon.doors.jobfile.run import Skipped, run_file_job

    log = current()
    log.begin_job(job.name, job.job.run_id)

    def retried(error: DbanonError, seconds: float) -> None:
        log.error(error)
        say(f"Warning: job {job.name} failed, and is run again in {seconds:g} seconds.")

    # Also where a signal ends what follows the commit.
    done: list[Published] = []
    with lasting() as committed:

        def published(release: Published) -> None:
            done.append(release)
            committed()

        with watched(not way.no_progress) as progress:
            made = run_file_job(
                job,
                progress=progress,
                on_sql=sql_printer(way.print_sql),
                began=lambda: way.began(job.name),
                committed=published,
                retried=retried,
                skip_unchanged=way.skip_unchanged,
                accept_types=way.accept_types,
                accept_counts=way.accept_counts,
            )
        if isinstance(made, Skipped):
            log.release_id = made.release_id
            log.event("info", "skipped")
            if way.form != "json":
                click.echo(f"Job {job.name}: skipped, as nothing changed since its last release")
            plain = {"job": job.name, "skipped": True, "release_id": made.release_id}
            return Outcome.skipped(job.name, made.release_id), plain
        done.append(made)
        report = made.report
        log.release_id = report.release_id
        warn_of(report)
        for name in made.unclassified:
            say(f'Warning: column "{name}" has no role, and was not released.')
        _say_not_compared(job.name, report)
        save_report(job, report)
        if way.form != "json":
            click.echo(f"Job {job.name}")
            show(way.form, None, lambda: report_table(report))
    made = done[-1]
    plain = {
        "job": job.name,
        "report": made.report.to_dict(),
        "unclassified": list(made.unclassified),
        "dropped": list(made.dropped),
        "attempts": made.attempts,
    }
    return Outcome.released(job.name, made.report), plain


def _say_not_compared(name: str, report: Report | PrivateReport) -> None:
    """Say which counts were compared with nothing, as of a first run."""
    unknown = report.arguments.get("expect", {}).get("not_compared", ())
    if unknown:
        what = " and ".join(unknown)
        say(f"Job {name}: no earlier release to compare {what} with. Later runs compare.", "info")


def save_report(job: FileJob, report: Report | PrivateReport) -> None:
    """Write the report where the job says, in directories that are made for it."""
    if job.report is not None:
        place = place_of(job.report, job.name, report.release_id)
        write_report(report, place, job.target or job.source)


def _save_refusal(job: FileJob, error: DbanonError) -> None:
    """Write why a job made no release beside where its report would be, if the job has one."""
    if job.report is None or isinstance(error, JobRunning):
        # The other process says how the job ends.
        return
    from dbanon.doors.cli.render import save_refusal

    try:
        place = place_of(job.report, job.name, job.job.run_id)
    except DbanonError as failure:
        say(f"Warning: why job {job.name} released nothing was not written: {failure.message}")
        return
    names = {"output": str(job.job.output), "source": str(job.job.table), "job": job.name}
    save_refusal(error, place, **names, run_id=job.job.run_id)
