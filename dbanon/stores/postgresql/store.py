"""A PostgreSQL database through a client: how it is opened, and what ends a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event

from dbanon.errors import (
    CommitConfirmed,
    ConnectionLost,
    DatabaseUnreachable,
    DbanonError,
    InvalidParameter,
    OutcomeUnknown,
    warn_caller,
)
from dbanon.sessions.base import OnSql
from dbanon.sessions.connecting import connected
from dbanon.sessions.ending import CUT_SECONDS, END_SECONDS, MIN_SECONDS, ending
from dbanon.stores.interrupts import held_once_committed, shared_driver, transaction_open
from dbanon.stores.postgresql.client import BACKEND_KEY, PsycopgSession
from dbanon.stores.postgresql.connecting import (
    Backend,
    arguments_of,
    backend_of,
    end,
    redacted_url,
    unreachable,
    unwatch,
    watch,
)
from dbanon.stores.postgresql.errors import translate_errors
from dbanon.stores.postgresql.locks import hold_job
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
        with translate_errors():
            connection.commit()
        done()
        return
    except (ConnectionLost, KeyboardInterrupt, SystemExit) as error:
        # It leaves the list when it is raised: a frame must not hold what its traceback holds.
        errors: list[BaseException] = [error.with_traceback(None)]
    if number is None:
        # It wrote nothing.
        raise errors.pop()
    # The server ends a transaction whose connection it sees closed.
    connection.invalidate()
    committed: bool | None = None
    # Who is told to end once more while the server is asked does not know either.
    with suppress(KeyboardInterrupt, SystemExit):
        committed = _ask_outcome(connect, str(number), release_id)
    if committed is False:
        raise errors.pop()
    if committed is None:
        raise _outcome_unknown(str(number), release_id)
    done()
    warn_caller(
        CommitConfirmed(
            "The connection to the database was lost while the transaction was committed. The"
            " database was asked: it was committed, and all is as it should be."
        )
    )


def _ask_outcome(connect: Connect, number: str, release_id: str | None) -> bool | None:
    """True when it was committed, False when it never will be, None when that is not known."""
    started = time.monotonic()
    run_ending = ending()
    with run_ending.at_most(SECONDS + MIN_SECONDS):
        while True:
            spent = time.monotonic() - started
            # Who was told to end has less time to ask.
            patience, most = (
                (HURRY, END_SECONDS - CUT_SECONDS)
                if run_ending.asked_to_end
                else (PATIENCE, SECONDS)
            )
            try:
                with closing(connect()) as connection, _watched(connection):
                    outcome = _outcome(connection, number, release_id, end=spent > patience)
                if outcome in ("committed", "aborted"):
                    return outcome == "committed"
                if outcome is None:
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
    with translate_errors(), _driver(connection).cursor() as cursor:
        # The connection may be an engine's of the caller's own, with any search path.
        cursor.execute(PINNED)
        cursor.execute(sql, parameters or None)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _outcome_unknown(number: str, release_id: str | None) -> OutcomeUnknown:
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


# Where a connection of the caller's has a mark, for as long as it is used here.
_BORROWED = "dbanon_borrowed"


class PostgresqlStore:
    """A PostgreSQL database."""

    lasting = True

    def __init__(self, engine: Engine | URL, on_sql: OnSql | None = None) -> None:
        url = engine.url if isinstance(engine, Engine) else engine
        self._own = False
        if not isinstance(engine, Engine) or engine.driver != "psycopg":
            self._own = True
            engine = create_engine(
                url.set(drivername="postgresql+psycopg"),
                poolclass=NullPool,
                connect_args=dict(arguments_of(url)),
            )
            # SQLAlchemy asks a new connection things by unqualified names, between the two.
            event.listen(engine, "connect", _note_backend, insert=True)
            event.listen(engine, "connect", _release_connection)
        self._engine, self._url, self._on_sql = engine, url, on_sql

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return redacted_url(self._url)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """One REPEATABLE READ transaction; one that only reads when ``write`` is False."""
        _require_idle(shared_driver(self._engine))
        with held_once_committed() as hold, self._connected("REPEATABLE READ") as connection:
            # An engine of the caller's may have one connection for all.
            open_second_session = self._second_session if self._own else None
            session = PsycopgSession(connection, self._on_sql, open_second_session)
            yield session
            if write:
                commit(connection, self._connect, session.release_id, hold)
            else:
                connection.commit()

    @contextmanager
    def _second_session(self) -> Iterator[PsycopgSession]:
        """Another session, which sees what is committed now."""
        with self._connected("READ COMMITTED") as connection:
            yield PsycopgSession(connection, self._on_sql)
            connection.rollback()

    @contextmanager
    def _connected(self, level: str) -> Iterator[Connection]:
        """A connection with a transaction, which ends with the block, whatever the network does."""
        with ending().scope():
            connection = self._connect()
            driver = _driver(connection)
            try:
                _require_idle(driver)
            except InvalidParameter:
                connection.close()
                raise
            connection = connection.execution_options(isolation_level=level)
            backend: Backend | None = None
            named, driver.prepare_threshold = driver.prepare_threshold, None
            watch(driver)
            try:
                with translate_errors():
                    connection.begin()
                    backend = self._backend(connection)
                    yield connection
            except BaseException:
                # Staging goes with the transaction; a connection in doubt is not used again.
                unwatch(driver)
                connection.invalidate()
                if ending().silent:
                    self._end(backend)
                raise
            finally:
                unwatch(driver)
                driver.prepare_threshold = named
                if not connection.invalidated and connection.info.pop(_BORROWED, False):
                    del connection.info[BACKEND_KEY]
                connection.close()

    def _backend(self, connection: Connection) -> Backend:
        """What a transaction runs on, which is made to notice that its client is gone."""
        driver = _driver(connection)
        backend: Backend | None = connection.info.get(BACKEND_KEY)
        if backend is None:
            # An engine of the caller's, whose connections change between transactions.
            backend = connection.info[BACKEND_KEY] = backend_of(driver)
            connection.info[_BORROWED] = True
        if backend.unset:
            with driver.cursor() as cursor:
                cursor.execute(backend.settings())
        return backend

    def _end(self, backend: Backend | None) -> None:
        """End a session whose network does not answer, from another one, where that works."""
        if backend is not None and backend.pid is not None:
            with suppress(DbanonError), closing(self._connect()) as connection, translate_errors():
                watch(driver := _driver(connection))
                try:
                    end(driver, backend)
                    ending().silent = False
                finally:
                    unwatch(driver)

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """A transaction that changes nothing: without temporary tables one that cannot."""
        with self.session(write=False) as session:
            session.begin_plan(staging=staging)
            yield session

    def _connect(self) -> Connection:
        try:
            with translate_errors(on_connection_error=lambda error: unreachable(error, self._url)):
                return ending().connected(
                    partial(connected, self._engine.connect), Connection.close
                )
        except ConnectionLost as error:
            raise DatabaseUnreachable(
                f"The database {self.url} cannot be reached.", detail=error.detail
            ) from None

    @contextmanager
    def job_lock(self, job: str) -> Iterator[None]:
        """In an open transaction of a connection of its own: it goes with whoever holds it."""
        with self._connected("READ COMMITTED") as connection:
            hold_job(PsycopgSession(connection), job)
            try:
                yield
            finally:
                # Nothing is waited for: an idle connection may be long gone.
                unwatch(_driver(connection))
                connection.invalidate()

    def spill(self, directory: Path | None, memory: int | None) -> None:
        """Its memory is the server's."""

    def same_database(self, other: object) -> bool:
        """True when both have the same host, port and database, and the same role."""
        if not isinstance(other, PostgresqlStore):
            return False
        mine, theirs = self._url, other._url
        return all(
            getattr(mine, part) == getattr(theirs, part)
            for part in ("host", "port", "database", "username", "query")
        )


def _require_idle(driver: Any) -> None:
    """Check that a connection that the caller's own engine shares has no transaction open."""
    if driver is not None and not driver.closed and driver.info.transaction_status.name != "IDLE":
        raise transaction_open("PostgreSQL")


def _note_backend(driver: Any, record: Any) -> None:
    """Find what a new connection leads to, and pin its search path, which may name anybody's."""
    watch(driver)
    record.info[BACKEND_KEY] = backend_of(driver)


def _release_connection(driver: Any, record: Any) -> None:
    """Leave nothing behind: a pooler's connection goes to somebody else next."""
    driver.rollback()
    unwatch(driver)
