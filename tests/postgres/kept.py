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
_kept: dict[str, psycopg.Connection[Any]] = {}


@contextmanager
def kept(told: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection as new (autocommit), by its connection string.

    Settings, temporary tables and locks of earlier uses are gone. What the server's own
    process has loaded stays, such as Python and its modules: a test of that opens its own.
    """
    if threading.current_thread() is not threading.main_thread():
        with psycopg.connect(told, autocommit=True) as connection:
            yield connection
        return
    # Taken out meanwhile: whoever asks for the same within gets another.
    found = _as_new(_kept.pop(told, None)) or psycopg.connect(
        told, autocommit=True, prepare_threshold=None
    )
    try:
        yield found
    except psycopg.Error:
        # What is refused ends its statement, and no session.
        _keep(told, found)
        raise
    except BaseException:
        found.close()
        raise
    _keep(told, found)


def _keep(told: str, found: psycopg.Connection[Any]) -> None:
    if told in _kept or found.closed or found.info.transaction_status is not TransactionStatus.IDLE:
        found.close()
        return
    _kept[told] = found
    while len(_kept) > _MOST:
        _kept.pop(next(iter(_kept))).close()


def close_kept(database: str | None = None) -> None:
    """Close those of a database, to which nobody may be connected, or all."""
    for told in list(_kept):
        if database is None or conninfo_to_dict(told).get("dbname") == database:
            _kept.pop(told).close()


def _as_new(found: psycopg.Connection[Any] | None) -> psycopg.Connection[Any] | None:
    """Nothing of earlier uses; None of one that its server has ended."""
    if found is None or found.closed:
        return None
    try:
        found.execute(_AS_NEW)
    except psycopg.Error:
        found.close()
        return None
    return found


atexit.register(close_kept)
