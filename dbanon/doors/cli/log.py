"""A command's log on stderr: readable text, or one JSON object per line for programs.

The log never contains values of the data. With ``--log-format json`` the first event is always
``start`` and the last one ``end``, even after an error, a signal or invalid options.
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
from typing import TextIO, TypeVar

import click

from dbanon.data.words import escape_control_characters
from dbanon.doors.cli import early_log
from dbanon.doors.spelling import spell_cli_option
from dbanon.errors import NOTHING_TO_DO, DbanonError, JobFileInvalid, redact

Command = TypeVar("Command", bound="Callable[..., object] | click.Command")

_WARNING_PREFIX = "Warning: "
# Key of the running command's log in a click context.
_CONTEXT_KEY = "dbanon.log"


class Log:
    """The log of one command.

    Parameters
    ----------
    output_format : ``text`` or ``json``.
    """

    def __init__(self, output_format: str = "text") -> None:
        self.output_format = output_format
        # The JSON log that the entry point has begun, if any.
        self._early = early_log.early_log if output_format == "json" else None
        self.run_id = str(uuid.uuid4()) if self._early is None else self._early.run_id
        self.release_id: str | None = None
        self.phase: str | None = None
        self.job: str | None = None
        self._start_time = time.monotonic() if self._early is None else self._early.start_time

    @property
    def is_json(self) -> bool:
        """True if every line is a JSON object."""
        return self.output_format == "json"

    def event(
        self, level: str, event: str, *, code: str | None = None, **extra_fields: object
    ) -> None:
        """Write an event to a JSON log. A text log ignores it.

        Parameters
        ----------
        level : ``info``, ``warning`` or ``error``.
        event : what happened, such as ``start``, ``progress`` or ``error``.
        code : code of the reported error.
        extra_fields : additional fields of this event.
        """
        if self.is_json:
            fields = {
                "ts": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "level": level,
                "event": event,
                "run_id": self.run_id,
                "release_id": self.release_id,
                "phase": self.phase,
                "seconds": round(time.monotonic() - self._start_time, 3),
                "code": code,
            }
            job_field = {} if self.job is None else {"job": self.job}
            write_line(json.dumps(fields | job_field | extra_fields))

    def start(self, command: str | None) -> None:
        """Write the first event, unless the early log has already written it."""
        if self._early is None:
            self.event("info", "start", command=command)

    def begin_job(self, name: str, run_id: str) -> None:
        """Log the start of a job; later events carry its name and run id."""
        self.job, self.run_id, self.release_id, self.phase = name, run_id, None, None
        self.event("info", "job")

    def progress(self, phase: str, share: float) -> None:
        """Log the progress of a run: a phase and its completed share, 0 to 1."""
        if self.is_json:
            self.event("info", "progress", done=round(share, 3))
        else:
            write_line(f"run {self.run_id[:8]}: {phase} {share:.0%}")

    def error(self, error: DbanonError, *, in_text_log: bool = True) -> None:
        """Log an error.

        Parameters
        ----------
        in_text_log : False to omit it from a text log, because it was printed on stdout.
        """
        if self.is_json:
            hint = error.format_hint(spell_cli_option)
            error_fields = {"message": error.message, "detail": error.detail, "hint": hint}
            self.event("error", "error", code=error.code, **error_fields)
        elif in_text_log:
            write_line(f"Error [{error.code}]: {escape_control_characters(error.message)}")
            # Only the problems of a job file take several lines. Escape line breaks in the details
            # of other errors, where they may come from a name.
            has_lines = isinstance(error, JobFileInvalid)
            detail = error.detail and escape_control_characters(error.detail, lines=has_lines)
            for label, text in (("Detail", detail), ("Hint", error.format_hint(spell_cli_option))):
                if text:
                    write_line(f"{label}: {text}")
            write_line(format_explain_line(error.code))

    def end(self, exit_code: int, code: str | None = None) -> None:
        """Write the last event."""
        if self._early is not None:
            self._early.has_ended = True
        level = "info" if exit_code in (0, NOTHING_TO_DO) else "error"
        self.event(level, "end", code=code, exit_code=exit_code)


def format_explain_line(code: str) -> str:
    """Return the last line of a printed error: the command that explains its code."""
    return f"More: dbanon explain {code}"


def current_log() -> Log:
    """Return the running command's log, or a text log outside of a command."""
    context = click.get_current_context(silent=True)
    return Log() if context is None else context.meta.setdefault(_CONTEXT_KEY, Log())


def print_message(line: str, event: str = "warning") -> None:
    """Write a message to stderr if possible; to a JSON log, as the message of an event.

    Parameters
    ----------
    event : ``warning``, ``info``, ``error`` or ``sql``.
    """
    log = current_log()
    line = redact(line)
    if log.is_json:
        level = "info" if event == "sql" else event
        log.event(level, event, message=line.removeprefix(_WARNING_PREFIX))
    else:
        # While a job of a file runs, each warning names the job.
        lacks_job_name = log.job is not None and f"job {log.job} " not in line
        if lacks_job_name and line.startswith(_WARNING_PREFIX):
            line = f"{_WARNING_PREFIX}job {log.job}: {line.removeprefix(_WARNING_PREFIX)}"
        write_line(line)


def write_line(line: str) -> None:
    """Write a line to stderr, ignoring a broken stream."""
    try:
        click.echo(escape_control_characters(line, lines=True), err=True)
    except (OSError, UnicodeError):
        discard_output(sys.stderr)


def discard_output(stream: TextIO) -> None:
    """Redirect a broken stream to the null device; flushing it at exit would fail."""
    with suppress(OSError, ValueError):
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, stream.fileno())
        os.close(null_device)


def with_log_format(command: Command) -> Command:
    """Add the option ``--log-format``, which creates the log of the command."""

    def create_log(context: click.Context, parameter: click.Parameter, output_format: str) -> None:
        context.meta[_CONTEXT_KEY] = Log(output_format)

    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=create_log,
        help="Form of the lines on stderr.",
    )(command)
