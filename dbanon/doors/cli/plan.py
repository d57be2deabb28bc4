"""The command ``dbanon plan``."""

from __future__ import annotations

import warnings
from typing import Any

import click

from dbanon.doors.cli.anonymize import OPTIONS, asked, with_options
from dbanon.doors.cli.support import ROWS_HELP, common, errors, show, signals, sql_printer
from dbanon.errors import PrivacyWarning


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(OPTIONS)
@click.option(
    "--cluster",
    is_flag=True,
    help="Also read the quasi-identifiers, find the classes and tell what they lose.",
)
@common
def plan(url: str, **given: Any) -> None:
    """Say what anonymize would do with these options, or refuse it as anonymize would.

    Rows are counted, names, types and rights are looked at. Nothing is changed.
    """
    form = given["form"]
    with errors(form), signals():
        from dbanon.doors import python as api
        from dbanon.doors.cli.render import pairs_table

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            found = api.plan(
                url,
                **asked(given),
                cluster=given["cluster"],
                on_sql=sql_printer(given["print_sql"]),
            )
        show(form, found.to_dict(), lambda: pairs_table("Plan", found.pairs()))
