"""Execute SQL in a transaction on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

import sqlalchemy

from dbanon.data.types import SqlRow
from dbanon.sessions.base import OnSql
from dbanon.sessions.connection import Connection
from dbanon.stores.sqlite.dialect import SqliteDialect
from dbanon.stores.sqlite.errors import translate_errors


def driver_connection(connection: sqlalchemy.Connection) -> sqlite3.Connection:
    """Return the connection of Python's module sqlite3 behind SQLAlchemy's."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


class SqliteConnection(Connection):
    """Executes SQL in one transaction on SQLite.

    Parameters
    ----------
    alembic_connection : SQLAlchemy's connection, which Alembic uses.
    """

    # Set to True by the store if the file cannot be written.
    is_read_only = False

    def __init__(
        self, alembic_connection: sqlalchemy.Connection, on_sql: OnSql | None = None
    ) -> None:
        driver = driver_connection(alembic_connection)
        super().__init__(SqliteDialect(driver), on_sql)
        self.alembic_connection = alembic_connection
        # The connection of Python's module sqlite3.
        self.driver = driver

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        self.report(sql)
        with translate_errors():
            self.driver.execute(sql, tuple(parameters)).close()

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        self.report(sql)
        with translate_errors():
            return self.driver.execute(sql, tuple(parameters)).fetchall()

    def batches(self, sql: str, chunk_rows: int) -> Iterator[list[SqlRow]]:
        """Yield the result of a query in batches of up to ``chunk_rows`` rows."""
        self.report(sql)
        with translate_errors():
            cursor = self.driver.execute(sql)
            while rows := cursor.fetchmany(chunk_rows):
                yield rows
