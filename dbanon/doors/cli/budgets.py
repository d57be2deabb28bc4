"""The commands ``dbanon budget``."""

from __future__ import annotations

from typing import Any

import click

from dbanon.data.option import parameters
from dbanon.doors.cli.commands import Commands
from dbanon.doors.cli.options import click_option
from dbanon.doors.cli.support import URL_HELP, common, errors, lasting, show, signals, sql_printer
from dbanon.job.private import NewBudget

_OPTIONS = parameters(NewBudget)
_NAME = click.argument("name")


@click.group("budget", cls=Commands)
def budget() -> None:
    """What differentially private releases of a table may spend together."""


def _with_options(command: Any) -> Any:
    for one in reversed(_OPTIONS):
        command = click_option(one, _OPTIONS)(command)
    return command


@budget.command("create", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@_with_options
@common
def create_budget(url: str, name: str, **given: Any) -> None:
    """Make a budget; one that is there already is never changed, but for what is spent."""
    form = given["form"]
    with errors(form), signals(), lasting() as committed:
        from dbanon.doors import synthesis
        from dbanon.doors.cli.render import pairs_table

        wanted = {one.name: given[one.name] for one in _OPTIONS}
        made = synthesis.create_budget(url, name, **wanted, on_sql=sql_printer(given["print_sql"]))
        committed()
        show(form, made.to_dict(), lambda: pairs_table("Budget", made.pairs()))


@budget.command("list", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@common
def list_budgets(url: str, form: str, print_sql: bool) -> None:
    """List the budgets of a database."""
    with errors(form), signals():
        from dbanon.doors import synthesis
        from dbanon.doors.cli.render import rows_table

        found = [one.to_dict() for one in synthesis.budgets(url, on_sql=sql_printer(print_sql))]
        header = ["name", "state", "source", "unit", "total", "spent", "left", "created_by"]
        rows = [["" if one[key] is None else one[key] for key in header] for one in found]
        show(form, found, lambda: rows_table("Budgets", header, rows))


@budget.command("show", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@common
def show_budget(url: str, name: str, form: str, print_sql: bool) -> None:
    """Show a budget, and all that was spent of it."""
    with errors(form), signals():
        from dbanon.doors import synthesis
        from dbanon.doors.cli.render import pairs_table

        found = synthesis.show_budget(url, name, on_sql=sql_printer(print_sql))
        show(form, found.to_dict(), lambda: pairs_table("Budget", found.pairs()))
