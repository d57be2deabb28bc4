"""How a job ended, and who is told of it: a program, and monitoring.

Monitoring reads a file as the textfile collector of Prometheus wants it. The file is read before it
is written: what is known of the last success stays when a run fails, and jobs of the file that were
not run keep all. Nothing in it is a value, or a count below k.
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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbanon.errors import DbanonError, JobRunning, NotTold, error_code, warn_caller
from dbanon.release.private_report import PrivateReport

if TYPE_CHECKING:
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report

EVENTS = ("failure", "success", "skipped")
# Of the last run, in metrics, where a signal ended it.
_INTERRUPTED = 130
# What a command or a webhook may say: names and numbers of ours, and no value.
FIELDS = ("job", "code", "exit", "release")
# Airflow skips a task on it by default.
NOTHING_TO_DO = 99
_SECONDS = 10.0

Open = Callable[..., Any]


@dataclass(frozen=True)
class Notice:
    """Somebody who is told.

    Parameters
    ----------
    on : of ``EVENTS`` and codes of errors, those that are told.
    command : a program and its arguments, with places for ``FIELDS``; empty for none.
    webhook : an https URL, or None.
    """

    on: tuple[str, ...]
    command: tuple[str, ...] = ()
    webhook: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Parameters
    ----------
    ended_at : seconds since 1970.
    release_id : that it made, or that it found unchanged; None where it failed.
    report : of the release that it made; None where it made none.
    code, exit_code : of the error that ended it; None and 0 where it did not fail.
    """

    job: str
    ended_at: float
    release_id: str | None = None
    report: Report | PrivateReport | None = None
    code: str | None = None
    exit_code: int = 0

    @classmethod
    def released(cls, job: str, report: Report | PrivateReport) -> Outcome:
        """Of a job that made a release."""
        return cls(job, time.time(), report.release_id, report)

    @classmethod
    def skipped(cls, job: str, release_id: str) -> Outcome:
        """Of a job that had nothing to do."""
        return cls(job, time.time(), release_id, exit_code=NOTHING_TO_DO)

    @classmethod
    def failed(cls, job: str, error: Exception) -> Outcome:
        """Of a job that failed, by an error of ours or by one that nobody expected."""
        exit_code = error.exit_code if isinstance(error, DbanonError) else 1
        return cls(job, time.time(), code=error_code(error), exit_code=exit_code)

    @classmethod
    def interrupted(cls, job: str) -> Outcome:
        """Of a job that a signal ended."""
        return cls(job, time.time(), code="interrupted", exit_code=_INTERRUPTED)

    @property
    def event(self) -> str:
        """Of ``EVENTS``, the one that it is; the code of a job that another process runs."""
        if self.code == JobRunning.code:
            # Nothing failed, and the other process says how it ends.
            return self.code
        if self.code is not None:
            return "failure"
        return "skipped" if self.report is None else "success"

    @property
    def fields(self) -> dict[str, str]:
        """What is told of it, by ``FIELDS``."""
        told = (self.job, self.code or "", str(self.exit_code), self.release_id or "")
        return dict(zip(FIELDS, told, strict=True))


def error_codes() -> set[str]:
    """The codes of all errors that a job may end with."""
    found, left = {"unexpected"}, [DbanonError]
    while left:
        kind = left.pop()
        found.add(kind.code)
        left += kind.__subclasses__()
    return found


def notify(notices: tuple[Notice, ...], outcome: Outcome, open_url: Open | None = None) -> None:
    """Tell those who want to know; who cannot be told is a warning, ``NotTold``.

    Parameters
    ----------
    open_url : opens a request within seconds, as ``urllib.request.urlopen`` does.
    """
    for notice in notices:
        if not {outcome.event, outcome.code} & set(notice.on):
            continue
        try:
            if notice.command:
                _call(notice.command, outcome.fields)
            if notice.webhook is not None:
                _post(notice.webhook, outcome.fields, open_url or _opener().open)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if isinstance(error, urllib.error.HTTPError):
                # It is the response as well, and holds a socket.
                error.close()
            # Never its text: it may quote a URL, which holds a secret.
            what = "command" if notice.command else "webhook"
            why = error.strerror if isinstance(error, OSError) and error.strerror else ""
            told = f"{type(error).__name__}{f': {why}' if why else ''}"
            warn_caller(
                NotTold(f"The {what} of job {outcome.job} was not informed of its end ({told}).")
            )


def _call(command: tuple[str, ...], fields: dict[str, str]) -> None:
    """Run a command: no shell, nothing to read, and nothing of it in our output."""
    words = [_filled(word, fields) for word in command]
    nowhere = subprocess.DEVNULL
    # A group of its own, so that what it started ends with it.
    with subprocess.Popen(
        words, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
    ) as process:
        try:
            code = process.wait(_SECONDS)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if code:
        raise subprocess.CalledProcessError(code, words[:1])


def _filled(word: str, fields: dict[str, str]) -> str:
    """The word with its places filled; what is filled in has none."""
    for name, value in fields.items():
        word = word.replace(f"{{{name}}}", value)
    return word


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address is an error: it may be another's, or not https."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


def _post(url: str, fields: dict[str, str], open_url: Open) -> None:
    if not url.startswith("https://"):
        raise ValueError("no https URL")
    request = urllib.request.Request(
        url,
        json.dumps(fields).encode(),
        {"Content-Type": "application/json", "User-Agent": "dbanon"},
        method="POST",
    )
    with open_url(request, timeout=_SECONDS):
        pass


