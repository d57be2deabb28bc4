"""What the parts of a session need of it: to execute statements in its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from dbanon.sessions.names import RelationName


class Connection(Protocol):
    """Executes SQL in one transaction; every session is one."""

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement; bind parameters are written ``?``."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query and fetch all of its rows."""


class StagingConnection(Connection, Protocol):
    """Executes SQL in one transaction, and fills temporary tables."""

    @property
    def staging_suffix(self) -> str:
        """SQL that follows the definition of a temporary table."""

    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert rows into one of dbanon's own tables."""
