"""The ledger of a PostgreSQL database, as SQL functions see it."""

from __future__ import annotations

from dbanon.errors import LedgerMissing
from dbanon.ledger.tables import LEDGER_REVISION
from dbanon.stores.postgresql.ledger import PostgresqlLedger


class PlpyLedger(PostgresqlLedger):
    """The ledger of a PostgreSQL database, which SQL functions check but never migrate."""

    def ensure_current(self) -> None:
        versions = self._connection.rows("SELECT version_num FROM dbanon.alembic_version")
        if versions != [(LEDGER_REVISION,)]:
            raise LedgerMissing(
                "The version of this database's ledger differs from that of dbanon's functions.",
                hint="A superuser runs: dbanon upgrade URL",
            )
