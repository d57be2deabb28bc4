"""The ledger of a DuckDB database."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from dbanon.ledger.tables import LEDGER_SCHEMA, ledger_ddl
from dbanon.sessions.base import ExistingRelation
from dbanon.sessions.names import RelationName
from dbanon.stores.duckdb.connection import DuckdbConnection
from dbanon.stores.file_ledger import FileLedger


class DuckdbLedger(FileLedger):
    """The ledger of a DuckDB database, which ``ledger_ddl`` migrates.

    Parameters
    ----------
    make_schema : creates the schema of a relation if it is missing.
    """

    column_types: ClassVar[Mapping[str, str]] = {
        "uuid": "UUID",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "text": "VARCHAR",
        "json": "VARCHAR",
        "integer": "INTEGER",
        "bigint": "BIGINT",
        "double": "DOUBLE",
        "bytes": "BLOB",
        "amount": "DECIMAL(18,9)",
    }

    _connection: DuckdbConnection

    def __init__(
        self,
        connection: DuckdbConnection,
        find_existing: Callable[[RelationName], ExistingRelation | None],
        make_schema: Callable[[RelationName], None],
    ) -> None:
        super().__init__(connection, find_existing)
        self._make_schema = make_schema
        # A name in the ledger's schema, from which the names of the ledger's tables are built.
        self._prefix: RelationName | None = None

    def table(self, name: str) -> RelationName:
        if self._prefix is None:
            self._prefix = self._connection.qualify_name(LEDGER_SCHEMA, "")
        return self._prefix.sibling(name)

    def ensure_current(self) -> None:
        # Only the schema of the name is used.
        self._make_schema(self.table(""))
        existing_columns: dict[str, list[str]] = {}
        for table, column in self._connection.rows(
            "SELECT table_name, column_name FROM duckdb_columns()"
            " WHERE database_name = current_database() AND schema_name = ?",
            (LEDGER_SCHEMA,),
        ):
            existing_columns.setdefault(table, []).append(column)
        for statement in ledger_ddl(self.column_types, self.table, existing_columns):
            self._connection.run(statement)
