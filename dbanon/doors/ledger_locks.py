"""Exclusive locks on the ledger's tables for an administrator's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from dbanon.errors import InsufficientRights, InvalidParameter
from dbanon.ledger.postgresql import OWNER
from dbanon.stores.postgresql.errors import translate_errors
from dbanon.stores.postgresql.locks import lock_schema

_A_DAY = 86_400


class _Transaction:
    """Adapts a plain connection to the interface of the locking functions."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._executed(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._executed(sql, parameters).fetchall()
        return rows

    def savepoint(self) -> AbstractContextManager[Any]:
        savepoint: AbstractContextManager[Any] = self._connection.transaction()
        return savepoint

    def _executed(self, sql: str, parameters: Sequence[Any]) -> Any:
        with translate_errors():
            return self._connection.execute(sql.replace("?", "%s"), parameters or None)


def lock_ledger(connection: Any, seconds: float) -> None:
    """Lock the ledger's tables for this transaction, without letting a queue build up."""
    require_seconds(seconds)
    transaction = _Transaction(connection)
    try:
        with transaction.savepoint():
            borrowed = needs_owner(connection)
            if borrowed:
                transaction.run(f"GRANT {OWNER} TO CURRENT_USER")
            lock_schema(transaction, "dbanon", seconds)
            if borrowed:
                transaction.run(f"REVOKE {OWNER} FROM CURRENT_USER")
    except InsufficientRights:
        # The following statements report the ledger's owner.
        transaction.run(f"SET LOCAL lock_timeout = {int(seconds * 1000)}")


def require_seconds(lock_timeout: float) -> None:
    """Check a lock timeout."""
    if not 0 < lock_timeout <= _A_DAY:
        raise InvalidParameter("lock_timeout must be a number of seconds above 0, up to 86400.")


def needs_owner(connection: Any) -> bool:
    """True for an administrator without superuser rights, if another role owns the ledger."""
    query = "SELECT 1 FROM pg_roles WHERE rolname = current_user AND NOT rolsuper"
    return bool(
        rows_of(connection, query)
        and rows_of(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", OWNER)
    )


def rows_of(connection: Any, query: str, *parameters: str) -> list[Any]:
    rows: list[Any] = connection.execute(query, parameters or None).fetchall()
    return rows
