"""Progress and warnings of the commands that release, on stderr."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dbanon.doors.cli.log import current, say
from dbanon.errors import CodesAveraged, ColumnLost, PrivacyWarning

if TYPE_CHECKING:
    from dbanon.doors.cli.progress import ProgressDisplay
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report


@contextmanager
def show_progress(visible: bool) -> Iterator[ProgressDisplay]:
    """Show the progress of a run, and suppress the warnings that ``warn_of`` prints later.

    Parameters
    ----------
    visible : False for silence.
    """
    from dbanon.doors.cli.progress import ProgressDisplay

    with warnings.catch_warnings(), ProgressDisplay(visible, current()) as progress:
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", ColumnLost)
        warnings.simplefilter("ignore", CodesAveraged)
        yield progress


def warn_of(report: Report | PrivateReport) -> None:
    """Warn about what a release discloses and what it has lost."""
    for text in report.warning_texts:
        say(f"Warning: {text}.")
