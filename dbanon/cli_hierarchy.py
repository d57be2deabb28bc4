"""The commands ``dbanon hierarchy``."""

from __future__ import annotations

import sys

import click

from dbanon.cli_support import (
    URL_HELP,
    common,
    errors,
    load_tree,
    show,
    signals,
    sql_printer,
)
from dbanon.errors import HierarchyBroken, InvalidParameter
from dbanon.hierarchy_edges import Problem


@click.group()
def hierarchy() -> None:
    """Check generalization trees, and propose them."""


@hierarchy.command(epilog=URL_HELP)
@click.argument("file")
@click.argument("url", required=False, envvar="DBANON_URL")
@click.option("--table", help="The table whose values must be leaves.")
@click.option("--column", help="The column of it.")
@common
def check(
    file: str, url: str | None, table: str | None, column: str | None, form: str, print_sql: bool
) -> None:
    """List everything that is wrong with a tree, with the labels meant, on stdout.

    With --table and --column: also the values that are no leaf.
    """
    with errors(form), signals():
        if (table is None) != (column is None) or (table is not None and url is None):
            raise InvalidParameter("URL, --table and --column belong together.")
        try:
            tree = load_tree(file)
            if table is not None and column is not None:
                tree.encode(_values(str(url), table, column, print_sql), column)
        except HierarchyBroken as error:
            _show(form, error)
            if form == "json":
                sys.exit(error.exit_code)
            raise
        plain = {"leaves": tree.n_leaves, "height": tree.height, "problems": []}
        show(form, plain, lambda: f"{tree.n_leaves} leaves, height {tree.height}: no problem found")


@hierarchy.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--table", required=True, help="The table to look at.")
@click.option("--column", required=True, help="The column of it.")
@click.option("--print-sql", is_flag=True, help="Print each SQL statement on stderr.")
def suggest(url: str, table: str, column: str, print_sql: bool) -> None:
    """Print a proposal from the values of a column as CSV, for a person to edit."""
    with errors("table"), signals():
        from dbanon import hierarchy_builders

        proposed = hierarchy_builders.suggest(_values(url, table, column, print_sql))
        click.echo(proposed.to_csv(), nl=False)


def _values(url: str, table: str, column: str, print_sql: bool) -> list[str]:
    from dbanon.column_values import column_values
    from dbanon.stores import open_store
    from dbanon.stores.names import parse_relation

    return column_values(open_store(url, sql_printer(print_sql)), parse_relation(table), column)


def _show(form: str, error: HierarchyBroken) -> None:
    """Print all problems; as JSON with the error, since stdout then is one document."""
    from dbanon.render import rows_table

    problems = [found for found in error.problems if isinstance(found, Problem)]
    plain = {
        "error": error.to_dict(),
        "problems": [{"line": p.line, "kind": p.kind, "label": p.label} for p in problems],
    }
    rows = [(p.line or "", p.kind, p.label) for p in problems]
    show(form, plain, lambda: rows_table("Problems", ["line", "problem", "label"], rows))
