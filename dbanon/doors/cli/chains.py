"""The commands ``dbanon chain`` and ``dbanon budget``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dbanon.data.option import parameters
from dbanon.doors.cli.groups import Commands
from dbanon.doors.cli.options import click_option
from dbanon.doors.cli.support import (
    URL_HELP,
    commit_guard,
    common,
    errors,
    show,
    signals,
    sql_printer,
)
from dbanon.errors import InvalidParameter
from dbanon.job.chain import ChainRules
from dbanon.job.private import NewBudget

# Tables have an option of their own, ahead of the rules.
_RULE_OPTIONS = tuple(
    parameter for parameter in parameters(ChainRules) if parameter.name != "tables"
)


@click.group("chain", cls=Commands)
def chain() -> None:
    """Releases of the same persons that stay private together."""


def _with_rules(command: Any) -> Any:
    for parameter in reversed(_RULE_OPTIONS):
        command = click_option(parameter, _RULE_OPTIONS)(command)
    return command


_NAME = click.argument("name")
_KEY = click.option(
    "--chain-key",
    "key",
    required=True,
    metavar="file:PATH|env:NAME",
    help="Where the key of the chain is.",
)


@chain.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@click.option(
    "--table",
    "tables",
    required=True,
    multiple=True,
    help=(
        "A table that its releases read, such as app.people. Repeatable. All tables have the same"
        " entity."
    ),
)
@click.option(
    "--entity", required=True, metavar="COLUMN", help="The column that identifies persons."
)
@click.option(
    "--source",
    metavar="FILE_URL",
    help=(
        "The files that its releases read, such as file:people.csv; --table names the table of"
        " their rows. The database stores the chain and receives the releases."
    ),
)
@_with_rules
@click.option(
    "--key-out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "The file to write the key to, readable by its owner only. If the key is lost, the chain"
        " has ended."
    ),
)
@click.option(
    "--chain-key",
    "key",
    metavar="file:PATH|env:NAME",
    help="With --new-chain-from: where that chain's key is.",
)
@common
def create(url: str, name: str, **arguments: Any) -> None:
    """Create a chain with its key. Its rules stay the same afterwards."""
    form = arguments["form"]
    with errors(form), signals(), commit_guard() as committed:
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import pairs_table

        rules = {parameter.name: arguments[parameter.name] for parameter in _RULE_OPTIONS}
        created = api.create_chain(
            url,
            name,
            table=arguments["tables"][0],
            tables=arguments["tables"][1:],
            entity=arguments["entity"],
            key_out=arguments["key_out"],
            key=arguments["key"],
            source=arguments["source"],
            **rules,
            on_sql=sql_printer(arguments["print_sql"]),
        )
        committed()
        show(form, created.to_dict(), lambda: pairs_table("Chain", created.pairs()))


@chain.command("list", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@common
def list_chains(url: str, form: str, print_sql: bool) -> None:
    """List the chains of a database."""
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import EntryList

        chains = [entry.to_dict() for entry in api.chains(url, on_sql=sql_printer(print_sql))]
        header = ["name", "state", "sequence", "k", "source", "entity", "created_at"]
        rows = [["" if entry[key] is None else entry[key] for key in header] for entry in chains]
        show(form, chains, lambda: EntryList("Chains", header, rows))


@chain.command("show", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@common
def show_chain(url: str, name: str, form: str, print_sql: bool) -> None:
    """Show a chain: its rules, its releases, and a forecast for twelve more releases."""
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import pairs_table

        description = api.show_chain(url, name, on_sql=sql_printer(print_sql))
        show(form, description.to_dict(), lambda: pairs_table("Chain", description.pairs()))


@chain.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("names", nargs=-1, required=True, metavar="NAME | RELEASE RELEASE...")
@click.option(
    "--chain-key", "key", metavar="file:PATH|env:NAME", help="For a chain: where its key is."
)
@click.option(
    "--entity",
    metavar="COLUMN",
    help=(
        "For releases without a chain: the column that identifies persons. Without it, persons are"
        " counted by the ledger's record, which releases with an entity have."
    ),
)
@click.option(
    "--k",
    type=click.IntRange(min=2),
    metavar="N",
    help=(
        "For releases without a chain: the k to count against. Default: the smallest k of these"
        " releases."
    ),
)
@click.option(
    "--sensitive",
    multiple=True,
    metavar="COLUMN",
    help=(
        "For releases without a chain: a column of every release to use instead of those released"
        " as sensitive."
    ),
)
@common
def measure(url: str, names: tuple[str, ...], form: str, print_sql: bool, **arguments: Any) -> None:
    """Count how many persons share each joint history over several releases, with or without a
    chain."""
    with errors(form), signals():
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import pairs_table

        of_chain, of_releases = arguments["key"] is not None, arguments["entity"] is not None
        if of_chain and of_releases:
            raise InvalidParameter(
                "Measure either a chain, with its key, or releases that have a column that"
                " identifies persons.",
                hint="Leave out --chain-key or --entity.",
            )
        if of_chain and (len(names) > 1 or arguments["k"] is not None or arguments["sensitive"]):
            raise InvalidParameter(
                "A chain is measured separately, against its own k.",
                hint="Name one chain, without --k and --sensitive.",
            )
        on_sql = sql_printer(print_sql)
        measurement: Any
        if of_chain:
            measurement = api.measure_chain(url, names[0], key=arguments["key"], on_sql=on_sql)
        else:
            measurement = api.measure_releases(
                url,
                names,
                entity=arguments["entity"],
                k=arguments["k"],
                sensitive=arguments["sensitive"] or None,
                on_sql=on_sql,
            )
        show(form, measurement.to_dict(), lambda: pairs_table("Histories", measurement.pairs()))


@chain.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@_KEY
@click.option(
    "--entity-from-stdin",
    is_flag=True,
    required=True,
    expose_value=False,
    help="Read the persons from stdin, one per line, because others can see the command line.",
)
@common
def withdraw(url: str, name: str, key: str, form: str, print_sql: bool) -> None:
    """Remove the classes of some persons from all later releases, permanently.

    Use it for a request for erasure. A person can only leave together with their class.
    """
    with errors(form), signals(), commit_guard() as committed:
        from dbanon.doors import releases as api

        person_ids = sys.stdin.read().splitlines()
        cells = api.withdraw(url, name, person_ids, key=key, on_sql=sql_printer(print_sql))
        committed()
        message = f"{cells} classes were withdrawn: the next release does not have them."
        show(form, {"classes": cells}, lambda: message)


@chain.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@common
def close(url: str, name: str, form: str, print_sql: bool) -> None:
    """Close a chain. It takes no further release, and its state is kept."""
    with errors(form), signals(), commit_guard() as committed:
        from dbanon.doors import releases as api
        from dbanon.doors.cli.render import pairs_table

        closed = api.close_chain(url, name, on_sql=sql_printer(print_sql))
        committed()
        show(form, closed.to_dict(), lambda: pairs_table("Chain", closed.pairs()))


_OPTIONS = parameters(NewBudget)


@click.group("budget", cls=Commands)
def budget() -> None:
    """Privacy budgets: how much the differentially private releases of a table may spend
    together."""


def _with_options(command: Any) -> Any:
    for parameter in reversed(_OPTIONS):
        command = click_option(parameter, _OPTIONS)(command)
    return command


@budget.command("create", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@_with_options
@common
def create_budget(url: str, name: str, **arguments: Any) -> None:
    """Create a budget. Afterwards only the amount spent changes."""
    form = arguments["form"]
    with errors(form), signals(), commit_guard() as committed:
        from dbanon.doors import synthesis
        from dbanon.doors.cli.render import pairs_table

        options = {parameter.name: arguments[parameter.name] for parameter in _OPTIONS}
        created = synthesis.create_budget(
            url, name, **options, on_sql=sql_printer(arguments["print_sql"])
        )
        committed()
        show(form, created.to_dict(), lambda: pairs_table("Budget", created.pairs()))


@budget.command("list", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@common
def list_budgets(url: str, form: str, print_sql: bool) -> None:
    """List the budgets of a database."""
    with errors(form), signals():
        from dbanon.doors import synthesis
        from dbanon.doors.cli.render import EntryList

        budgets = [
            entry.to_dict() for entry in synthesis.budgets(url, on_sql=sql_printer(print_sql))
        ]
        header = ["name", "state", "source", "unit", "total", "spent", "left", "created_by"]
        rows = [["" if entry[key] is None else entry[key] for key in header] for entry in budgets]
        show(form, budgets, lambda: EntryList("Budgets", header, rows))


@budget.command("show", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME
@common
def show_budget(url: str, name: str, form: str, print_sql: bool) -> None:
    """Show a budget and everything that was spent from it."""
    with errors(form), signals():
        from dbanon.doors import synthesis
        from dbanon.doors.cli.render import pairs_table

        description = synthesis.show_budget(url, name, on_sql=sql_printer(print_sql))
        show(form, description.to_dict(), lambda: pairs_table("Budget", description.pairs()))
