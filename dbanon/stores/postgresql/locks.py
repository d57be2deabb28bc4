"""Locks that nobody shares, asked for without holding up readers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dbanon.errors import DatabaseBusy
from dbanon.stores.names import RelationName

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

    def savepoint(self) -> AbstractContextManager[Any]:
        """What is done in the block is undone, alone, when it raises."""


def run_patiently(session: Undoing, statements: Sequence[str], relation: RelationName) -> None:
    """Run statements that want a relation for themselves, all of them in each try.

    Raises
    ------
    DatabaseBusy : readers kept it for all of ``LOCK_SECONDS``.
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
            if time.monotonic() - started > LOCK_SECONDS:
                raise DatabaseBusy(
                    f"{relation} was not to be had in {LOCK_SECONDS:g} seconds: readers hold it in"
                    " open transactions.",
                    detail=error.detail,
                    hint="End these transactions (pg_stat_activity shows them), or try again.",
                ) from None
        # By a statement, so that a cancel is noticed.
        session.run(f"SELECT pg_sleep({_PAUSES_MS[place]} / 1000.0)")
        turn += 1
