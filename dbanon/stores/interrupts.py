"""Context managers that defer signals, so that a block such as a commit is not interrupted.

The module also checks whether a caller's connection has an open transaction.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbanon.errors import CommitConfirmed, InvalidParameter, warn_caller
from dbanon.sessions.thread_connections import thread_connections

if TYPE_CHECKING:
    from sqlalchemy import Engine


def open_transaction_error(database_name: str) -> InvalidParameter:
    """Build the error for a caller's connection with an open transaction, which a run would end.

    Parameters
    ----------
    database_name : the name of the database, such as ``SQLite``.
    """
    # With autocommit=False, sqlite3 always begins the next transaction itself.
    autocommit_note = (
        "; with autocommit off it always has one open" if database_name == "SQLite" else ""
    )
    return InvalidParameter(
        f"The {database_name} connection has an open transaction, but a run needs a new one.",
        hint="Commit or roll back first: call commit() or rollback() of the connection"
        f"{autocommit_note}.",
    )


def find_shared_connection(engine: Engine) -> Any | None:
    """Return the driver connection that all users of an engine share; None if they share none.

    The connection is not checked out of the pool, which would roll it back when it is returned.
    """
    from sqlalchemy import StaticPool

    if not isinstance(engine.pool, StaticPool):
        return None
    # The pool connects on first use; until then no transaction can be open.
    record = vars(engine.pool).get("connection")
    return None if record is None else record.driver_connection


# Signals by which users and operators end the process.
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# SIGALRM enforces the time limit of a run.
_DEFERRED_SIGNALS = (*_END_SIGNALS, signal.SIGALRM)

# The arguments of a signal handler: the number of the signal, and the interrupted frame.
_DeferredSignal = tuple[int, FrameType | None]
_Handler = Callable[[int, FrameType | None], object]


class Alarm:
    """A signal handler that ends a run at its time limit, unless the run has committed."""

    def __init__(self) -> None:
        # ``has_rung`` tells a run that ended at its time limit from one that a user interrupted.
        self.has_rung = self._is_disarmed = False

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        if not self._is_disarmed:
            self.has_rung = True
            # An exception cannot interrupt a thread that waits for a server, so cut its connection.
            thread_connections().request_end()
            raise KeyboardInterrupt

    def disarm(self) -> None:
        """Disarm the alarm: the run has committed or ended."""
        self._is_disarmed = True
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals to the end of the block, so that resources it creates cannot be leaked.

    Raises
    ------
    KeyboardInterrupt : a signal was deferred. A handler may raise another exception instead.
    """
    deferred_signals: list[_DeferredSignal] = []
    handlers: dict[int, _Handler] = {}
    _record_signals(deferred_signals, handlers)
    try:
        yield
    finally:
        _restore_handlers(handlers)
        _handle_signals(deferred_signals, handlers)


@contextmanager
def interruptible_until_commit() -> Iterator[Callable[[], None]]:
    """Let signals interrupt the block until it calls the yielded function, just before a commit.

    A commit cannot be undone. If a run reported "interrupted" after it, users would believe that
    nothing happened, and a scheduler would run the job again. So a signal after the call becomes a
    warning. If the block fails, or its commit does not publish the release, the signal is handled
    at the end. Blocks that only read never call the function. Only signals with a handler in Python
    are deferred, and only in the main thread, where Python runs handlers.

    Raises
    ------
    KeyboardInterrupt : a signal was deferred, and the block failed or its commit did not publish
        the release. A handler may raise another exception instead.
    """
    deferred_signals: list[_DeferredSignal] = []
    handlers: dict[int, _Handler] = {}

    def before_commit() -> None:
        _record_signals(deferred_signals, handlers)
        # If the commit publishes the release, the time limit does not end the run from here on.
        thread_connections().lift_limit()

    try:
        yield before_commit
    except BaseException:
        _restore_handlers(handlers)
        _handle_signals(deferred_signals, handlers)
        raise
    # Some commits only prepare a release, for example by recording what it will spend. They publish
    # nothing, so a signal can still end the run.
    if not thread_connections().commits_publish:
        _restore_handlers(handlers)
        _handle_signals(deferred_signals, handlers)
        return
    # A committed run must not be reported as one that took too long.
    for handler in handlers.values():
        if isinstance(handler, Alarm):
            handler.disarm()
    is_interrupted = any(signal_number != signal.SIGALRM for signal_number, _ in deferred_signals)
    _restore_handlers(handlers)
    if is_interrupted:
        warn_caller(
            CommitConfirmed(
                "The interrupt came while the transaction was being committed: it was committed"
                " successfully."
            )
        )


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals interrupt the block even within a block that defers signals.

    Use this for work that a later run can repeat.

    Raises
    ------
    KeyboardInterrupt : a signal arrived.
    """

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    handlers: dict[int, _Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for signal_number in _END_SIGNALS:
            handler = signal.getsignal(signal_number)
            # SIG_DFL and SIG_IGN, which are integers, have no handler in Python.
            if callable(handler) and not isinstance(handler, int):
                signal.signal(signal_number, interrupt)
                handlers[signal_number] = handler
    try:
        yield
    finally:
        _restore_handlers(handlers)


def _record_signals(deferred_signals: list[_DeferredSignal], handlers: dict[int, _Handler]) -> None:
    """From now on, append signals to ``deferred_signals`` instead of handling them.

    The former handlers are saved in ``handlers``, by number of the signal.
    """

    def record_signal(signal_number: int, frame: FrameType | None) -> None:
        deferred_signals.append((signal_number, frame))

    if threading.current_thread() is threading.main_thread():
        for signal_number in _DEFERRED_SIGNALS:
            handler = signal.getsignal(signal_number)
            # SIG_DFL and SIG_IGN, which are integers, have no handler in Python.
            if callable(handler) and not isinstance(handler, int):
                signal.signal(signal_number, record_signal)
                handlers[signal_number] = handler


def _handle_signals(deferred_signals: list[_DeferredSignal], handlers: dict[int, _Handler]) -> None:
    """Call the handler of each deferred signal."""
    for signal_number, frame in deferred_signals:
        handlers[signal_number](signal_number, frame)


def _restore_handlers(handlers: dict[int, _Handler]) -> None:
    """Restore the handlers, by number of the signal."""
    for signal_number, handler in handlers.items():
        signal.signal(signal_number, handler)
