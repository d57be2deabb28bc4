"""Open and commit transactions on PostgreSQL through a client."""

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
from dbanon.sessions.pooled_connections import open_pooled_connection
from dbanon.sessions.thread_connections import (
    CUT_SECONDS,
    END_SECONDS,
    MIN_SECONDS,
    thread_connections,
)
from dbanon.stores.interrupts import interruptible_until_commit, shared_driver, transaction_open
from dbanon.stores.postgresql.client import BACKEND_KEY, PsycopgSession
from dbanon.stores.postgresql.connecting import (
    Backend,
    arguments_of,
    backend_of,
    end,
    redacted_url,
    unreachable_error,
    unwatch,
    watch,
)
from dbanon.stores.postgresql.errors import translate_errors
from dbanon.stores.postgresql.locks import hold_job
from dbanon.stores.postgresql.settings import PINNED

if TYPE_CHECKING:
    from sqlalchemy import Connection


# Seconds to query the server about a lost commit, and until the backend of an open transaction is
# terminated: normally, and after a request to end.
SECONDS = 15.0
PATIENCE = 3.0
HURRY = 0.3
_PAUSE = 0.2

_NUMBER = "SELECT pg_catalog.pg_current_xact_id_if_assigned()::text"
_LEDGER = "SELECT pg_catalog.to_regclass('dbanon.release') IS NOT NULL"
_PUBLISHED = "SELECT 1 FROM dbanon.release WHERE release_id = %s::uuid"
# Terminates the backend of the same role only while it runs this transaction.
_END = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
    " WHERE backend_xid = %s::text::xid8::xid"
)

Connect = Callable[[], "Connection"]


def commit(
    connection: Connection, connect: Connect, release_id: str | None, done: Callable[[], None]
) -> None:
    """Commit; if the answer is lost, find out what happened.

    Parameters
    ----------
    connect : opens another connection to the same database.
    release_id : the release that is published, if any.
    done : called as soon as the transaction is committed.

    Raises
    ------
    ConnectionLost : the transaction was not committed.
    OutcomeUnknown : the outcome could not be determined.
    """
    [(number,)] = _rows(connection, _NUMBER)
    try:
        with translate_errors():
            connection.commit()
        done()
        return
    except (ConnectionLost, KeyboardInterrupt, SystemExit) as error:
        # A list, so that raising pops the error: a frame in its traceback must not refer to it.
        errors: list[BaseException] = [error.with_traceback(None)]
    if number is None:
        # The transaction wrote nothing.
        raise errors.pop()
    # The server aborts the transaction once it notices the closed connection.
    connection.invalidate()
    committed: bool | None = None
    # A second request to end while querying the server leaves the outcome unknown.
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
            " database confirmed that it was committed."
        )
    )


def _ask_outcome(connect: Connect, number: str, release_id: str | None) -> bool | None:
    """Return True if the transaction was committed, False if it never will be, None if unknown."""
    started = time.monotonic()
    run_ending = thread_connections()
    with run_ending.cut_new_connections_after(SECONDS + MIN_SECONDS):
        while True:
            spent = time.monotonic() - started
            # After a request to end, there is less time for queries.
            patience, most = (
                (HURRY, END_SECONDS - CUT_SECONDS) if run_ending.is_ending else (PATIENCE, SECONDS)
            )
            try:
                with closing(connect()) as connection, _watched(connection):
                    outcome = _outcome(connection, number, release_id, end=spent > patience)
                if outcome in ("committed", "aborted"):
                    return outcome == "committed"
                if outcome is None:
                    return None
            except DbanonError:
                # The server is unreachable or still restarting.
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
            # A pool would reuse the broken connection.
            connection.invalidate()


def _outcome(
    connection: Connection, number: str, release_id: str | None, *, end: bool
) -> str | None:
    """Return ``committed``, ``aborted`` or ``in progress``; None if the server cannot know.

    After a failover another server answers, with other transaction ids: then only the ledger shows
    that a release exists.
    """
    # Check the transaction before the ledger, so that the ledger is final.
    [(status,)] = _rows(connection, "SELECT pg_catalog.pg_xact_status(%s::text::xid8)", number)
    if status == "in progress":
        if end:
            _rows(connection, _END, number)
        return "in progress"
    if release_id is None:
        return None if status is None else str(status)
    # Start a new transaction, which sees everything committed until now.
    _driver(connection).rollback()
    # The lost transaction may have been the one that created the ledger.
    [(ledger,)] = _rows(connection, _LEDGER)
    if ledger and _rows(connection, _PUBLISHED, release_id):
        return "committed"
    return "aborted" if status == "aborted" else None


def _rows(connection: Connection, sql: str, *parameters: str) -> Sequence[tuple[Any, ...]]:
    with translate_errors(), _driver(connection).cursor() as cursor:
        # A connection of the caller's engine may have any search path.
        cursor.execute(PINNED)
        cursor.execute(sql, parameters or None)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _driver(connection: Connection) -> Any:
    return connection.connection.driver_connection


