"""Helpers that the commands share: parameter types, output, errors and signals."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

import click

from dbanon.data.words import escape_control_characters
from dbanon.doors.cli.log import (
    Command,
    current_log,
    discard_output,
    print_message,
    with_log_format,
)
from dbanon.doors.spelling import parse_bytes, spell_cli_option
from dbanon.errors import (
    INTERRUPTED,
    TERMINATED,
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
    error_for_missing_extra,
    is_out_of_memory,
)
from dbanon.sessions.thread_connections import thread_connections

# The exit code after an unexpected error.
UNEXPECTED = 1
# Warnings that do not stop a command: each is printed as a line, every time.
_PRINTED_WARNINGS = (
    ColumnsRenamed,
    CommitConfirmed,
    DaysAsNumbers,
    ExportPending,
    NotTold,
    ReleaseNotNoted,
    ReleaseNotPublished,
    RulesOfAnotherTable,
    SchemaCreated,
    TablesLeft,
)


URL_HELP = (
    "URL is postgresql://user@host/name, mysql+pymysql://user@host/name (MariaDB),"
    " duckdb:///file.duckdb or sqlite:///file.db. Passwords"
    " come from ~/.pgpass, a service file or PGPASSWORD, or for MariaDB from ~/.my.cnf or"
    " MYSQL_PWD, rather than from the URL."
)
# Help of commands that read rows.
ROWS_HELP = f"{URL_HELP} file:people.csv or file:people.parquet reads rows from a file."


FORMAT_OPTION = click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How the result is printed on stdout.",
)
PRINT_SQL_OPTION = click.option(
    "--print-sql", is_flag=True, help="Print each SQL statement on stderr."
)


class Decorator(Protocol):
    """Adds something to a command, such as an option; ``click.option`` returns such functions."""

    def __call__(self, command: Command, /) -> Command: ...


def with_common_options(command: Command) -> Command:
    """Add the options that all commands on a database have."""
    options: tuple[Decorator, ...] = (PRINT_SQL_OPTION, FORMAT_OPTION, with_log_format)
    for option in options:
        command = option(command)
    return command


class TerminatedError(BaseException):
    """SIGTERM was received. While this exception propagates, the run is rolled back."""


def split_list(text: str) -> tuple[str, ...]:
    """Split a text at its commas; double quotes protect commas and line breaks.

    Raises
    ------
    click.BadParameter : a value with a line break has no quotes.
    """
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), []))
    except csv.Error:
        raise click.BadParameter("Put a part with a line break in double quotes.") from None


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas; a name with a comma is put in double quotes."""

    name = "a,b"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        text = str(value)
        items = split_list(text)
        names = items if '"' in text else tuple(item.strip() for item in items)
        if not names or not all(names):
            self.fail("an empty name", param, ctx)
        return names


class ShortNames(Names):
    """The type of short options, such as ``-q``, for names separated by commas.

    A single name is used verbatim, including blanks.
    """

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        text = "" if isinstance(value, tuple) else str(value)
        if text and "," not in text and '"' not in text:
            return (text,)
        return super().convert(value, param, ctx)


def short_names(short_flag: str, parameter_name: str, label: str) -> Decorator:
    """Build a short option for a list of names. If it is repeated, the lists are joined.

    The command adds the names to those of the long option.

    Parameters
    ----------
    short_flag : the option, such as ``-q``.
    parameter_name : the command's keyword argument that takes the names, such as ``single_q`` for
        the option ``-q``.
    label : what the names are, as in "Quasi-identifiers", for the help text.
    """

    def flatten(
        ctx: click.Context, param: click.Parameter, value: Sequence[tuple[str, ...]]
    ) -> tuple[str, ...]:
        return tuple(column for names in value for column in names)

    return click.option(
        short_flag,
        parameter_name,
        type=ShortNames(),
        multiple=True,
        callback=flatten,
        metavar="A,B",
        help=f"{label}, as in the long option. Put a name that contains a comma in double quotes."
        " Repeatable.",
    )


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory, such as 4GiB, 500MB or 1000000."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        n_bytes = parse_bytes(str(value))
        if n_bytes is None:
            self.fail("write a size such as 4GiB or 500MB", param, ctx)
        return n_bytes


