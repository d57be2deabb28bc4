"""What commands that release say beside their result: progress, and warnings on stderr."""

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
def watched(shown: bool) -> Iterator[ProgressDisplay]:
    """Progress of a run, whose warnings are kept for ``warn_of``.

    Parameters
    ----------
    shown : False for silence.
    """
    from dbanon.doors.cli.progress import ProgressDisplay

    with warnings.catch_warnings(), ProgressDisplay(shown, current()) as progress:
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", ColumnLost)
        warnings.simplefilter("ignore", CodesAveraged)
        yield progress


def warn_of(report: Report | PrivateReport) -> None:
    """Say what a release tells more than its readers may think, and what of it is lost."""
    for text in report.warned:
        say(f"Warning: {text}.")
