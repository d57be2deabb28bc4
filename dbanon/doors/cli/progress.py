"""Shows the progress of a run, a bar on a terminal or occasional lines, and its warnings."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from dbanon.doors.cli.log import Log, current_log, print_message
from dbanon.doors.progress import create_bar
from dbanon.errors import CodesAveraged, ColumnLost, PrivacyWarning

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report

SECONDS_BETWEEN_LINES = 30.0


class ProgressDisplay:
    """A context manager that shows the progress of a run.

    The run calls it with the name of a phase and the completed share of that phase, 0 to 1.

    Parameters
    ----------
    is_visible : whether to show progress at all.
    log : receives lines if there is no terminal; its phase is always updated.
    stream : where to draw the bar; default stderr.
    """

    def __init__(self, is_visible: bool, log: Log, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_visible, self._log = is_visible, log
        self._last_line_time = time.monotonic()
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        if is_visible and not log.is_json and self._stream.isatty():
            self._bar = create_bar(self._stream)

    def __enter__(self) -> ProgressDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, phase: str, share: float) -> None:
        is_new_phase, self._log.phase = self._log.phase != phase, phase
        if self._bar is not None:
            if phase not in self._tasks:
                self._tasks[phase] = self._bar.add_task(phase, total=1.0)
            self._bar.update(self._tasks[phase], completed=share)
        elif self._is_visible and time.monotonic() - self._last_line_time >= SECONDS_BETWEEN_LINES:
            self._last_line_time = time.monotonic()
            self._log.progress(phase, share)
        elif self._is_visible and is_new_phase:
            # Only a JSON log has a line for each phase.
            self._log.event("info", "phase")


@contextmanager
def show_progress(is_visible: bool) -> Iterator[ProgressDisplay]:
    """Show the progress of a run, and suppress the warnings that ``print_warnings`` prints later.

    Parameters
    ----------
    is_visible : whether to print progress. Either way, later lines of a JSON log name the current
        phase.
    """
    with warnings.catch_warnings(), ProgressDisplay(is_visible, current_log()) as progress:
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", ColumnLost)
        warnings.simplefilter("ignore", CodesAveraged)
        yield progress


def print_warnings(report: Report | PrivateReport) -> None:
    """Print warnings about what a release discloses and what it has lost."""
    for warning in report.warning_texts:
        print_message(f"Warning: {warning}.")
