"""What the commands share: kinds of values, output, errors and signals."""

from __future__ import annotations

import csv
import io
import json
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from dbanon.doors.cli.log import current, give_up, log_format, say
from dbanon.doors.cli.start import INTERRUPTED, TERMINATED
from dbanon.doors.spelling import bytes_of, on_command_line
from dbanon.errors import (
    ColumnsRenamed,
    CommitConfirmed,
    DaysAsNumbers,
    DbanonError,
    DiskFull,
    ExportPending,
    InvalidParameter,
    MemoryLimit,
    NotTold,
    OutcomeUnknown,
    ReleaseNotNoted,
    ReleaseNotPublished,
    RulesOfAnotherTable,
    SchemaCreated,
    TablesLeft,
    lacks_memory,
    missing_extra,
)
from dbanon.sessions.ending import ending

UNEXPECTED = 1
# Warnings about what is done all the same: each a line, and each time.
_TOLD = (ColumnsRenamed, CommitConfirmed, DaysAsNumbers, ExportPending, NotTold, ReleaseNotNoted,
         ReleaseNotPublished,
         RulesOfAnotherTable, SchemaCreated, TablesLeft)  # fmt: skip


URL_HELP = (
    "URL is postgresql://user@host/name, mysql+pymysql://user@host/name (MariaDB),"
    " duckdb:///file.duckdb or sqlite:///file.db. Passwords"
    " come from ~/.pgpass, a service file or PGPASSWORD, and of MariaDB from ~/.my.cnf or"
    " MYSQL_PWD, rather than from the URL."
)
# Of commands that read rows.
ROWS_HELP = f"{URL_HELP} file:people.csv and file:people.parquet are files of rows, to be read."


FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How the result is printed on stdout.",
)


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all commands on a database have."""
    options = (
        log_format,
        FORMAT,
        click.option("--print-sql", is_flag=True, help="Print each SQL statement on stderr."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


class TerminatedError(BaseException):
    """SIGTERM arrived: everything is rolled back on the way out."""


def split_list(text: str) -> tuple[str, ...]:
    """The parts of a text between its commas; double quotes protect commas and line breaks.

    Raises
    ------
    click.BadParameter : a part with a line break has no quotes.
    """
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:
        raise click.BadParameter("Put a part with a line break in double quotes.") from None


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; one with a comma in it stands in double quotes."""

    name = "a,b"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        text = str(value)
        parts = split_list(text)
        names = parts if '"' in text else tuple(part.strip() for part in parts)
        if not names or not all(names):
            self.fail("an empty name", param, ctx)
        return names


