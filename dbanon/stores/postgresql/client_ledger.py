"""The ledger of a PostgreSQL database, which a client creates and migrates."""

from __future__ import annotations

from functools import partial

from dbanon.errors import OutputExists, SourceChanged
from dbanon.ledger.postgresql import REVOKE_INTERNAL, REVOKE_PERSONS
from dbanon.ledger.tables import LEDGER_SCHEMA, TABLES
from dbanon.sessions.names import quote
from dbanon.stores.postgresql import rights
from dbanon.stores.postgresql.client_connection import PsycopgConnection
from dbanon.stores.postgresql.errors import translate_errors
from dbanon.stores.postgresql.ledger import PostgresqlLedger
from dbanon.stores.postgresql.locks import lock_schema


class PsycopgLedger(PostgresqlLedger):
    """The ledger of a session through psycopg, which Alembic migrates."""

    _connection: PsycopgConnection

    def ensure_current(self) -> None:
        # Check first: even reading the ledger's version could run another role's code.
        self.require_trusted()
        # Usually the ledger is current: return before taking the lock.
        if self.is_current():
            return
        from dbanon.ledger.migrate import create_or_migrate

        # If two sessions create the ledger at the same time, the second one waits here.
        self._connection.run("SELECT pg_advisory_xact_lock(hashtextextended('dbanon ledger', 0))")
        try:
            # Lock all tables in short attempts: a waiting migration would block all later readers.
            lock_schema(self._connection, LEDGER_SCHEMA, self._connection.lock_seconds)
            with translate_errors():
                create_or_migrate(
                    self,
                    self._connection.alembic_connection,
                    partial(rights.make_schema, self._connection, LEDGER_SCHEMA),
                    self._revoke_statements(),
                )
        except OutputExists:
            # The other session committed after this snapshot, which still shows no ledger.
            raise SourceChanged(
                "Another session has created the ledger in the meantime; nothing was published.",
                hint="Try again.",
            ) from None

    def _revoke_statements(self) -> list[str]:
        """Return statements that revoke all rights on a new ledger from everyone but its owner."""
        tables = ", ".join(self.table(table).quoted for table in TABLES)
        return [
            f"REVOKE ALL ON SCHEMA {quote(LEDGER_SCHEMA)} FROM PUBLIC",
            f"REVOKE ALL ON {tables} FROM PUBLIC",
            REVOKE_INTERNAL,
            REVOKE_PERSONS,
        ]
