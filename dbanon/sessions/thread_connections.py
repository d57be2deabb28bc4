"""The connections of a thread's runs, so that runs end in time even if a server does not answer.

A thread blocked on a stalled connection never returns, and a request to cancel its statement blocks
too. So a run registers its connections here. When a signal or the time limit asks the run to end,
servers get a moment to answer. Then connections that still wait are cut at the socket, which
unblocks any read. New connections opened after that are limited in the same way.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from dbanon.errors import DatabaseUnreachable

# Seconds after a run was asked to end: until waiting connections are cut, and until all work must
# have stopped.
CUT_SECONDS, END_SECONDS = 1.2, 3.0
# Maximum seconds for opening a connection after the run was asked to end.
CONNECT_SECONDS = 1.0
# Minimum seconds that a server gets to answer.
MIN_SECONDS = 0.2

Connection = TypeVar("Connection")


class Wire(Protocol):
    """A connection of a database driver, of which only the socket and canceling matter here."""

    def fileno(self) -> int:
        """Return the socket's file descriptor."""

    def cancel_safe(self, *, timeout: float) -> None:
        """Ask the server to cancel the running statement."""


class _CuttableSocket:
    """A connection's socket, which any thread can cut."""

    def __init__(self, wire: Wire) -> None:
        # A PostgreSQL backend has no such connections, so import only when needed.
        import socket

        # Duplicate the descriptor: after the driver closes its own, another file may reuse the
        # number.
        self._socket = socket.socket(fileno=os.dup(wire.fileno()))
        self.wire = wire
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        # When the timer cuts the socket, by the monotonic clock.
        self._cut_at = 0.0
        self._is_open = True
        self._shutdown_mode = socket.SHUT_RDWR
        self.was_cut = False

    def cut(self) -> None:
        """Shut the socket down unless it is closed, which unblocks any read from it."""
        with self._lock:
            if self._is_open:
                self.was_cut = True
                with contextlib.suppress(OSError):
                    self._socket.shutdown(self._shutdown_mode)

    def cut_after(self, seconds: float) -> None:
        """Cut the socket after this many seconds unless it is closed or cut before."""
        cut_at = time.monotonic() + max(seconds, MIN_SECONDS)
        if self._timer is not None:
            if self._cut_at <= cut_at:
                return
            self._timer.cancel()
        self._cut_at = cut_at
        self._timer = threading.Timer(cut_at - time.monotonic(), self.cut)
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """Close the duplicate of the socket, and stop the timer; the driver's socket stays open."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_open = False
            self._socket.close()


class ThreadConnections:
    """The connections of one thread's runs, and whether they have been asked to end.

    Parameters
    ----------
    is_server_silent : whether a server did not answer in time and has not been reached since.
    is_committed : whether the release is committed, so that the time limit no longer applies.
    commits_publish : False while a commit does not publish the release, so that the run can still
        end after it.
    """

    def __init__(self) -> None:
        self._sockets: dict[int, _CuttableSocket] = {}
        self._scope_depth = 0
        # When the run was asked to end, by the monotonic clock; None if it was not.
        self._requested_at: float | None = None
        # When connections that the block of ``cut_new_connections_after`` opens are cut, by the
        # same clock; None outside of such a block.
        self._deadline: float | None = None
        self._limit_timer: threading.Timer | None = None
        self.is_server_silent = self.is_committed = False
        self.commits_publish = True

    @contextlib.contextmanager
    def preliminary_commits(self) -> Iterator[None]:
        """Keep the time limit and interrupts in force after the commits in the block.

        These commits do not publish the release: they record, for example, what it will spend.
        """
        self.commits_publish = False
        try:
            yield
        finally:
            self.commits_publish = True

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Collect connections in the block; leaving the outermost block resets everything."""
        self._scope_depth += 1
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self.request_end()
            raise
        finally:
            self._scope_depth -= 1
            if not self._scope_depth:
                while self._sockets:
                    self._sockets.popitem()[1].close()
                self._requested_at, self.is_server_silent, self.is_committed = None, False, False

    @property
    def is_ending(self) -> bool:
        """True after the run has been asked to end."""
        return self._requested_at is not None

    def request_end(self) -> None:
        """Ask the run to end; called by signal handlers and other threads."""
        if self._scope_depth and self._requested_at is None:
            self._requested_at = time.monotonic()
            for socket in list(self._sockets.values()):
                socket.cut_after(CUT_SECONDS)

    @contextlib.contextmanager
    def limit_time(self, seconds: float) -> Iterator[None]:
        """Ask the run in the block to end after this many seconds, from another thread."""
        outer_timer = self._limit_timer
        self._limit_timer = threading.Timer(seconds, self._cancel_statements)
        self._limit_timer.daemon = True
        with self.scope():
            self._limit_timer.start()
            try:
                yield
            finally:
                self._limit_timer.cancel()
                self._limit_timer = outer_timer

    def lift_limit(self) -> None:
        """Lift the time limit once the release is committed."""
        # Without a scope there is no limit.
        if not self._scope_depth or not self.commits_publish:
            return
        self.is_committed = True
        if self._limit_timer is not None:
            self._limit_timer.cancel()

    def _cancel_statements(self) -> None:
        self.request_end()
        for socket in list(self._sockets.values()):
            # Best effort: if canceling fails, the connection is cut.
            with contextlib.suppress(Exception):
                socket.wire.cancel_safe(timeout=CUT_SECONDS)

    @contextlib.contextmanager
    def cut_new_connections_after(self, seconds: float) -> Iterator[None]:
        """Cut connections that are opened in the block when ``seconds`` from now have passed."""
        outer_deadline, self._deadline = self._deadline, time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline = outer_deadline

    def _seconds_left(self) -> float | None:
        """Return the seconds left for work that starts now; None without a limit."""
        deadlines = [] if self._deadline is None else [self._deadline]
        if self._requested_at is not None:
            deadlines.append(self._requested_at + END_SECONDS)
        return min(deadlines) - time.monotonic() if deadlines else None

    def register(self, wire: Wire) -> None:
        """Register a connection in a scope so that it can be cut when the run has to end."""
        if self._scope_depth and id(wire) not in self._sockets:
            socket = self._sockets[id(wire)] = _CuttableSocket(wire)
            if (seconds_left := self._seconds_left()) is not None:
                socket.cut_after(seconds_left)

    def unregister(self, wire: Wire) -> bool:
        """Unregister a connection before it is closed or returned to its pool.

        Returns True if it had to be cut.
        """
        socket = self._sockets.pop(id(wire), None)
        if socket is None:
            return False
        socket.close()
        self.is_server_silent = self.is_server_silent or socket.was_cut
        return socket.was_cut

    def connect_in_time(
        self, connect: Callable[[], Connection], close: Callable[[Connection], None]
    ) -> Connection:
        """Call ``connect`` within the time that is left.

        Raises
        ------
        DatabaseUnreachable : the time ran out; a connection that is opened later is closed.
        """
        seconds_left = self._seconds_left()
        if seconds_left is None:
            return connect()
        if self._requested_at is not None:
            seconds_left = min(max(seconds_left, MIN_SECONDS), CONNECT_SECONDS)
        return _connect_in_thread(max(seconds_left, MIN_SECONDS), connect, close)


def _connect_in_thread(
    seconds: float, connect: Callable[[], Connection], close: Callable[[Connection], None]
) -> Connection:
    """Connect in a thread: name lookup and handshakes can block before there is a socket to cut."""
    connections: list[Connection] = []
    errors: list[BaseException] = []
    lock = threading.Lock()
    timed_out = False

    def connect_or_close() -> None:
        try:
            connection = connect()
        except BaseException as error:
            errors.append(error)
            return
        with lock:
            if not timed_out:
                connections.append(connection)
                return
        close(connection)

    thread = threading.Thread(target=connect_or_close, daemon=True)
    thread.start()
    thread.join(seconds)
    with lock:
        timed_out = not connections
    if errors:
        raise errors.pop()
    if timed_out:
        raise DatabaseUnreachable("The database did not answer in time.")
    return connections[0]


_thread_state = threading.local()


def thread_connections() -> ThreadConnections:
    """Return this thread's ``ThreadConnections``."""
    connections: ThreadConnections | None = getattr(_thread_state, "connections", None)
    if connections is None:
        connections = _thread_state.connections = ThreadConnections()
    return connections