def with_recount_options(quasi_identifiers_help: str, default_k: str) -> Decorator:
    """Return a decorator that adds the options of a command that recounts.

    Parameters
    ----------
    quasi_identifiers_help : help text of ``--quasi-identifiers``.
    default_k : description of the default k.
    """
    options: tuple[Decorator, ...] = (
        click.option("--quasi-identifiers", type=Names(), default=(), help=quasi_identifiers_help),
        short_names("-q", "single_q", "Quasi-identifiers"),
        click.option("--k", type=int, help=f"The expected k. Default: {default_k}."),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def split_pair(text: str) -> tuple[str, str]:
    """Split name=value."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidParameter("Write name=value.")
    return name, value


def show(output_format: str, document: object, build_table: Callable[[], object]) -> None:
    """Print a result on stdout: as JSON, or as what ``build_table`` returns."""
    if output_format == "json":
        click.echo(json.dumps(document, indent=2, default=str))
        return
    from dbanon.doors.cli.render import print_results

    _escape_unencodable()
    print_results(build_table())


# Variables with which users choose how rich prints on something that is no terminal.
_RICH_VARIABLES = ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")


def show_pairs(
    output_format: str,
    document: object,
    title: str,
    build_pairs: Callable[[], Iterable[tuple[str, str]]],
) -> None:
    """Print a result on stdout: as JSON, or as a table of labels and texts.

    If stdout is not a terminal, no line is wrapped, and the table is formatted without rich, whose
    import takes a tenth of the time of a run on a small table.
    """
    uses_rich = sys.stdout.isatty() or not os.environ.keys().isdisjoint(_RICH_VARIABLES)
    if output_format != "json" and not uses_rich:
        _escape_unencodable()
        click.echo(format_pairs(title, build_pairs()))
        return

    def build_table() -> object:
        from dbanon.doors.cli.render import pairs_table

        return pairs_table(title, build_pairs())

    show(output_format, document, build_table)


def format_pairs(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    """Format a table of labels and texts, as rich prints it at an unlimited width."""
    escaped_pairs = [tuple(map(escape_control_characters, pair)) for pair in pairs]
    label_width = max((_width(label) for label, _ in escaped_pairs), default=0)
    lines = [
        f"  {label}{' ' * (label_width - _width(label))}   {text}".rstrip()
        for label, text in escaped_pairs
    ]
    return "\n".join([escape_control_characters(title), "", *lines, ""])


def _width(text: str) -> int:
    """Return the number of a terminal's cells that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def show_entries(
    output_format: str, title: str, header: Sequence[str], entries: Sequence[Mapping[str, object]]
) -> None:
    """Print entries on stdout: as JSON, or as a list with the fields of ``header``."""
    from dbanon.doors.cli.render import EntryList

    rows = [["" if entry[key] is None else entry[key] for key in header] for entry in entries]
    show(output_format, entries, lambda: EntryList(title, header, rows))


def show_checks(checks: Sequence[tuple[str, str]]) -> None:
    """Print the results of ``dbanon.check()``: pairs of an item and its state."""
    from dbanon.doors.cli.render import print_results, rows_table

    _escape_unencodable()
    print_results(rows_table("Installed", ["item", "found"], [list(row) for row in checks]))


def _escape_unencodable() -> None:
    """Escape characters that stdout's encoding lacks: names may contain any character."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def sql_printer(is_enabled: bool) -> Callable[[str], None] | None:
    """Return a function that prints SQL statements to stderr; None if not enabled."""
    return (lambda sql: print_message(f"{sql};", event="sql")) if is_enabled else None


@contextmanager
def commit_guard() -> Iterator[Callable[[], None]]:
    """Turn errors after the commit into warnings.

    Yields a function that the block must call once its change is committed. Later errors must not
    make the command fail, because a scheduler would repeat a change that is already made.
    """
    # A list, because a lambda cannot assign to a variable.
    commits: list[bool] = []
    try:
        yield lambda: commits.append(True)
        # The output may be buffered: fail inside the guard if stdout is broken.
        sys.stdout.flush()
    except BaseException as error:
        if not commits:
            raise
        discard_output(sys.stdout)
        print_message(
            f"Warning: the command succeeded, but its result could not be shown"
            f" ({type(error).__name__})."
        )


def _warning_printer(default_printer: Callable[..., object]) -> Callable[..., None]:
    """Return a function for ``warnings.showwarning`` that prints dbanon's warnings as messages."""

    def show_warning(
        message: object, category: type[Warning], *location: object, **options: object
    ) -> None:
        if issubclass(category, _PRINTED_WARNINGS):
            print_message(f"Warning: {message}")
        else:
            default_printer(message, category, *location, **options)

    return show_warning


