"""The command ``dbanon advise``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from dbanon.advice.request import DEFAULT_KS, AdviceRequest
from dbanon.data.option import build_options, find_parameter, parameters
from dbanon.data.words import escape_control_characters
from dbanon.doors.cli.anonymize import with_options
from dbanon.doors.cli.options import parse_table_options
from dbanon.doors.cli.support import (
    ROWS_HELP,
    commit_guard,
    handle_signals,
    report_errors,
    show,
    sql_printer,
    with_common_options,
)
from dbanon.errors import InvalidParameter, pluralize
from dbanon.job.reading import Reading
from dbanon.ledger.rules import NOT_TRUSTED
from dbanon.stores.schemes import is_row_file_url

if TYPE_CHECKING:
    from rich.console import Group

    from dbanon.advice.answer import Advice
    from dbanon.sessions.base import OnSql

OPTIONS = (*parameters(AdviceRequest), *parameters(Reading))

# Maximum number of printed column sets that make rows unique.
_MAX_SHOWN_SETS = 10


class ClassSizes(click.ParamType):  # type: ignore[type-arg]
    """Class sizes: numbers and ranges, such as 3..10,15."""

    name = "3..10,15"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        sizes: list[int] = []
        for size_text in str(value).split(","):
            size_range = re.fullmatch(
                r"\s*(\d{1,6})\s*(?:\.\.\s*(\d{1,6})\s*)?", size_text, re.ASCII
            )
            if size_range is None:
                self.fail("write sizes such as 3..10,15", param, ctx)
            sizes += range(int(size_range[1]), int(size_range[2] or size_range[1]) + 1)
        return tuple(sizes)


# Shows the default as the user would write it.
_K_OPTION = click.option(
    "--k",
    type=ClassSizes(),
    default=DEFAULT_KS,
    help=f"{find_parameter(AdviceRequest, 'k').help} Default: 3..10,15,20.",
)


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_options(OPTIONS, {"k": _K_OPTION})
@click.option(
    "--declare",
    "to_declare",
    is_flag=True,
    help=(
        "Show the proposals, ask for confirmation, then declare the roles of columns that have no"
        " rule yet. A column whose role is undecided gets no rule."
    ),
)
@click.option("--yes", is_flag=True, help="With --declare, do not ask.")
@with_common_options
def advise(url: str, to_declare: bool, yes: bool, **arguments: Any) -> None:
    """Propose column roles, show which columns make rows unique, and recommend a first release.

    Roles are proposals, never decisions. Without --declare nothing is written. No value of the
    data is printed.
    """
    output_format = arguments["output_format"]
    with report_errors(output_format), handle_signals():
        from dbanon.doors import advise as api
        from dbanon.doors.spelling import build_command
        from dbanon.run.open import open_store

        request_options = parse_table_options(OPTIONS, arguments)
        if to_declare and is_row_file_url(url):
            raise InvalidParameter(
                "Rules are stored in the database of their table, and a file has no database.",
                hint="Leave out --declare, and name the columns in the call.",
            )
        if to_declare and output_format == "json" and not yes:
            raise click.UsageError(
                "With --format json dbanon cannot ask for confirmation: add '--yes' to '--declare'."
            )
        advice = api.advise(url, **request_options, on_sql=sql_printer(arguments["print_sql"]))
        # The command line of the recommended release, whose options are ``advice.start``. None if
        # no release is recommended.
        command_line = None
        if advice.start:
            # How a file of rows is read: a release must read it in the same way.
            reading = build_options(
                Reading,
                {
                    parameter.name: request_options[parameter.name]
                    for parameter in parameters(Reading)
                },
            )
            release_options = {**advice.start, **reading.to_dict()}
            command_line = build_command(
                open_store(url).url, release_options, arguments["hierarchies"]
            )
        show(
            output_format,
            advice.to_dict() | {"command": command_line},
            lambda: _render_advice(advice),
        )
        if output_format == "table" and command_line is not None:
            # Printed without a table, which would wrap the command.
            click.echo(command_line)
        if to_declare:
            _declare(
                url,
                arguments["table"],
                advice,
                needs_confirmation=not yes,
                on_sql=sql_printer(arguments["print_sql"]),
            )


def _declare(
    url: str, table: str, advice: Advice, *, needs_confirmation: bool, on_sql: OnSql | None
) -> None:
    """Print the proposed roles of columns without a rule, and declare them.

    Parameters
    ----------
    needs_confirmation : whether to ask the user first.
    on_sql : called with each SQL statement; None to ignore them.
    """
    from dbanon.doors import rules as api

    # The list also has the columns without a rule, whose role is None.
    rules = [rule for rule in api.rules(url, table, on_sql=on_sql) if rule.role is not None]
    # Replace rules that another database role declared, and list them so that the owner notices.
    untrusted_columns = {rule.column for rule in rules if rule.state == NOT_TRUSTED}
    declared_columns = {rule.column for rule in rules} - untrusted_columns
    new_rules = {name: rule for name, rule in advice.rules.items() if name not in declared_columns}
    undecided_columns = [
        c.column.name
        for c in advice.columns
        if c.column.name not in {*declared_columns, *advice.rules}
    ]
    # A rule is a role, or a mapping with the role and its settings.
    proposals = [
        f"{name}: {rule if isinstance(rule, str) else rule['role']}"
        for name, rule in new_rules.items()
    ]
    click.echo(
        f"Rules to declare for {table}:"
        f" {'; '.join(map(escape_control_characters, proposals)) or 'none'}."
        + (
            " Already declared, unchanged:"
            f" {', '.join(map(escape_control_characters, sorted(declared_columns)))}."
            if declared_columns
            else ""
        )
        + (
            " Declared by someone other than the current owner, and replaced if listed above:"
            f" {', '.join(map(escape_control_characters, sorted(untrusted_columns)))}."
            if untrusted_columns
            else ""
        )
        + (
            " Without a rule, for you to decide:"
            f" {', '.join(map(escape_control_characters, undecided_columns))}."
            if undecided_columns
            else ""
        ),
        err=True,
    )
    if new_rules and (not needs_confirmation or click.confirm("Declare them?", err=True)):
        with commit_guard() as mark_committed:
            api.declare(url, table, new_rules, on_sql=on_sql)
            mark_committed()
        click.echo(f"Declared: {pluralize(len(new_rules), 'rule')}.", err=True)


def _render_advice(advice: Advice) -> Group:
    """Render advice for a terminal."""
    from rich.console import Group
    from rich.text import Text

    from dbanon.advice.answer import describe_set
    from dbanon.doors.cli.render import pairs_table, rows_table

    singling_out, sweep = advice.singling, advice.sweep
    share_drops = singling_out.unique_share_drops()
    columns = [
        (c.column.name, c.column.attribute.sql_type, str(c.nulls), str(c.distinct), str(c.role))
        for c in advice.columns
    ]
    # First all examined quasi-identifiers, then all but one, then small sets, those that make most
    # rows unique first.
    set_rows = [
        ("all", describe_set(singling_out.chosen), ""),
        *(
            (f"without {name}", describe_set(other_columns), _format_drop(share_drops[name]))
            for name, other_columns in singling_out.without.items()
        ),
        *(
            (", ".join(column_set.columns), describe_set(column_set), "")
            for column_set in singling_out.sets[:_MAX_SHOWN_SETS]
        ),
    ]
    # Estimates of the loss of all rows, if the trials used a sample.
    has_estimates = any(point.estimate is not None for point in sweep.points)
    trial_rows = [
        (
            point.curve,  # the method, with its refinement or recoding
            point.k,
            f"{point.loss:.4g}",
            *([f"{point.estimate or 0:.2g}"] if has_estimates else []),
            f"{point.risk:.4g}",
            f"{point.class_risk:.4g}",
            str(point.suppressed),
            "yes" if point.on_frontier else "",
        )
        for point in sweep.points
    ]
    # Records of a sample lie farther apart, so the loss of all rows should not be larger.
    loss_header = f"{sweep.measure}, at most" if sweep.sampled else sweep.measure
    header = [
        "method",
        "k",
        loss_header,
        *(["about"] if has_estimates else []),
        "linkage risk",
        "class risk",
        "withheld",
        "frontier",
    ]
    origin = "proposed" if advice.proposed else "named"
    title = f"Columns that make rows unique, of the {len(advice.quasi_identifiers)} {origin}"
    return Group(
        rows_table(
            f"{advice.source}, {pluralize(advice.rows, 'row')}: proposals, for you to decide",
            ["column", "type", "NULL", "values", "may be"],
            columns,
        ),
        rows_table(title, ["columns", "rows", "drop"], set_rows),
        rows_table("Simulated only; nothing was written", header, trial_rows),
        *(Text(f"Note: {note}.") for note in sweep.notes()),
        pairs_table(
            "Where to start",
            [*advice.recommended(), ("CPU seconds", f"{sum(advice.seconds.values()):.1f}")],
        ),
    )


def _format_drop(share_drop: float | None) -> str:
    """Format a drop in the share of unique rows (0 to 1) as a percentage; None as an empty text."""
    return "" if share_drop is None else f"{100 * share_drop:.3g} %"
