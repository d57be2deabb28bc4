"""Signals that arrive at a moment that must not be torn apart wait until it is over."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from dbanon.errors import CommitConfirmed, InvalidParameter, warn_caller
from dbanon.sessions.ending import ending

if TYPE_CHECKING:
    from sqlalchemy import Engine


def transaction_open(of: str) -> InvalidParameter:
    """The error for a connection that has a transaction open, which a run would end with its own.

    Parameters
    ----------
    of : the database, as in ``SQLite``.
    """
    # sqlite3 calls it autocommit, with False for one that is begun again by itself.
    always = "; a connection with autocommit off has one open always" if of == "SQLite" else ""
    return InvalidParameter(
        f"The {of} connection has a transaction open, and a run has one of its own.",
        hint=f"Commit or roll back first{always}.",
    )


def shared_driver(engine: Engine) -> Any | None:
    """The driver's connection that all who use an engine share; None where each has its own.

    It is looked at without being taken from the pool: what is given back there is rolled back.
    """
    from sqlalchemy import StaticPool

    if not isinstance(engine.pool, StaticPool):
        return None
    # Its connection is made when it is first asked for, and has no transaction before.
    record = vars(engine.pool).get("connection")
    return None if record is None else record.driver_connection


# What an operator sends, and not a limit of time.
_ENDS = (signal.SIGINT, signal.SIGTERM)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)

_Arrived = tuple[int, FrameType | None]


@contextmanager
def held() -> Iterator[None]:
    """Let signals wait for the end of the block: what it makes is told of before one ends the run.

    Raises
    ------
    KeyboardInterrupt : or what else the handler of a signal raises that arrived meanwhile.
    """
    arrived: list[_Arrived] = []
    before: dict[int, Any] = {}
    _keep(arrived, before)
    try:
        yield
    finally:
        _restore(before)
        _raise(arrived, before)


@contextmanager
def held_once_committed() -> Iterator[Callable[[], None]]:
    """Let signals end the block until it calls the function that it is given; then no more.

    What is committed cannot be taken back: who is told "interrupted" would take it for undone, and
    a scheduler would run it again. Who only reads never calls it. So a signal that arrives
    afterwards becomes a warning, or is raised after all when the block fails. Python runs handlers
    in the main thread only, and a signal without a handler of Python's ends the process or does
    nothing: neither is changed.

    Raises
    ------
    KeyboardInterrupt : or what else the handler raises, when the block failed.
    """
    arrived: list[_Arrived] = []
    before: dict[int, Any] = {}

    def hold() -> None:
        _keep(arrived, before)
        ending().lift_limit()

    try:
        yield hold
    except BaseException:
        _restore(before)
        _raise(arrived, before)
        raise
    # A limit on the run's time is none on what follows the commit.
    for handler in before.values():
        getattr(handler, "over", lambda: None)()
    arrived = [arrival for arrival in arrived if arrival[0] != signal.SIGALRM]
    _restore(before)
    if arrived:
        warn_caller(
            CommitConfirmed(
                "The interrupt came when the transaction was being committed: it was committed, and"
                " all is as it should be."
            )
        )


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let a signal end the block though others are held: of work that can be left to a later run.

    Raises
    ------
    KeyboardInterrupt : one arrived.
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


def _keep(arrived: list[_Arrived], before: dict[int, Any]) -> None:
    """Note signals instead of handling them; the handlers they had go to ``before``."""

    def keep(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            # The system's own (end the process, ignore) are numbers.
            if callable(handler) and not isinstance(handler, int):
                before[number] = signal.signal(number, keep)


def _raise(arrived: list[_Arrived], handlers: dict[int, Any]) -> None:
    for number, frame in arrived:
        handlers[number](number, frame)


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
