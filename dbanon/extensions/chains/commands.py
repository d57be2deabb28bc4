"""The command ``dbanon chain``.

Commands that change a chain call ``mark_committed`` (from ``commit_guard``) after the change. Later
errors, such as a closed output, then become warnings, because the change is made.
"""

from __future__ import annotations

import sys
from pathlib import Path
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
    show,
    show_entries,
    show_pairs,
    sql_printer,
    with_common_options,
)
from dbanon.errors import InvalidParameter
from dbanon.job.chain import ChainRules

# ``--table`` is a separate option, listed before the rules.
_RULE_OPTIONS = tuple(
    parameter for parameter in parameters(ChainRules) if parameter.name != "tables"
)


@click.group("chain", cls=CommandGroup)
def chain() -> None:
    """Releases of the same persons that stay private together."""


def _with_rule_options(command: Command) -> Command:
    """Add the options for a chain's rules to a command."""
    # Click lists the option that is added last first.
    for parameter in reversed(_RULE_OPTIONS):
        command = click_option(parameter, _RULE_OPTIONS)(command)
    return command


_NAME_ARGUMENT = click.argument("name")
_KEY_OPTION = click.option(
    "--chain-key",
    "key",
    required=True,
    metavar="file:PATH|env:NAME",
    help="Where the key of the chain is.",
)


@chain.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME_ARGUMENT
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
@_with_rule_options
@click.option(
    "--key-out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=(
        "The file to write the key to, readable by its owner only. If the key is lost, the chain"
        " cannot continue."
    ),
)
@click.option(
    "--chain-key",
    "key",
    metavar="file:PATH|env:NAME",
    # ``--new-chain-from`` is one of the rule options, and names a closed chain to follow.
    help="With --new-chain-from: where that chain's key is.",
)
@with_common_options
def create(url: str, name: str, **arguments: Any) -> None:
    """Create a chain and its key. Its rules cannot be changed later."""
    output_format = arguments["output_format"]
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.extensions.chains import interface as api

        # The rule ``tables`` is the option ``--table``, without the first table.
        rules = {parameter.name: arguments[parameter.name] for parameter in _RULE_OPTIONS}
        new_chain = api.create_chain(
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
        mark_committed()
        show_pairs(output_format, new_chain.to_dict(), "Chain", new_chain.pairs)


@chain.command("list", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_common_options
def list_chains(url: str, output_format: str, print_sql: bool) -> None:
    """List the chains of a database."""
    with report_errors(output_format), handle_signals():
        from dbanon.extensions.chains import interface as api

        chains = [entry.to_dict() for entry in api.chains(url, on_sql=sql_printer(print_sql))]
        # ``sequence`` is the number of the chain's last release.
        header = ["name", "state", "sequence", "k", "source", "entity", "created_at"]
        show_entries(output_format, "Chains", header, chains)


@chain.command("show", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME_ARGUMENT
@with_common_options
def show_chain(url: str, name: str, output_format: str, print_sql: bool) -> None:
    """Show a chain: its rules, its releases, and a forecast for twelve more releases."""
    with report_errors(output_format), handle_signals():
        from dbanon.extensions.chains import interface as api

        description = api.show_chain(url, name, on_sql=sql_printer(print_sql))
        show_pairs(output_format, description.to_dict(), "Chain", description.pairs)


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
        " counted from the ledger's record of the persons in each release made with --entity."
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
        "For releases without a chain: a column that every release has, to use instead of the"
        " columns released as sensitive. Repeatable."
    ),
)
@with_common_options
def measure(
    url: str, names: tuple[str, ...], output_format: str, print_sql: bool, **arguments: Any
) -> None:
    """Count how many persons share each joint history over several releases, with or without a
    chain.

    A person's joint history is what the releases together show about that person.
    """
    with report_errors(output_format), handle_signals():
        from dbanon.extensions.chains import interface as api

        # A chain is measured with its key, releases without one.
        measures_chain, has_entity = arguments["key"] is not None, arguments["entity"] is not None
        if measures_chain and has_entity:
            raise InvalidParameter(
                "Measure either a chain, with its key, or releases that have a column that"
                " identifies persons.",
                hint="Leave out --chain-key or --entity.",
            )
        if measures_chain and (
            len(names) > 1 or arguments["k"] is not None or arguments["sensitive"]
        ):
            raise InvalidParameter(
                "A chain is measured by itself, against its own k.",
                hint="Name one chain, without --k and --sensitive.",
            )
        on_sql = sql_printer(print_sql)
        measurement: object
        if measures_chain:
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
        show_pairs(output_format, measurement.to_dict(), "Histories", measurement.pairs)


@chain.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME_ARGUMENT
@_KEY_OPTION
@click.option(
    "--entity-from-stdin",
    is_flag=True,
    required=True,
    expose_value=False,
    help="Read the persons from stdin, one per line, because others can see the command line.",
)
@with_common_options
def withdraw(url: str, name: str, key: str, output_format: str, print_sql: bool) -> None:
    """Remove the classes of some persons from all later releases, permanently.

    Use it for a request for erasure. A person can only leave together with their class.
    """
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.extensions.chains import interface as api

        person_ids = sys.stdin.read().splitlines()
        n_classes = api.withdraw(url, name, person_ids, key=key, on_sql=sql_printer(print_sql))
        mark_committed()
        message = f"{n_classes} classes were withdrawn: later releases do not contain them."
        show(output_format, {"classes": n_classes}, lambda: message)


@chain.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_NAME_ARGUMENT
@with_common_options
def close(url: str, name: str, output_format: str, print_sql: bool) -> None:
    """Close a chain. It accepts no more releases, and its state is kept."""
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.extensions.chains import interface as api

        closed_chain = api.close_chain(url, name, on_sql=sql_printer(print_sql))
        mark_committed()
        show_pairs(output_format, closed_chain.to_dict(), "Chain", closed_chain.pairs)
