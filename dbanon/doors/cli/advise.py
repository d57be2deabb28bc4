"""The command ``dbanon advise``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from dbanon.advice.request import KS, AdviceRequest
from dbanon.data.memory import half_of_memory
from dbanon.data.option import make, parameters
from dbanon.data.words import printable
from dbanon.doors.cli.options import click_option, values
from dbanon.doors.cli.support import (
    ROWS_HELP,
    commit_guard,
    common,
    errors,
    short_names,
    show,
    signals,
    sql_printer,
)
from dbanon.errors import InvalidParameter, pluralize
from dbanon.job.reading import Reading
from dbanon.ledger.rules import NOT_TRUSTED
from dbanon.stores.folders import is_of_files

if TYPE_CHECKING:
    from rich.console import Group

    from dbanon.advice.answer import Advice

OPTIONS = (*parameters(AdviceRequest), *parameters(Reading))

_SETS_SHOWN = 10


class Sizes(click.ParamType):  # type: ignore[type-arg]
    """Sizes of classes: numbers and ranges, such as 3..10,15."""

    name = "3..10,15"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        sizes: list[int] = []
        for part in str(value).split(","):
            ends = re.fullmatch(r"\s*(\d{1,6})\s*(?:\.\.\s*(\d{1,6})\s*)?", part, re.ASCII)
            if ends is None:
                self.fail("write sizes such as 3..10,15", param, ctx)
            sizes += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
        return tuple(sizes)


def _with_options(command: Any) -> Any:
    """Give the command its options, in their order."""
    short_forms = {
        "quasi_identifiers": ("-q", "single_q", "Quasi-identifiers"),
        "sensitive": ("-s", "single_s", "Sensitive columns"),
    }
    for parameter in reversed(OPTIONS):
        if parameter.name in short_forms:
            command = short_names(*short_forms[parameter.name])(command)
        if parameter.name == "k":
            option = click.option("--k", type=Sizes(), default=KS, help=_k_help(parameter.help))
        else:
            option = click_option(parameter, OPTIONS)
        command = option(command)
    return command


def _k_help(description: str) -> str:
    return f"{description} Default: 3..10,15,20."


@click.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@_with_options
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
@common
def advise(url: str, to_declare: bool, yes: bool, **arguments: Any) -> None:
    """Propose column roles, show which columns make rows unique, and recommend a first release.

    Roles are proposals, never decisions. Without --declare nothing is written. No value of the
    data is printed.
    """
    form = arguments["form"]
    with errors(form), signals():
        from dbanon.doors import advise as api
        from dbanon.doors.spelling import command
        from dbanon.run.open import open_store

        requested = values(OPTIONS, arguments)
        requested["quasi_identifiers"] += arguments["single_q"]
        requested["sensitive"] += arguments["single_s"]
        if requested["memory_limit"] is None:
            requested["memory_limit"] = half_of_memory()
        if to_declare and is_of_files(url):
            raise InvalidParameter(
                "Rules are stored in the database of their table, and a file has no database.",
                hint="Leave out --declare, and name the columns in the call.",
            )
        if to_declare and form == "json" and not yes:
            raise click.UsageError(
                "With --format json dbanon does not ask: add '--yes' to '--declare'."
            )
        advice = api.advise(url, **requested, on_sql=sql_printer(arguments["print_sql"]))
        line = None
        if advice.start:
            reading = make(
                Reading,
                {parameter.name: requested[parameter.name] for parameter in parameters(Reading)},
            )
            options = {**advice.start, **reading.to_dict()}
            line = command(open_store(url).url, options, arguments["hierarchies"])
        show(form, advice.to_dict() | {"command": line}, lambda: _tables(advice))
        if form == "table" and line is not None:
            # Printed raw, so that the command is not wrapped to the width of a table.
            click.echo(line)
        if to_declare:
            _declare(url, arguments["table"], advice, yes, sql_printer(arguments["print_sql"]))


def _declare(url: str, table: str, advice: Advice, yes: bool, on_sql: Any) -> None:
    """Declare the proposed roles of columns without a rule, after confirmation."""
    from dbanon.doors import rules as api

    rules = [rule for rule in api.rules(url, table, on_sql=on_sql) if rule.role is not None]
    # Untrusted rules are replaced by the owner's, and listed so that the owner notices them.
    refused = {rule.column for rule in rules if rule.state == NOT_TRUSTED}
    declared = {rule.column for rule in rules} - refused
    new = {name: rule for name, rule in advice.rules.items() if name not in declared}
    open_columns = [
        c.column.name for c in advice.columns if c.column.name not in {*declared, *advice.rules}
    ]
    proposals = [
        f"{name}: {rule if isinstance(rule, str) else rule['role']}" for name, rule in new.items()
    ]
    click.echo(
        f"Rules to declare for {table}: {'; '.join(map(printable, proposals)) or 'none'}."
        + (
            f" Already declared, unchanged: {', '.join(map(printable, sorted(declared)))}."
            if declared
            else ""
        )
        + (
            " Declared by someone other than the present owner, and replaced if listed above:"
            f" {', '.join(map(printable, sorted(refused)))}."
            if refused
            else ""
        )
        + (
            f" Without a rule, for you to decide: {', '.join(map(printable, open_columns))}."
            if open_columns
            else ""
        ),
        err=True,
    )
    if new and (yes or click.confirm("Declare them?", err=True)):
        with commit_guard() as committed:
            api.declare(url, table, new, on_sql=on_sql)
            committed()
        click.echo(f"Declared: {pluralize(len(new), 'rule')}.", err=True)


def _tables(advice: Advice) -> Group:
    """Render advice for a terminal."""
    from rich.console import Group
    from rich.text import Text

    from dbanon.advice.answer import describe_set
    from dbanon.doors.cli.render import pairs_table, rows_table

    singling, sweep = advice.singling, advice.sweep
    falls = singling.unique_share_drops()
    columns = [
        (c.column.name, c.column.attribute.sql_type, str(c.nulls), str(c.distinct), str(c.role))
        for c in advice.columns
    ]
    singles = [
        ("all", describe_set(singling.chosen), ""),
        *(
            (f"without {name}", describe_set(remainder), _fall(falls[name]))
            for name, remainder in singling.without.items()
        ),
        *(
            (", ".join(column_set.columns), describe_set(column_set), "")
            for column_set in singling.sets[:_SETS_SHOWN]
        ),
    ]
    estimated = any(point.estimate is not None for point in sweep.points)
    tried = [
        (
            point.curve,
            point.k,
            f"{point.loss:.4g}",
            *([f"{point.estimate or 0:.2g}"] if estimated else []),
            f"{point.risk:.4g}",
            f"{point.class_risk:.4g}",
            str(point.suppressed),
            "yes" if point.on_frontier else "",
        )
        for point in sweep.points
    ]
    loss = f"{sweep.measure}, at most" if sweep.sampled else sweep.measure
    header = [
        "method",
        "k",
        loss,
        *(["about"] if estimated else []),
        "linkage risk",
        "class risk",
        "withheld",
        "frontier",
    ]
    chosen = "proposed" if advice.proposed else "named"
    title = f"Columns that make rows unique, of the {len(advice.quasi_identifiers)} {chosen}"
    return Group(
        rows_table(
            f"{advice.source}, {pluralize(advice.rows, 'row')}: proposals, for you to decide",
            ["column", "type", "NULL", "values", "may be"],
            columns,
        ),
        rows_table(title, ["columns", "rows", "drop"], singles),
        rows_table("Simulated only; nothing was written", header, tried),
        *(Text(f"Note: {note}.") for note in sweep.notes()),
        pairs_table(
            "Where to start",
            [*advice.recommended(), ("CPU seconds", f"{sum(advice.seconds.values()):.1f}")],
        ),
    )


def _fall(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.3g} %"
