"""Progress of a run: a bar on a terminal, a line now and then elsewhere. No values, ever."""

from __future__ import annotations

import json
import sys
import time
import uuid
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

SECONDS_BETWEEN_LINES = 30.0


class ProgressDisplay:
    """A context manager that is called with a phase and the share of it that is done.

    Parameters
    ----------
    shown : False for silence.
    log_format : ``text`` or ``json``, for lines where there is no terminal.
    """

    def __init__(
        self, shown: bool = True, log_format: str = "text", stream: TextIO | None = None
    ) -> None:
        self._stream = stream or sys.stderr
        self._shown, self._log_format = shown, log_format
        self._run = uuid.uuid4().hex[:8]
        self._last = time.monotonic()
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        if shown and log_format == "text" and self._stream.isatty():
            self._bar = Progress(
                TextColumn("{task.description:>8}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f} %"),
                TimeElapsedColumn(),
                console=Console(file=self._stream),
                transient=True,
            )

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
        if self._bar is not None:
            if phase not in self._tasks:
                self._tasks[phase] = self._bar.add_task(phase, total=1.0)
            self._bar.update(self._tasks[phase], completed=share)
        elif self._shown and time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self.log(phase, share)

    def log(self, phase: str, share: float) -> None:
        """Write one line about the run."""
        if self._log_format == "json":
            line = json.dumps({"run": self._run, "phase": phase, "done": round(share, 3)})
        else:
            line = f"run {self._run}: {phase} {share:.0%}"
        print(line, file=self._stream, flush=True)
