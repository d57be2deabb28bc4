"""Execute SQL in a transaction on DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import duckdb

from dbanon.data.types import SqlRow
from dbanon.sessions.base import OnSql
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName
from dbanon.stores.duckdb import dialect
from dbanon.stores.duckdb.dialect import DuckdbDialect
from dbanon.stores.duckdb.errors import translate_errors

if TYPE_CHECKING:
    import pyarrow as pa


class DuckdbConnection(Connection):
    """Executes SQL in one transaction on DuckDB.

    Parameters
    ----------
    driver : the connection of DuckDB's own client.
    """

    # Whether the driver's connection stays open after the transaction, as a caller's does. Closing
    # it drops temporary tables.
    stays_open = True

    def __init__(self, driver: duckdb.DuckDBPyConnection, on_sql: OnSql | None = None) -> None:
        super().__init__(DuckdbDialect(), on_sql)
        self.driver = driver
        # The reader of the query whose result is being read; None before the first.
        self._reader: pa.RecordBatchReader | None = None
        # The result of ``dialect.find_databases``.
        self._databases: tuple[str, frozenset[str]] | None = None

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        self.report(sql)
        with translate_errors():
            self.driver.execute(sql, list(parameters))

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        self.report(sql)
        with translate_errors():
            return self.driver.execute(sql, list(parameters)).fetchall()

    def arrays(self, sql: str) -> list[Any]:
        """Return the result of a query as one NumPy array per column, masked where NULL."""
        self.report(sql)
        with translate_errors():
            return list(self.driver.sql(sql).fetchnumpy().values())

    def batches(self, sql: str, chunk_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the result of a query in batches of up to ``chunk_rows`` rows."""
        self.report(sql)
        with translate_errors():
            self._reader = self.driver.sql(sql).to_arrow_reader(chunk_rows)
            yield from self._reader

    def stop_reading(self) -> None:
        """Close the current Arrow reader: until then, the database file would stay open."""
        if self._reader is not None:
            self._reader.close()

    def qualify_name(self, schema: str, name: str) -> RelationName:
        """Return the full name of a relation, from its schema and name."""
        with translate_errors():
            if self._databases is None:
                self._databases = dialect.find_databases(self.driver)
            return dialect.qualified_name(self.driver, self._databases, schema, name)
