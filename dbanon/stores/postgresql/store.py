"""Open and commit transactions on PostgreSQL through a client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event

from dbanon.data.types import SqlRow
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
from dbanon.stores.interrupts import (
    find_shared_connection,
    interruptible_until_commit,
    open_transaction_error,
)
from dbanon.stores.postgresql.client import PsycopgSession
from dbanon.stores.postgresql.client_connection import BACKEND_KEY, PsycopgConnection
from dbanon.stores.postgresql.connecting import (
    Backend,
    driver_arguments,
    query_backend,
    redacted_url,
    terminate_session,
    unreachable_error,
    unwatch,
    watch,
)
from dbanon.stores.postgresql.errors import translate_errors
from dbanon.stores.postgresql.locks import hold_job
from dbanon.stores.postgresql.settings import PIN_STATEMENTS

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.pool import ConnectionPoolEntry


# Seconds to keep asking the server for the outcome of a commit whose answer was lost.
OUTCOME_SECONDS = 15.0
# Seconds after which the backend of a transaction that is still open is terminated.
TERMINATE_AFTER_SECONDS = 3.0
# The same after a request to end the run.
ENDING_TERMINATE_AFTER_SECONDS = 0.3
# Pause between two queries for the outcome.
_PAUSE_SECONDS = 0.2

_TRANSACTION_ID = "SELECT pg_catalog.pg_current_xact_id_if_assigned()::text"
_HAS_LEDGER = "SELECT pg_catalog.to_regclass('dbanon.release') IS NOT NULL"
_IS_PUBLISHED = "SELECT 1 FROM dbanon.release WHERE release_id = %s::uuid"
# Terminates the backend that runs this transaction. By then the transaction may have ended and the
# backend may run another one, which is left alone.
_TERMINATE_TRANSACTION = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity"
    " WHERE backend_xid = %s::text::xid8::xid"
)

OpenConnection = Callable[[], "Connection"]


def commit(
    connection: Connection,
    connect: OpenConnection,
    release_id: str | None,
    on_commit: Callable[[], None],
) -> None:
    """Commit; if the server's answer is lost, find out whether the transaction was committed.

    Parameters
    ----------
    connect : opens another connection to the same database.
    release_id : the release that the transaction publishes, if any.
    on_commit : called as soon as the transaction is committed.

    Raises
    ------
    ConnectionLost : the transaction was not committed.
    OutcomeUnknown : the outcome could not be determined.
    """
    [(transaction_id,)] = _query(connection, _TRANSACTION_ID)
    try:
        with translate_errors():
            connection.commit()
        on_commit()
        return
    except (ConnectionLost, KeyboardInterrupt, SystemExit) as error:
        # A list, so that raising pops the error: a frame in its traceback must not refer to it.
        errors: list[BaseException] = [error.with_traceback(None)]
    if transaction_id is None:
        # The transaction wrote nothing.
        raise errors.pop()
    # The server aborts the transaction once it notices the closed connection.
    connection.invalidate()
    committed: bool | None = None
    # If a second request to end the run arrives in the meantime, the outcome stays unknown.
    with suppress(KeyboardInterrupt, SystemExit):
        committed = _query_until_known(connect, str(transaction_id), release_id)
    if committed is False:
        raise errors.pop()
    if committed is None:
        raise _outcome_unknown_error(str(transaction_id), release_id)
    on_commit()
    warn_caller(
        CommitConfirmed(
            "The connection to the database was lost while the transaction was committed. The"
            " database confirmed that it was committed."
        )
    )


def _query_until_known(
    connect: OpenConnection, transaction_id: str, release_id: str | None
) -> bool | None:
    """Query the server until the outcome of a transaction is known or time is up.

    Returns True if it was committed, False if it never will be, None if the outcome stays unknown.
    """
    started_at = time.monotonic()
    connections = thread_connections()
    # A query that begins just before the time is up still gets MIN_SECONDS for its answer.
    with connections.cut_new_connections_after(OUTCOME_SECONDS + MIN_SECONDS):
        while True:
            elapsed_seconds = time.monotonic() - started_at
            terminate_after_seconds = TERMINATE_AFTER_SECONDS
            give_up_after_seconds = OUTCOME_SECONDS
            if connections.is_ending:
                # After a request to end, all work must stop within END_SECONDS, and stalled
                # connections are only cut after the first CUT_SECONDS.
                terminate_after_seconds = ENDING_TERMINATE_AFTER_SECONDS
                give_up_after_seconds = END_SECONDS - CUT_SECONDS
            try:
                with closing(connect()) as connection, _watch_connection(connection):
                    outcome = _query_outcome(
                        connection,
                        transaction_id,
                        release_id,
                        terminate=elapsed_seconds > terminate_after_seconds,
                    )
                if outcome in ("committed", "aborted"):
                    return outcome == "committed"
                if outcome is None:
                    return None
            except DbanonError:
                # The server is unreachable or still restarting.
                pass
            if elapsed_seconds > give_up_after_seconds:
                return None
            time.sleep(_PAUSE_SECONDS)


@contextmanager
def _watch_connection(connection: Connection) -> Iterator[None]:
    """While the block runs, close this connection if the run is asked to end."""
    watch(_driver_connection(connection))
    try:
        yield
    finally:
        if unwatch(_driver_connection(connection)):
            # A pool would reuse the broken connection.
            connection.invalidate()


def _query_outcome(
    connection: Connection, transaction_id: str, release_id: str | None, *, terminate: bool
) -> str | None:
    """Return ``committed``, ``aborted`` or ``in progress``; None if the server cannot tell.

    After a failover another server answers, whose transaction ids differ. Then only an entry in the
    ledger proves that the release was committed.

    Parameters
    ----------
    terminate : whether to terminate the backend of a transaction that is in progress.
    """
    # Check the transaction before the ledger: once it has ended, the ledger entry is final.
    [(status,)] = _query(
        connection, "SELECT pg_catalog.pg_xact_status(%s::text::xid8)", transaction_id
    )
    if status == "in progress":
        if terminate:
            _query(connection, _TERMINATE_TRANSACTION, transaction_id)
        return "in progress"
    if release_id is None:
        return None if status is None else str(status)
    # Start a new transaction, which sees everything committed until now.
    _driver_connection(connection).rollback()
    # There is no ledger if this transaction would have created it and was not committed.
    [(has_ledger,)] = _query(connection, _HAS_LEDGER)
    if has_ledger and _query(connection, _IS_PUBLISHED, release_id):
        return "committed"
    return "aborted" if status == "aborted" else None


def _query(connection: Connection, sql: str, *parameters: str) -> Sequence[SqlRow]:
    """Return the rows of a query, which takes parameters as ``%s``."""
    with translate_errors(), _driver_connection(connection).cursor() as cursor:
        # The connection may come from the caller's engine, with any search path.
        cursor.execute(PIN_STATEMENTS)
        cursor.execute(sql, parameters or None)
        return cursor.fetchall()


def _driver_connection(connection: Connection) -> psycopg.Connection[SqlRow]:
    """Return the psycopg connection of an SQLAlchemy connection."""
    driver_connection: psycopg.Connection[SqlRow] | None = connection.connection.driver_connection
    assert driver_connection is not None
    return driver_connection


def _outcome_unknown_error(transaction_id: str, release_id: str | None) -> OutcomeUnknown:
    """The error for a commit whose outcome is unknown; its hint says how to find out."""
    if release_id is None:
        return OutcomeUnknown(
            f"The connection was lost while transaction {transaction_id} was committed: it is"
            " unknown whether its changes were made.",
            hint=f"Run: SELECT pg_xact_status('{transaction_id}'); it returns committed or"
            " aborted.",
        )
    return OutcomeUnknown(
        f"The connection was lost while release {release_id} was committed: it is unknown whether"
        " it was published.",
        hint="Before you run it again, check: SELECT created_at, output_schema, output_name,"
        f" superseded_at FROM dbanon.release WHERE release_id = '{release_id}'; if this returns"
        " a row, the release was published.",
    )


# Key in ``Connection.info`` that marks a connection of the caller's engine while it is in use.
_BORROWED_KEY = "dbanon_borrowed"


class PostgresqlStore:
    """A PostgreSQL database."""

    is_persistent = True

    def __init__(self, engine: Engine | URL, on_sql: OnSql | None = None) -> None:
        url = engine.url if isinstance(engine, Engine) else engine
        self._owns_engine = False
        if not isinstance(engine, Engine) or engine.driver != "psycopg":
            self._owns_engine = True
            engine = create_engine(
                url.set(drivername="postgresql+psycopg"),
                poolclass=NullPool,
                connect_args=dict(driver_arguments(url)),
            )
            # The first listener pins the search path before SQLAlchemy's own listener runs, which
            # uses unqualified names; the second one runs after it.
            event.listen(engine, "connect", _record_backend, insert=True)
            event.listen(engine, "connect", _end_first_transaction)
        self._engine, self._url, self._on_sql = engine, url, on_sql

    @property
    def url(self) -> str:
        """The URL without secrets."""
        return redacted_url(self._url)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """Open a REPEATABLE READ transaction.

        The caller only reads in it unless ``write`` is set. ``create`` has no effect: it concerns
        databases that are files.
        """
        # All users of an engine with a StaticPool share one connection.
        _require_idle(find_shared_connection(self._engine))
        with (
            interruptible_until_commit() as hold_interrupts,
            self._open_connection("REPEATABLE READ") as connection,
        ):
            # A caller's engine may have only one connection, so never open a second one through it.
            open_second = self._open_second_connection if self._owns_engine else None
            session = PsycopgSession(connection, self._on_sql, open_second)
            yield session
            if write:
                # ``commit`` calls ``hold_interrupts`` once the transaction is committed: from then
                # on signals no longer interrupt the run.
                commit(connection, self._connect, session.publication.release_id, hold_interrupts)
            else:
                connection.commit()

    @contextmanager
    def _open_second_connection(self) -> Iterator[PsycopgConnection]:
        """Open another connection, which sees everything committed until now."""
        with self._open_connection("READ COMMITTED") as connection:
            yield PsycopgConnection(connection, self._on_sql)
            connection.rollback()

    @contextmanager
    def _open_connection(self, isolation_level: str) -> Iterator[Connection]:
        """Open a connection and a transaction.

        Both end with the block, even if the network is dead.
        """
        # The scope collects connections, so that a request to end the run can cut them.
        with thread_connections().scope():
            connection = self._connect()
            driver_connection = _driver_connection(connection)
            try:
                _require_idle(driver_connection)
            except InvalidParameter:
                connection.close()
                raise
            connection = connection.execution_options(isolation_level=isolation_level)
            backend: Backend | None = None
            former_prepare_threshold = driver_connection.prepare_threshold
            # No prepared statements, as in ``driver_arguments``.
            driver_connection.prepare_threshold = None
            watch(driver_connection)
            try:
                with translate_errors():
                    connection.begin()
                    backend = self._prepare_backend(connection)
                    yield connection
            except BaseException:
                # Never reuse a connection in an unknown state. Its staging tables end with the
                # transaction.
                unwatch(driver_connection)
                connection.invalidate()
                # The server did not answer in time, so it may not notice the lost client for long.
                if thread_connections().is_server_silent:
                    self._terminate_stalled_backend(backend)
                raise
            finally:
                unwatch(driver_connection)
                driver_connection.prepare_threshold = former_prepare_threshold
                # A connection of the caller's engine goes back to its pool without the record.
                if not connection.invalidated and connection.info.pop(_BORROWED_KEY, False):
                    del connection.info[BACKEND_KEY]
                connection.close()

    def _prepare_backend(self, connection: Connection) -> Backend:
        """Set keepalives, by which the server detects a lost client; return the backend."""
        driver_connection = _driver_connection(connection)
        backend: Backend | None = connection.info.get(BACKEND_KEY)
        if backend is None:
            # Connections of the caller's engine are not recorded when they open. The record is only
            # valid for one transaction, since a pooler may assign another backend.
            backend = connection.info[BACKEND_KEY] = query_backend(driver_connection)
            connection.info[_BORROWED_KEY] = True
        if backend.default_settings:
            with driver_connection.cursor() as cursor:
                cursor.execute(backend.keepalive_statements())
        return backend

    def _terminate_stalled_backend(self, backend: Backend | None) -> None:
        """Try to terminate the backend of a dead connection through a new connection."""
        if backend is not None and backend.pid is not None:
            with suppress(DbanonError), closing(self._connect()) as connection, translate_errors():
                watch(driver_connection := _driver_connection(connection))
                try:
                    terminate_session(driver_connection, backend)
                    thread_connections().is_server_silent = False
                finally:
                    unwatch(driver_connection)

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """Open a transaction that changes no permanent table.

        Without ``staging`` it is read-only.
        """
        with self.session(write=False) as session:
            session.publication.begin_plan(staging=staging)
            yield session

    def _connect(self) -> Connection:
        try:
            with translate_errors(
                on_connection_error=lambda error: unreachable_error(error, self._url)
            ):
                # If the time is up before the connection is open, it is closed once it opens.
                return thread_connections().connect_in_time(
                    partial(open_pooled_connection, self._engine.connect), Connection.close
                )
        except ConnectionLost as error:
            raise DatabaseUnreachable(
                f"The database {self.url} cannot be reached.", detail=error.detail
            ) from None

    @contextmanager
    def job_lock(self, job: str) -> Iterator[None]:
        """Hold a job's lock while the block runs, in a transaction of a separate connection.

        If this process dies, its connection ends, and so does the lock.
        """
        with self._open_connection("READ COMMITTED") as connection:
            session = PsycopgSession(connection)
            hold_job(session.connection, session.ledger, job)
            try:
                yield
            finally:
                # Close without waiting for the server: the connection was idle and may be dead.
                unwatch(_driver_connection(connection))
                connection.invalidate()

    @property
    def shares_memory(self) -> bool:
        """False: see ``Store``."""
        return False

    def spill(self, directory: Path | None, memory_bytes: int | None) -> None:
        """Do nothing: the server manages its own memory."""

    def is_same_database(self, other: object) -> bool:
        """Return True if both URLs have the same host, port, database, role and settings."""
        if not isinstance(other, PostgresqlStore):
            return False
        return all(
            getattr(self._url, component) == getattr(other._url, component)
            for component in ("host", "port", "database", "username", "query")
        )


def _require_idle(driver_connection: psycopg.Connection[SqlRow] | None) -> None:
    """Check that a connection of the caller's engine has no open transaction.

    Parameters
    ----------
    driver_connection : a psycopg connection; None for no connection.
    """
    if (
        driver_connection is not None
        and not driver_connection.closed
        and driver_connection.info.transaction_status.name != "IDLE"
    ):
        raise open_transaction_error("PostgreSQL")


def _record_backend(
    driver_connection: psycopg.Connection[SqlRow], record: ConnectionPoolEntry
) -> None:
    """Record the backend of a new connection, and pin its search path."""
    watch(driver_connection)
    record.info[BACKEND_KEY] = query_backend(driver_connection)


def _end_first_transaction(
    driver_connection: psycopg.Connection[SqlRow], record: ConnectionPoolEntry
) -> None:
    """End the transaction in which SQLAlchemy initialized a new connection.

    No state may be left on the server, since a pooler may give the connection to another client.
    """
    driver_connection.rollback()
    unwatch(driver_connection)
