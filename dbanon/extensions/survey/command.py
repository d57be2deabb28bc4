"""The command ``dbanon risk``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.data.option import parameters
from dbanon.doors.cli.anonymize import with_options
from dbanon.doors.cli.log import print_message
from dbanon.doors.cli.options import parse_table_options
from dbanon.doors.cli.support import (
    ROWS_HELP,
    handle_signals,
    report_errors,
    show,
    sql_printer,
    with_common_options,
)
from dbanon.extensions.survey.request import RiskRequest
from dbanon.job.reading import Reading

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dbanon.extensions.survey.risk_comparison import RiskComparison
    from dbanon.extensions.survey.sample_risk import SampleRisk

_OPTIONS = (*parameters(RiskRequest), *parameters(Reading))


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(_OPTIONS)
@click.option(
    "--records",
    type=click.Path(path_type=Path),
    help=(
        "A new file for a private list: each record with its row key, its risks and the columns"
        " that cause them. Only you can read it, and it is not for publication."
    ),
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help=(
        "A new .html file for the figures and pictures, as one page. Only you can read it, and it"
        " is not for publication."
    ),
)
@with_common_options
def risk(url: str, records: Path | None, report: Path | None, **arguments: Any) -> None:
    """Measure the disclosure risk of a sample: how likely its records lead to their persons.

    The figures are for the controller of the data, not for publication. The command writes nothing
    but the list of records and the report, and prints no value of the data.
    """
    output_format = arguments["output_format"]
    with report_errors(output_format), handle_signals():
        from dbanon.extensions.survey.interface import disclosure_risk

        options = parse_table_options(_OPTIONS, arguments)
        result = disclosure_risk(
            url,
            **options,
            records=records,
            report=report,
            on_sql=sql_printer(arguments["print_sql"]),
        )
        show(output_format, result.to_dict(), lambda: _build_table(result))
        if records is not None and output_format == "table":
            print_message(
                f"List of records, private and not for publication: {records}", event="info"
            )
        if report is not None and output_format == "table":
            print_message(f"Report, private and not for publication: {report}", event="info")


def _build_table(result: SampleRisk | RiskComparison) -> RenderableType:
    """Build the table of the figures; with a release, that of the figures before and after."""
    from rich.console import Group

    from dbanon.doors.cli.render import pairs_table, rows_table
    from dbanon.extensions.survey.sample_risk import SampleRisk

    if isinstance(result, SampleRisk):
        return pairs_table("Disclosure risk of the sample", result.pairs())
    return Group(
        rows_table(
            "Disclosure risk of the sample", ("measure", "before", "after"), result.table_rows()
        ),
        pairs_table("What it means", result.pairs()),
    )
