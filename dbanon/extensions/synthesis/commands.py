"""The command ``dbanon budget``."""

from __future__ import annotations

from typing import Any

import click

from dbanon.data.option import parameters
from dbanon.doors.cli.groups import CommandGroup
from dbanon.doors.cli.log import Command
from dbanon.doors.cli.options import click_option
from dbanon.doors.cli.support import (
    URL_HELP,
    commit_guard,
    handle_signals,
    report_errors,
    show_entries,
    show_pairs,
    sql_printer,
    with_common_options,
)
from dbanon.job.private import NewBudget

_NAME_ARGUMENT = click.argument("name")
# The fields of ``NewBudget`` that are options of the command.
_BUDGET_OPTIONS = parameters(NewBudget)


@click.group("budget", cls=CommandGroup)
def budget() -> None:
    """Privacy budgets: how much the differentially private releases of a table may spend
    together."""


def _with_budget_options(command: Command) -> Command:
    """Add the options for a new budget to a command."""
    # In the help, click lists options in reverse order of their addition.
    for parameter in reversed(_BUDGET_OPTIONS):
        command = click_option(parameter, _BUDGET_OPTIONS)(command)
    return command


@budget.command("create", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME_ARGUMENT
@_with_budget_options
@with_common_options
def create_budget(url: str, name: str, **arguments: Any) -> None:
    """Create a budget. Afterwards only the amount spent changes."""
    output_format = arguments["output_format"]
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.extensions.synthesis import interface as synthesis

        options = {parameter.name: arguments[parameter.name] for parameter in _BUDGET_OPTIONS}
        new_budget = synthesis.create_budget(
            url, name, **options, on_sql=sql_printer(arguments["print_sql"])
        )
        # From here on, an interrupt must not be reported as if nothing had happened.
        mark_committed()
        show_pairs(output_format, new_budget.to_dict(), "Budget", new_budget.pairs)


@budget.command("list", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_common_options
def list_budgets(url: str, output_format: str, print_sql: bool) -> None:
    """List the budgets of a database."""
    with report_errors(output_format), handle_signals():
        from dbanon.extensions.synthesis import interface as synthesis

        budgets = [
            entry.to_dict() for entry in synthesis.budgets(url, on_sql=sql_printer(print_sql))
        ]
        header = ["name", "state", "source", "unit", "total", "spent", "left", "created_by"]
        show_entries(output_format, "Budgets", header, budgets)


@budget.command("show", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME_ARGUMENT
@with_common_options
def show_budget(url: str, name: str, output_format: str, print_sql: bool) -> None:
    """Show a budget and everything that was spent from it."""
    with report_errors(output_format), handle_signals():
        from dbanon.extensions.synthesis import interface as synthesis

        description = synthesis.show_budget(url, name, on_sql=sql_printer(print_sql))
        show_pairs(output_format, description.to_dict(), "Budget", description.pairs)
