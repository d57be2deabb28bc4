"""PostgreSQL through a client: SQLAlchemy for connections, psycopg for bulk data.

A session is one REPEATABLE READ transaction, so reading, joining and recounting see one snapshot.
The *locator* of a source has the SQL and types of the key that identifies its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute
from dbanon.errors import (
    DbanonError,
)
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import OnSql, Relation, prepend_class_and_position
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.stores.postgresql import arrays, foreign, packed_rows
from dbanon.stores.postgresql import dialect as postgresql_dialect
from dbanon.stores.postgresql.chain_dialect import PostgresqlChainArrays, PostgresqlChainDialect
from dbanon.stores.postgresql.client_ledger import PsycopgLedger
from dbanon.stores.postgresql.client_passthrough import PostgresqlPassthrough
from dbanon.stores.postgresql.connecting import Backend
from dbanon.stores.postgresql.copy_stream import read_copy
from dbanon.stores.postgresql.errors import translate_errors
from dbanon.stores.postgresql.publication import ClientPublication
from dbanon.stores.postgresql.relation_catalog import PostgresqlCatalog
from dbanon.stores.postgresql.session import PostgresqlSession

if TYPE_CHECKING:
    from sqlalchemy import Connection


# Key in ``Connection.info`` for the ``Backend`` of a connection.
BACKEND_KEY = "dbanon_backend"


class PsycopgSession(PostgresqlSession):
    """One transaction through psycopg.

    Parameters
    ----------
    open_second_session : opens a session with a new transaction; None if that is impossible.
    """

    def __init__(
        self,
        connection: Connection,
        on_sql: OnSql | None = None,
        open_second_session: Callable[[], AbstractContextManager[PsycopgSession]] | None = None,
    ) -> None:
        super().__init__(on_sql)
        self._connection, self._open_second_session = connection, open_second_session
        self._driver: Any = connection.connection.driver_connection
        self._catalog = PostgresqlCatalog(self, self.value_of_key)
        self._ledger = PsycopgLedger(self, self._catalog.find_existing, connection)
        # The caller's engine may use another encoding.
        self.run("SET LOCAL client_encoding = 'UTF8'")
        # Set all other settings of the transaction.
        self.begin()
        self._passthrough = PostgresqlPassthrough(self, self._catalog.oid_of)
        self._publication = ClientPublication(
            self, self.name_limit, self._catalog.list_columns, self._recheck_code_of_other_roles
        )

    @property
    def passthrough(self) -> PostgresqlPassthrough:
        """The retained columns that the client copies without parsing their values."""
        return self._passthrough

    @property
    def publication(self) -> ClientPublication:
        """The tables and views that this session writes and publishes."""
        return self._publication

    @property
    def chain_dialect(self) -> PostgresqlChainDialect:
        """The SQL and the settings with which PostgreSQL makes releases of chains."""
        return PostgresqlChainDialect(self)

    @property
    def chain_arrays(self) -> PostgresqlChainArrays:
        """The arrays that chains exchange with the server."""
        return PostgresqlChainArrays(self, self)

    @property
    def ledger(self) -> PsycopgLedger:
        """The ledger of the database."""
        return self._ledger

    @property
    def catalog(self) -> PostgresqlCatalog:
        """The catalog of the database: its relations, their owners, and the rights on them."""
        return self._catalog

    def read_search_path(self) -> list[str]:
        backend: Backend | None = self._connection.info.get(BACKEND_KEY)
        return super().read_search_path() if backend is None else backend.search_path

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self._cursor(sql, parameters):
            pass

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._cursor(sql, parameters) as cursor:
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    @contextmanager
    def _cursor(
        self, sql: str, parameters: Sequence[Any] = (), **cursor_options: Any
    ) -> Iterator[Any]:
        """Open a cursor that has executed a statement."""
        self.report_sql(sql)
        with translate_errors(), self._driver.cursor(**cursor_options) as cursor:
            if parameters:
                cursor.execute(postgresql_dialect.to_psycopg(sql), parameters)
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

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        locator = source.required_locator
        from_clause = f"{source.from_clause}{self.value_joins(attributes)}{source.where_clause}"
        query = packed_rows.build_copy_query(
            locator.expressions, locator.types, attributes, [], from_clause
        )
        for buffer in self.copy_chunks(query, chunk_rows):
            # Retained columns are not read here, so there are no bytes to pass through.
            chunk, _, _ = packed_rows.unpack_copy_rows(
                buffer, locator.types, attributes, n_passthrough=0
            )
            yield chunk

    def copy_chunks(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the rows of a COPY … TO STDOUT as bytes, uint8 (m,), without header and trailer.

        Parameters
        ----------
        chunk_rows : the number of rows to yield at a time.
        """
        with self._open_copy(query) as stream:
            yield from read_copy(stream, self._driver.pgconn, chunk_rows)

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        locator = source.required_locator
        values = ", ".join(
            postgresql_dialect.as_portable(source.attribute(name)) for name in columns
        )
        keys = ", ".join(postgresql_dialect.keys_as_integers(locator))
        query = f"SELECT {keys}, {values} FROM {source.from_clause}{source.where_clause}"
        n_keys = len(locator.types)
        self._recheck_code_of_other_roles()
        with self._cursor(query, name="dbanon_rows") as cursor:
            cursor.itersize = chunk_rows
            while rows := cursor.fetchmany(chunk_rows):
                yield (
                    np.array([row[:n_keys] for row in rows], np.int64),
                    [row[n_keys:] for row in rows],
                )

    def _recheck_code_of_other_roles(self) -> None:
        """Check that no other role has added code to a source since it was first checked.

        Call this before reading sources again: this transaction's snapshot does not show such code,
        but the planner would run it.
        """
        # A source of a trusted owner without any code needs no second look: no other role can have
        # added code to it.
        oids = [
            oid
            for oid in self.catalog.source_oids
            if not self.catalog.has_no_attached_code(oid)
            or self.rows(foreign.other_owner_query(f"{int(oid)}::oid")) == [(True,)]
        ]
        if self._open_second_session is not None and oids:
            with self._open_second_session() as second_session:
                for oid in oids:
                    second_session.catalog.require_no_foreign_code(oid)

    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        with self._cursor(query, name="dbanon_figures", binary=True) as cursor:
            cursor.itersize = chunk_rows
            while rows := cursor.fetchmany(chunk_rows):
                yield np.array(rows, np.float64)

    # -- staging ----------------------------------------------------------------------------------

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        columns: list[tuple[str, str, NDArray[Any]]] = [
            (f"key{i}", key_type, keys[:, i]) for i, key_type in enumerate(types)
        ]
        columns += [("class", "integer", classes), ("position", "integer", positions)]
        self._load(statements.LABELS, columns)

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        staging_columns: list[tuple[str, str, NDArray[Any]]] = [
            ("class", "integer", np.arange(n_classes, dtype=np.int32)),
            *postgresql_dialect.staged_columns(columns),
        ]
        self._load(statements.CLASSES, staging_columns)

    def load_arrays(self, release_arrays: arrays.ReleaseArrays) -> None:
        for statement in arrays.create_statements(release_arrays, self.staging_suffix):
            self.run(statement)
        self._copy_binary(arrays.RELEASE_ARRAYS, arrays.encode_copy_row(release_arrays))
        self._arrays = release_arrays.without_class_positions()

    def array_sql(self, index: int, column: arrays.ArrayColumn) -> str:
        return arrays.array_query(column)

    def load_rows(
        self, attributes: Sequence[Attribute], batches: Iterable[tuple[Any, ...]]
    ) -> None:
        columns = [("class", "integer"), ("position", "integer")]
        columns += [
            (statements.retained_column_name(i), postgresql_dialect.type_of(a))
            for i, a in enumerate(attributes)
        ]
        self.run(statements.create_staging(statements.ROWS, columns, self.staging_suffix))
        self._copy_rows(
            f"COPY {quote(statements.ROWS)} FROM STDIN",
            prepend_class_and_position(batches),
        )
        self.analyze_staging(statements.ROWS)

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        # A chain whose source is a file reads the rows of this file from a staging table.
        table = quote(statements.FILE_ROWS)
        self.run(f"DROP TABLE IF EXISTS pg_temp.{table}")
        self.run(statements.create_staging(statements.FILE_ROWS, columns, self.staging_suffix))
        [(oid,)] = self.rows("SELECT CAST(CAST(? AS regclass) AS oid)", (f"pg_temp.{table}",))
        return self.catalog.describe_staging_table(
            replace(name, staging_table=statements.FILE_ROWS), int(oid)
        )

    def fill_file_rows(
        self, attributes: Sequence[Attribute], batches: Iterable[Sequence[tuple[Any, ...]]]
    ) -> None:
        rows = (row for batch in batches for row in batch)
        self._copy_rows(f"COPY {quote(statements.FILE_ROWS)} FROM STDIN", rows)
        self.analyze_staging(statements.FILE_ROWS)

    def analyze_staging(self, table: str) -> None:
        """Update planner statistics; autovacuum never analyzes temporary tables."""
        self.run(f"ANALYZE {quote(table)}")

    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        # COPY data is never logged, unlike bind parameters.
        self._copy_rows(f"COPY {relation.quoted} ({quote_list(columns)}) FROM STDIN", rows)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        # Pass the arguments through a table that COPY fills: bind parameters could be logged. The
        # table has a row per argument.
        table = quote(statements.ARRAYS_TABLE)
        self.run("DROP TABLE IF EXISTS pg_temp." + table)
        self.run(
            statements.create_staging(
                statements.ARRAYS_TABLE,
                [("position", "integer"), ("argument", "jsonb")],
                self.staging_suffix,
            )
        )
        self._copy_rows(f"COPY {table} FROM STDIN", enumerate(arguments))
        subqueries = ", ".join(
            f"(SELECT argument FROM {table} WHERE position = {position})"
            for position in range(len(arguments))
        )
        return str(self.rows(f"SELECT {function}({subqueries})::text")[0][0])

    @contextmanager
    def _open_copy(self, copy: str) -> Iterator[Any]:
        """Execute a COPY and yield its stream of data."""
        self.report_sql(copy)
        with translate_errors(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            yield stream

    def _copy_rows(self, copy: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._open_copy(copy) as stream:
            for row in rows:
                stream.write_row(row)

    def copy_out(self, query: str) -> Iterator[bytes]:
        """Yield the rows of a query as CSV in chunks of any size; NULL is an empty field."""
        with self._open_copy(f"COPY ({query}) TO STDOUT (FORMAT csv)") as stream:
            for chunk in stream:
                yield bytes(chunk)

    def copy_in(self, table: RelationName, chunks: Iterable[bytes]) -> None:
        """Append rows to a table; they are CSV, in chunks of any size, in its order of columns."""
        self.copy_bytes(f"COPY {table.quoted} FROM STDIN (FORMAT csv)", chunks)

    def _load(self, table: str, columns: Sequence[tuple[str, str, NDArray[Any]]]) -> None:
        """Create and fill a staging table.

        Parameters
        ----------
        columns : name, SQL type and values, (n,), of each column. If any column is text, all are
            sent in COPY's text format.
        """
        column_types = [(name, sql_type) for name, sql_type, _ in columns]
        self.run(statements.create_staging(table, column_types, self.staging_suffix))
        if any(sql_type == "text" for _, sql_type in column_types):
            value_lists = (values.tolist() for _, _, values in columns)
            self._copy_rows(f"COPY {quote(table)} FROM STDIN", zip(*value_lists, strict=True))
        else:
            self._copy_binary(table, packed_rows.encode_copy(columns))
        self.analyze_staging(table)

    def _copy_binary(self, table: str, chunks: Iterable[bytes]) -> None:
        self.copy_bytes(f"COPY {quote(table)} FROM STDIN (FORMAT binary)", chunks)

    def copy_bytes(self, copy: str, chunks: Iterable[bytes | memoryview]) -> None:
        """Execute a COPY … FROM STDIN with these bytes, in chunks of any size."""
        with self._open_copy(copy) as stream:
            for chunk in chunks:
                stream.write(chunk)
