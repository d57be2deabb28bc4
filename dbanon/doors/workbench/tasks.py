"""Long tasks, one at a time in the main thread, where a signal can end them.

Other threads answer requests: they begin tasks and read their progress.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dbanon.errors import (
    CodesAveraged,
    ColumnLost,
    DbanonError,
    MemoryLimit,
    PrivacyWarning,
    is_out_of_memory,
)

# Seconds that a page waits for a quick task before it shows progress.
QUICK = 0.4
# Seconds within which the signal of a cancelled task arrives.
_LATE = 2.0


class BusyError(Exception):
    """Another task is not over."""


@dataclass(frozen=True)
class FormRequest:
    """A form that was sent.

    Parameters
    ----------
    name : of the form; empty for none.
    page : which rendering of a page it was sent from.
    fields : all values of each field.
    """

    name: str = ""
    page: str = ""
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)


NO_FORM = FormRequest()


@dataclass
class BackgroundTask:
    """A long task.

    Parameters
    ----------
    name : its description.
    step : the page that began it.
    request : the form that began it.
    field_name : the field of that form whose value is in work; empty for none.
    part, share : the progress.
    state : ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``.
    error : why it failed.
    """

    name: str
    step: str
    work: Callable[[BackgroundTask], Any]
    request: FormRequest = NO_FORM
    field_name: str = ""
    part: str = ""
    share: float = 0.0
    state: str = "waiting"
    error: DbanonError | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def busy(self) -> bool:
        """Whether it is not over."""
        return self.state in ("waiting", "running")

    def tell(self, part: str, share: float) -> None:
        """Report progress."""
        self.part, self.share = part, share


class BackgroundTasks:
    """The tasks of a workbench."""

    def __init__(self) -> None:
        self._queue: queue.Queue[BackgroundTask] = queue.Queue()
        self._lock = threading.Lock()
        self._cancelled: BackgroundTask | None = None
        self._cancelled_at = 0.0
        self._main = threading.main_thread()
        self.current: BackgroundTask | None = None

    @property
    def busy(self) -> bool:
        """Whether a task is not over."""
        return self.current is not None and self.current.busy

    def begin(
        self,
        name: str,
        step: str,
        work: Callable[[BackgroundTask], Any],
        request: FormRequest = NO_FORM,
    ) -> BackgroundTask:
        """Begin a task; wait a moment for it.

        Raises
        ------
        BusyError : another one is not over.
        """
        with self._lock:
            if self.busy:
                raise BusyError
            self._cancelled = None
            task = self.current = BackgroundTask(name, step, work, request)
            self._queue.put(task)
        task.ended.wait(QUICK)
        return task

    def cancel(self) -> None:
        """End the running task as Ctrl-C would: its transaction is rolled back."""
        with self._lock:
            if self.busy and self._cancelled is None:
                self._cancelled, self._cancelled_at = self.current, time.monotonic()
                signal.pthread_kill(int(self._main.ident or 0), signal.SIGINT)

    def run(self) -> None:
        """Run tasks until a signal arrives that is not from ``cancel``.

        Raises
        ------
        KeyboardInterrupt : the signal arrived.
        """
        while True:
            try:
                self._do(self._queue.get())
            except KeyboardInterrupt:
                if not self._was_cancelled():
                    raise

    def _was_cancelled(self) -> bool:
        """Whether a signal came from ``cancel``; if so, end the task."""
        with self._lock:
            task, self._cancelled = self._cancelled, None
        if task is None:
            return False
        if task.busy:
            self._end(task, "cancelled")
            return True
        # The task ended before the signal arrived. After a while a signal is the user's own Ctrl-C.
        return time.monotonic() - self._cancelled_at < _LATE

    def _do(self, task: BackgroundTask) -> None:
        task.state = "running"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)
                warnings.simplefilter("ignore", ColumnLost)
                warnings.simplefilter("ignore", CodesAveraged)
                task.work(task)
        except DbanonError as error:
            # A signal inside a database driver may be raised as an error of the database.
            task.error = _without_frames(error)
            self._end(task, "cancelled" if self._cancelled is task else "failed")
        except Exception as error:
            task.error = unexpected(error)
            self._end(task, "failed")
        else:
            self._end(task, "done")

    def _end(self, task: BackgroundTask, state: str) -> None:
        with self._lock:
            task.state = state
        task.ended.set()


def _without_frames(error: DbanonError) -> DbanonError:
    """The error without its frames, which keep the table in memory until the next task."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def unexpected(error: Exception) -> DbanonError:
    """An unexpected error: report the location, never the message."""
    if is_out_of_memory(error):
        return MemoryLimit.of_process()
    where = traceback.extract_tb(error.__traceback__)[-1]
    return DbanonError(
        f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}.",
        hint="Please report this, with what was done and this line.",
    )
