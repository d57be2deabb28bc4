"""MariaDB databases, and the sessions on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Engine, NullPool, create_engine

from dbanon.errors import (
    CommitConfirmed,
    DbanonError,
    InsufficientRights,
    InvalidParameter,
    OutcomeUnknown,
    redact,
    sql_for_hint,
    warn_caller,
)
from dbanon.extensions.mariadb.connecting import account_arguments
from dbanon.extensions.mariadb.dialect import COLLATION, quote_dotted
from dbanon.extensions.mariadb.errors import translate_errors
from dbanon.extensions.mariadb.publication import UnpublishedRelease
from dbanon.extensions.mariadb.session import BEGIN_SNAPSHOT, MariadbSession
from dbanon.sessions.base import LockHolder, OnSql, job_running_error
from dbanon.sessions.pooled_connections import open_pooled_connection
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.interrupts import interruptible_until_commit

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

# Settings that a session relies on, whatever the server's defaults: values are never truncated
# silently, names are quoted as in standard SQL, times are in UTC, texts are sorted by all their
# bytes, results are complete, a commit only ends the transaction, and system-versioned tables show
# their current rows. The values are explicit, since an administrator can change what DEFAULT means;
# only for system_versioning_asof does DEFAULT always mean the present.
_SETTINGS = (
    "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,STRICT_TRANS_TABLES,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION time_zone = '+00:00', sql_select_limit = 18446744073709551615,"
    " max_sort_length = 65536, sort_buffer_size = 67108864, max_statement_time = 0,"
    " group_concat_max_len = 16777216, lock_wait_timeout = 60,"
    " innodb_lock_wait_timeout = 60, net_write_timeout = 3600, autocommit = 1",
    "SET SESSION completion_type = 'NO_CHAIN', sql_safe_updates = 0, sql_big_selects = 1,"
    " sql_auto_is_null = 0, unique_checks = 1, foreign_key_checks = 1, check_constraint_checks = 1,"
    " div_precision_increment = 4, default_week_format = 0, lc_time_names = 'en_US',"
    " system_versioning_asof = DEFAULT /*M!110200 , block_encryption_mode = 'aes-128-ecb' */",
)


class _CancellableConnection:
    """A connection whose running statement ``thread_connections`` can cancel.

    Parameters
    ----------
    connect : opens the second connection that sends the cancel request.
    """

    def __init__(self, connection: Any, connect: Callable[[], Connection[Cursor]]) -> None:
        self._connection, self._connect = connection, connect

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        # The driver has no public attribute for the socket.
        descriptor: int = self._connection._sock.fileno()
        return descriptor

    def cancel_safe(self, *, timeout: float) -> None:
        """Ask the server to cancel the running statement."""
        with closing(self._connect()) as second_connection, second_connection.cursor() as cursor:
            cursor.execute(f"KILL QUERY {int(self._connection.thread_id())}")


class MariadbStore:
    """A MariaDB database, identified by a URL or an SQLAlchemy engine."""

    is_persistent = True

    def __init__(self, database: Engine | URL, on_sql: OnSql | None = None) -> None:
        if isinstance(database, Engine):
            self._engine = database
        else:
            url = database.set(drivername="mysql+pymysql")
            account = account_arguments(url)
            self._engine = create_engine(url, poolclass=NullPool, connect_args=account)
        self._on_sql = on_sql

    @property
    def url(self) -> str:
        """The URL without secrets."""
        return redact(self._engine.url.render_as_string(hide_password=True))

    @contextmanager
    def _open_connection(self) -> Iterator[Connection[Cursor]]:
        """Open a new connection, and close it at the end, with its settings and staging tables."""

        def connect() -> Connection[Cursor]:
            # SQLAlchemy's connection, and the driver's connection in it.
            pooled = open_pooled_connection(self._engine.raw_connection)
            driver: Connection[Cursor] | None = pooled.driver_connection
            assert driver is not None
            # Never return the connection to the caller's pool: its settings are not the pool's.
            pooled.detach()
            return driver

        with translate_errors("The server cannot be reached."):
            connection = thread_connections().connect_in_time(
                connect, close=lambda driver: driver.close()
            )
        cancellable = _CancellableConnection(connection, connect)
        thread_connections().register(cancellable)
        try:
            with translate_errors(), connection.cursor() as cursor:
                cursor.execute("SELECT version(), database()")
                [(version, database)] = cursor.fetchall()
                if "mariadb" not in version.lower():
                    raise InvalidParameter(
                        "The server is not MariaDB.",
                        hint="Copy the table to MariaDB, PostgreSQL, DuckDB or SQLite, and"
                        " release it there. MySQL cannot compare texts the way dbanon needs.",
                    )
                if database is None:
                    raise InvalidParameter(
                        "The URL names no database.",
                        hint="Write mysql+pymysql://user@host/database.",
                    )
                connection.set_character_set("utf8mb4", COLLATION)
                for setting in _SETTINGS:
                    cursor.execute(setting)
            yield connection
        finally:
            thread_connections().unregister(cancellable)
            with suppress(Exception):
                connection.close()

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[MariadbSession]:
        """Open one transaction; a release written in it is published when the block ends.

        ``create`` has no effect: it concerns databases that are files.
        """
        with interruptible_until_commit() as hold_interrupts, self._open_connection() as connection:
            session = MariadbSession(connection, self._on_sql)
            if write:
                session.publication.resolve_interrupted()
            session.run(BEGIN_SNAPSHOT)
            try:
                yield session
                # A release needs no commit here: ``_publish`` commits each of its steps.
                if session.publication.unpublished_release is None:
                    if write:
                        hold_interrupts()
                    session.run("COMMIT")
            except BaseException:
                if session.publication.unpublished_release is not None:
                    self._resolve_failed_publication(
                        connection, session.publication.unpublished_release
                    )
                raise
            if session.publication.unpublished_release is not None:
                self._publish(session, session.publication.unpublished_release)
                hold_interrupts()

    def _publish(self, session: MariadbSession, unpublished_release: UnpublishedRelease) -> None:
        """Publish a release; if that is interrupted, find out whether it succeeded."""
        output = unpublished_release.output
        try:
            session.publication.complete(unpublished_release)
        except BaseException as error:
            is_published = self._resolve_failed_publication(
                session.connection.driver, unpublished_release
            )
            if is_published is None:
                raise OutcomeUnknown(
                    "The connection was lost while the release was being published. The next run"
                    " that writes here will determine whether it was published, and record that.",
                    detail=getattr(error, "detail", None),
                    hint=f"Run SHOW CREATE TABLE {sql_for_hint(quote_dotted(output.name))}:"
                    f" if its comment is dbanon release {output.release_id}, it was"
                    " published.",
                ) from None
            if not is_published:
                raise
            warn_caller(
                CommitConfirmed(
                    "The run was interrupted while the release was being published: it was"
                    " published successfully."
                )
            )

    def _resolve_failed_publication(
        self, connection: Any, unpublished_release: UnpublishedRelease
    ) -> bool | None:
        """Close a failed connection, find out whether its release was published, and record that.

        Returns None if the outcome cannot be determined.
        """
        thread_id = connection.thread_id()
        with suppress(Exception):
            connection.close()
        try:
            with self._open_connection() as new_connection:
                session = MariadbSession(new_connection, self._on_sql)
                # The server may not have noticed yet that the connection is closed.
                with suppress(DbanonError):
                    session.run(f"KILL CONNECTION {int(thread_id)}")
                # The server holds the lock until the old connection has ended.
                lock_name = session.publication.output_lock_name(unpublished_release.output.name)
                # Wait for that at most 5 s.
                session.rows("SELECT get_lock(?, 5)", (lock_name,))
                session.rows("SELECT release_lock(?)", (lock_name,))
                session.publication.resolve_interrupted()
                return session.publication.is_published(unpublished_release)
        except DbanonError:
            return None

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[MariadbSession]:
        """Open a transaction that changes no permanent table.

        Parameters
        ----------
        staging : whether to copy the source to a temporary table; otherwise it is read in place.
        create : not used.
        """
        with self._open_connection() as connection:
            session = MariadbSession(connection, self._on_sql, may_copy=staging)
            session.run(BEGIN_SNAPSHOT)
            yield session
            session.run("COMMIT")

    @contextmanager
    def job_lock(self, job: str) -> Iterator[None]:
        """Hold a job's lock on the server until the block ends, or the connection is lost.

        Accounts without rights on the ledger get no lock; they cannot publish anyway.
        """
        with self._open_connection() as connection:
            session = MariadbSession(connection, self._on_sql)
            with suppress(InsufficientRights):
                session.ledger.ensure_current()
                name = session.publication.lock_name("job", job)
                if session.rows("SELECT get_lock(?, 0)", (name,)) != [(1,)]:
                    [(holder,)] = session.rows("SELECT is_used_lock(?)", (name,))
                    raise job_running_error(
                        job, LockHolder(None if holder is None else int(holder))
                    )
            yield

    @property
    def shares_memory(self) -> bool:
        """False: see ``Store``."""
        return False

    def spill(self, directory: Path | None, memory_bytes: int | None) -> None:
        """Do nothing: the server manages memory and temporary tables."""

    def is_same_database(self, other: object) -> bool:
        """Return True if both stores have the same database and account."""
        if not isinstance(other, MariadbStore):
            return False
        if self._engine is other._engine:
            return True
        this_key, other_key = (
            (url.host, url.port or 3306, url.username, url.query, url.database)
            for url in (self._engine.url, other._engine.url)
        )
        return this_key == other_key
