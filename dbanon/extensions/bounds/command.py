"""The command ``dbanon bound``."""

from __future__ import annotations

from typing import Any

import click

from dbanon.data.option import parameters
from dbanon.doors.cli.anonymize import OPTIONS, with_options
from dbanon.doors.cli.options import parse_table_options
from dbanon.doors.cli.support import (
    ROWS_HELP,
    handle_signals,
    report_errors,
    show_pairs,
    sql_printer,
    with_common_options,
)
from dbanon.job.reading import Reading

_OPTION_NAMES = ("table", "quasi_identifiers", "k", "key", "orders", "memory_limit")
# The options of ``Reading`` say how CSV files are read.
_OPTIONS = tuple(
    option for option in OPTIONS if option.name in _OPTION_NAMES or option in parameters(Reading)
)


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(_OPTIONS)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help=("Time limit for the search, in seconds. The best bound found by then is printed."),
)
@with_common_options
def bound(url: str, **arguments: Any) -> None:
    """Compute a lower bound on the loss of any release of a table in classes of k or more rows.

    The command reads the quasi-identifiers and writes nothing. For up to 10,000 rows it computes
    the bound with linear programs, which need the extra "bound". For more rows, or without the
    extra, it uses no solver.
    """
    output_format = arguments["output_format"]
    with report_errors(output_format), handle_signals():
        from dbanon.extensions.bounds.interface import certificate

        options = parse_table_options(_OPTIONS, arguments)
        result = certificate(
            url, **options, seconds=arguments["seconds"], on_sql=sql_printer(arguments["print_sql"])
        )
        show_pairs(output_format, result.to_dict(), "Lower bound", result.pairs)
