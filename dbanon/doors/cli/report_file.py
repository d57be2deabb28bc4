"""Reports in files: what a run has to find for them, and what its database knows beside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.doors.cli.log import say
from dbanon.errors import DbanonError

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