if TYPE_CHECKING:
    from dbanon.release.report import Report

_PREFIX = "dbanon_job_"
# Name and help of each, in the order in which they stand in the file.
METRICS = {
    "last_success_timestamp_seconds": "When the job last ended well: done, or nothing to do.",
    "last_begin_timestamp_seconds": "When the job last began: with its lock, before it reads.",
    "last_end_timestamp_seconds": (
        "When the job last ended, with or without success. It is earlier than the begin while the"
        " job runs, and if it was killed."
    ),
    "last_exit_code": "Exit code of the job's last run: 0 done, 99 nothing to do.",
    "duration_seconds": "Seconds of the last release, by phase.",
    "rows": "Rows of the last release.",
    "k_counted": "The smallest class that was counted in the last release.",
    "information_loss": "Information loss of the last release, 0 to 1.",
    "suppressed_ratio": (
        "Share of rows that the last release withholds. Fewer than k rows count as k."
    ),
}
_BEGIN = "last_begin_timestamp_seconds"
_SAMPLE = re.compile(
    _PREFIX + r'(\w+)\{job="([\w-]+)"(?:,phase="([a-z_]+)")?\} (-?[0-9][0-9.e+-]*)'
)

# By metric, job and phase; without a phase the last is empty.
Key = tuple[str, str, str]


def write_metrics(
    path: Path, jobs: Collection[str], outcomes: Sequence[Outcome], begun: str | None = None
) -> None:
    """Write what came of jobs beside what is known of the others; a failure warns, ``NotTold``.

    A folder that is missing is made, which other accounts may read as far as the umask lets them.

    Of a job that another process runs nothing is written: that process does.

    Parameters
    ----------
    jobs : all of the job file: of others nothing stays.
    begun : a job that begins now.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.parent):
            known = {key: value for key, value in _read(path).items() if key[1] in jobs}
            if begun is not None:
                known[_BEGIN, begun, ""] = f"{time.time():.3f}"
            for outcome in outcomes:
                if outcome.code != JobRunning.code:
                    known = _with(known, outcome)
            _replace(path, _text(known))
    except OSError as error:
        why = error.strerror or type(error).__name__
        warn_caller(NotTold(f"The metrics {path} could not be written ({why})."))


def _with(known: dict[Key, str], outcome: Outcome) -> dict[Key, str]:
    job, report = outcome.job, outcome.report
    found = dict(known)
    begin = {key: value for key, value in known.items() if key[:2] == (_BEGIN, job)}
    if isinstance(report, PrivateReport):
        found = {key: value for key, value in found.items() if key[1] != job}
        found["rows", job, ""] = str(report.rows_out)
    elif report is not None:
        # A phase that there was not this time is no longer one.
        found = {key: value for key, value in found.items() if key[1] != job}
        found |= {("duration_seconds", job, p): f"{s:.6f}" for p, s in report.seconds.items()}
        found |= {
            ("rows", job, ""): str(report.rows_out),
            ("k_counted", job, ""): str(report.k_achieved),
            ("information_loss", job, ""): f"{report.information_loss:.9g}",
            ("suppressed_ratio", job, ""): f"{_suppressed(report):.9g}",
        }
    found |= begin
    found["last_end_timestamp_seconds", job, ""] = f"{outcome.ended_at:.3f}"
    if outcome.code is None:
        found["last_success_timestamp_seconds", job, ""] = f"{outcome.ended_at:.3f}"
    found["last_exit_code", job, ""] = str(outcome.exit_code)
    return found


def _suppressed(report: Report) -> float:
    """The share of rows that are withheld, of which fewer than k are told as k.

    Then it must not tell the rows of the source either: with the released ones it would tell all.
    """
    if 0 < report.suppressed < report.k_requested:
        return report.k_requested / (report.rows_out + report.k_requested)
    return report.suppressed / report.rows_in if report.rows_in else 0.0


def _text(known: dict[Key, str]) -> str:
    lines = []
    for name, told in METRICS.items():
        lines += [f"# HELP {_PREFIX}{name} {told}", f"# TYPE {_PREFIX}{name} gauge"]
        for (metric, job, phase), value in known.items():
            if metric == name:
                labels = f'job="{_escaped(job)}"' + (f',phase="{_escaped(phase)}"' if phase else "")
                lines.append(f"{_PREFIX}{name}{{{labels}}} {value}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _read(path: Path) -> dict[Key, str]:
    """What an earlier run wrote; what else stands there, or cannot be read, is passed over."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    found = (_SAMPLE.fullmatch(line.strip()) for line in text.splitlines())
    samples = {(one[1], one[2], one[3] or ""): one[4] for one in found if one}
    return {
        key: value
        for key, value in samples.items()
        if key[0] in METRICS and (key[0] == "duration_seconds") == bool(key[2]) and _is_one(value)
    }


def _is_one(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """A directory for the block: runs of other jobs of the file write after each other."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _replace(path: Path, text: str) -> None:
    """Give a file these contents at once, so that nobody reads half of them."""
    # Not .prom, which the collector reads. What reads it is another account, so all may.
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        with os.fdopen(opened, "w", encoding="utf-8") as file:
            file.write(text)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
