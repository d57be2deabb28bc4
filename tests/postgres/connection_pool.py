"""Connections of tests that are used again: to open one takes longer than most statements do."""

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
# As DISCARD ALL, but for plans: those of functions in SQL, made anew for each use, would take as
# long again as a function of dbanon's does. They are checked, as those of any long session.
_AS_NEW = """
CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; DEALLOCATE ALL; UNLISTEN *;
SELECT pg_advisory_unlock_all(); DISCARD TEMP; DISCARD SEQUENCES
"""
_idle: dict[str, psycopg.Connection[Any]] = {}


@contextmanager
def pooled(conninfo: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection as new (autocommit), by its connection string.

    Settings, temporary tables and locks of earlier uses are gone. What the server's own
    process has loaded stays, such as Python and its modules: a test of that opens its own.
    """
    if threading.current_thread() is not threading.main_thread():
        with psycopg.connect(conninfo, autocommit=True) as connection:
            yield connection
        return
    # Taken out meanwhile: whoever asks for the same within gets another.
    reused = _as_new(_idle.pop(conninfo, None)) or psycopg.connect(
        conninfo, autocommit=True, prepare_threshold=None
    )
    try:
        yield reused
    except psycopg.Error:
        # What is refused ends its statement, and no session.
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
    """Close those of a database, to which nobody may be connected, or all."""
    for conninfo in list(_idle):
        if database is None or conninfo_to_dict(conninfo).get("dbname") == database:
            _idle.pop(conninfo).close()


def _as_new(connection: psycopg.Connection[Any] | None) -> psycopg.Connection[Any] | None:
    """Nothing of earlier uses; None of one that its server has ended."""
    if connection is None or connection.closed:
        return None
    try:
        connection.execute(_AS_NEW)
    except psycopg.Error:
        connection.close()
        return None
    return connection


atexit.register(close_idle)
