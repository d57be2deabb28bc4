"""The command ``dbanon workbench``."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

from dbanon.data.option import build_options, parameters
from dbanon.doors.cli.anonymize import with_options
from dbanon.doors.cli.log import print_message, with_log_format
from dbanon.doors.cli.options import parse_option_values
from dbanon.doors.cli.support import ROWS_HELP, Names, handle_signals, report_errors
from dbanon.job.reading import Reading


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option(
    "--table",
    help="The table to read, such as app.people. For a file, any name. A job file names its own.",
)
@click.option("--target", help="URL of the database for the releases. Default: the source.")
@click.option(
    "--key", type=Names(), default=(), help="Columns that are unique for each row, for views."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port of 127.0.0.1 to listen on. Default: any free port.",
)
@with_options(parameters(Reading))
@with_log_format
def workbench(
    url: str, table: str | None, target: str | None, key: tuple[str, ...], port: int, **reading: Any
) -> None:
    """Open a local web page that leads from a table to a job file and its release.

    In place of the URL, a job file that the workbench saved (.yaml) opens it again.

    The command prints an address with a key, for a browser on this machine. Ctrl-C ends it. Job
    files are saved in the current directory.
    """
    # "table" is the output format of commands that is read by people.
    with report_errors("table"), handle_signals() as received_signals:
        from dbanon.data.memory import half_of_memory
        from dbanon.doors.cli.run import write_job_report
        from dbanon.extensions.workbench.open import JOB_FILE_SUFFIXES, open_job_file
        from dbanon.extensions.workbench.program import run_workbench
        from dbanon.extensions.workbench.state import WorkbenchArguments

        def print_address(address: str) -> None:
            click.echo(address)
            print_message("Open it in a browser on this machine. Ctrl-C ends it.", event="info")

        reading_options = build_options(Reading, parse_option_values(parameters(Reading), reading))
        if url.endswith(JOB_FILE_SUFFIXES):
            if table or target or key or reading_options.non_default_options:
                raise click.UsageError(
                    "The job file already says which table to read, and how: leave out --table,"
                    " --target, --key and the options for reading."
                )
            arguments = open_job_file(Path(url), write_job_report, half_of_memory())
        elif not table:
            raise click.UsageError("Name the table to read: --table app.people.")
        else:
            arguments = WorkbenchArguments(
                url,
                table,
                write_job_report,
                key=key,
                reading=reading_options,
                target=target,
                memory_bytes=half_of_memory(),
            )
        if (
            run_workbench(arguments, port=port, on_ready=print_address)
            or signal.SIGTERM in received_signals
        ):
            # A task was rolled back, or another program ended the workbench.
            raise KeyboardInterrupt
