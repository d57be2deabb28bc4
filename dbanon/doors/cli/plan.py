"""The command ``dbanon plan`` for a table; ``jobs`` has the one for a job file."""

from __future__ import annotations

import warnings
from typing import Any

import click

from dbanon.doors.cli.anonymize import OPTIONS, declared_option, to_python_options, with_options
from dbanon.doors.cli.option_groups import GroupedOptions
from dbanon.doors.cli.support import (
    ROWS_HELP,
    handle_signals,
    report_errors,
    show_pairs,
    sql_printer,
    with_common_options,
)
from dbanon.errors import PrivacyWarning


@click.command(cls=GroupedOptions, epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(OPTIONS)
@declared_option
@click.option(
    "--cluster",
    is_flag=True,
    help="Also read the quasi-identifiers, find the classes and report their loss.",
)
@with_common_options
def plan(url: str, **arguments: Any) -> None:
    """Show what anonymize would do with these options, or refuse as anonymize would.

    The command counts rows and checks names, types and rights. It tries the method on a sample of
    the rows, to forecast the time. It changes nothing.
    """
    output_format = arguments["output_format"]
    with report_errors(output_format), handle_signals():
        from dbanon.doors import python as api

        with warnings.catch_warnings():
            # A plan publishes nothing: the run itself prints these warnings.
            warnings.simplefilter("ignore", PrivacyWarning)
            outlook = api.plan(
                url,
                **to_python_options(arguments),
                cluster=arguments["cluster"],
                on_sql=sql_printer(arguments["print_sql"]),
            )
        show_pairs(output_format, outlook.to_dict(), "Plan", outlook.pairs)
