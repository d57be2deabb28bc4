"""The commands ``dbanon hierarchy``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dbanon.doors.cli.groups import CommandGroup
from dbanon.doors.cli.log import print_message, with_log_format
from dbanon.doors.cli.support import (
    PRINT_SQL_OPTION,
    ROWS_HELP,
    URL_HELP,
    commit_guard,
    handle_signals,
    report_errors,
    show,
    sql_printer,
    with_common_options,
)
from dbanon.doors.spelling import spell_cli_option
from dbanon.errors import HierarchyBroken, InvalidParameter
from dbanon.hierarchy.edges import HierarchyProblem
from dbanon.hierarchy.tree import Hierarchy

if TYPE_CHECKING:
    from dbanon.sessions.names import RelationName
    from dbanon.sessions.store import Store


@click.group(cls=CommandGroup)
def hierarchy() -> None:
    """Check generalization hierarchies, propose them, and store them by name."""


# Help on the argument FILE.
FILE_HELP = (
    "FILE is a CSV or JSON file, table:ref.tree (columns child and parent, or leaf, level1, …), or"
    " name:STORED. "
)


@hierarchy.command(epilog=FILE_HELP + ROWS_HELP)
@click.argument("file")
@click.argument("url", required=False, envvar="DBANON_URL")
@click.option("--table", help="The table whose values must be leaves.")
@click.option("--column", help="The column of that table.")
@with_common_options
def check(
    file: str,
    url: str | None,
    table: str | None,
    column: str | None,
    output_format: str,
    print_sql: bool,
) -> None:
    """List all problems of a hierarchy on stdout, with the labels concerned.

    With --table and --column it also lists values that are not leaves of the hierarchy.
    """
    with report_errors(output_format), handle_signals():
        if (table is None) != (column is None) or (table is not None and url is None):
            raise InvalidParameter("URL, --table and --column must be given together.")
        try:
            tree = _load_hierarchy(file, url, print_sql)
            if table is not None and column is not None:
                from dbanon.run.hierarchies import require_leaves

                require_leaves(*_open_column_source(str(url), table, column, print_sql), tree)
        except HierarchyBroken as error:
            _show_problems(output_format, error)
            if output_format == "json":
                sys.exit(error.exit_code)
            raise
        document = {"leaves": tree.n_leaves, "height": tree.height, "problems": []}
        show(
            output_format,
            document,
            lambda: f"{tree.n_leaves} leaves, height {tree.height}: no problem found",
        )


@hierarchy.command(epilog=ROWS_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option("--table", required=True, help="The table to examine.")
@click.option("--column", required=True, help="The column of that table.")
@PRINT_SQL_OPTION
@with_log_format
def suggest(url: str, table: str, column: str, print_sql: bool) -> None:
    """Print a proposed hierarchy for the values of a column as CSV, for you to edit.

    The reason for the proposal goes to stderr, without any value.
    """
    with report_errors(output_format="table"), handle_signals():
        from dbanon.hierarchy import builders as hierarchy_builders
        from dbanon.run.hierarchies import read_column_values

        values = read_column_values(*_open_column_source(url, table, column, print_sql))
        suggestion = hierarchy_builders.suggestion(values)
        click.echo(suggestion.tree.to_csv(), nl=False)
        print_message(f'"{column}": {suggestion.reason}', event="info")


@hierarchy.command(epilog=FILE_HELP + URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("name")
@click.argument("file", required=False)
@click.option("--from", "source", help="Instead of FILE: table:ref.tree or a hierarchy as JSON.")
@click.option("--replace", is_flag=True, help="Replace the stored hierarchy of this name.")
@click.option("--description", help="A description, which dbanon hierarchy list shows.")
@with_common_options
def store(
    url: str,
    name: str,
    file: str | None,
    source: str | None,
    replace: bool,
    description: str | None,
    output_format: str,
    print_sql: bool,
) -> None:
    """Store a hierarchy in a database under a name that every interface can use."""
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors.releases import store_hierarchy

        tree_source = file or source
        if tree_source is None or (file and source):
            raise InvalidParameter("Name either a FILE or --from.")
        tree = store_hierarchy(
            url,
            name,
            tree_source,
            replace=replace,
            description=description,
            on_sql=sql_printer(print_sql),
        )
        # From here on, errors are only printed as warnings: see ``commit_guard``.
        mark_committed()
        document = {
            "name": name,
            "leaves": tree.n_leaves,
            "height": tree.height,
            "sha256": tree.sha256,
        }
        show(
            output_format,
            document,
            lambda: f"{name}: {tree.n_leaves} leaves, height {tree.height}, stored",
        )


@hierarchy.command("list", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@with_common_options
def list_stored_hierarchies(url: str, output_format: str, print_sql: bool) -> None:
    """List the stored hierarchies."""
    with report_errors(output_format), handle_signals():
        from dbanon.doors.cli.render import rows_table
        from dbanon.doors.releases import list_hierarchies

        entries = [asdict(entry) for entry in list_hierarchies(url, on_sql=sql_printer(print_sql))]
        header = ["name", "leaves", "nodes", "description", "created_at", "created_by"]
        rows = [["" if entry[key] is None else entry[key] for key in header] for entry in entries]
        show(output_format, entries, lambda: rows_table("Stored hierarchies", header, rows))


@hierarchy.command("show", epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("name")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["csv", "json"]),
    default="csv",
    show_default=True,
    help="csv: one line per leaf, with leaf, level 1, …, root. json: pairs of child and parent.",
)
@PRINT_SQL_OPTION
@with_log_format
def show_stored_hierarchy(url: str, name: str, output_format: str, print_sql: bool) -> None:
    """Print a stored hierarchy as a file that can be stored again."""
    with report_errors(output_format), handle_signals():
        from dbanon.doors.releases import load_hierarchy

        tree = load_hierarchy(url, {"name": name}, on_sql=sql_printer(print_sql))
        click.echo(
            json.dumps(tree.to_pairs()) if output_format == "json" else tree.to_csv(),
            nl=output_format == "json",  # the CSV text ends with a line break already
        )


@hierarchy.command(epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("name")
@PRINT_SQL_OPTION
@with_log_format
def drop(url: str, name: str, print_sql: bool) -> None:
    """Remove a stored hierarchy; releases that used it stay as they are."""
    with report_errors(output_format="table"), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors.releases import drop_hierarchy

        drop_hierarchy(url, name, on_sql=sql_printer(print_sql))
        mark_committed()
        click.echo(f"{name}: dropped")


def _load_hierarchy(file: str, url: str | None, print_sql: bool) -> Hierarchy:
    """Load a hierarchy from a file, or from the database if ``file`` names one in it."""
    from dbanon.hierarchy.spec import parse

    # A tree if it is written out, in a file or as JSON; otherwise a specification.
    tree_or_spec = parse(file, files=True)
    if isinstance(tree_or_spec, Hierarchy):
        return tree_or_spec
    if url is None:
        raise InvalidParameter("This hierarchy is in a database: name its URL.")
    from dbanon.doors.releases import load_hierarchy

    return load_hierarchy(url, tree_or_spec, on_sql=sql_printer(print_sql))


def _open_column_source(
    url: str, table: str, column: str, print_sql: bool
) -> tuple[Store, RelationName, str]:
    """Open a database, and return the arguments of a read: its store, the table and the column."""
    from dbanon.run.open import open_store
    from dbanon.sessions.names import parse_relation

    return open_store(url, sql_printer(print_sql), table=table), parse_relation(table), column


def _show_problems(output_format: str, error: HierarchyBroken) -> None:
    """Print all problems. JSON output includes the error, so that stdout is a single document."""
    from dbanon.doors.cli.render import rows_table

    problems = [problem for problem in error.problems if isinstance(problem, HierarchyProblem)]
    document = {
        "error": error.to_dict(spell_cli_option),
        "problems": [
            {"line": problem.line, "kind": problem.kind, "label": problem.label}
            for problem in problems
        ],
    }
    # The line is 0 if it is unknown.
    rows = [(problem.line or "", problem.kind, problem.label) for problem in problems]
    show(
        output_format, document, lambda: rows_table("Problems", ["line", "problem", "label"], rows)
    )
