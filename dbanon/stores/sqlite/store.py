"""SQLite store: locks for writing at the start so that reads and writes share one snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, StaticPool, create_engine

from dbanon.errors import redact
from dbanon.sessions.base import OnSql
from dbanon.sessions.connecting import connected
from dbanon.sessions.session import Session
from dbanon.stores.file_session import FileDatabase
from dbanon.stores.files import SQLITE
from dbanon.stores.interrupts import shared_driver, transaction_open
from dbanon.stores.sqlite.session import SqliteSession, translated

_INSTRUCTIONS_BETWEEN_LOOKS = 100_000


class SqliteStore(FileDatabase):
    """A SQLite database: a URL, an engine, or a connection owned by the caller."""

    kind = SQLITE
    # A column of a view has no type where it is no plain column.
    view_replacement = "in a copy of the table"

    def __init__(
        self, database: Engine | URL | sqlite3.Connection, on_sql: OnSql | None = None
    ) -> None:
        self._caller_connection = database if isinstance(database, sqlite3.Connection) else None
        if isinstance(database, sqlite3.Connection):
            caller_connection = database
            self._engine = create_engine(
                "sqlite://", creator=lambda: caller_connection, poolclass=StaticPool
            )
            with _plain_rows(caller_connection):
                self._url = URL.create("sqlite", database=_file_of(caller_connection))
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
        return Path(name) if name and name != ":memory:" and not name.startswith("file:") else None

    def _empty(self) -> AbstractContextManager[Session]:
        empty = create_engine("sqlite://", poolclass=NullPool)
        return SqliteStore(empty, self._on_sql).session(write=False)

    @contextmanager
    def _session(
        self, write: bool, hold: Callable[[], None] = lambda: None
    ) -> Iterator[SqliteSession]:
        _require_idle(self._caller_connection or shared_driver(self._engine))
        with _plain_rows(self._caller_connection):
            with translated():
                connection = connected(self._engine.connect)
            driver: Any = connection.connection.driver_connection
            _require_no_transaction(connection)
            isolation_level = driver.isolation_level
            # Python runs signal handlers only between its own instructions, so give it some.
            driver.set_progress_handler(lambda: 0, _INSTRUCTIONS_BETWEEN_LOOKS)
            try:
                # Keep the driver from beginning or committing on its own, especially around DDL.
                driver.isolation_level = None
                connection.begin()
                with _without_row_counts(driver):
                    with translated():
                        driver.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                    try:
                        session = SqliteSession(connection, self._on_sql)
                        yield session
                        session.drop_staging()
                        if write:
                            hold()
                        with translated():
                            driver.execute("COMMIT")
                    except BaseException:
                        if driver.in_transaction:
                            driver.execute("ROLLBACK")
                        raise
            finally:
                driver.set_progress_handler(None, 0)
                driver.isolation_level = isolation_level
                connection.close()

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        may_only_read = self._path is None and self._may_only_read()
        with super().planning(staging=staging, create=create) as session:
            assert isinstance(session, SqliteSession)
            session.may_only_read = may_only_read
            yield session

    def _may_only_read(self) -> bool:
        """Return whether a connection, or a URL with options, refuses write transactions."""
        _require_idle(self._caller_connection or shared_driver(self._engine))
        with translated():
            pooled = connected(self._engine.connect)
        _require_no_transaction(pooled)
        with closing(pooled) as connection:
            driver: Any = connection.connection.driver_connection
            isolation_level, driver.isolation_level = driver.isolation_level, None
            try:
                driver.execute("BEGIN IMMEDIATE")
                # BEGIN IMMEDIATE succeeds on read-only databases too, so attempt a harmless write.
                [(number,)] = driver.execute("PRAGMA user_version").fetchall()
                driver.execute(f"PRAGMA user_version = {int(number)}")
            except sqlite3.OperationalError as error:
                # A concurrent writer raises the same exception, but does not make this one
                # read-only.
                name = getattr(error, "sqlite_errorname", "")
                return bool(name.startswith("SQLITE_READONLY"))
            finally:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")
                driver.isolation_level = isolation_level
        return False

    def spill(self, directory: Path | None, memory: int | None) -> None:
        """Do nothing: SQLite already keeps temporary tables on disk and uses little memory."""

    def same_database(self, other: object) -> bool:
        """Return True if both are the same file, engine or connection."""
        if not isinstance(other, SqliteStore):
            return False
        if self._engine is other._engine or (
            self._caller_connection and self._caller_connection is other._caller_connection
        ):
            return True
        own_path, other_path = self._url.database, other._url.database
        if not own_path or not other_path or ":memory:" in (own_path, other_path):
            return False
        return Path(own_path).resolve() == Path(other_path).resolve()


@contextmanager
def _plain_rows(connection: sqlite3.Connection | None) -> Iterator[None]:
    """Fetch rows as tuples and texts as str, whatever the caller's connection is set to."""
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
    with translated():
        busy = connection.in_transaction
    if busy:
        raise transaction_open("SQLite")


def _require_no_transaction(connection: Connection) -> None:
    """Check that the pool did not return a connection that this thread already uses.

    Its transaction belongs to the caller, so the connection is returned untouched.
    """
    driver: Any = connection.connection.driver_connection
    if driver.in_transaction:
        connection.close()
        raise transaction_open("SQLite")


def _file_of(connection: sqlite3.Connection) -> str | None:
    """Return the file behind a connection; None for an in-memory database."""
    with translated():
        [(_, _, path), *_] = connection.execute("PRAGMA database_list").fetchall()
    return str(path) or None
