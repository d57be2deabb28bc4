"""Reused connections for tests: opening one takes longer than most statements."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

_MOST = 8
# Like DISCARD ALL, except for plans: planning SQL functions anew for each use would take as long as
# a call of dbanon. Plans are revalidated, as in any long session.
_AS_NEW = """
CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *;
SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES
"""
_idle: dict[str, psycopg.Connection[Any]] = {}


@contextmanager
def pooled(conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection in its initial state (autocommit), by its connection string.

    Settings, temporary tables and locks of earlier uses are reset. Modules that the backend has
    loaded stay, such as Python and its modules; a test of that opens its own connection.
    """
    if threading.current_thread() is not threading.main_thread():
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection
        return
    # Removed from the pool meanwhile, so that a nested call gets another one.
    reused = _as_new(_idle.pop(conninfo, None)) or psycopg.connect(
        conninfo, autocommit=True, prepare_threshold=None
    )
    try:
        yield reused
    except psycopg.Error:
        # An error ends its statement, not the session.
        _keep(conninfo, reused)
        raise
    except BaseException:
        reused.close()
        raise
    _keep(conninfo, reused)


def _keep(conninfo: str, connection: psycopg.Connection[Any]) -> None:
    if (
        conninfo in _idle
        or connection.closed
        or connection.info.transaction_status is not TransactionStatus.IDLE
    ):
        connection.close()
        return
    _idle[conninfo] = connection
    while len(_idle) > _MOST:
        _idle.pop(next(iter(_idle))).close()


def close_idle(database: str | None = None) -> None:
    """Close the connections to a database, so that it can be copied or dropped, or close all."""
    for conninfo in list(_idle):
        if database is None or conninfo_to_dict(conninfo).get("dbname") == database:
            _idle.pop(conninfo).close()


def _as_new(connection: psycopg.Connection[Any] | None) -> psycopg.Connection[Any] | None:
    """Reset a connection; None if its server has ended it."""
    if connection is None or connection.closed:
        return None
    try:
        connection.execute(_AS_NEW)
    except psycopg.Error:
        connection.close()
        return None
    return connection


atexit.register(close_idle)
