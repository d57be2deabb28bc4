"""The rows of a COPY … TO STDOUT (FORMAT binary), as libpq has them.

psycopg's own way makes a trip through its event loop for each row, which takes several times as
long. Here libpq is asked for one row after the other until it has to wait for the server.
"""

from __future__ import annotations

import selectors
from collections.abc import Iterator
from typing import TYPE_CHECKING

from psycopg.errors import error_from_result

from dbanon.stores.postgresql import packed

if TYPE_CHECKING:
    from psycopg import Copy
    from psycopg.pq.abc import PGconn

# The end is a row by itself, and shorter than any other; the head stands in front of the first.
_SHORTEST = 3


def copied_out(stream: Copy, connection: PGconn, rows: int) -> Iterator[bytearray]:
    """The bytes of so many rows at a time, without head and end.

    Parameters
    ----------
    stream : the COPY, which has begun.

    Raises
    ------
    psycopg.Error : the server ended it with an error.
    """
    buffer, held, head = bytearray(), 0, len(packed.HEAD)
    next_row = connection.get_copy_data
    while True:
        size, row = next_row(1)
        # Seldom: for each row nothing is asked that need not be.
        if size < _SHORTEST or head:
            if size == 0:
                _wait(connection)
                continue
            if size < 0:
                # Its end was not seen: the server says why.
                result = connection.get_result()
                assert result is not None
                # Until there is none, the connection would be taken for busy.
                while connection.get_result() is not None:
                    pass
                raise error_from_result(result)
            row, head = row[head:], 0
            if row == packed.END:
                break
        buffer += row
        held += 1
        if held == rows:
            yield buffer
            buffer, held = bytearray(), 0
    # Its last words, after which other statements may follow.
    stream.read()
    if held:
        yield buffer


def _wait(connection: PGconn) -> None:
    """Wait for more bytes of the server; signals are heard meanwhile."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.socket, selectors.EVENT_READ)
        selector.select()
    connection.consume_input()