def _outcome_unknown(number: str, release_id: str | None) -> OutcomeUnknown:
    if release_id is None:
        return OutcomeUnknown(
            f"The connection was lost while transaction {number} was committed: it is unknown"
            " whether its changes were made.",
            hint=f"Run: SELECT pg_xact_status('{number}'); it returns committed or aborted.",
        )
    return OutcomeUnknown(
        f"The connection was lost while release {release_id} was committed: it is unknown whether"
        " it was published.",
        hint="Look before you run it again. Run: SELECT created_at, output_schema, output_name,"
        f" superseded_at FROM dbanon.release WHERE release_id = '{release_id}'; one row: it was"
        " published; none: nothing was.",
    )


# Key in ``Connection.info`` that marks a connection of the caller while it is in use.
_BORROWED = "dbanon_borrowed"


class PostgresqlStore:
    """A PostgreSQL database."""

    is_persistent = True

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
            # Between the two, SQLAlchemy queries new connections with unqualified names.
            event.listen(engine, "connect", _note_backend, insert=True)
            event.listen(engine, "connect", _release_connection)
        self._engine, self._url, self._on_sql = engine, url, on_sql

    @property
    def url(self) -> str:
        """The URL without secrets."""
        return redacted_url(self._url)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """Open one REPEATABLE READ transaction, which only reads if ``write`` is False."""
        _require_idle(shared_driver(self._engine))
        with interruptible_until_commit() as hold, self._connected("REPEATABLE READ") as connection:
            # The caller's engine may share a single connection.
            open_second_session = self._second_session if self._own else None
            session = PsycopgSession(connection, self._on_sql, open_second_session)
            yield session
            if write:
                commit(connection, self._connect, session.release_id, hold)
            else:
                connection.commit()

    @contextmanager
    def _second_session(self) -> Iterator[PsycopgSession]:
        """Open another session, which sees all commits until now."""
        with self._connected("READ COMMITTED") as connection:
            yield PsycopgSession(connection, self._on_sql)
            connection.rollback()

    @contextmanager
    def _connected(self, level: str) -> Iterator[Connection]:
        """Open a connection with a transaction; both end with the block, even on a dead network."""
        with thread_connections().scope():
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
                # Staging tables end with the transaction; never reuse a doubtful connection.
                unwatch(driver)
                connection.invalidate()
                if thread_connections().is_server_silent:
                    self._end(backend)
                raise
            finally:
                unwatch(driver)
                driver.prepare_threshold = named
                if not connection.invalidated and connection.info.pop(_BORROWED, False):
                    del connection.info[BACKEND_KEY]
                connection.close()

    def _backend(self, connection: Connection) -> Backend:
        """Return the backend of a transaction, with keepalive settings to notice a lost client."""
        driver = _driver(connection)
        backend: Backend | None = connection.info.get(BACKEND_KEY)
        if backend is None:
            # A connection of the caller's engine; its backend may change between transactions.
            backend = connection.info[BACKEND_KEY] = backend_of(driver)
            connection.info[_BORROWED] = True
        if backend.unset:
            with driver.cursor() as cursor:
                cursor.execute(backend.settings())
        return backend

    def _end(self, backend: Backend | None) -> None:
        """Try to end a session on a dead network from another connection."""
        if backend is not None and backend.pid is not None:
            with suppress(DbanonError), closing(self._connect()) as connection, translate_errors():
                watch(driver := _driver(connection))
                try:
                    end(driver, backend)
                    thread_connections().is_server_silent = False
                finally:
                    unwatch(driver)

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """Open a transaction that changes nothing; without staging it is read-only."""
        with self.session(write=False) as session:
            session.begin_plan(staging=staging)
            yield session

    def _connect(self) -> Connection:
        try:
            with translate_errors(
                on_connection_error=lambda error: unreachable_error(error, self._url)
            ):
                return thread_connections().connect_in_time(
                    partial(open_pooled_connection, self._engine.connect), Connection.close
                )
        except ConnectionLost as error:
            raise DatabaseUnreachable(
                f"The database {self.url} cannot be reached.", detail=error.detail
            ) from None

    @contextmanager
    def job_lock(self, job: str) -> Iterator[None]:
        """Hold a job's lock in a transaction of a separate connection; it ends with its process."""
        with self._connected("READ COMMITTED") as connection:
            hold_job(PsycopgSession(connection), job)
            try:
                yield
            finally:
                # Close without waiting, since the idle connection may be dead.
                unwatch(_driver(connection))
                connection.invalidate()

    def spill(self, directory: Path | None, memory: int | None) -> None:
        """Do nothing: the server manages its memory."""

    def same_database(self, other: object) -> bool:
        """Return True if both have the same host, port, database and role."""
        if not isinstance(other, PostgresqlStore):
            return False
        mine, theirs = self._url, other._url
        return all(
            getattr(mine, part) == getattr(theirs, part)
            for part in ("host", "port", "database", "username", "query")
        )


def _require_idle(driver: Any) -> None:
    """Check that a shared connection of the caller's engine has no open transaction."""
    if driver is not None and not driver.closed and driver.info.transaction_status.name != "IDLE":
        raise transaction_open("PostgreSQL")


def _note_backend(driver: Any, record: Any) -> None:
    """Record the backend of a new connection, and pin its search path."""
    watch(driver)
    record.info[BACKEND_KEY] = backend_of(driver)


def _release_connection(driver: Any, record: Any) -> None:
    """Leave no state on the server, since a pooler may give the connection to another client."""
    driver.rollback()
    unwatch(driver)
