"""Read the rows of a COPY … TO STDOUT (FORMAT binary) from libpq.

psycopg runs its event loop once per row, which is several times slower than this module: the
compiled core reads rows directly from libpq until it must wait for the server. Its reader is called
a *drain*: it empties libpq's buffer into its own. If libpq's functions cannot be found, as on
Windows, a drain in Python reads the rows instead.
"""

from __future__ import annotations

import ctypes
import selectors
import sys
import time
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from psycopg import OperationalError
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus

from dbanon import kernels
from dbanon.stores.postgresql import packed_rows

if TYPE_CHECKING:
    from psycopg import Copy
    from psycopg.pq.abc import PGconn

# Status codes of ``kernels.CopyDrain``, in this order: the requested number of rows is buffered;
# the server has sent no more data yet; the COPY has ended; the COPY has failed.
_FULL, _WAITS, _ENDED, _FAILED = 0, 1, 2, 3
# Seconds to let data accumulate: reading each packet immediately would slow the server down.
_ACCUMULATION_SECONDS = 0.0005
# Seconds between checks whether a connection without data is still open.
_CHECK_SECONDS = 1.0
_LIBPQ_FUNCTIONS = ("PQgetCopyData", "PQconsumeInput", "PQfreemem")


def read_copy(stream: Copy, connection: PGconn, chunk_rows: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the rows of a COPY as bytes, uint8 (m,), without header and trailer.

    Parameters
    ----------
    stream : a COPY that has been started on ``connection``.
    chunk_rows : the number of rows to yield at a time.

    Raises
    ------
    psycopg.Error : the server reported an error, or the connection was lost.
    """
    drain = _create_drain(connection)
    with selectors.DefaultSelector() as selector:
        selector.register(connection.socket, selectors.EVENT_READ)
        while (status := drain.drain(chunk_rows)) != _ENDED:
            if status == _FULL:
                yield drain.take()
            elif status == _WAITS:
                # libpq closes the socket of a lost connection; selecting on it would never return.
                _require_open(connection)
                # The timeout lets Python handle signals.
                while not selector.select(_CHECK_SECONDS):
                    _require_open(connection)
                time.sleep(_ACCUMULATION_SECONDS)
                connection.consume_input()
            else:
                _raise_server_error(connection)
    # Read the end of the COPY, so that other statements can follow.
    stream.read()
    if drain.rows:
        yield drain.take()


def _require_open(connection: PGconn) -> None:
    """Check that a connection is still open."""
    if connection.status != ConnStatus.OK:
        raise OperationalError("the connection was lost while rows were read")


def _raise_server_error(connection: PGconn) -> None:
    """Raise the server's error for a COPY that ended early."""
    result = connection.get_result()
    if result is None:
        raise OperationalError("the connection was lost while rows were read")
    # The connection stays busy until all results are read.
    while connection.get_result() is not None:
        pass
    raise error_from_result(result)


def _create_drain(connection: PGconn) -> kernels.CopyDrain | _PythonDrain:
    """Return the compiled reader of a connection's rows, or the Python one if libpq is missing."""
    pointer: int | None = getattr(connection, "pgconn_ptr", None)
    addresses = _libpq_addresses(type(connection).__module__)
    if addresses is None or not pointer:
        return _PythonDrain(connection)
    return kernels.CopyDrain(pointer, *addresses, len(packed_rows.COPY_HEADER))


@cache
def _libpq_addresses(module: str) -> tuple[int, int, int] | None:
    """Return the addresses of functions in the libpq that a psycopg module is linked with.

    None if they cannot be resolved.
    """
    library_path: str = getattr(sys.modules[module], "__file__", "")
    try:
        library = ctypes.CDLL(library_path)
        addresses = [
            ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            for name in _LIBPQ_FUNCTIONS
        ]
    except (AttributeError, OSError):
        return None
    get_copy_data, consume_input, free_memory = addresses
    return (get_copy_data, consume_input, free_memory) if all(addresses) else None


class _PythonDrain:
    """Buffers the rows of a COPY, as ``kernels.CopyDrain`` does in compiled code."""

    def __init__(self, connection: PGconn) -> None:
        self._next_row = connection.get_copy_data
        self._header_bytes = len(packed_rows.COPY_HEADER)
        self._buffer = bytearray()
        # Number of rows in the buffer.
        self.rows = 0

    def drain(self, max_rows: int) -> int:
        """Buffer rows until there are ``max_rows``, and return the status code."""
        while self.rows < max_rows:
            # 1: do not wait for data.
            n_bytes, row = self._next_row(1)
            if n_bytes <= 0:
                # Negative: the COPY failed, or ended without its trailer.
                return _WAITS if n_bytes == 0 else _FAILED
            if self._header_bytes:
                # The header precedes the first row.
                row, self._header_bytes = row[self._header_bytes :], 0
            if row == packed_rows.COPY_TRAILER:
                return _ENDED
            self._buffer += row
            self.rows += 1
        return _FULL

    def take(self) -> NDArray[np.uint8]:
        """Return the buffered bytes, uint8 (m,), and clear the buffer."""
        buffer, self._buffer, self.rows = self._buffer, bytearray(), 0
        return np.frombuffer(buffer, np.uint8)
