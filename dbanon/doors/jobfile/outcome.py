"""Outcomes of jobs, their notifications, and metrics for monitoring.

The metrics file has the format of Prometheus' textfile collector. It is read before it is
rewritten, so that a failed run preserves the samples (values of metrics) of the last success, and
jobs that did not run keep all samples. The file contains no value of the data and no count below k.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dbanon.errors import (
    INTERRUPTED,
    NOTHING_TO_DO,
    DbanonError,
    JobRunning,
    NotTold,
    error_code,
    warn_caller,
)
from dbanon.release.private_report import PrivateReport

if TYPE_CHECKING:
    from dbanon.release.report import Report

# How a job can end, for notices: it failed, made a release, or had nothing to do.
EVENTS = ("failure", "success", "skipped")
# Fields that commands and webhooks get: the job's name, the error code, the exit code and the id of
# the release. None contains a value of the data.
FIELDS = ("job", "code", "exit", "release")
_TIMEOUT_SECONDS = 10.0

# Opens a request with a timeout in seconds, like ``urllib.request.urlopen``.
OpenUrl = Callable[..., AbstractContextManager[object]]


@dataclass(frozen=True)
class Notice:
    """Which outcomes of a job to report, and the command or webhook that gets the report.

    Parameters
    ----------
    on : the events, from ``EVENTS``, and error codes to notify about.
    command : a program and its arguments, with placeholders for ``FIELDS``; empty if the
        recipient is a webhook.
    webhook : an https URL; None if the recipient is a command.
    """

    on: tuple[str, ...]
    command: tuple[str, ...] = ()
    webhook: str | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job.

    Parameters
    ----------
    job : the job's name.
    ended_at : the time when the job ended, in seconds since 1970.
    release_id : the id of the new or unchanged release; None if the job failed.
    report : the report of the new release; None if there is no new release.
    code : the code of the error that ended the job; None if it did not fail.
    exit_code : the exit code of that error, ``NOTHING_TO_DO``, or 0 for a new release.
    """

    job: str
    ended_at: float
    release_id: str | None = None
    report: Report | PrivateReport | None = None
    code: str | None = None
    exit_code: int = 0

    @classmethod
    def released(cls, job: str, report: Report | PrivateReport) -> Outcome:
        """Return the outcome of a job that made a release."""
        return cls(job, ended_at=time.time(), release_id=report.release_id, report=report)

    @classmethod
    def skipped(cls, job: str, release_id: str) -> Outcome:
        """Return the outcome of a job that had nothing to do."""
        return cls(job, ended_at=time.time(), release_id=release_id, exit_code=NOTHING_TO_DO)

    @classmethod
    def failed(cls, job: str, error: Exception) -> Outcome:
        """Return the outcome of a job that failed, with dbanon's error or an unexpected one."""
        exit_code = error.exit_code if isinstance(error, DbanonError) else 1
        return cls(job, ended_at=time.time(), code=error_code(error), exit_code=exit_code)

    @classmethod
    def interrupted(cls, job: str) -> Outcome:
        """Return the outcome of a job that a signal ended."""
        return cls(job, ended_at=time.time(), code="interrupted", exit_code=INTERRUPTED)

    @property
    def event(self) -> str:
        """One of ``EVENTS``, or the error code if another process runs the job."""
        if self.code == JobRunning.code:
            # Not a failure; the other process reports how the job ends.
            return self.code
        if self.code is not None:
            return "failure"
        return "skipped" if self.report is None else "success"

    @property
    def fields(self) -> dict[str, str]:
        """From each name in ``FIELDS`` to its value, for commands and webhooks."""
        values = (self.job, self.code or "", str(self.exit_code), self.release_id or "")
        return dict(zip(FIELDS, values, strict=True))


def error_codes() -> set[str]:
    """Return the codes of all errors that a job may end with."""
    codes = {"unexpected"}
    remaining_classes = [DbanonError]
    while remaining_classes:
        error_class = remaining_classes.pop()
        codes.add(error_class.code)
        remaining_classes += error_class.__subclasses__()
    return codes


