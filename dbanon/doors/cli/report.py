"""The command ``dbanon report``."""

from __future__ import annotations

from pathlib import Path

import click

from dbanon.doors.cli.commands import OnDatabase
from dbanon.doors.cli.log import current
from dbanon.doors.cli.support import URL_HELP, common, errors, show, signals, sql_printer


@click.command(cls=OnDatabase, epilog=URL_HELP)
@click.argument("url", envvar="DBANON_URL")
@click.argument("relation", metavar="RELEASE")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The .html, .json or .txt file to write.",
)
@common
def report(url: str, relation: str, path: Path, form: str, print_sql: bool) -> None:
    """Write the report of a release from what the ledger has of it; no original is read."""
    with errors(form), signals():
        from dbanon.doors.cli.render import pairs_table, require_report_file, save_report
        from dbanon.run.look import look
        from dbanon.run.open import open_store
        from dbanon.stores.names import parse_relation

        require_report_file(path)
        found = look(open_store(url, sql_printer(print_sql)), parse_relation(relation))
        told = found.recorded.report
        current().release_id = told.release_id
        save_report(told, path, found)
        plain = {"release_id": told.release_id, "report": str(path)}
        show(form, plain, lambda: pairs_table("Report", plain.items()))
