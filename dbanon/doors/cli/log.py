"""A command's log on stderr: text for people, or one JSON object per line for machines.

The log never contains values. With ``--log-format json`` the first event is ``start`` and the last
one ``end``, however the command ends: an error, a signal, invalid options.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, TypeVar

import click

from dbanon.data.words import escape_control_characters
from dbanon.doors.cli import early_log
from dbanon.doors.spelling import on_command_line
from dbanon.errors import NOTHING_TO_DO, DbanonError, JobFileInvalid, redact

C = TypeVar("C", bound=Callable[..., Any])

_WARNING = "Warning: "
# Key of the running command's log in a click context.
_KEY = "dbanon.log"


class Log:
    """The log of one command.

    Parameters
    ----------
    form : ``text`` or ``json``.
    """

    def __init__(self, form: str = "text") -> None:
        self.form = form
        # The log from before this module was imported, if any.
        self._early = early_log.early_log if form == "json" else None
        self.run_id = str(uuid.uuid4()) if self._early is None else self._early.run_id
        self.release_id: str | None = None
        self.phase: str | None = None
        self.job: str | None = None
        self._started = time.monotonic() if self._early is None else self._early.started

    @property
    def for_machines(self) -> bool:
        """True when every line is an object."""
        return self.form == "json"

    def event(self, level: str, event: str, *, code: str | None = None, **more: Any) -> None:
        """Write an event as JSON; a text log skips it.

        Parameters
        ----------
        level : ``info``, ``warning`` or ``error``.
        code : of the reported error.
        more : further fields of this event.
        """
        if self.for_machines:
            plain = {
                "ts": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "level": level,
                "event": event,
                "run_id": self.run_id,
                "release_id": self.release_id,
                "phase": self.phase,
                "seconds": round(time.monotonic() - self._started, 3),
                "code": code,
            }
            of_job = {} if self.job is None else {"job": self.job}
            write(json.dumps(plain | of_job | more))

    def start(self, command: str | None) -> None:
        """Write the first event, unless ``start`` has already written it."""
        if self._early is None:
            self.event("info", "start", command=command)

    def begin_job(self, name: str, run_id: str) -> None:
        """Log the start of a job; later events carry its name and run id."""
        self.job, self.run_id, self.release_id, self.phase = name, run_id, None, None
        self.event("info", "job")

    def progress(self, phase: str, share: float) -> None:
        """Log the progress of a run."""
        if self.for_machines:
            self.event("info", "progress", done=round(share, 3))
        else:
            write(f"run {self.run_id[:8]}: {phase} {share:.0%}")

    def error(self, error: DbanonError, *, in_text_log: bool = True) -> None:
        """Log an error; a text log omits it if not ``in_text_log``, as stdout has it already."""
        if self.for_machines:
            hint = error.hint_by(on_command_line)
            texts = {"message": error.message, "detail": error.detail, "hint": hint}
            self.event("error", "error", code=error.code, **texts)
        elif in_text_log:
            write(f"Error [{error.code}]: {escape_control_characters(error.message)}")
            # Only a job file's problems span several lines; escape line breaks in other details.
            wrong = isinstance(error, JobFileInvalid)
            detail = error.detail and escape_control_characters(error.detail, lines=wrong)
            for label, text in (("Detail", detail), ("Hint", error.hint_by(on_command_line))):
                if text:
                    write(f"{label}: {text}")
            write(more_about(error.code))

    def end(self, exit_code: int, code: str | None = None) -> None:
        """Write the last event."""
        if self._early is not None:
            self._early.ended = True
        level = "info" if exit_code in (0, NOTHING_TO_DO) else "error"
        self.event(level, "end", code=code, exit_code=exit_code)


def more_about(code: str) -> str:
    """Return an error's last line: the command that explains its code."""
    return f"More: dbanon explain {code}"


def current() -> Log:
    """Return the running command's log, or a text log outside of a command."""
    context = click.get_current_context(silent=True)
    return Log() if context is None else context.meta.setdefault(_KEY, Log())


def say(line: str, event: str = "warning") -> None:
    """Write a line on stderr if possible, in a JSON log as the message of an event."""
    log = current()
    line = redact(line)
    if log.for_machines:
        level = "info" if event == "sql" else event
        log.event(level, event, message=line.removeprefix(_WARNING))
    else:
        is_named = log.job is None or f"job {log.job} " in line
        if not is_named and line.startswith(_WARNING):
            line = f"{_WARNING}job {log.job}: {line.removeprefix(_WARNING)}"
        write(line)


def write(line: str) -> None:
    """Write a line on stderr, ignoring a broken stream."""
    try:
        click.echo(escape_control_characters(line, lines=True), err=True)
    except (OSError, UnicodeError):
        discard_output(sys.stderr)


def discard_output(stream: Any) -> None:
    """Redirect a broken stream to the null device; flushing it at exit would fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def log_format(command: C) -> C:
    """Add the option for the log format, which every command on a database has."""

    def chosen(context: click.Context, parameter: click.Parameter, form: str) -> None:
        context.meta[_KEY] = Log(form)

    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=chosen,
        help="Form of the lines on stderr.",
    )(command)
