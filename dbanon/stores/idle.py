"""Connections of the caller's: a run has a transaction of its own, and ends none of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbanon.errors import InvalidParameter

if TYPE_CHECKING:
    from sqlalchemy import Engine


def transaction_open(of: str) -> InvalidParameter:
    """The error for a connection that has a transaction open, which a run would end with its own.

    Parameters
    ----------
    of : the database, as in ``SQLite``.
    """
    # sqlite3 calls it autocommit, with False for one that is begun again by itself.
    always = "; a connection with autocommit off has one open always" if of == "SQLite" else ""
    return InvalidParameter(
        f"The {of} connection has a transaction open, and a run has one of its own.",
        hint=f"Commit or roll back first{always}.",
    )


def shared_driver(engine: Engine) -> Any | None:
    """The driver's connection that all who use an engine share; None where each has its own.

    It is looked at without being taken from the pool: what is given back there is rolled back.
    """
    from sqlalchemy import StaticPool

    if not isinstance(engine.pool, StaticPool):
        return None
    # Its connection is made when it is first asked for, and has no transaction before.
    record = vars(engine.pool).get("connection")
    return None if record is None else record.driver_connection
