"""A limit on the time of a run."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dbanon.errors import DbanonError, OutcomeUnknown, TimeLimit
from dbanon.run.run import PhaseProgress
from dbanon.sessions.thread_connections import thread_connections


@contextmanager
def limit_time(
    seconds: float | None, progress: PhaseProgress | None = None
) -> Iterator[PhaseProgress | None]:
    """End the block after a time limit; yields the progress function to call, which checks it.

    Also ends database statements: in the main thread by an alarm, in other threads through the
    connection, which is cut if the server does not answer. A commit in progress completes, or its
    outcome is reported as unknown.

    Raises
    ------
    TimeLimit : it took longer. Nothing was published.
    """
    if seconds is None:
        yield progress
        return
    end = time.monotonic() + seconds
    limit = seconds

    phases = [""]

    def refusal() -> TimeLimit:
        clustering = phases[-1] == "cluster"
        return TimeLimit(
            f"The run took longer than {limit:g} seconds, and was rolled back.",
            hint="Raise the limit (`time_limit`), or use a faster `method`."
            if clustering
            else "The time passed while the run waited for the database, or for its rows. Check"
            " that the server answers and that no session holds a lock there, or raise the limit"
            " (`time_limit`).",
        )

    def timed_progress(phase: str, share: float) -> None:
        phases[-1] = phase
        if time.monotonic() > end:
            raise refusal()
        if progress is not None:
            progress(phase, share)

    if threading.current_thread() is not threading.main_thread():
        end_request = thread_connections()
        with end_request.limit_time(seconds):
            try:
                yield timed_progress
            except OutcomeUnknown:
                raise
            except DbanonError:
                if end_request.is_ending and not end_request.is_committed:
                    raise refusal() from None
                raise
        return
    alarm = Alarm()
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield timed_progress
        finally:
            alarm.over()
    except OutcomeUnknown:
        # It may have been published.
        raise
    except BaseException:
        if alarm.rang:
            raise refusal() from None
        raise
    finally:
        signal.signal(signal.SIGALRM, before)


class Alarm:
    """The handler of a run's alarm, which interrupts the run."""

    def __init__(self) -> None:
        self.rang = self._over = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._over:
            self.rang = True
            thread_connections().request_end()
            raise KeyboardInterrupt

    def over(self) -> None:
        """Disarm the alarm: the run has committed or ended."""
        self._over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
