"""The lines of a command on stderr: words for people, or a JSON object a line for machines.

No values, ever. With ``--log-format json`` the first line is ``start`` and the last one ``end``,
however the command ends: an error, a signal, options that cannot be read.
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

from dbanon.data.words import printable
from dbanon.doors.cli import start
from dbanon.doors.spelling import on_command_line
from dbanon.errors import DbanonError, JobFileInvalid, redact

C = TypeVar("C", bound=Callable[..., Any])

_WARNING = "Warning: "
# As jobfile.outcome has it, which loads more than a log needs.
_NOTHING_TO_DO = 99
# Where a context of click keeps the log of the command that runs.
_KEY = "dbanon.log"


class Log:
    """What is said of one command.

    Parameters
    ----------
    form : ``text`` or ``json``.
    """

    def __init__(self, form: str = "text") -> None:
        self.form = form
        # What was said before this module was loaded, if anything.
        self._opening = start.opening if form == "json" else None
        self.run_id = str(uuid.uuid4()) if self._opening is None else self._opening.run_id
        self.release_id: str | None = None
        self.phase: str | None = None
        self.job: str | None = None
        self._started = time.monotonic() if self._opening is None else self._opening.started

    @property
    def for_machines(self) -> bool:
        """True when every line is an object."""
        return self.form == "json"

    def event(self, level: str, event: str, *, code: str | None = None, **more: Any) -> None:
        """Write one object; nothing where words are wanted.

        Parameters
        ----------
        level : ``info``, ``warning`` or ``error``.
        code : of the error that it tells of.
        more : what only this event has.
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
        """The first line, unless it was written before all this was loaded."""
        if self._opening is None:
            self.event("info", "start", command=command)

    def begin_job(self, name: str, run_id: str) -> None:
        """What follows is of a job of a file, under the id of its run."""
        self.job, self.run_id, self.release_id, self.phase = name, run_id, None, None
        self.event("info", "job")

    def progress(self, phase: str, share: float) -> None:
        """Say how far a run is."""
        if self.for_machines:
            self.event("info", "progress", done=round(share, 3))
        else:
            write(f"run {self.run_id[:8]}: {phase} {share:.0%}")

    def error(self, error: DbanonError, *, words: bool = True) -> None:
        """Say what went wrong; ``words`` is False where stdout says it already."""
        if self.for_machines:
            hint = error.hint_by(on_command_line)
            told = {"message": error.message, "detail": error.detail, "hint": hint}
            self.event("error", "error", code=error.code, **told)
        elif words:
            write(f"Error [{error.code}]: {printable(error.message)}")
            # A line each where a file is wrong in several places; names hold no ends of lines else.
            wrong = isinstance(error, JobFileInvalid)
            detail = error.detail and printable(error.detail, lines=wrong)
            for label, text in (("Detail", detail), ("Hint", error.hint_by(on_command_line))):
                if text:
                    write(f"{label}: {text}")
            write(more_about(error.code))

    def end(self, exit_code: int, code: str | None = None) -> None:
        """The last line."""
        if self._opening is not None:
            self._opening.ended = True
        level = "info" if exit_code in (0, _NOTHING_TO_DO) else "error"
        self.event(level, "end", code=code, exit_code=exit_code)


def more_about(code: str) -> str:
    """The last line of an error, for people: the command that says what its code means."""
    return f"More: dbanon explain {code}"


def current() -> Log:
    """The log of the command that runs; outside of one, words."""
    context = click.get_current_context(silent=True)
    return Log() if context is None else context.meta.setdefault(_KEY, Log())


def say(line: str, event: str = "warning") -> None:
    """Write a line on stderr, if that can be written to; to machines as an event's message."""
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
    """Write a line on stderr, if that can be written to."""
    try:
        click.echo(printable(line, lines=True), err=True)
    except (OSError, UnicodeError):
        give_up(sys.stderr)


def give_up(stream: Any) -> None:
    """Let what is left in a broken stream go nowhere: the interpreter would fail on it at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def log_format(command: C) -> C:
    """The option of all commands on a database that says what the lines on stderr look like."""

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
