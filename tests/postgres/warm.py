"""Backends that serve one connection of dbanon after another, as a pooler's in session mode do.

To begin a backend and to fill its caches of the catalog takes a server half the time of a small
run. What a session leaves is gone with ROLLBACK and DISCARD ALL. What a backend reads when it
begins, such as settings of its database, it has read: tests of that are marked ``own_backends``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn
from sqlalchemy import make_url

_MOST = 4
_connect = psycopg.connect
_idle: dict[str, list[PGconn]] = {}
_lock = threading.Lock()


class _Connection(psycopg.Connection[Any]):
    """One whose backend serves the next one that asks with the same words."""

    _key = ""

    def close(self) -> None:
        backend = self.pgconn
        if not self.closed and _is_as_new(backend):
            with _lock:
                pool = _idle.setdefault(self._key, [])
                if len(pool) < _MOST:
                    pool.append(backend)
                    self.pgconn = _closed()
        super().close()


@contextmanager
def warm(url: str) -> Iterator[None]:
    """Within the block dbanon's own connections to a database have backends that served others.

    Connections that tests open themselves, other databases' and other roles' are as ever.
    """
    parts = make_url(url)
    required = {
        "host": parts.host,
        "port": parts.port,
        "dbname": parts.database,
        "user": parts.username,
        "password": parts.password,
    }

    def connect(*words: Any, **parameters: Any) -> Any:
        # SQLAlchemy asks so. Behind a proxy it is another port.
        if words or any(parameters.get(name) != value for name, value in required.items()):
            return _connect(*words, **parameters)
        context = parameters.get("context")
        variables = {name: value for name, value in os.environ.items() if name.startswith("PG")}
        key = repr(sorted((variables | parameters | {"context": None}).items()))
        with _lock:
            pool = _idle.setdefault(key, [])
            backend = pool.pop() if pool else None
        if backend is not None and not _is_as_new(backend):
            backend.finish()
            backend = None
        if backend is None:
            connection = _Connection.connect(**parameters)
        else:
            connection = _Connection(backend)
            connection.prepare_threshold = parameters.get("prepare_threshold", 5)
            if context is not None:
                connection._adapters = AdaptersMap(context.adapters)
        connection._key = key
        return connection

    psycopg.connect = connect
    try:
        yield
    finally:
        psycopg.connect = _connect


def close_warm() -> None:
    """End all that wait for a next one."""
    with _lock:
        for pool in _idle.values():
            while pool:
                pool.pop().finish()


def _is_as_new(backend: PGconn) -> bool:
    # As the server does with what a client leaves open.
    if backend.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        backend.exec_(b"ROLLBACK")
    if backend.transaction_status != TransactionStatus.IDLE:
        return False
    return bool(backend.exec_(b"DISCARD ALL").status == ExecStatus.COMMAND_OK)


def _closed() -> PGconn:
    """What a connection leads to that has handed its backend on."""
    closed: PGconn = psycopg.pq.PGconn.connect_start(b"host=/nowhere")
    closed.finish()
    return closed
