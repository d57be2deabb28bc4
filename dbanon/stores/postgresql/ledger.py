"""The ledger of a PostgreSQL database, shared by the client and the backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from dbanon.data.words import json_text
from dbanon.ledger import postgresql as postgresql_ledger
from dbanon.ledger.tables import LEDGER_SCHEMA, ledger_is_current
from dbanon.sessions.base import ExistingRelation
from dbanon.sessions.ledger import Ledger
from dbanon.sessions.names import RelationName
from dbanon.stores.postgresql import rights
from dbanon.stores.postgresql.connection import PostgresqlConnection


class PostgresqlLedger(Ledger):
    """The ledger of a PostgreSQL database, whose tables belong to a role."""

    column_types: ClassVar[Mapping[str, str]] = postgresql_ledger.LEDGER_TYPES
    _connection: PostgresqlConnection

    def __init__(
        self,
        connection: PostgresqlConnection,
        find_existing: Callable[[RelationName], ExistingRelation | None],
    ) -> None:
        super().__init__(connection, find_existing)
        self._is_trusted = False

    def table(self, name: str) -> RelationName:
        return RelationName(LEDGER_SCHEMA, name)

    def is_current(self) -> bool:
        """Return True if the ledger has the version of this package."""
        return ledger_is_current(self._connection, self)

    def update_oids(self) -> None:
        from dbanon.ledger.postgresql_releases import RECORD_OIDS
        from dbanon.ledger.postgresql_rules import build_rule_oids_update

        # Complete entries of earlier versions, and give rules the oids of the tables that they
        # apply to.
        self._connection.run(RECORD_OIDS)
        self._connection.run(build_rule_oids_update())

    def require_rights(self) -> None:
        self.require_trusted()
        rights.require_ledger_rights(self._connection.look_up)

    def require_trusted(self) -> None:
        # One check is enough: untrusted roles cannot add code to a trusted ledger.
        if not self._is_trusted:
            rights.require_trusted_ledger(self._connection.look_up)
            self._is_trusted = True

    def must_write_directly(self) -> bool:
        return not self._connection.rows(postgresql_ledger.FIND_RELEASE_WRITER)

    def record_release_as_owner(
        self,
        row: Mapping[str, object],
        columns: Sequence[Mapping[str, object]],
        run: Mapping[str, object],
    ) -> str | None:
        # Without dbanon's functions, nothing can be written with the rights of the ledger's owner.
        if not self._connection.look_up(postgresql_ledger.FIND_RELEASE_WRITER):
            return None
        # The function adds the release id to the rows of columns.
        column_rows = [
            {key: column[key] for key in column if key != "release_id"} for column in columns
        ]
        arguments = postgresql_ledger.entry_arguments(row), column_rows, run
        entry = self._connection.call("dbanon._record_release", list(map(json_text, arguments)))
        return str(json.loads(entry)["created_at"])

    def record_run_as_owner(self, run: Mapping[str, object]) -> bool:
        if not self._connection.look_up(postgresql_ledger.FIND_RELEASE_WRITER):
            return False
        self._connection.call("dbanon._record_run", [json_text(run)])
        return True

    def spend_budget_as_owner(self, budget: str, epsilon: str, spending_id: str) -> bool | None:
        # Without dbanon's functions, nothing can be written with the rights of the ledger's owner.
        if not self._connection.rows(postgresql_ledger.FIND_SPENDER):
            return None
        call = "SELECT dbanon._spend(?, CAST(? AS numeric), CAST(? AS uuid))::text"
        # The function returns NULL if the budget is closed, or too little of it is left.
        [(spent,)] = self._connection.rows(call, (budget, epsilon, spending_id))
        return spent is not None
