"""Clients of servers, such as catalogs of lakes, which stay open while a block uses them.

A client has connections to a database or a server. The garbage collector would close them at an
arbitrary time, and Python 3.13 warns about each of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

# The type of a client, which has a method ``close``.
_ClientT = TypeVar("_ClientT")

_lock = threading.Lock()
_n_open_blocks = 0
_clients: dict[Hashable, Any] = {}


@contextmanager
def keep_clients_open() -> Iterator[None]:
    """Keep clients open until the last of all overlapping blocks ends, and close them then.

    Threads share the clients, because an attempt to connect runs in a separate thread.
    """
    global _n_open_blocks
    with _lock:
        _n_open_blocks += 1
    try:
        yield
    finally:
        with _lock:
            _n_open_blocks -= 1
            clients_to_close = [] if _n_open_blocks else list(_clients.values())
            if clients_to_close:
                _clients.clear()
        for client in clients_to_close:
            _close(client)


def shared_client(key: Hashable, open_client: Callable[[], _ClientT]) -> _ClientT:
    """Return the open client of this key; call this only in a block of ``keep_clients_open``.

    Parameters
    ----------
    key : identifies the client.
    open_client : opens the client, which has a method ``close``, if it is not open yet.
    """
    assert _n_open_blocks, "shared_client must be called in a block of keep_clients_open"
    with _lock:
        client: _ClientT | None = _clients.get(key)
    if client is not None:
        return client
    new_client = open_client()
    # Another thread may have opened it, as the lock is not held while waiting for a server.
    with _lock:
        client = _clients.setdefault(key, new_client)
    if client is not new_client:
        _close(new_client)
    return client


def _close(client: Any) -> None:
    # Ignore errors: nothing depends on the client any more, and their texts may contain
    # credentials.
    with suppress(Exception):
        client.close()
