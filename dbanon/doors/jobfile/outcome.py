"""How a job ended, and who is told of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbanon.errors import DbanonError, JobRunning, NotTold, error_code, warn_caller

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
            # Never its text: it may quote a URL, which holds a secret.
            what = "command" if notice.command else "webhook"
            why = error.strerror if isinstance(error, OSError) and error.strerror else ""
            told = f"{type(error).__name__}{f': {why}' if why else ''}"
            warn_caller(
                NotTold(f"The {what} of job {outcome.job} was not told of its end ({told}).")
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
