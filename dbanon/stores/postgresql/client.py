"""PostgreSQL through a client: SQLAlchemy for connections, psycopg for bulk data.

A session is one REPEATABLE READ transaction, so reading, joining and recounting see one snapshot.
The *locator* of a source has the SQL and types of the key that identifies its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute
from dbanon.data.types import SqlRow
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import OnSql, Relation, ReleasedBatch, prepend_class_and_position
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.postgresql import arrays, packed_rows
from dbanon.stores.postgresql import dialect as postgresql_dialect
from dbanon.stores.postgresql.chain_dialect import PostgresqlChainArrays, PostgresqlChainDialect
from dbanon.stores.postgresql.client_catalog import PsycopgCatalog
from dbanon.stores.postgresql.client_connection import PsycopgConnection
from dbanon.stores.postgresql.client_ledger import PsycopgLedger
from dbanon.stores.postgresql.client_passthrough import PostgresqlPassthrough
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.publication import PsycopgPublication
from dbanon.stores.postgresql.session import PostgresqlSession

if TYPE_CHECKING:
    import sqlalchemy


class PsycopgSession(PostgresqlSession):
    """One transaction through psycopg.

    Parameters
    ----------
    alembic_connection : SQLAlchemy's connection.
    open_second_connection : opens a connection with a new transaction; None if that is impossible.
    """

    connection: PsycopgConnection
    catalog: PsycopgCatalog
    ledger: PsycopgLedger

    def __init__(
        self,
        alembic_connection: sqlalchemy.Connection,
        on_sql: OnSql | None = None,
        open_second_connection: Callable[[], AbstractContextManager[PostgresqlConnection]]
        | None = None,
    ) -> None:
        connection = PsycopgConnection(alembic_connection, on_sql)
        catalog = PsycopgCatalog(connection, open_second_connection)
        super().__init__(
            connection,
            catalog=catalog,
            publication=PsycopgPublication(
                connection, catalog.list_columns, catalog.recheck_sources
            ),
            ledger=PsycopgLedger(connection, catalog.find_existing),
            chain_dialect=PostgresqlChainDialect(connection),
            passthrough=PostgresqlPassthrough(connection, catalog.oid_of),
        )

    @property
    def chain_arrays(self) -> PostgresqlChainArrays:
        """The arrays that chains exchange with the server."""
        return PostgresqlChainArrays(self.connection, self)

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        locator = source.required_locator
        from_clause = (
            f"{source.from_clause}{self.dialect.value_joins(attributes)}{source.where_clause}"
        )
        query = packed_rows.build_copy_query(
            locator.expressions, locator.types, attributes, [], from_clause
        )
        for buffer in self.connection.copy_chunks(query, chunk_rows):
            # Retained columns are not read here, so there are no bytes to pass through.
            chunk, _, _ = packed_rows.unpack_copy_rows(
                buffer, locator.types, attributes, n_passthrough=0
            )
            yield chunk

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        locator = source.required_locator
        values = ", ".join(
            postgresql_dialect.as_portable(source.attribute(name)) for name in columns
        )
        keys = ", ".join(postgresql_dialect.keys_as_integers(locator))
        query = f"SELECT {keys}, {values} FROM {source.from_clause}{source.where_clause}"
        n_keys = len(locator.types)
        self.catalog.recheck_sources()
        with self.connection.cursor(query, name="dbanon_rows") as cursor:
            while rows := cursor.fetchmany(chunk_rows):
                yield (
                    np.array([row[:n_keys] for row in rows], np.int64),
                    [row[n_keys:] for row in rows],
                )

    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        with self.connection.cursor(query, name="dbanon_figures", binary=True) as cursor:
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
        columns: list[tuple[str, str, AnyArray]] = [
            (f"key{i}", key_type, keys[:, i]) for i, key_type in enumerate(types)
        ]
        columns += [("class", "integer", classes), ("position", "integer", positions)]
        self._load(statements.LABELS, columns)

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        staging_columns: list[tuple[str, str, AnyArray]] = [
            ("class", "integer", np.arange(n_classes, dtype=np.int32)),
            *postgresql_dialect.staged_columns(columns),
        ]
        self._load(statements.CLASSES, staging_columns)

    def load_arrays(self, release_arrays: arrays.ReleaseArrays) -> None:
        for statement in arrays.create_statements(release_arrays, self.dialect.staging_suffix):
            self.run(statement)
        self._copy_binary(arrays.RELEASE_ARRAYS, arrays.encode_copy_row(release_arrays))
        self._arrays = release_arrays.without_class_positions()

    def array_sql(self, index: int, column: arrays.ArrayColumn) -> str:
        return arrays.array_query(column)

    def load_rows(self, attributes: Sequence[Attribute], batches: Iterable[ReleasedBatch]) -> None:
        columns = [("class", "integer"), ("position", "integer")]
        columns += [
            (statements.retained_column_name(i), self.dialect.type_of(a))
            for i, a in enumerate(attributes)
        ]
        self.run(statements.create_staging(statements.ROWS, columns, self.dialect.staging_suffix))
        self.connection.copy_rows(
            f"COPY {quote(statements.ROWS)} FROM STDIN",
            prepend_class_and_position(batches),
        )
        self.analyze_staging(statements.ROWS)

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        # A chain whose source is a file reads the rows of this file from a staging table.
        table = quote(statements.FILE_ROWS)
        self.run(f"DROP TABLE IF EXISTS pg_temp.{table}")
        self.run(
            statements.create_staging(statements.FILE_ROWS, columns, self.dialect.staging_suffix)
        )
        [(oid,)] = self.rows("SELECT CAST(CAST(? AS regclass) AS oid)", (f"pg_temp.{table}",))
        return self.catalog.describe_staging_table(
            replace(name, staging_table=statements.FILE_ROWS), int(oid)
        )

    def fill_file_rows(
        self, attributes: Sequence[Attribute], batches: Iterable[Sequence[SqlRow]]
    ) -> None:
        rows = (row for batch in batches for row in batch)
        self.connection.copy_rows(f"COPY {quote(statements.FILE_ROWS)} FROM STDIN", rows)
        self.analyze_staging(statements.FILE_ROWS)

    def analyze_staging(self, table: str) -> None:
        """Update planner statistics; autovacuum never analyzes temporary tables."""
        self.run(f"ANALYZE {quote(table)}")

    def _load(self, table: str, columns: Sequence[tuple[str, str, AnyArray]]) -> None:
        """Create and fill a staging table.

        Parameters
        ----------
        columns : name, SQL type and values, (n,), of each column. If any column is text, all are
            sent in COPY's text format.
        """
        column_types = [(name, sql_type) for name, sql_type, _ in columns]
        self.run(statements.create_staging(table, column_types, self.dialect.staging_suffix))
        if any(sql_type == "text" for _, sql_type in column_types):
            value_lists = (values.tolist() for _, _, values in columns)
            self.connection.copy_rows(
                f"COPY {quote(table)} FROM STDIN", zip(*value_lists, strict=True)
            )
        else:
            self._copy_binary(table, packed_rows.encode_copy(columns))
        self.analyze_staging(table)

    def _copy_binary(self, table: str, chunks: Iterable[bytes]) -> None:
        self.connection.copy_bytes(f"COPY {quote(table)} FROM STDIN (FORMAT binary)", chunks)
