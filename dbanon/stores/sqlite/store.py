"""SQLite databases and their transactions; one that writes locks the database when it begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, StaticPool, create_engine

from dbanon.errors import redact
from dbanon.sessions.base import OnSql
from dbanon.sessions.pooled_connections import open_pooled_connection
from dbanon.sessions.session import Session
from dbanon.stores.file_session import FileDatabase
from dbanon.stores.files import SQLITE
from dbanon.stores.interrupts import find_shared_connection, open_transaction_error
from dbanon.stores.sqlite.connection import driver_connection
from dbanon.stores.sqlite.errors import translate_errors
from dbanon.stores.sqlite.session import SqliteSession

# SQLite calls the progress handler after this many instructions of its virtual machine.
_INSTRUCTIONS_PER_PROGRESS_CALL = 100_000


class SqliteStore(FileDatabase):
    """A SQLite database, identified by a URL, an engine, or a connection of the caller."""

    kind = SQLITE
    # A column of a view has a type only if it is a column of a table, not an expression.
    where_to_cast = "in a copy of the table"

    def __init__(
        self, database: Engine | URL | sqlite3.Connection, on_sql: OnSql | None = None
    ) -> None:
        self._caller_connection = database if isinstance(database, sqlite3.Connection) else None
        if isinstance(database, sqlite3.Connection):
            caller_connection = database
            self._engine = create_engine(
                "sqlite://", creator=lambda: caller_connection, poolclass=StaticPool
            )
            with _default_factories(caller_connection):
                self._url = URL.create("sqlite", database=_find_file(caller_connection))
        else:
            self._engine = (
                database
                if isinstance(database, Engine)
                else create_engine(database, poolclass=NullPool)
            )
            self._url = self._engine.url
        self._on_sql = on_sql

    @property
    def url(self) -> str:
        """The database URL without secrets."""
        return redact(self._url.render_as_string(hide_password=True))

    @property
    def _path(self) -> Path | None:
        if self._caller_connection is not None:
            return None
        name = self._url.database
        # A name that begins with file: is a URI of SQLite; it may name a database in memory.
        return Path(name) if name and name != ":memory:" and not name.startswith("file:") else None

    def _empty_session(self) -> AbstractContextManager[Session]:
        """Open a session on an empty database in memory, to plan for a file that is missing."""
        engine = create_engine("sqlite://", poolclass=NullPool)
        return SqliteStore(engine, self._on_sql).session(write=False)

    @contextmanager
    def _session(
        self, write: bool, before_commit: Callable[[], None] = lambda: None
    ) -> Iterator[SqliteSession]:
        _require_idle(self._caller_connection or find_shared_connection(self._engine))
        with _default_factories(self._caller_connection):
            with translate_errors():
                connection = open_pooled_connection(self._engine.connect)
            driver = driver_connection(connection)
            _require_no_transaction(connection)
            isolation_level = driver.isolation_level
            # Python runs signal handlers only between its own instructions, so let SQLite call a
            # Python function regularly. The result 0 lets the statement go on.
            driver.set_progress_handler(lambda: 0, _INSTRUCTIONS_PER_PROGRESS_CALL)
            try:
                # Prevent the driver from beginning and committing transactions itself.
                driver.isolation_level = None
                connection.begin()
                with _without_row_counts(driver):
                    session = SqliteSession(connection, self._on_sql)
                    with translate_errors():
                        driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    try:
                        yield session
                        session.drop_staging()
                        if write:
                            before_commit()
                        with translate_errors():
                            driver.execute("COMMIT")
                    except BaseException:
                        try:
                            if driver.in_transaction:
                                driver.execute("ROLLBACK")
                        finally:
                            # A rollback undoes all else that the session has staged.
                            session.tags.drop_key()
                        raise
            finally:
                driver.set_progress_handler(None, 0)
                driver.isolation_level = isolation_level
                connection.close()

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        # The base class checks the rights of a file whose path is known.
        is_read_only = self._path is None and self._refuses_writes()
        with super().planning(staging=staging, create=create) as session:
            assert isinstance(session, SqliteSession)
            session.connection.is_read_only = is_read_only
            yield session

    def _refuses_writes(self) -> bool:
        """Whether this database, whose file is unknown, refuses write transactions."""
        _require_idle(self._caller_connection or find_shared_connection(self._engine))
        with translate_errors():
            pooled_connection = open_pooled_connection(self._engine.connect)
        _require_no_transaction(pooled_connection)
        with closing(pooled_connection) as connection:
            driver = driver_connection(connection)
            isolation_level, driver.isolation_level = driver.isolation_level, None
            try:
                driver.execute("BEGIN IMMEDIATE")
                # BEGIN succeeds on read-only databases, too, so try a write without effect.
                [(user_version,)] = driver.execute("PRAGMA user_version").fetchall()
                driver.execute(f"PRAGMA user_version = {int(user_version)}")
            except sqlite3.OperationalError as error:
                # If another connection is writing, the class of the exception is the same.
                name = getattr(error, "sqlite_errorname", "")
                return bool(name.startswith("SQLITE_READONLY"))
            finally:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")
                driver.isolation_level = isolation_level
        return False

    @property
    def shares_memory(self) -> bool:
        """False: see ``Store``."""
        return False

    def spill(self, directory: Path | None, memory_bytes: int | None) -> None:
        """Do nothing: SQLite already keeps temporary tables on disk and uses little memory."""

    def is_same_database(self, other: object) -> bool:
        """Whether both stores have the same file, engine or connection."""
        if not isinstance(other, SqliteStore):
            return False
        if self._engine is other._engine or (
            self._caller_connection and self._caller_connection is other._caller_connection
        ):
            return True
        this_path, other_path = self._url.database, other._url.database
        if not this_path or not other_path or ":memory:" in (this_path, other_path):
            return False
        return Path(this_path).resolve() == Path(other_path).resolve()


@contextmanager
def _default_factories(connection: sqlite3.Connection | None) -> Iterator[None]:
    """While the block runs, fetch rows as tuples and texts as str on a caller's connection."""
    if connection is None:
        yield
        return
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = factories


@contextmanager
def _without_row_counts(connection: sqlite3.Connection) -> Iterator[None]:
    """Turn off the caller's ``count_changes``, which makes ``executemany`` fail on INSERT."""
    pragma_rows = connection.execute("PRAGMA count_changes").fetchall()
    connection.execute("PRAGMA count_changes = OFF")
    try:
        yield
    finally:
        for (value,) in pragma_rows:
            connection.execute(f"PRAGMA count_changes = {value}")


def _require_idle(connection: sqlite3.Connection | None) -> None:
    """Check that the caller's connection has no open transaction."""
    if connection is None:
        return
    # This fails if the caller has closed the connection.
    with translate_errors():
        is_in_transaction = connection.in_transaction
    if is_in_transaction:
        raise open_transaction_error("SQLite")


def _require_no_transaction(connection: Connection) -> None:
    """Check that the pool did not return a connection that this thread already uses.

    The open transaction of such a connection belongs to the caller, so the connection goes back to
    the pool as it is.
    """
    driver = driver_connection(connection)
    if driver.in_transaction:
        connection.close()
        raise open_transaction_error("SQLite")


def _find_file(connection: sqlite3.Connection) -> str | None:
    """Return the file behind a connection; None for an in-memory database."""
    with translate_errors():
        [(_, _, path), *_] = connection.execute("PRAGMA database_list").fetchall()
    return str(path) or None
