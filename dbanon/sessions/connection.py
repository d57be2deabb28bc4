"""Execute SQL in the transaction of a session."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from dbanon.data.types import SqlRow
from dbanon.sessions import statements
from dbanon.sessions.base import OnSql
from dbanon.sessions.dialect import Dialect
from dbanon.sessions.names import RelationName


class Connection(ABC):
    """Executes SQL in one transaction.

    A session and its parts share one. The parts refer to the connection and not to the session:
    without a circle of references, a caller's connection is closed when the caller drops it.

    Parameters
    ----------
    dialect : how the database writes values and types.
    on_sql : called with each statement; None for no calls.
    """

    def __init__(self, dialect: Dialect, on_sql: OnSql | None = None) -> None:
        self.dialect = dialect
        self._on_sql = on_sql

    def report(self, sql: str) -> None:
        """Pass a statement to the function that the caller passed as ``on_sql``, if any."""
        if self._on_sql is not None:
            self._on_sql(sql)

    @abstractmethod
    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        """Execute a statement; bind parameters are written ``?``."""

    @abstractmethod
    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        """Execute a query and fetch all of its rows."""

    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """Insert rows into one of dbanon's own tables."""
        values = [value for row in rows for value in row]
        self.run(statements.insert_rows(relation, columns, len(rows)), values)
