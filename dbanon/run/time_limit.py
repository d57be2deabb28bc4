"""Limit the time of runs."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dbanon.errors import DbanonError, OutcomeUnknown, TimeLimit
from dbanon.run.run import PhaseProgress
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.interrupts import Alarm


@contextmanager
def limit_time(
    seconds: float | None, progress: PhaseProgress | None = None
) -> Iterator[PhaseProgress | None]:
    """End the block after a time limit.

    Yields a progress function that the block must call, because it checks the limit. A running
    database statement ends, too: in the main thread by an alarm, in other threads through the
    connection, which is closed if the server does not respond. A commit in progress completes, or
    its outcome is reported as unknown.

    Parameters
    ----------
    seconds : the limit of wall time; None for no limit.
    progress : called by the yielded function; None if no progress is displayed.

    Raises
    ------
    TimeLimit : the block took longer. Nothing was published.
    """
    if seconds is None:
        yield progress
        return
    deadline = time.monotonic() + seconds
    # For the closure below: type checkers know that this is not None.
    limit_seconds = seconds
    current_phase = ""

    def build_time_limit_error() -> TimeLimit:
        is_clustering = current_phase == "cluster"
        return TimeLimit(
            f"The run took longer than {limit_seconds:g} seconds; nothing was published.",
            hint="Raise the limit (`time_limit`), or use a faster `method`."
            if is_clustering
            else "The time passed while the run waited for the database, or for its rows. Check"
            " that the server answers and that no session holds a lock there, or raise the limit"
            " (`time_limit`).",
        )

    def timed_progress(phase: str, share: float) -> None:
        nonlocal current_phase
        current_phase = phase
        if time.monotonic() > deadline and not thread_connections().is_committed:
            raise build_time_limit_error()
        if progress is not None:
            progress(phase, share)

    if threading.current_thread() is not threading.main_thread():
        connections = thread_connections()
        with connections.limit_time(seconds):
            try:
                yield timed_progress
            except OutcomeUnknown:
                raise
            except DbanonError:
                # The run was asked to end when the limit passed. The error comes from the statement
                # that was running then.
                if connections.is_ending and not connections.is_committed:
                    raise build_time_limit_error() from None
                raise
        return
    # Python runs signal handlers in the main thread only. The alarm is a handler that raises
    # KeyboardInterrupt in the block.
    alarm = Alarm()
    previous_handler = signal.signal(signal.SIGALRM, alarm)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield timed_progress
        finally:
            alarm.disarm()
    except OutcomeUnknown:
        # The release may have been published.
        raise
    except BaseException:
        # The alarm interrupted the block with a KeyboardInterrupt.
        if alarm.has_rung:
            raise build_time_limit_error() from None
        raise
    finally:
        signal.signal(signal.SIGALRM, previous_handler)
