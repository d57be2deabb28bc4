"""Options of commands that can run on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from dbanon.doors.cli.support import pair
from dbanon.doors.engines import ENGINES, Engine
from dbanon.job.private import METHOD, refused

_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        help="Run on a cluster: URL and --target are PostgreSQL, or directories of Parquet files."
        " See docs/scale-out.md.",
    ),
    click.option("--master", metavar="URL", help="The cluster's master, as spark://host:7077."),
    click.option(
        "--tasks",
        type=click.IntRange(min=1),
        help="How many work on blocks; as many as the cluster has cores, or more, by default.",
    ),
    click.option(
        "--conf",
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of Spark; repeatable. Secrets belong into its own files: others on this"
        " machine see the command line.",
    ),
)


def with_engine(command: Any) -> Any:
    """Give a command the options of an engine."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def engine_of(given: Mapping[str, Any]) -> Engine | None:
    """The engine that was asked for; None for this process.

    Raises
    ------
    UsageError : it has no master, or is not named and has one.
    InvalidParameter : the method is not Spark's.
    """
    name, master = given["engine"], given["master"]
    if name is None:
        if master is not None or given["tasks"] is not None or given["conf"]:
            raise click.UsageError("--master, --tasks and --conf are of an engine: --engine spark.")
        return None
    if given["method"] == METHOD:
        raise refused("engine")
    if given["print_sql"]:
        raise click.UsageError("--print-sql is not for --engine: its statements are the workers'.")
    if master is None:
        raise click.UsageError("--engine spark needs its master: --master spark://host:7077.")
    return Engine(name, master, given["tasks"], dict(map(pair, given["conf"])))
