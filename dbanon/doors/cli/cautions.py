"""Progress and warnings on stderr, for commands that make releases."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbanon.doors.cli.log import current_log, print_message
from dbanon.errors import CodesAveraged, ColumnLost, PrivacyWarning

if TYPE_CHECKING:
    from dbanon.doors.cli.progress import ProgressDisplay
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report


@contextmanager
def show_progress(is_visible: bool) -> Iterator[ProgressDisplay]:
    """Show the progress of a run, and suppress the warnings that ``print_warnings`` prints later.

    Parameters
    ----------
    is_visible : whether to print progress. Either way, later lines of a JSON log name the current
        phase.
    """
    from dbanon.doors.cli.progress import ProgressDisplay

    with warnings.catch_warnings(), ProgressDisplay(is_visible, current_log()) as progress:
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", ColumnLost)
        warnings.simplefilter("ignore", CodesAveraged)
        yield progress


def print_warnings(report: Report | PrivateReport) -> None:
    """Print warnings about what a release discloses and what it has lost."""
    for warning in report.warning_texts:
        print_message(f"Warning: {warning}.")
