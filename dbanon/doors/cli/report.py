"""The command ``dbanon report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dbanon.doors.cli.commands import OnDatabase
from dbanon.doors.cli.log import current, say
from dbanon.doors.cli.support import URL_HELP, common, errors, show, signals, sql_printer
from dbanon.errors import DbanonError, InvalidParameter

if TYPE_CHECKING:
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.inspect_release import Look


def needs_evaluation(path: str | Path | None) -> bool:
    """True for a page: what a release is worth can be told only by the run that makes it."""
    return path is not None and Path(path).suffix == ".html"


def write_report(report: Report | PrivateReport, path: Path, database: str) -> None:
    """Write the report of a release that was just made.

    Parameters
    ----------
    database : URL of where it is, for a page.
    """
    from dbanon.doors.cli.render import save_report

    save_report(report, path, _look_at(database, report) if needs_evaluation(path) else None)


def _look_at(database: str, report: Report | PrivateReport) -> Look | None:
    """What the database has of a release; None where it cannot be asked."""
    from dbanon.run.inspect_release import look
    from dbanon.run.open import open_store
    from dbanon.sessions.names import parse_relation

    try:
        return look(open_store(database), parse_relation(report.output))
    except DbanonError as error:
        say(f"Warning: the report lacks what the database knows of the release: {error.message}")
        return None


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
@click.option(
    "--for",
    "recipient",
    metavar="TEXT",
    help="Who gets the release: for the page, which has a line to sign then.",
)
@click.option("--purpose", metavar="TEXT", help="What it is for: for the page, to be signed, too.")
@common
def report(
    url: str,
    relation: str,
    path: Path,
    recipient: str | None,
    purpose: str | None,
    form: str,
    print_sql: bool,
) -> None:
    """Write the report of a release: what the ledger has of it, and its classes counted again.

    No original is read. A release that is not as it was released ends it, as it does dbanon verify.
    """
    with errors(form), signals():
        from dbanon.doors.cli.render import pairs_table, require_report_file, save_report
        from dbanon.run.inspect_release import look
        from dbanon.run.open import open_store
        from dbanon.run.verify import Verification, verify
        from dbanon.sessions.names import parse_relation

        require_report_file(path)
        handed = None
        if recipient is not None or purpose is not None:
            handed = {"recipient": recipient or "", "purpose": purpose or ""}
            if path.suffix != ".html":
                raise InvalidParameter(
                    "--for and --purpose are of a page that is signed.", hint="Name a .html file."
                )
        store, name = open_store(url, sql_printer(print_sql)), parse_relation(relation)
        found = look(store, name)
        told = found.recorded.report
        current().release_id = told.release_id
        recount = verify(store, name)
        assert isinstance(recount, Verification)
        save_report(told, path, found, recount=recount, handed=handed)
        plain = {
            "release_id": told.release_id,
            "report": str(path),
            "recounted": f"smallest class {recount.smallest_class} ({recount.counted})",
        }
        show(form, plain, lambda: pairs_table("Report", plain.items()))
