"""Execute SQL in a transaction on PostgreSQL, from a client or inside the server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager

from dbanon.data.types import SqlRow
from dbanon.sessions.base import OnSql
from dbanon.sessions.connection import Connection
from dbanon.stores.postgresql.dialect import PostgresqlDialect
from dbanon.stores.postgresql.settings import (
    CLIENT_STATEMENTS,
    LOCK_SECONDS,
    SHOW_LOCK_TIMEOUT,
    SHOW_SEARCH_PATH,
    lock_milliseconds,
    set_lock_timeout,
)


class PostgresqlConnection(Connection):
    """Executes SQL in one transaction on PostgreSQL."""

    dialect: PostgresqlDialect
    # Maximum seconds to wait for locks on ledger tables.
    lock_seconds = LOCK_SECONDS

    def __init__(self, on_sql: OnSql | None = None) -> None:
        super().__init__(PostgresqlDialect(), on_sql)
        # The schemas in which unqualified names are looked up.
        self.search_path: list[str] = []

    def begin(self) -> None:
        """Record the caller's search path, then set the transaction's settings to fixed values."""
        self.search_path = self.read_search_path()
        self.run(CLIENT_STATEMENTS)
        [(setting,)] = self.rows(SHOW_LOCK_TIMEOUT)
        lock_timeout_ms = lock_milliseconds(setting)
        self.run(set_lock_timeout(lock_timeout_ms))
        self.lock_seconds = lock_timeout_ms / 1000

    def read_search_path(self) -> list[str]:
        """Return the schemas in which unqualified names are looked up."""
        schemas: list[str] = self.rows(SHOW_SEARCH_PATH)[0][0]
        return schemas

    def look_up(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        """Return the rows of a query on the catalog, whose plan the connection may cache."""
        return self.rows(sql, parameters)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Call a dbanon function with JSON that must not be logged; return its result as text.

        Parameters
        ----------
        function : the function's qualified name.
        arguments : one JSON text per argument.
        """
        parameters = ", ".join("?::jsonb" for _ in arguments)
        return str(self.rows(f"SELECT {function}({parameters})::text", arguments)[0][0])

    @abstractmethod
    def savepoint(self) -> AbstractContextManager[object]:
        """If the block raises, roll back only its own statements."""
