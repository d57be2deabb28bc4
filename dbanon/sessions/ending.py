"""Connections of a run that is told to end: they end in time, though their network does not answer.

Who waits for an answer of a network that stalls waits for ever, and what would cancel a statement
waits with it. So each connection of a run is noted here. When the run is told to end, by a signal
or its time limit, the servers have a moment to answer; then what still waits is cut, by the socket,
which any wait notices. What is asked afterwards, on new connections, is bounded in the same way.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from dbanon.errors import DatabaseUnreachable

# Seconds from the moment that a run was told to end: what still waits is cut, and all is over.
CUT, OVER = 1.2, 3.0
# How long one connection may take to come about then, and what an answer has at least.
CONNECT, LEAST = 1.0, 0.2

T = TypeVar("T")


class Wire(Protocol):
    """A connection of a driver."""

    def fileno(self) -> int:
        """The number of its socket."""

    def cancel_safe(self, *, timeout: float) -> None:
        """Ask the server to end the statement that runs."""


class _Line:
    """The socket of a connection, which any thread can cut."""

    def __init__(self, wire: Wire) -> None:
        # Inside a backend nothing has a line.
        import socket

        # One of its own: the number of a socket that the driver closed is soon that of another.
        self._end = socket.socket(fileno=os.dup(wire.fileno()))
        self.wire = wire
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._open = True
        self._both_ways = socket.SHUT_RDWR
        self.was_cut = False

    def cut(self) -> None:
        with self._lock:
            if self._open:
                self.was_cut = True
                with contextlib.suppress(OSError):
                    self._end.shutdown(self._both_ways)

    def cut_in(self, seconds: float) -> None:
        """Cut it after so many seconds, unless it is closed until then."""
        if self._timer is None:
            self._timer = threading.Timer(max(seconds, LEAST), self.cut)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._open = False
            self._end.close()


class Ending:
    """The connections of the runs of one thread, and whether it was told to end.

    Parameters
    ----------
    silent : a server did not answer in time, and was not reached since.
    is_over : it is committed: a limit of time says nothing of it any more.
    """

    def __init__(self) -> None:
        self._lines: dict[int, _Line] = {}
        self._depth = 0
        self._told: float | None = None
        self._until: float | None = None
        self._limit: threading.Timer | None = None
        self.silent = self.is_over = False

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """What is told in the block ends with the outermost one."""
        self._depth += 1
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self.tell()
            raise
        finally:
            self._depth -= 1
            if not self._depth:
                while self._lines:
                    self._lines.popitem()[1].close()
                self._told, self.silent, self.is_over = None, False, False

    @property
    def asked_to_end(self) -> bool:
        """True from the moment that the run was told to end."""
        return self._told is not None

    def tell(self) -> None:
        """The run shall end: handlers of signals call this, and other threads."""
        if self._depth and self._told is None:
            self._told = time.monotonic()
            for line in list(self._lines.values()):
                line.cut_in(CUT)

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Tell the run to end after so many seconds, from another thread."""
        before, self._limit = self._limit, threading.Timer(seconds, self._end_statements)
        self._limit.daemon = True
        with self.scope():
            self._limit.start()
            try:
                yield
            finally:
                self._limit.cancel()
                self._limit = before

    def over(self) -> None:
        """What is committed has no limit of time; outside a scope nothing has one."""
        if not self._depth:
            return
        self.is_over = True
        if self._limit is not None:
            self._limit.cancel()

    def _end_statements(self) -> None:
        self.tell()
        for line in list(self._lines.values()):
            # Best effort: where it does not help, the connection is cut.
            with contextlib.suppress(Exception):
                line.wire.cancel_safe(timeout=CUT)

    @contextlib.contextmanager
    def at_most(self, seconds: float) -> Iterator[None]:
        """Connections that come about in the block are cut so many seconds from now."""
        before, self._until = self._until, time.monotonic() + seconds
        try:
            yield
        finally:
            self._until = before

    def _left(self) -> float | None:
        """Seconds that are left for what is begun now; None without a limit."""
        ends = [] if self._until is None else [self._until]
        if self._told is not None:
            ends.append(self._told + OVER)
        return min(ends) - time.monotonic() if ends else None

    def note(self, wire: Wire) -> None:
        """Note a connection of a scope: it is cut when the run does not end otherwise."""
        if self._depth and id(wire) not in self._lines:
            line = self._lines[id(wire)] = _Line(wire)
            if (left := self._left()) is not None:
                line.cut_in(left)

    def forget(self, wire: Wire) -> bool:
        """Whether a connection had to be cut; before it is closed or handed back."""
        line = self._lines.pop(id(wire), None)
        if line is None:
            return False
        line.close()
        self.silent = self.silent or line.was_cut
        return line.was_cut

    def connected(self, connect: Callable[[], T], close: Callable[[T], None]) -> T:
        """What ``connect`` gives, for which it has no more than what is left.

        Raises
        ------
        DatabaseUnreachable : it took longer; what comes about later is closed.
        """
        left = self._left()
        if left is None:
            return connect()
        if self._told is not None:
            left = min(max(left, LEAST), CONNECT)
        return _within(max(left, LEAST), connect, close)


def _within(seconds: float, connect: Callable[[], T], close: Callable[[T], None]) -> T:
    """In a thread: looking up a name and shaking hands may wait where nothing cuts them."""
    found: list[T] = []
    failed: list[BaseException] = []
    lock = threading.Lock()
    late = False

    def work() -> None:
        try:
            made = connect()
        except BaseException as error:
            failed.append(error)
            return
        with lock:
            if not late:
                found.append(made)
                return
        close(made)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    with lock:
        late = not found
    if failed:
        raise failed.pop()
    if late:
        raise DatabaseUnreachable("The database did not answer in time.")
    return found[0]


_here = threading.local()


def ending() -> Ending:
    """That of this thread."""
    found: Ending | None = getattr(_here, "ending", None)
    if found is None:
        found = _here.ending = Ending()
    return found
