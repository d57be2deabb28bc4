"""The ledger of a SQLite database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dbanon.ledger.tables import ledger_is_current
from dbanon.sessions.names import RelationName
from dbanon.stores.file_ledger import FileLedger
from dbanon.stores.sqlite.connection import SqliteConnection
from dbanon.stores.sqlite.errors import translate_errors


class SqliteLedger(FileLedger):
    """The ledger of a SQLite database, which Alembic migrates."""

    _connection: SqliteConnection

    column_types: ClassVar[Mapping[str, str]] = {
        "uuid": "TEXT",
        "timestamp": "TEXT",
        "text": "TEXT",
        "json": "TEXT",
        "integer": "INTEGER",
        "bigint": "BIGINT",
        "double": "REAL",
        "bytes": "BLOB",
        "amount": "NUMERIC",
    }

    def table(self, name: str) -> RelationName:
        return RelationName(None, f"dbanon_{name}")

    def ensure_current(self) -> None:
        if ledger_is_current(self._connection, self):
            return
        from dbanon.ledger.migrate import create_or_migrate

        with translate_errors():
            create_or_migrate(self, self._connection.alembic_connection)

    def to_timestamp(self, text: str) -> str:
        # The ledger stores timestamps as text, because SQLite has no type for them.
        return text
