"""Defer signals while a block that must not be interrupted runs."""

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


def transaction_open(of: str) -> InvalidParameter:
    """The error for a connection with an open transaction, which a run would end.

    Parameters
    ----------
    of : the name of the database, such as ``SQLite``.
    """
    # With autocommit=False, sqlite3 begins the next transaction by itself.
    always = "; with autocommit off it always has one open" if of == "SQLite" else ""
    return InvalidParameter(
        f"The {of} connection has an open transaction, and a run needs its own.",
        hint=f"Commit or roll back first: call commit() or rollback() of the connection{always}.",
    )


def shared_driver(engine: Engine) -> Any | None:
    """Return the driver connection that all users of an engine share; None if they share none.

    The pool is inspected, not used: it would roll back the connection when it is returned.
    """
    from sqlalchemy import StaticPool

    if not isinstance(engine.pool, StaticPool):
        return None
    # The pool connects on first use; before that, no transaction can be open.
    record = vars(engine.pool).get("connection")
    return None if record is None else record.driver_connection


# Signals sent by an operator; SIGALRM is the time limit.
_ENDS = (signal.SIGINT, signal.SIGTERM)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)

_Arrived = tuple[int, FrameType | None]


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer signals to the end of the block, so that the caller learns what the block created.

    Raises
    ------
    KeyboardInterrupt : or whatever else the handler of a deferred signal raises.
    """
    arrived: list[_Arrived] = []
    before: dict[int, Any] = {}
    _record_signals(arrived, before)
    try:
        yield
    finally:
        _restore(before)
        _raise(arrived, before)


@contextmanager
def interruptible_until_commit() -> Iterator[Callable[[], None]]:
    """Let signals interrupt the block until it calls the yielded function.

    A commit cannot be undone. If a run reported "interrupted" after it, users would believe that
    nothing happened, and a scheduler would run the job again. So a later signal becomes a warning,
    or is raised after all if the block fails. Blocks that only read never call the function.
    Python runs handlers in the main thread only. Signals without a Python handler are left alone.

    Raises
    ------
    KeyboardInterrupt : or whatever else the handler raises, if the block failed.
    """
    arrived: list[_Arrived] = []
    before: dict[int, Any] = {}

    def hold() -> None:
        _record_signals(arrived, before)
        thread_connections().lift_limit()

    try:
        yield hold
    except BaseException:
        _restore(before)
        _raise(arrived, before)
        raise
    # The time limit ends with the commit.
    for handler in before.values():
        getattr(handler, "over", lambda: None)()
    arrived = [arrival for arrival in arrived if arrival[0] != signal.SIGALRM]
    _restore(before)
    if arrived:
        warn_caller(
            CommitConfirmed(
                "The interrupt came while the transaction was being committed: it was committed"
                " successfully."
            )
        )


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals interrupt the block even while others are deferred; a later run can redo it.

    Raises
    ------
    KeyboardInterrupt : a signal arrived.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in _ENDS:
            handler = signal.getsignal(number)
            if callable(handler) and not isinstance(handler, int):
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        _restore(before)


def _record_signals(arrived: list[_Arrived], before: dict[int, Any]) -> None:
    """Record signals instead of handling them; saves their handlers in ``before``."""

    def keep(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            # The system's handlers (terminate, ignore) are integers.
            if callable(handler) and not isinstance(handler, int):
                before[number] = signal.signal(number, keep)


def _raise(arrived: list[_Arrived], handlers: dict[int, Any]) -> None:
    for number, frame in arrived:
        handlers[number](number, frame)


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
