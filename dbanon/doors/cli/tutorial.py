"""The tutorial: a guided tour that explains each step, runs it, and waits for the user."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path

import click
import duckdb

from dbanon.doors.cli.demo import make_directory, make_persons
from dbanon.doors.cli.groups import DatabaseCommand
from dbanon.doors.cli.render import print_results, rows_table
from dbanon.doors.cli.support import handle_signals, report_errors
from dbanon.doors.cli.tutorial_steps import NEXT_STEPS, Command, Query, TutorialStep, build_steps
from dbanon.errors import INTERRUPTED, TERMINATED, OutputExists

ROWS, SEED = 5_000, 1
DATABASE = "persons.duckdb"
# Files that the tutorial creates in its folder. At the end it removes only these.
FILES = (DATABASE, f"{DATABASE}.wal", "report.html")
_MAX_COMMAND_LENGTH = 98
_TEXT_WIDTH = 88


class _EndOfTour(Exception):
    """The user ended the tour."""


class Tutorial:
    """A tour through the steps.

    Parameters
    ----------
    folder : directory for the files that the tutorial creates.
    waits_for_enter : whether each step waits for Enter.
    """

    def __init__(self, folder: Path, *, waits_for_enter: bool) -> None:
        self.folder, self.waits_for_enter = folder, waits_for_enter
        self.database = folder / DATABASE

    def run(self) -> None:
        """Create the table, and run all steps.

        Raises
        ------
        RuntimeError : a command had an unexpected exit code.
        """
        make_persons(self.database, ROWS, SEED)
        all_steps = build_steps(f"duckdb:///{self.database}", str(self.folder))
        click.echo(
            f"{len(all_steps)} steps, about ten minutes. {ROWS:,} generated persons are in"
            f" {self.database}.\nEach command is run for real. Ctrl-C ends the tutorial."
        )
        for number, step in enumerate(all_steps, 1):
            self._run_step(f"{number}/{len(all_steps)}", step)
        click.echo(f"\n{NEXT_STEPS}")

    def _run_step(self, number: str, step: TutorialStep) -> None:
        """Explain a step, run its actions, and say what they show; ``number`` is such as 2/10."""
        click.echo()
        click.secho(f"{number}  {step.title}", bold=True)
        click.echo(click.wrap_text(f"\n{step.purpose}\n", _TEXT_WIDTH, preserve_paragraphs=True))
        for action in step.actions:
            click.echo()
            if isinstance(action, Query):
                self._run_query(action)
            else:
                _run_command(action)
        click.echo("\n" + click.wrap_text(step.conclusion, _TEXT_WIDTH))
        self._wait_for_enter()

    def _run_query(self, query: Query) -> None:
        """Print a query and its result."""
        click.secho("\n".join(f"SQL> {line}" for line in query.sql.splitlines()), fg="cyan")
        with duckdb.connect(str(self.database)) as connection:
            result = connection.execute(query.sql)
            names = [column[0] for column in result.description or ()]
            print_results(rows_table("", names, result.fetchall()))

    def _wait_for_enter(self) -> None:
        if not self.waits_for_enter:
            return
        if _ask("\nEnter: next step, q: end ", default="q") == "q":
            raise _EndOfTour


def _ask(question: str, default: str) -> str:
    """Ask the user a question and return the answer; ``default`` if the input has ended."""
    try:
        return input(question).strip().casefold()
    except EOFError:
        return default


def _run_command(command: Command) -> None:
    """Run a dbanon command in this process."""
    main = click.get_current_context().find_root().command
    click.secho(_format_shell_line(command), fg="cyan")
    sys.stdout.flush()
    try:
        main.main(args=list(command.arguments), prog_name="dbanon", standalone_mode=False)
        exit_code: object = 0
    except SystemExit as end:
        exit_code = end.code or 0
    sys.stderr.flush()
    if exit_code in (INTERRUPTED, TERMINATED) and exit_code != command.exit_code:
        raise SystemExit(exit_code)
    if exit_code != command.exit_code:
        raise RuntimeError
    if command.exit_code:
        click.echo(f"(exit code {command.exit_code})")


def _format_shell_line(command: Command) -> str:
    """Render a command for a shell, with one option per line if it is long."""
    text = shlex.join(("dbanon", *command.arguments))
    return "$ " + (text if len(text) < _MAX_COMMAND_LENGTH else text.replace(" --", " \\\n    --"))


def _make_folder(folder: Path) -> bool:
    """Create the tutorial's folder. Return True if it is new."""
    is_new = not folder.exists()
    has_entries = make_directory(folder)
    if has_entries:
        raise OutputExists(
            f"The directory {folder} is not empty, so nothing was changed.",
            hint="Choose another one (--directory), or remove it yourself.",
        )
    return is_new


def _remove_files(folder: Path, *, is_new_folder: bool) -> None:
    """Remove the tutorial's files, and the folder if the tutorial created it and it is empty."""
    for name in FILES:
        (folder / name).unlink(missing_ok=True)
    if is_new_folder:
        with suppress(OSError):
            folder.rmdir()


@click.command(cls=DatabaseCommand)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tutorial"),
    show_default=True,
    help="The directory for the files of the tutorial. It must be new or empty.",
)
@click.option(
    "--keep/--remove",
    "keep",
    default=None,
    help=(
        "Whether to keep the files at the end. Without either option, dbanon asks in a terminal,"
        " and otherwise removes them."
    ),
)
@click.option("--yes", is_flag=True, help="Do not wait for Enter between steps.")
def tutorial(directory: Path, keep: bool | None, yes: bool) -> None:
    """Take a guided tour in ten minutes. Each step is explained, run for real, and waits for Enter.

    It starts from a raw table of generated persons, makes a release, verifies it, changes it, and
    shows what is refused. It needs no database server. Where input or output is not a terminal, it
    does not wait.
    """
    waits_for_enter = not yes and sys.stdin.isatty() and sys.stdout.isatty()
    with report_errors(output_format="table"), handle_signals():
        is_new_folder = _make_folder(directory)
        keeps_files = bool(keep)
        try:
            with suppress(_EndOfTour):
                Tutorial(directory, waits_for_enter=waits_for_enter).run()
            if keep is None and waits_for_enter:
                answer = _ask(f"\nKeep the files in {directory}? [y/N] ", default="n")
                keeps_files = answer in ("y", "yes")
        finally:
            if not keeps_files:
                _remove_files(directory, is_new_folder=is_new_folder)
        removal_message = "The tutorial's files were removed."
        click.echo(f"\nThe files are in {directory}." if keeps_files else f"\n{removal_message}")
