"""Long tasks, which run one at a time in the main thread, where a signal can end them.

The threads that answer requests begin tasks and read their progress.
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

from dbanon.errors import (
    CodesAveraged,
    ColumnLost,
    DbanonError,
    MemoryLimit,
    PrivacyWarning,
    is_out_of_memory,
)

# Seconds that a page waits for a quick task before it shows progress.
QUICK_TASK_SECONDS = 0.4
# A signal within this many seconds after ``cancel`` is taken for the signal that ``cancel`` sent.
_LATE_SIGNAL_SECONDS = 2.0


class BusyError(Exception):
    """Another task is still waiting or running."""


@dataclass(frozen=True)
class FormRequest:
    """A submitted form.

    Parameters
    ----------
    name : the form's name; empty if there is no form.
    page_id : a random id of the rendered page that contained it.
    fields : from a field's name to all its values.
    """

    name: str = ""
    page_id: str = ""
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict)


NO_FORM = FormRequest()


@dataclass
class BackgroundTask:
    """A long task.

    Parameters
    ----------
    name : what the task does, as pages show it.
    step : the name of the page that shows the task.
    work : the function to run, which gets the task.
    request : the form that began the task.
    field_name : the field of that form whose value is being processed; empty for none.
    phase : the name of the current phase.
    fraction : the completed share of the phase, 0 to 1.
    state : ``waiting``, ``running``, ``done``, ``failed`` or ``cancelled``.
    error : why the task failed; None if it did not.
    end_event : is set when the task has ended.
    """

    name: str
    step: str
    work: Callable[[BackgroundTask], object]
    request: FormRequest = NO_FORM
    field_name: str = ""
    phase: str = ""
    fraction: float = 0.0
    state: str = "waiting"
    error: DbanonError | None = None
    end_event: threading.Event = field(default_factory=threading.Event)

    @property
    def is_busy(self) -> bool:
        """Whether it is waiting or running."""
        return self.state in ("waiting", "running")

    def report_progress(self, phase: str, fraction: float) -> None:
        """Set the current phase and its completed share, 0 to 1."""
        self.phase, self.fraction = phase, fraction


class BackgroundTasks:
    """Runs the tasks of a workbench one after the other."""

    def __init__(self) -> None:
        self._queue: queue.Queue[BackgroundTask] = queue.Queue()
        self._lock = threading.Lock()
        self._cancelled_task: BackgroundTask | None = None
        self._cancelled_at = 0.0
        self._main_thread = threading.main_thread()
        self.current: BackgroundTask | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a task is waiting or running."""
        return self.current is not None and self.current.is_busy

    def begin_task(
        self,
        name: str,
        step: str,
        work: Callable[[BackgroundTask], object],
        request: FormRequest = NO_FORM,
    ) -> BackgroundTask:
        """Begin a task, and wait a moment in case it is quick.

        Raises
        ------
        BusyError : another task is still waiting or running.
        """
        with self._lock:
            if self.is_busy:
                raise BusyError
            self._cancelled_task = None
            task = self.current = BackgroundTask(name, step, work, request)
            self._queue.put(task)
        task.end_event.wait(QUICK_TASK_SECONDS)
        return task

    def cancel(self) -> None:
        """End the running task as Ctrl-C would: its transaction is rolled back."""
        with self._lock:
            if self.is_busy and self._cancelled_task is None:
                self._cancelled_task, self._cancelled_at = self.current, time.monotonic()
                signal.pthread_kill(int(self._main_thread.ident or 0), signal.SIGINT)

    def run(self) -> None:
        """Run tasks until a signal arrives that is not from ``cancel``.

        Raises
        ------
        KeyboardInterrupt : the signal arrived.
        """
        while True:
            try:
                self._run_task(self._queue.get())
            except KeyboardInterrupt:
                if not self._was_cancelled():
                    raise

    def _was_cancelled(self) -> bool:
        """Whether a signal came from ``cancel``; if so, end the task."""
        with self._lock:
            task, self._cancelled_task = self._cancelled_task, None
        if task is None:
            return False
        if task.is_busy:
            self._end_task(task, "cancelled")
            return True
        # The task ended before the signal arrived. A much later signal is the user's Ctrl-C.
        return time.monotonic() - self._cancelled_at < _LATE_SIGNAL_SECONDS

    def _run_task(self, task: BackgroundTask) -> None:
        task.state = "running"
        try:
            with warnings.catch_warnings():
                # The report of a release also says what these warnings say.
                warnings.simplefilter("ignore", PrivacyWarning)
                warnings.simplefilter("ignore", ColumnLost)
                warnings.simplefilter("ignore", CodesAveraged)
                task.work(task)
        except DbanonError as error:
            # If a signal arrives inside a database driver, the driver may raise an error of the
            # database in place of KeyboardInterrupt. So look whether the task was cancelled.
            task.error = _without_frames(error)
            self._end_task(task, "cancelled" if self._cancelled_task is task else "failed")
        except Exception as error:
            task.error = convert_unexpected(error)
            self._end_task(task, "failed")
        else:
            self._end_task(task, "done")

    def _end_task(self, task: BackgroundTask, state: str) -> None:
        with self._lock:
            task.state = state
        task.end_event.set()


def _without_frames(error: DbanonError) -> DbanonError:
    """Remove an error's stack frames, which would keep the table in memory until the next task."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def convert_unexpected(error: Exception) -> DbanonError:
    """Convert an unexpected error to one that reports its location, never its message."""
    if is_out_of_memory(error):
        return MemoryLimit.of_process()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return DbanonError(
        f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}.",
        hint="Please report this, with what was done and this line.",
    )