class ShortNames(Names):
    """Names separated by commas. A single one is taken as it is, blanks too."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        text = "" if isinstance(value, tuple) else str(value)
        if text and "," not in text and '"' not in text:
            return (text,)
        return super().convert(value, param, ctx)


def short_names(letter: str, name: str, what: str) -> Callable[..., Any]:
    """A short option for a list of names; repeated ones are one list.

    Parameters
    ----------
    name : of the parameter.
    what : the columns, with a capital.
    """

    def flatten(
        ctx: click.Context, param: click.Parameter, value: Sequence[tuple[str, ...]]
    ) -> tuple[str, ...]:
        return tuple(column for names in value for column in names)

    return click.option(
        letter,
        name,
        type=ShortNames(),
        multiple=True,
        callback=flatten,
        metavar="A,B",
        help=f"{what}, as in the long option. Put a name that contains a comma in double quotes."
        " Repeatable.",
    )


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory, such as 4GiB, 500MB or 1000000."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        size = bytes_of(str(value))
        if size is None:
            self.fail("write a size such as 4GiB or 500MB", param, ctx)
        return size


def recounted(of_none: str, k: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of a command that recounts.

    Parameters
    ----------
    of_none : help on quasi-identifiers, of what no release says them of.
    k : what is expected by default.
    """
    options = (
        click.option("--quasi-identifiers", type=Names(), default=(), help=of_none),
        short_names("-q", "single_q", "Quasi-identifiers"),
        click.option("--k", type=int, help=f"The expected k. Default: {k}."),
    )  # fmt: skip

    def given(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return given


def pair(text: str) -> tuple[str, str]:
    """The two sides of name=value."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidParameter("Write name=value.")
    return name, value


def show(form: str, plain: Any, table: Callable[[], Any]) -> None:
    """Print a result on stdout in the wanted form."""
    if form == "json":
        click.echo(json.dumps(plain, indent=2, default=str))
        return
    from dbanon.doors.cli.render import tell

    _take_all_characters()
    tell(table())


def show_checks(found: Sequence[tuple[str, str]]) -> None:
    """Print what ``dbanon.check()`` says."""
    from dbanon.doors.cli.render import rows_table, tell

    _take_all_characters()
    tell(rows_table("Installed", ["item", "found"], [list(row) for row in found]))


def _take_all_characters() -> None:
    """Names in a table for people may hold what a terminal's encoding has no character for."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def sql_printer(wanted: bool) -> Callable[[str], None] | None:
    """What prints SQL statements on stderr, if wanted."""
    return (lambda sql: say(f"{sql};", "sql")) if wanted else None


@contextmanager
def lasting() -> Iterator[Callable[[], None]]:
    """What follows a change that is committed cannot make the command a failure.

    The block is given a function to call when that is so. A scheduler that sees a failure runs the
    command again: a result that cannot be printed is a warning, and no more.
    """
    committed: list[bool] = []
    try:
        yield lambda: committed.append(True)
        sys.stdout.flush()
    except BaseException as error:
        if not committed:
            raise
        give_up(sys.stdout)
        say(f"Warning: it is done, but the result could not be shown ({type(error).__name__}).")


def _say_warning(shown: Any) -> Callable[..., None]:
    """What shows warnings: ours as a line for people, others as Python does."""

    def show_warning(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, _TOLD):
            say(f"Warning: {message}")
        else:
            shown(message, category, *place, **more)

    return show_warning


@contextmanager
def signals() -> Iterator[Sequence[int]]:
    """SIGTERM ends a run as Ctrl-C does: rolled back, staging gone. Gives those that arrived.

    What a signal raises inside a database's own code may come out as an error of that database,
    so the signal that arrived decides how the run is said to have ended.
    """
    received: list[int] = []

    def arrive(number: int, frame: FrameType | None) -> NoReturn:
        received.append(number)
        # Also what waits for a network that does not answer.
        ending().request_end()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, arrive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    except OutcomeUnknown:
        # Neither done nor rolled back: that says more than how it came about.
        raise
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code == OutcomeUnknown.exit_code:
            raise
        if signal.SIGTERM in received:
            raise TerminatedError from None
        if received:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def errors(form: str) -> Iterator[None]:
    """Print errors in the wanted form and leave with their exit code; the log's first and last."""
    log = current()
    context = click.get_current_context(silent=True)
    log.start(context.command_path if context else None)
    try:
        with _told(form):
            yield
    except _EndError as end:
        log.end(end.exit_code, end.error_code)
        sys.exit(end.exit_code)
    except SystemExit as end:
        log.end(end.code if isinstance(end.code, int) else UNEXPECTED)
        raise
    except BrokenPipeError:
        log.end(UNEXPECTED, "unexpected")
        raise
    log.end(0)


class _EndError(Exception):
    """A command that failed, once that was said."""

    def __init__(self, exit_code: int, error_code: str) -> None:
        super().__init__()
        self.exit_code, self.error_code = exit_code, error_code


@contextmanager
def _told(form: str) -> Iterator[None]:
    """Say how the block failed."""
    try:
        with warnings.catch_warnings():
            for category in _TOLD:
                warnings.simplefilter("always", category)
            warnings.showwarning = _say_warning(warnings.showwarning)
            yield
    except DbanonError as error:
        _say_error(form, error)
        _clear_frames(error)
        raise _EndError(error.exit_code, error.code) from None
    except KeyboardInterrupt as error:
        say("Interrupted: a run that was not finished is rolled back.")
        _clear_frames(error)
        raise _EndError(INTERRUPTED, "interrupted") from None
    except TerminatedError as error:
        say("Terminated: a run that was not finished is rolled back.")
        _clear_frames(error)
        raise _EndError(TERMINATED, "terminated") from None
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        ours = _error_of_system(error) or missing_extra(error)
        if ours is not None:
            _say_error(form, ours)
            raise _EndError(ours.exit_code, ours.code) from None
        # The text of a foreign exception may quote a value: only where it happened is told.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        say(
            f"Error [unexpected]: {type(error).__name__} at {place}.\n"
            "Hint: please report this, with the command and this line.",
            "error",
        )
        _clear_frames(error)
        raise _EndError(UNEXPECTED, "unexpected") from None


def _error_of_system(error: Exception) -> DbanonError | None:
    """The error of ours where the process has no memory, or its disk no room."""
    if lacks_memory(error):
        return MemoryLimit.of_process()
    if isinstance(error, OSError) and DiskFull.caused_by(error):
        path = error.filename if isinstance(error.filename, str) else ""
        return DiskFull.in_directory(Path(path).parent if path else "this directory", error, "")
    return None


def _clear_frames(error: BaseException) -> None:
    """Free what the frames of an error hold, once the error was reported.

    Libraries keep errors in cycles, and a command ends without the garbage collector (``start``).
    Kernels in such a cycle would be reported as leaked.
    """
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def _say_error(form: str, error: DbanonError) -> None:
    said = False
    if form == "json":
        try:
            click.echo(json.dumps({"error": error.to_dict(on_command_line)}, indent=2))
            said = True
        except OSError:
            # The exit code is to be right, and stderr may be read.
            give_up(sys.stdout)
    current().error(error, words=not said)
