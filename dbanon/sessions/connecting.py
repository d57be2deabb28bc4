"""Connections of a caller's pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dbanon.errors import DatabaseUnreachable

C = TypeVar("C")


def connected(connect: Callable[[], C]) -> C:
    """A connection of a SQLAlchemy engine.

    Raises
    ------
    DatabaseUnreachable : no connection of its pool was free within the pool's timeout.
    """
    try:
        return connect()
    except Exception as error:
        # By name: SQLAlchemy is not imported for this.
        if (type(error).__module__, type(error).__name__) != ("sqlalchemy.exc", "TimeoutError"):
            raise
    raise DatabaseUnreachable(
        "No connection of the engine's pool became free within its timeout.",
        hint="Close connections that are not used, make room in the pool (pool_size,"
        " max_overflow), or give a URL: then dbanon opens its own connection.",
    )