@contextmanager
def handle_signals() -> Iterator[Sequence[int]]:
    """Make SIGTERM roll back a run and clear staging, as Ctrl-C does.

    Yields the list of the received signals' numbers, to which later signals are appended. If the
    block raises an exception after a signal, the signal decides how the command ends, since a
    database driver may replace the signal handler's exception by an error of the driver. Only an
    unknown outcome takes precedence over the signal.
    """
    received_signals: list[int] = []

    def record_signal(number: int, frame: FrameType | None) -> NoReturn:
        received_signals.append(number)
        # Cuts connections that do not end soon, which wakes threads blocked on a stalled one.
        thread_connections().request_end()
        raise KeyboardInterrupt

    previous_handlers = {
        number: signal.signal(number, record_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received_signals
    except OutcomeUnknown:
        # An unknown outcome is more important to report than the signal that caused it.
        raise
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code == OutcomeUnknown.exit_code:
            raise
        if signal.SIGTERM in received_signals:
            raise TerminatedError from None
        if received_signals:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextmanager
def report_errors(output_format: str) -> Iterator[None]:
    """Print errors in the requested format and exit with their code; log the start and the end."""
    log = current_log()
    context = click.get_current_context(silent=True)
    log.start(context.command_path if context else None)
    try:
        with _print_failures(output_format):
            yield
    except _ReportedError as end:
        log.end(end.exit_code, end.error_code)
        sys.exit(end.exit_code)
    except SystemExit as end:
        # The command chose its exit code, such as that of a failed job.
        log.end(end.code if isinstance(end.code, int) else UNEXPECTED)
        raise
    except BrokenPipeError:
        log.end(UNEXPECTED, "unexpected")
        raise
    log.end(0)


class _ReportedError(Exception):
    """A command failed, and the error has been reported."""

    def __init__(self, exit_code: int, error_code: str) -> None:
        super().__init__()
        self.exit_code, self.error_code = exit_code, error_code


@contextmanager
def _print_failures(output_format: str) -> Iterator[None]:
    """Print the block's warnings and errors; raises _ReportedError after an error."""
    try:
        with warnings.catch_warnings():
            for category in _PRINTED_WARNINGS:
                warnings.simplefilter("always", category)
            warnings.showwarning = _warning_printer(warnings.showwarning)
            yield
    except DbanonError as error:
        _print_error(output_format, error)
        _clear_frames(error)
        raise _ReportedError(error.exit_code, error.code) from None
    except KeyboardInterrupt as error:
        print_message("Interrupted: an unfinished run is rolled back.")
        _clear_frames(error)
        raise _ReportedError(INTERRUPTED, "interrupted") from None
    except TerminatedError as error:
        print_message("Terminated: an unfinished run is rolled back.")
        _clear_frames(error)
        raise _ReportedError(TERMINATED, "terminated") from None
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        # Click handles these itself.
        raise
    except Exception as error:
        dbanon_error = _translate_system_error(error) or error_for_missing_extra(error)
        if dbanon_error is not None:
            _print_error(output_format, dbanon_error)
            raise _ReportedError(dbanon_error.exit_code, dbanon_error.code) from None
        # A foreign exception's text may quote a value, so report only the location.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{Path(frame.filename).name}:{frame.lineno}"
        print_message(
            f"Error [unexpected]: {type(error).__name__} at {location}.\n"
            "Hint: please report this, with the command and this line.",
            event="error",
        )
        _clear_frames(error)
        raise _ReportedError(UNEXPECTED, "unexpected") from None


def _translate_system_error(error: Exception) -> DbanonError | None:
    """Translate out-of-memory and disk-full exceptions into dbanon's errors; None for others."""
    if is_out_of_memory(error):
        return MemoryLimit.of_process()
    if isinstance(error, OSError) and DiskFull.caused_by(error):
        path = error.filename if isinstance(error.filename, str) else ""
        directory = Path(path).parent if path else "this directory"
        return DiskFull.in_directory(directory, error, consequence="")
    return None


def _clear_frames(error: BaseException) -> None:
    """Release the local variables of a reported error's frames.

    Libraries keep errors in reference cycles, and the process ends without a final garbage
    collection. Kernels (objects of the compiled core) in such a cycle would be reported as leaked.
    """
    linked_error: BaseException | None = error
    while linked_error is not None:
        traceback.clear_frames(linked_error.__traceback__)
        linked_error = linked_error.__cause__ or linked_error.__context__


def _print_error(output_format: str, error: DbanonError) -> None:
    """Print an error on stdout as JSON if requested, and log it."""
    is_printed = False
    if output_format == "json":
        try:
            click.echo(json.dumps({"error": error.to_dict(spell_cli_option)}, indent=2))
            is_printed = True
        except OSError:
            # Stdout is broken, but the exit code must be right and stderr may still be read.
            discard_output(sys.stdout)
    current_log().error(error, in_text_log=not is_printed)
