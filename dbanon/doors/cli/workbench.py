"""The command ``dbanon workbench``."""

from __future__ import annotations

import signal
from functools import partial
from typing import Any

import click

from dbanon.data.option import make, parameters
from dbanon.doors.cli.anonymize import with_options
from dbanon.doors.cli.log import log_format, say
from dbanon.doors.cli.options import values
from dbanon.doors.cli.support import ROWS_HELP, Names, errors, signals
from dbanon.job.reading import Reading


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option(
    "--table", required=True, help="The table to read, such as app.people. For a file, any name."
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
@log_format
def workbench(
    url: str, table: str, target: str | None, key: tuple[str, ...], port: int, **reading: Any
) -> None:
    """Open a local web page that leads from a table to a job file and its release.

    The command prints an address with a key, for a browser on this machine. Ctrl-C ends it. Job
    files are saved in the current directory.
    """
    with errors("table"), signals() as arrived:
        from dbanon.data.memory import half_of_memory
        from dbanon.doors.cli.jobs import opened
        from dbanon.doors.cli.run import save_report
        from dbanon.doors.workbench.program import run_workbench
        from dbanon.doors.workbench.state import Commands, Start

        def ready(address: str) -> None:
            click.echo(address)
            say("Open it in a browser of this machine. Ctrl-C ends it.", "info")

        start = Start(
            url,
            table,
            Commands(partial(opened, inline_password=False), save_report),
            key=key,
            reading=make(Reading, values(parameters(Reading), reading)),
            target=target,
            memory=half_of_memory(),
        )
        if run_workbench(start, port=port, ready=ready) or signal.SIGTERM in arrived:
            # What it was doing is rolled back, or it was told to end by another program.
            raise KeyboardInterrupt
