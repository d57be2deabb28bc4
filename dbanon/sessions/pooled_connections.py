"""Connections from the pool of a caller's SQLAlchemy engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dbanon.errors import DatabaseUnreachable

Connection = TypeVar("Connection")


def open_pooled_connection(connect: Callable[[], Connection]) -> Connection:
    """Open a connection from the pool of a SQLAlchemy engine.

    Raises
    ------
    DatabaseUnreachable : no pooled connection became free within the pool's timeout.
    """
    try:
        return connect()
    except Exception as error:
        # Compare names to avoid importing SQLAlchemy.
        if (type(error).__module__, type(error).__name__) != ("sqlalchemy.exc", "TimeoutError"):
            raise
    raise DatabaseUnreachable(
        "The engine's pool had no free connection within its timeout.",
        hint="Close unused connections, enlarge the pool (pool_size, max_overflow), or pass a URL"
        " instead, so that dbanon opens its own connection.",
    )
