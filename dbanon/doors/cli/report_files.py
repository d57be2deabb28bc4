"""Write the report of a new release to a file, or the reason why nothing is released."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.data.types import KeywordArguments
from dbanon.doors.cli.log import print_message
from dbanon.doors.html import needs_evaluation
from dbanon.doors.spelling import spell_cli_option
from dbanon.errors import DbanonError

if TYPE_CHECKING:
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.inspect_release import ReleaseInspection


def write_report(report: Report | PrivateReport, path: Path, database: str) -> None:
    """Write the report of a new release, and remove the page of an earlier refusal next to it.

    If the report cannot be written, print a warning.

    Parameters
    ----------
    database : URL of the release's database, read for an HTML page.
    """
    from dbanon.doors.cli.render import save_report
    from dbanon.doors.html.refusals import drop_refusal
    from dbanon.release.report import Report

    needs_inspection = needs_evaluation(path) and isinstance(report, Report)
    try:
        save_report(report, path, _inspect_release(database, report) if needs_inspection else None)
    except OSError as error:
        # The release is committed. A report that fails must not make a scheduler repeat the run.
        print_message(
            f"Warning: the release was published, but its report {path} could not be written"
            f" ({error.strerror or type(error).__name__}). To write it later, run: dbanon"
            f" report URL {report.output} -o {path}."
        )
    else:
        drop_refusal(path)


@contextmanager
def save_refusal_on_error(
    path: Path | None, options: KeywordArguments, run_id: str
) -> Iterator[None]:
    """If the block raises an error, write the reason to a file next to the requested report.

    Parameters
    ----------
    path : path of the report; None if none was requested.
    options : options of the release by name, including ``table`` and ``output``.
    """
    try:
        yield
    except DbanonError as error:
        if path is not None:
            from dbanon.doors.cli.render import save_refusal

            save_refusal(
                error,
                path,
                output=str(options["output"]),
                source=str(options["table"] or ""),
                run_id=run_id,
                notation=spell_cli_option,
            )
        raise


def _inspect_release(database: str, report: Report | PrivateReport) -> ReleaseInspection | None:
    """Read what an HTML page shows about a release; None if the database does not answer."""
    from dbanon.run.inspect_release import inspect_release
    from dbanon.run.open import open_store
    from dbanon.sessions.names import parse_relation

    try:
        return inspect_release(open_store(database), parse_relation(report.output))
    except DbanonError as error:
        print_message(
            f"Warning: the report lacks information about the release that is only in the"
            f" database: {error.message}"
        )
        return None
