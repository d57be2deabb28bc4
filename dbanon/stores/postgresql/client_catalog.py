"""The catalog of a PostgreSQL database, as a client sees it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from dbanon.stores.postgresql import foreign
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.relation_catalog import PostgresqlCatalog


class PsycopgCatalog(PostgresqlCatalog):
    """The catalog of a PostgreSQL database, which a client can read in a second transaction, too.

    Parameters
    ----------
    open_second_connection : opens a connection with a new transaction; None if that is impossible.
    """

    def __init__(
        self,
        connection: PostgresqlConnection,
        open_second_connection: Callable[[], AbstractContextManager[PostgresqlConnection]] | None,
    ) -> None:
        super().__init__(connection)
        self._open_second_connection = open_second_connection

    def recheck_sources(self) -> None:
        """Check that no other role has added code to a source since it was first checked.

        Call this before reading sources again: this transaction's snapshot does not show such code,
        but the planner would run it.
        """
        # A source of a trusted owner without any code needs no second look: no other role can have
        # added code to it.
        oids = [
            oid
            for oid in self.source_oids
            if not self.has_no_attached_code(oid)
            or self._connection.rows(foreign.other_owner_query(f"{int(oid)}::oid")) == [(True,)]
        ]
        if self._open_second_connection is not None and oids:
            with self._open_second_connection() as connection:
                catalog = PostgresqlCatalog(connection)
                for oid in oids:
                    catalog.require_no_foreign_code(oid)
