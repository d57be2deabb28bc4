"""The commands on rules: ``declare``, ``undeclare`` and ``rules``; and ``refresh``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbanon.data.memory import half_of_memory
from dbanon.data.types import JsonObject
from dbanon.data.words import json_text
from dbanon.doors.cli.groups import DatabaseCommand
from dbanon.doors.cli.log import current_log
from dbanon.doors.cli.progress import print_warnings, show_progress
from dbanon.doors.cli.support import (
    URL_HELP,
    Names,
    commit_guard,
    handle_signals,
    report_errors,
    show,
    show_pairs,
    sql_printer,
    with_common_options,
)
from dbanon.errors import InvalidParameter

if TYPE_CHECKING:
    from dbanon.run.rules import Declared

_TABLE_OPTION = click.option(
    "--table", required=True, help="The table that has the columns, such as app.people."
)


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument(
    "file", required=False, type=click.Path(dir_okay=False, exists=True, path_type=Path)
)
@_TABLE_OPTION
@click.option(
    "--from-comments",
    is_flag=True,
    help=(
        'Also read column comments that contain a line "dbanon: quasi_identifier", or "dbanon:" '
        "and a rule as JSON. Comments are never executed. FILE takes precedence."
    ),
)
@with_common_options
def declare(
    url: str,
    file: Path | None,
    table: str,
    from_comments: bool,
    output_format: str,
    print_sql: bool,
) -> None:
    """Declare rules that say what the columns of a table are. They are stored in its database.

    FILE is a JSON object that gives each column a role (quasi_identifier, sensitive, by, keep,
    entity, weight, identifier, drop), or an object with the role in it. Columns that are not named
    keep their rules. FILE can also be the output of "dbanon rules --table … --format json": with
    it, the owner of a table takes over rules that another role declared.
    """
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import rules as api

        if file is None and not from_comments:
            raise click.UsageError("Missing argument 'FILE', or option '--from-comments'.")
        declarations = {} if file is None else _read_rules(file)
        listing = api.declare(
            url, table, declarations, from_comments=from_comments, on_sql=sql_printer(print_sql)
        )
        # From here on, errors are only printed as warnings: see ``commit_guard``.
        mark_committed()
        _show_rules(output_format, f"Rules of {table}", listing)


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@_TABLE_OPTION
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help=(
        "A column whose rule is removed. Repeatable. Without this option all rules of"
        " the table are removed."
    ),
)
@with_common_options
def undeclare(
    url: str, table: str, columns: tuple[str, ...], output_format: str, print_sql: bool
) -> None:
    """Remove the rules of a table, for some columns or for all."""
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import rules as api

        listing = api.undeclare(url, table, columns or None, on_sql=sql_printer(print_sql))
        mark_committed()
        _show_rules(output_format, f"Rules of {table}", listing)


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.option(
    "--table", help="List only the rules of this table, with its columns that have no rule."
)
@with_common_options
def rules(url: str, table: str | None, output_format: str, print_sql: bool) -> None:
    """List the declared rules, and whether their tables and columns still exist."""
    with report_errors(output_format), handle_signals():
        from dbanon.doors import rules as api

        listing = api.rules(url, table, on_sql=sql_printer(print_sql))
        _show_rules(output_format, "Rules" if table is None else f"Rules of {table}", listing)


@click.command(cls=DatabaseCommand, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("release")
@click.option(
    "--accept",
    type=Names(),
    default=(),
    help=(
        "What may have changed since the release: version, rules, source, hierarchies. With"
        " independent, make the release even though its persons were released before."
    ),
)
@click.option(
    "--chain-key",
    "chain_key",
    metavar="file:PATH|env:NAME",
    help="For a release of a chain: where the chain's key is.",
)
@click.option(
    "--pseudonym-key",
    "pseudonym_key",
    metavar="file:PATH|env:NAME",
    help="For a release with pseudonyms: where their key is.",
)
@click.option("--no-progress", is_flag=True, help="Show no progress on stderr.")
@with_common_options
def refresh(
    url: str,
    release: str,
    accept: tuple[str, ...],
    chain_key: str | None,
    pseudonym_key: str | None,
    no_progress: bool,
    output_format: str,
    print_sql: bool,
) -> None:
    """Make a release again from its entry in the ledger, with the current rows of its source.

    RELEASE is the name of its output. The command refuses if the version, the rules, the source or
    a hierarchy has changed in a way that would change the release.
    """
    with report_errors(output_format), handle_signals(), commit_guard() as mark_committed:
        from dbanon.doors import rules as api

        log = current_log()
        with show_progress(not no_progress) as progress:
            report = api.refresh(
                url,
                release,
                accept=accept,
                chain_key=chain_key,
                pseudonym_key=pseudonym_key,
                memory_limit=half_of_memory(),
                progress=progress,
                on_sql=sql_printer(print_sql),
                door="cli",
                run_id=log.run_id,
            )
            log.release_id = report.release_id
            mark_committed()
        print_warnings(report)
        show_pairs(output_format, report.to_dict(), "Report", report.pairs)


def _read_rules(file: Path) -> JsonObject:
    """Read a file of rules. Errors quote nothing from the file, which may contain values."""
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        raise InvalidParameter(
            "The file of rules cannot be read.",
            hint='Write a JSON object, in UTF-8, as in {"age": "quasi_identifier"}.',
        ) from None
    if isinstance(content, list):
        return _rules_from_listing(content)
    if not isinstance(content, dict):
        raise InvalidParameter(
            "The file of rules must contain a JSON object with one rule per column."
        )
    return content


def _rules_from_listing(listing: list[Any]) -> JsonObject:
    """Convert the JSON output of ``dbanon rules`` for a table into its rules."""
    from dbanon.run.rules import Declared, rules_to_declare

    names = {field.name for field in fields(Declared)}
    if not all(isinstance(entry, dict) and set(entry) == names for entry in listing):
        raise InvalidParameter(
            "The list in the file is not in the format that dbanon rules prints with --format"
            " json.",
            hint='Save that list as it is, or write a JSON object of rules by column, as in {"age":'
            ' "quasi_identifier"}.',
        )
    return rules_to_declare([Declared(**entry) for entry in listing])


def _show_rules(output_format: str, title: str, listing: Sequence[Declared]) -> None:
    """Print rules as a table or as JSON.

    Parameters
    ----------
    listing : the rules, and columns without a rule.
    """
    from dbanon.doors.cli.render import rows_table

    def build_rows() -> list[list[str]]:
        return [
            [entry.source, entry.column, entry.role or "", _describe_details(entry), entry.state]
            for entry in listing
        ]

    header = ["table", "column", "role", "more", "state"]
    show(
        output_format,
        [asdict(entry) for entry in listing],
        lambda: rows_table(title, header, build_rows()),
    )


def _describe_details(entry: Declared) -> str:
    """Describe the settings of a rule other than its role; an order only by its length."""
    details = {key: value for key, value in (entry.rule or {}).items() if key != "role"}
    if "order" in details:
        details["order"] = f"{len(details['order'])} values"
    # Leave out the braces.
    return json_text(details)[1:-1] if details else ""
