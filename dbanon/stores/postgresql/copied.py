"""The rows of a COPY … TO STDOUT (FORMAT binary), as libpq has them.

psycopg's own way makes a trip through its event loop for each row, which takes several times as
long. Here the compiled core asks libpq for one row after the other until it has to wait for the
server; where libpq's functions are not found, as on Windows, the same is done here.
"""

from __future__ import annotations

import ctypes
import selectors
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from psycopg import OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus

from dbanon import kernels
from dbanon.stores.postgresql import packed

if TYPE_CHECKING:
    from psycopg import Copy
    from psycopg.pq.abc import PGconn

# What a drain says of why it has no more, as ``kernels.CopyDrain``.
_FULL, _WAITS, _ENDED = 0, 1, 2
# Seconds for more to come: the server's work stops at each piece that somebody waits for.
_LULL = 0.0005
# Seconds between looks at a connection that nothing comes from.
_LOOKS = 1.0
_FUNCTIONS = ("PQgetCopyData", "PQconsumeInput", "PQfreemem")


def copied_out(stream: Copy, connection: PGconn, rows: int) -> Iterator[NDArray[np.uint8]]:
    """The bytes of so many rows at a time, uint8 (m,), without head and end.

    Parameters
    ----------
    stream : the COPY, which has begun.

    Raises
    ------
    psycopg.Error : the server ended it with an error, or its connection was lost.
    """
    drain = _drain_of(connection)
    with selectors.DefaultSelector() as selector:
        selector.register(connection.socket, selectors.EVENT_READ)
        while (status := drain.drain(rows)) != _ENDED:
            if status == _FULL:
                yield drain.take()
            elif status == _WAITS:
                # Where it found the connection lost, its socket is closed: nothing comes of it.
                _require(connection)
                # Signals are heard meanwhile.
                while not selector.select(_LOOKS):
                    _require(connection)
                time.sleep(_LULL)
                connection.consume_input()
            else:
                _raise(connection)
    # Its last words, after which other statements may follow.
    stream.read()
    if drain.rows:
        yield drain.take()


def _require(connection: PGconn) -> None:
    """Check that a connection is open still."""
    if connection.status != ConnStatus.OK:
        raise OperationalError("the connection was lost while rows were read")


def _raise(connection: PGconn) -> None:
    """The end was not seen: the server says why."""
    result = connection.get_result()
    if result is None:
        raise OperationalError("the connection was lost while rows were read")
    # Until there is none, the connection would be taken for busy.
    while connection.get_result() is not None:
        pass
    raise error_from_result(result)


def _drain_of(connection: PGconn) -> kernels.CopyDrain | _Drain:
    pointer: int | None = getattr(connection, "pgconn_ptr", None)
    addresses = _addresses(type(connection).__module__)
    if addresses is None or not pointer:
        return _Drain(connection)
    return kernels.CopyDrain(pointer, *addresses, len(packed.HEAD))


@cache
def _addresses(module: str) -> tuple[int, int, int] | None:
    """Where the functions of the libpq are that a module of psycopg's is linked with.

    None where they are not found by what is linked with it.
    """
    file: Any = getattr(sys.modules[module], "__file__", "")
    try:
        library = ctypes.CDLL(file)
        get, consume, free = (
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS
        )
    except (AttributeError, OSError):
        return None
    return (get, consume, free) if get and consume and free else None


class _Drain:
    """As ``kernels.CopyDrain``, in Python."""

    def __init__(self, connection: PGconn) -> None:
        self._next_row = connection.get_copy_data
        self._head = len(packed.HEAD)
        self._buffer = bytearray()
        self.rows = 0

    def drain(self, rows: int) -> int:
        """Take rows until so many are held; why it ended."""
        while self.rows < rows:
            size, row = self._next_row(1)
            if size <= 0:
                return _WAITS if size == 0 else _ENDED + 1
            if self._head:
                # It stands in front of the first row.
                row, self._head = row[self._head :], 0
            if row == packed.END:
                return _ENDED
            self._buffer += row
            self.rows += 1
        return _FULL

    def take(self) -> NDArray[np.uint8]:
        """The bytes of those that are held, uint8 (m,), which are forgotten here."""
        buffer, self._buffer, self.rows = self._buffer, bytearray(), 0
        return np.frombuffer(buffer, np.uint8)
