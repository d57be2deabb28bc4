"""The command ``dbanon anonymize``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dbanon.data.option import Parameter, all_parameters
from dbanon.doors.cli.cautions import warn_of, watched
from dbanon.doors.cli.chains import chain_of, with_parts
from dbanon.doors.cli.engine import engine_of, with_engine
from dbanon.doors.cli.log import current
from dbanon.doors.cli.options import Decorator, click_option, values, with_files
from dbanon.doors.cli.report_file import needs_evaluation, write_report
from dbanon.doors.cli.support import (
    ROWS_HELP,
    common,
    errors,
    lasting,
    show,
    signals,
    sql_printer,
)
from dbanon.doors.machine import half_of_memory
from dbanon.job.job import Job
from dbanon.job.private import METHOD, own_options

OPTIONS = all_parameters(Job)
# What method dp_ranks has beside them; it has no k.
PRIVATE = own_options()
_ALL = tuple(replace(one, default=None) if one.name == "k" else one for one in OPTIONS)

# What the command line can say in a way of its own, beside the option it stands for.
_OWN: dict[str, Decorator] = {
    "quasi_identifiers": click.option(
        "-q",
        "single_q",
        multiple=True,
        metavar="NAME",
        help="One quasi-identifier, taken literally; repeatable.",
    ),
    "sensitive": click.option(
        "-s",
        "single_s",
        multiple=True,
        metavar="NAME",
        help="One sensitive column, taken literally; repeatable.",
    ),
    "orders": click.option(
        "--order-file",
        "order_files",
        multiple=True,
        metavar="NAME=FILE",
        help="The same from a file, one value a line; repeatable.",
    ),
    "chain": with_parts,
    "output": click.option("--target", help="URL of another database to write to."),
}


def with_options(known: Sequence[Parameter]) -> Decorator:
    """Give a command these options, in their order."""

    def given(command: Any) -> Any:
        for one in reversed(known):
            command = _OWN[one.name](command) if one.name in _OWN else command
            command = click_option(one, known)(command)
        return command

    return given


def asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """What ``with_options`` was given, as Python's door takes it."""
    found = values(OPTIONS, given)
    found["quasi_identifiers"] += given["single_q"]
    found["sensitive"] += given["single_s"]
    found["orders"] = with_files(found["orders"], given["order_files"])
    if found["memory_limit"] is None:
        found["memory_limit"] = half_of_memory()
    return found | {"target": given["target"], "chain": chain_of(given)}


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options((*_ALL, *PRIVATE))
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the report to a .json, .html or .txt file; .html with --evaluate.",
)
@click.option("--no-progress", is_flag=True, help="No progress on stderr.")
@with_engine
@common
def anonymize(url: str, **given: Any) -> None:
    """Anonymize a table into a table or view that was recounted before it is visible.

    A column named nowhere is not copied.
    """
    form = given["form"]
    with errors(form), signals(), lasting() as committed:
        from dbanon.doors import python as api
        from dbanon.doors.cli.render import report_table, require_report_file

        log = current()
        path: Path | None = given["report"]
        wanted = asked(given) | values(PRIVATE, given)
        if path is not None:
            require_report_file(path, page=wanted["method"] != METHOD)
        if wanted["k"] is None and wanted["method"] != METHOD:
            raise click.UsageError("Missing option '--k'.")
        wanted["evaluate"] |= needs_evaluation(path) and wanted["method"] != METHOD
        engine = engine_of(given)
        with watched(not given["no_progress"]) as progress:
            own: dict[str, Any] = {"door": "cli", "run_id": log.run_id}
            if engine is None:
                on_sql = sql_printer(given["print_sql"])
                report = api.anonymize(url, **wanted, **own, progress=progress, on_sql=on_sql)
            else:
                target = wanted.pop("target") or url
                report = engine.run(api.job_of(wanted | own), url, target)
            log.release_id = report.release_id
            committed()
        warn_of(report)
        if path is not None:
            write_report(report, path, given["target"] or url)
        show(form, report.to_dict(), lambda: report_table(report))
