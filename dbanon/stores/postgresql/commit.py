"""COMMIT, and what became of it when the server's answer does not arrive.

Until COMMIT is sent, a lost connection means that nothing was published. Afterwards only the server
knows. It is asked on a new connection: by the ledger, which has the release or not, and by the
transaction's number. A database in this process (DuckDB, SQLite) gives its answer or dies with us.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dbanon.errors import CommitConfirmed, ConnectionLost, DbanonError, OutcomeUnknown, warn_caller
from dbanon.sessions.ending import CUT, LEAST, OVER, ending
from dbanon.stores.postgresql.connecting import unwatch, watch
from dbanon.stores.postgresql.errors import translated
from dbanon.stores.postgresql.settings import PINNED

if TYPE_CHECKING:
    from sqlalchemy import Connection

# How long the server is asked, and how long a transaction may go on until its backend is ended.
SECONDS = 15.0
PATIENCE = 3.0
HURRY = 0.3
_PAUSE = 0.2

_NUMBER = "SELECT pg_catalog.pg_current_xact_id_if_assigned()::text"
_LEDGER = "SELECT pg_catalog.to_regclass('dbanon.release') IS NOT NULL"
_PUBLISHED = "SELECT 1 FROM dbanon.release WHERE release_id = %s::uuid"
# The same role's own backend, and only while it has this very transaction.
_END = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
    " WHERE backend_xid = %s::text::xid8::xid"
)

Connect = Callable[[], "Connection"]


def commit(
    connection: Connection, connect: Connect, release_id: str | None, done: Callable[[], None]
) -> None:
    """Commit; when the answer is lost, find out what happened.

    Parameters
    ----------
    connect : opens another connection to the same database.
    release_id : the release that is published, if any.
    done : called as soon as it is committed.

    Raises
    ------
    ConnectionLost : it was not committed.
    OutcomeUnknown : nobody could be asked.
    """
    [(number,)] = _rows(connection, _NUMBER)
    try:
        with translated():
            connection.commit()
        done()
        return
    except ConnectionLost as error:
        lost: BaseException = error
    except (KeyboardInterrupt, SystemExit) as error:
        lost = error
    if number is None:
        # It wrote nothing.
        raise lost
    # The server ends a transaction whose connection it sees closed.
    connection.invalidate()
    committed: bool | None = None
    # Who is told to end once more while the server is asked does not know either.
    with suppress(KeyboardInterrupt, SystemExit):
        committed = _settled(connect, str(number), release_id)
    if committed is False:
        raise lost
    if committed is None:
        raise _unknown(str(number), release_id)
    done()
    warn_caller(
        CommitConfirmed(
            "The connection to the database was lost while the transaction was committed. The"
            " database was asked: it was committed, and all is as it should be."
        )
    )


def _settled(connect: Connect, number: str, release_id: str | None) -> bool | None:
    """True when it was committed, False when it never will be, None when that is not known."""
    started = time.monotonic()
    here = ending()
    with here.at_most(SECONDS + LEAST):
        while True:
            spent = time.monotonic() - started
            # Who was told to end has less time to ask.
            patience, most = (HURRY, OVER - CUT) if here.told else (PATIENCE, SECONDS)
            try:
                with closing(connect()) as connection, _watched(connection):
                    found = _outcome(connection, number, release_id, end=spent > patience)
                if found in ("committed", "aborted"):
                    return found == "committed"
                if found is None:
                    return None
            except DbanonError:
                # Not reachable, or not yet again.
                pass
            if spent > most:
                return None
            time.sleep(_PAUSE)


@contextmanager
def _watched(connection: Connection) -> Iterator[None]:
    watch(_driver(connection))
    try:
        yield
    finally:
        if unwatch(_driver(connection)):
            # One of a pool's would be handed out again.
            connection.invalidate()


def _outcome(
    connection: Connection, number: str, release_id: str | None, *, end: bool
) -> str | None:
    """``committed``, ``aborted`` or ``in progress``; None when the server cannot know.

    After a failover another server answers, whose transactions have numbers of their own: that a
    release is there, the ledger alone tells.
    """
    # First the transaction, then the ledger: what has ended is there, or is not.
    [(status,)] = _rows(connection, "SELECT pg_catalog.pg_xact_status(%s::text::xid8)", number)
    if status == "in progress":
        if end:
            _rows(connection, _END, number)
        return "in progress"
    if release_id is None:
        return None if status is None else str(status)
    # Of its own, so that it sees what was committed until now.
    _driver(connection).rollback()
    # The transaction that was to publish it may have been the one to make the ledger.
    [(ledger,)] = _rows(connection, _LEDGER)
    if ledger and _rows(connection, _PUBLISHED, release_id):
        return "committed"
    return "aborted" if status == "aborted" else None


def _rows(connection: Connection, sql: str, *parameters: str) -> Sequence[tuple[Any, ...]]:
    with translated(), _driver(connection).cursor() as cursor:
        # The connection may be an engine's of the caller's own, with any search path.
        cursor.execute(PINNED)
        cursor.execute(sql, parameters or None)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _unknown(number: str, release_id: str | None) -> OutcomeUnknown:
    if release_id is None:
        return OutcomeUnknown(
            f"The connection was lost while transaction {number} was committed: it is not known"
            " whether its changes were made.",
            hint=f"Run: SELECT pg_xact_status('{number}'); it says committed or aborted.",
        )
    return OutcomeUnknown(
        f"The connection was lost while release {release_id} was committed: it is not known"
        " whether it was published.",
        hint="Look before you run it again. Run: SELECT created_at, output_schema, output_name,"
        f" superseded_at FROM dbanon.release WHERE release_id = '{release_id}'; one row: it was"
        " published; none: nothing was.",
    )
