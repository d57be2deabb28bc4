"""Execute SQL in a transaction on PostgreSQL through psycopg."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.data.types import SqlRow
from dbanon.errors import DbanonError
from dbanon.sessions import statements
from dbanon.sessions.base import OnSql
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.stores.postgresql.connecting import Backend
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.copy_stream import read_copy
from dbanon.stores.postgresql.dialect import to_psycopg
from dbanon.stores.postgresql.errors import translate_errors

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy

# Key in ``Connection.info`` for the ``Backend`` of a connection.
BACKEND_KEY = "dbanon_backend"


class PsycopgConnection(PostgresqlConnection):
    """Executes SQL in one transaction through psycopg, and copies rows in bulk.

    Parameters
    ----------
    alembic_connection : SQLAlchemy's connection, which Alembic uses.
    """

    def __init__(
        self, alembic_connection: sqlalchemy.Connection, on_sql: OnSql | None = None
    ) -> None:
        super().__init__(on_sql)
        self.alembic_connection = alembic_connection
        driver = alembic_connection.connection.driver_connection
        assert driver is not None
        self._driver: psycopg.Connection[SqlRow] = driver
        # The caller's engine may use another encoding.
        self.run("SET LOCAL client_encoding = 'UTF8'")
        # Set all other settings of the transaction.
        self.begin()

    def read_search_path(self) -> list[str]:
        backend: Backend | None = self.alembic_connection.info.get(BACKEND_KEY)
        return super().read_search_path() if backend is None else backend.search_path

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        with self.cursor(sql, parameters):
            pass

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        with self.cursor(sql, parameters) as cursor:
            return cursor.fetchall()

    @contextmanager
    def cursor(
        self,
        sql: str,
        parameters: Sequence[object] = (),
        *,
        name: str = "",
        binary: bool = False,
    ) -> Iterator[psycopg.Cursor[SqlRow]]:
        """Open a cursor that has executed a statement.

        Parameters
        ----------
        name : the name of a cursor on the server, which sends rows as they are fetched; empty for
            one on the client.
        binary : whether the server sends values in PostgreSQL's binary format.
        """
        self.report(sql)
        with translate_errors(), self._driver.cursor(name=name, binary=binary) as cursor:
            if parameters:
                cursor.execute(to_psycopg(sql), parameters)
            else:
                cursor.execute(sql)
            yield cursor

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.run("SAVEPOINT dbanon")
        try:
            yield
        except DbanonError:
            self.run("ROLLBACK TO SAVEPOINT dbanon")
            self.run("RELEASE SAVEPOINT dbanon")
            raise
        self.run("RELEASE SAVEPOINT dbanon")

    def call(self, function: str, arguments: Sequence[str]) -> str:
        # Pass the arguments through a table that COPY fills: bind parameters could be logged. The
        # table has a row per argument.
        table = quote(statements.ARGUMENTS_TABLE)
        self.run("DROP TABLE IF EXISTS pg_temp." + table)
        self.run(
            statements.create_staging(
                statements.ARGUMENTS_TABLE,
                [("position", "integer"), ("argument", "jsonb")],
                self.dialect.staging_suffix,
            )
        )
        self.copy_rows(f"COPY {table} FROM STDIN", enumerate(arguments))
        subqueries = ", ".join(
            f"(SELECT argument FROM {table} WHERE position = {position})"
            for position in range(len(arguments))
        )
        return str(self.rows(f"SELECT {function}({subqueries})::text")[0][0])

    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        # COPY data is never logged, unlike bind parameters.
        self.copy_rows(f"COPY {relation.quoted} ({quote_list(columns)}) FROM STDIN", rows)

    @contextmanager
    def _open_copy(self, copy: str) -> Iterator[psycopg.Copy]:
        """Execute a COPY and yield its stream of data."""
        self.report(copy)
        with translate_errors(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            yield stream

    def copy_rows(self, copy: str, rows: Iterable[Sequence[object]]) -> None:
        """Execute a COPY … FROM STDIN with these rows of Python values."""
        with self._open_copy(copy) as stream:
            for row in rows:
                stream.write_row(row)

    def copy_bytes(self, copy: str, chunks: Iterable[bytes | memoryview]) -> None:
        """Execute a COPY … FROM STDIN with these bytes, in chunks of any size."""
        with self._open_copy(copy) as stream:
            for chunk in chunks:
                stream.write(chunk)

    def copy_in(self, table: RelationName, chunks: Iterable[bytes]) -> None:
        """Append rows to a table; they are CSV, in chunks of any size, in its order of columns."""
        self.copy_bytes(f"COPY {table.quoted} FROM STDIN (FORMAT csv)", chunks)

    def copy_chunks(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the rows of a COPY … TO STDOUT as bytes, uint8 (m,), without header and trailer.

        Parameters
        ----------
        chunk_rows : the number of rows to yield at a time.
        """
        with self._open_copy(query) as stream:
            yield from read_copy(stream, self._driver.pgconn, chunk_rows)

    def copy_out(self, query: str) -> Iterator[bytes]:
        """Yield the rows of a query as CSV in chunks of any size; NULL is an empty field."""
        with self._open_copy(f"COPY ({query}) TO STDOUT (FORMAT csv)") as stream:
            for chunk in stream:
                yield bytes(chunk)
