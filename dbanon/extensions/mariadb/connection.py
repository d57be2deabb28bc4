"""Execute SQL in a transaction on MariaDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pymysql.cursors import Cursor, SSCursor

from dbanon.data.types import SqlRow
from dbanon.extensions.mariadb.dialect import MariadbDialect, to_mariadb
from dbanon.extensions.mariadb.errors import translate_errors
from dbanon.sessions.base import OnSql
from dbanon.sessions.connection import Connection

if TYPE_CHECKING:
    import pymysql


class MariadbConnection(Connection):
    """Executes SQL in one transaction on MariaDB.

    Parameters
    ----------
    driver : the connection of PyMySQL.
    """

    def __init__(
        self, driver: pymysql.connections.Connection[Cursor], on_sql: OnSql | None = None
    ) -> None:
        super().__init__(MariadbDialect(), on_sql)
        self.driver = driver

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        if sql.startswith('DROP TABLE "') and '"."' not in sql:
            # A name without a schema is a temporary table. Without TEMPORARY, the statement would
            # commit the transaction.
            sql = sql.replace("DROP TABLE", "DROP TEMPORARY TABLE", 1)
        self.rows(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        self.report(sql)
        with translate_errors(), closing(self.driver.cursor()) as cursor:
            cursor.execute(
                to_mariadb(sql, has_parameters=bool(parameters)), tuple(parameters) or None
            )
            return list(cursor.fetchall())

    def fetch_chunks(self, sql: str, chunk_rows: int) -> Iterator[list[SqlRow]]:
        """Yield the rows of a query in chunks, without loading all of them into memory."""
        self.report(sql)
        with translate_errors(), closing(self.driver.cursor(SSCursor)) as cursor:
            cursor.execute(to_mariadb(sql, has_parameters=False))
            while rows := cursor.fetchmany(chunk_rows):
                yield list(rows)