def notify(notices: tuple[Notice, ...], outcome: Outcome, open_url: OpenUrl | None = None) -> None:
    """Notify the recipients of an outcome; warn with ``NotTold`` if that fails.

    Parameters
    ----------
    open_url : opens a request with a timeout in seconds, like ``urllib.request.urlopen``.
    """
    for notice in notices:
        # A notice names events, error codes or both.
        if not {outcome.event, outcome.code} & set(notice.on):
            continue
        try:
            if notice.command:
                _run_command(notice.command, outcome.fields)
            if notice.webhook is not None:
                _post_json(notice.webhook, outcome.fields, open_url or _build_opener().open)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if isinstance(error, urllib.error.HTTPError):
                # The error is also the response, which holds a socket.
                error.close()
            # Omit the error's text: it may quote the URL, which contains a secret.
            channel = "command" if notice.command else "webhook"
            reason = error.strerror if isinstance(error, OSError) and error.strerror else ""
            cause = f"{type(error).__name__}{f': {reason}' if reason else ''}"
            warn_caller(
                NotTold(
                    f"The {channel} of job {outcome.job} could not be notified of its end"
                    f" ({cause})."
                )
            )


def _run_command(command: tuple[str, ...], fields: dict[str, str]) -> None:
    """Run a command without a shell, discarding its output."""
    arguments = [_fill_placeholders(argument, fields) for argument in command]
    devnull = subprocess.DEVNULL
    # A new process group, so that its child processes can be killed with it.
    with subprocess.Popen(
        arguments, stdin=devnull, stdout=devnull, stderr=devnull, start_new_session=True
    ) as process:
        try:
            code = process.wait(_TIMEOUT_SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if code:
        raise subprocess.CalledProcessError(code, arguments[:1])


def _fill_placeholders(argument: str, fields: dict[str, str]) -> str:
    """Replace the placeholders in a command's argument; the values contain no placeholder."""
    for name, value in fields.items():
        argument = argument.replace(f"{{{name}}}", value)
    return argument


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats redirects as errors: their target may belong to someone else, or not use https."""

    def redirect_request(self, *_: object) -> None:
        return None


def _build_opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


def _post_json(url: str, fields: dict[str, str], open_url: OpenUrl) -> None:
    """Send the fields to a webhook as JSON."""
    if not url.startswith("https://"):
        raise ValueError("no https URL")
    request = urllib.request.Request(
        url,
        json.dumps(fields).encode(),
        {"Content-Type": "application/json", "User-Agent": "dbanon"},
        method="POST",
    )
    with open_url(request, timeout=_TIMEOUT_SECONDS):
        pass


_METRIC_PREFIX = "dbanon_job_"
# From a metric's name to its help text, in the order of the file.
METRICS = {
    "last_success_timestamp_seconds": "When the job last succeeded: done, or nothing to do.",
    "last_begin_timestamp_seconds": "When the job last started: after taking its lock, before"
    " reading.",
    "last_end_timestamp_seconds": (
        "When the job last ended, with or without success. It is earlier than the start while the"
        " job runs, or if it was killed."
    ),
    "last_exit_code": "Exit code of the job's last run: 0 done, 99 nothing to do.",
    "duration_seconds": "Duration of the last release in seconds, by phase.",
    "rows": "Rows of the last release.",
    "k_counted": "Size of the smallest class that was counted in the last release.",
    "information_loss": "Information loss of the last release, 0 to 1.",
    "suppressed_ratio": (
        "Share of rows that the last release suppresses. Fewer than k rows count as k."
    ),
}
_BEGIN_METRIC = "last_begin_timestamp_seconds"
_SAMPLE_PATTERN = re.compile(
    _METRIC_PREFIX + r'(?P<metric>\w+)\{job="(?P<job>[\w-]+)"(?:,phase="(?P<phase>[a-z_]+)")?\}'
    r" (?P<value>-?[0-9][0-9.e+-]*)"
)


class SampleKey(NamedTuple):
    """Identifies a sample; the phase is empty if the metric has none."""

    metric: str
    job: str
    phase: str = ""


def write_metrics(
    path: Path, jobs: Collection[str], outcomes: Sequence[Outcome], running_job: str | None = None
) -> None:
    """Update the metrics file with the outcomes of jobs; warn with ``NotTold`` if that fails.

    A missing folder is created with the permissions that the umask allows. Jobs that another
    process runs are skipped, since that process writes them.

    Parameters
    ----------
    jobs : names of all jobs of the file; samples of other jobs are removed.
    running_job : name of a job that begins now; None if none does.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _directory_lock(path.parent):
            samples = {key: value for key, value in _read_samples(path).items() if key.job in jobs}
            if running_job is not None:
                samples[SampleKey(_BEGIN_METRIC, running_job)] = f"{time.time():.3f}"
            for outcome in outcomes:
                if outcome.code != JobRunning.code:
                    samples = _update_samples(samples, outcome)
            _replace_file(path, _render_samples(samples))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        warn_caller(NotTold(f"The metrics {path} could not be written ({reason})."))


def _update_samples(samples: dict[SampleKey, str], outcome: Outcome) -> dict[SampleKey, str]:
    """Return the samples with those of the outcome's job replaced by its new ones."""
    job, report = outcome.job, outcome.report
    updated = dict(samples)
    # The start of this run was written when it began, and must not be removed below.
    begin_samples = {
        key: value for key, value in samples.items() if key == SampleKey(_BEGIN_METRIC, job)
    }
    if report is not None:
        # Remove samples of phases and measures that this run did not have.
        updated = {key: value for key, value in updated.items() if key.job != job}
        updated[SampleKey("rows", job)] = str(report.rows_out)
    # Differentially private releases have no classes, and publish neither losses nor durations.
    if report is not None and not isinstance(report, PrivateReport):
        updated |= {
            SampleKey("duration_seconds", job, phase): f"{seconds:.6f}"
            for phase, seconds in report.seconds.items()
        }
        updated |= {
            SampleKey("k_counted", job): str(report.k_achieved),
            SampleKey("information_loss", job): f"{report.information_loss:.9g}",
            SampleKey("suppressed_ratio", job): f"{_suppressed_share(report):.9g}",
        }
    updated |= begin_samples
    updated[SampleKey("last_end_timestamp_seconds", job)] = f"{outcome.ended_at:.3f}"
    if outcome.code is None:
        updated[SampleKey("last_success_timestamp_seconds", job)] = f"{outcome.ended_at:.3f}"
    updated[SampleKey("last_exit_code", job)] = str(outcome.exit_code)
    return updated


def _suppressed_share(report: Report) -> float:
    """Return the share of suppressed rows, counting fewer than k as k.

    In that case the denominator must not be the number of rows in the source, because subtracting
    the released rows from it would give the exact count.
    """
    if 0 < report.suppressed < report.k_requested:
        return report.k_requested / (report.rows_out + report.k_requested)
    return report.suppressed / report.rows_in if report.rows_in else 0.0


def _render_samples(samples: dict[SampleKey, str]) -> str:
    lines = []
    for name, help_text in METRICS.items():
        lines += [
            f"# HELP {_METRIC_PREFIX}{name} {help_text}",
            f"# TYPE {_METRIC_PREFIX}{name} gauge",
        ]
        for (metric, job, phase), value in samples.items():
            if metric == name:
                labels = f'job="{_escape_label(job)}"' + (
                    f',phase="{_escape_label(phase)}"' if phase else ""
                )
                lines.append(f"{_METRIC_PREFIX}{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _read_samples(path: Path) -> dict[SampleKey, str]:
    """Read the samples of earlier runs, ignoring other lines and unreadable files."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    matches = (_SAMPLE_PATTERN.fullmatch(line.strip()) for line in text.splitlines())
    samples = {
        SampleKey(match["metric"], match["job"], match["phase"] or ""): match["value"]
        for match in matches
        if match
    }
    return {
        key: value
        for key, value in samples.items()
        if key.metric in METRICS
        and (key.metric == "duration_seconds") == bool(key.phase)
        and _is_number(value)
    }


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


@contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """Lock a directory for the block, so that only one run at a time writes metrics to it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace_file(path: Path, text: str) -> None:
    """Replace a file's contents atomically."""
    # The collector would read a temporary file that ends in .prom. It runs under another account,
    # so the file is readable by all, unless the umask forbids it.
    temporary = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
