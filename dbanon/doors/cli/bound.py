"""The command ``dbanon bound``."""

from __future__ import annotations

from typing import Any

import click

from dbanon.data.option import parameters
from dbanon.doors.cli.anonymize import OPTIONS, with_options
from dbanon.doors.cli.options import values, with_files
from dbanon.doors.cli.support import ROWS_HELP, common, errors, show, signals, sql_printer
from dbanon.doors.machine import half_of_memory
from dbanon.job.reading import Reading

_TAKEN = ("table", "quasi_identifiers", "k", "key", "orders", "memory_limit")
_OPTIONS = tuple(one for one in OPTIONS if one.name in _TAKEN or one in parameters(Reading))


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(_OPTIONS)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="A limit for the linear programs; the best bound until then is told.",
)
@common
def bound(url: str, **given: Any) -> None:
    """Say what no release of a table in classes of k or more rows can lose less than.

    The quasi-identifiers are read, and nothing is written. Up to 10,000 rows the bound is that of
    linear programs, which need the extra dbanon[bound].
    """
    form = given["form"]
    with errors(form), signals():
        from dbanon.doors import bound as api
        from dbanon.doors.cli.render import pairs_table

        wanted = values(_OPTIONS, given)
        wanted["quasi_identifiers"] += given["single_q"]
        wanted["orders"] = with_files(wanted["orders"], given["order_files"])
        if wanted["memory_limit"] is None:
            wanted["memory_limit"] = half_of_memory()
        found = api.certificate(
            url, **wanted, seconds=given["seconds"], on_sql=sql_printer(given["print_sql"])
        )
        show(form, found.to_dict(), lambda: pairs_table("Lower bound", found.pairs()))
