"""Backends that serve several connections of dbanon in turn, like a pooler in session mode.

Starting a backend and filling its catalog caches takes half the time of a small run. ROLLBACK and
DISCARD ALL reset a session. A backend does not read again what it reads at its start, such as
settings of its database; tests of that are marked ``own_backends``.
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
    """A connection whose backend is reused for the same connection parameters."""

    _key = ""

    def close(self) -> None:
        backend = self.pgconn
        if not self.closed and _is_as_new(backend):
            with _lock:
                pool = _idle.setdefault(self._key, [])
                if len(pool) < _MOST:
                    pool.append(backend)
                    self.pgconn = _closed_connection()
        super().close()


@contextmanager
def warm(url: str) -> Iterator[None]:
    """During the block dbanon's own connections to a database reuse backends.

    Connections opened by tests, or to other databases or with other roles, are not affected.
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
        # The parameters that SQLAlchemy uses. A proxy has another port.
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
    """Close all idle backends."""
    with _lock:
        for pool in _idle.values():
            while pool:
                pool.pop().finish()


def _is_as_new(backend: PGconn) -> bool:
    # As the server does when a client disconnects.
    if backend.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
        backend.exec_(b"ROLLBACK")
    if backend.transaction_status != TransactionStatus.IDLE:
        return False
    return bool(backend.exec_(b"DISCARD ALL").status == ExecStatus.COMMAND_OK)


def _closed_connection() -> PGconn:
    """The underlying connection of a connection object that has given its backend back."""
    closed: PGconn = psycopg.pq.PGconn.connect_start(b"host=/nowhere")
    closed.finish()
    return closed
