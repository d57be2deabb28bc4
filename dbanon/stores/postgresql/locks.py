"""Locks that nobody shares, asked for without holding up readers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dbanon.errors import DatabaseBusy
from dbanon.sessions.base import Holder
from dbanon.sessions.names import RelationName

# How long a relation that is replaced or dropped is asked for; other locks have the same by
# lock_timeout.
LOCK_SECONDS = 60.0
# Who waits for a lock that nobody shares holds up all who come after. So each try is short, the
# first ones more than the last, and readers have the pauses between them.
_TRIES_MS = (50, 100, 200, 400, 800)
_PAUSES_MS = (100, 200, 400, 800, 1000)


class Undoing(Protocol):
    """A session that can undo its last statements alone."""

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Execute a statement."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a query: its rows."""

    def savepoint(self) -> AbstractContextManager[Any]:
        """What is done in the block is undone, alone, when it raises."""


# Who keeps relations of a schema from whoever wants one for himself.
_KEEPERS = """
    SELECT l.pid, max(a.usename::text),
           to_char(max(a.xact_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    FROM pg_locks AS l
    JOIN pg_class AS c ON c.oid = l.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
    LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.granted AND l.locktype = 'relation' AND l.pid <> pg_backend_pid()
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND n.nspname = ? AND c.relname = coalesce(?, c.relname)
    GROUP BY l.pid ORDER BY 3 NULLS LAST, 1 LIMIT 5"""


def run_patiently(
    session: Undoing,
    statements: Sequence[str],
    relation: RelationName | str,
    seconds: float = LOCK_SECONDS,
) -> None:
    """Run statements that want a relation for themselves, all of them in each try.

    Parameters
    ----------
    relation : it, or a schema whose tables are wanted.
    seconds : how long it is tried.

    Raises
    ------
    DatabaseBusy : readers kept it for all of ``seconds``.
    """
    started = time.monotonic()
    turn = 0
    while True:
        place = min(turn, len(_TRIES_MS) - 1)
        try:
            with session.savepoint():
                session.run(f"SET LOCAL lock_timeout = {_TRIES_MS[place]}")
                for statement in statements:
                    session.run(statement)
                session.run(f"SET LOCAL lock_timeout = {int(LOCK_SECONDS * 1000)}")
            return
        except DatabaseBusy as error:
            if time.monotonic() - started > seconds:
                raise _kept(session, relation, seconds, error.detail) from None
        # By a statement, so that a cancel is noticed.
        session.run(f"SELECT pg_sleep({_PAUSES_MS[place]} / 1000.0)")
        turn += 1


def lock_schema(session: Undoing, schema: str, seconds: float = LOCK_SECONDS) -> None:
    """Have all tables of a schema for this transaction alone, before anything of them is changed.

    Raises
    ------
    DatabaseBusy : others kept one for all of ``seconds``.
    InsufficientRights : one belongs to another role.
    """
    found = session.rows(
        "SELECT c.relname::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relkind = 'r' ORDER BY c.oid",
        (schema,),
    )
    if found:
        names = ", ".join(f"ONLY {RelationName(schema, name).quoted}" for (name,) in found)
        run_patiently(session, [f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"], schema, seconds)


def _kept(
    session: Undoing, relation: RelationName | str, seconds: float, detail: str | None
) -> DatabaseBusy:
    """The error that says who keeps a relation, as far as this role may know."""
    if isinstance(relation, RelationName):
        place: tuple[str | None, str | None] = relation.schema, relation.name
    else:
        place = relation, None
    keepers = [Holder(*found) for found in session.rows(_KEEPERS, place)]
    told = " It is held by " + "; ".join(map(str, keepers)) + "." if keepers else ""
    what = f"The schema {relation}" if place[1] is None else relation
    return DatabaseBusy(
        f"{what} was not to be had in {seconds:g} seconds: readers hold it in open"
        f" transactions.{told}",
        detail=detail,
        hint="End these transactions (pg_stat_activity shows them; pg_terminate_backend ends one),"
        " or try again.",
    )
