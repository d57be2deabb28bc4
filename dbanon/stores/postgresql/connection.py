"""What the parts of a PostgreSQL session need of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dbanon.sessions.connection import Connection


class PostgresqlConnection(Connection, Protocol):
    """Executes SQL in one transaction on PostgreSQL."""

    @property
    def lock_seconds(self) -> float:
        """Maximum seconds to wait for a lock."""

    def look_up(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the catalog, whose plan the connection may cache."""

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Call a dbanon function with JSON that must not be logged; return its result as text.

        Parameters
        ----------
        function : the function's qualified name.
        arguments : one JSON text per argument.
        """

    def savepoint(self) -> AbstractContextManager[Any]:
        """If the block raises, roll back only its own statements."""
