"""SQLite: locked for writing from the start, so that one snapshot is read and written."""

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
    """A SQLite database: a URL, an engine, or a connection that the caller keeps."""

    kind = SQLITE
    # A column of a view has no type where it is no plain column.
    instead_of_view = "in a copy of the table"

    def __init__(
        self, database: Engine | URL | sqlite3.Connection, on_sql: OnSql | None = None
    ) -> None:
        self._held = database if isinstance(database, sqlite3.Connection) else None
        if isinstance(database, sqlite3.Connection):
            kept = database
            self._engine = create_engine("sqlite://", creator=lambda: kept, poolclass=StaticPool)
            with _plain_rows(kept):
                self._url = URL.create("sqlite", database=_file_of(kept))
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
        """Where it is, without secrets."""
        return redact(self._url.render_as_string(hide_password=True))

    @property
    def _path(self) -> Path | None:
        if self._held is not None:
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
        _require_idle(self._held or shared_driver(self._engine))
        with _plain_rows(self._held):
            with translated():
                connection = connected(self._engine.connect)
            driver: Any = connection.connection.driver_connection
            _require_no_transaction(connection)
            before = driver.isolation_level
            # Python runs the handlers of signals only between its own instructions: some are given.
            driver.set_progress_handler(lambda: 0, _INSTRUCTIONS_BETWEEN_LOOKS)
            try:
                # The driver shall not begin or commit by itself, least of all around DDL.
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
                driver.isolation_level = before
                connection.close()

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        may_only_read = self._path is None and self._may_only_read()
        with super().planning(staging=staging, create=create) as session:
            assert isinstance(session, SqliteSession)
            session.may_only_read = may_only_read
            yield session

    def _may_only_read(self) -> bool:
        """Whether a connection, or a URL with options, refuses a transaction that writes."""
        _require_idle(self._held or shared_driver(self._engine))
        with translated():
            opened = connected(self._engine.connect)
        _require_no_transaction(opened)
        with closing(opened) as connection:
            driver: Any = connection.connection.driver_connection
            isolation_level, driver.isolation_level = driver.isolation_level, None
            try:
                driver.execute("BEGIN IMMEDIATE")
                # Such a transaction begins where nothing can be written, too.
                [(number,)] = driver.execute("PRAGMA user_version").fetchall()
                driver.execute(f"PRAGMA user_version = {int(number)}")
            except sqlite3.OperationalError as error:
                # Another one writes now: that is no reason.
                name = getattr(error, "sqlite_errorname", "")
                return bool(name.startswith("SQLITE_READONLY"))
            finally:
                if driver.in_transaction:
                    driver.execute("ROLLBACK")
                driver.isolation_level = isolation_level
        return False

    def spill(self, directory: Path | None, memory: int | None) -> None:
        """Its temporary tables are on a disk already, and its memory is small."""

    def same_database(self, other: object) -> bool:
        """True when both are the same file, engine or connection."""
        if not isinstance(other, SqliteStore):
            return False
        if self._engine is other._engine or (self._held and self._held is other._held):
            return True
        mine, theirs = self._url.database, other._url.database
        if not mine or not theirs or ":memory:" in (mine, theirs):
            return False
        return Path(mine).resolve() == Path(theirs).resolve()


@contextmanager
def _plain_rows(connection: sqlite3.Connection | None) -> Iterator[None]:
    """Rows are tuples and texts are texts, whatever the caller has set on a connection."""
    if connection is None:
        yield
        return
    before = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield
    finally:
        connection.row_factory, connection.text_factory = before


@contextmanager
def _without_row_counts(connection: sqlite3.Connection) -> Iterator[None]:
    """Turn off a pragma of the caller's by which INSERT gives rows: ``executemany`` fails then."""
    before = connection.execute("PRAGMA count_changes").fetchall()
    connection.execute("PRAGMA count_changes = OFF")
    try:
        yield
    finally:
        for (value,) in before:
            connection.execute(f"PRAGMA count_changes = {value}")


def _require_idle(connection: sqlite3.Connection | None) -> None:
    """Check that a connection of the caller's has no transaction open."""
    if connection is None:
        return
    with translated():
        busy = connection.in_transaction
    if busy:
        raise transaction_open("SQLite")


def _require_no_transaction(connection: Connection) -> None:
    """Check that a pool did not give a thread the connection that it has already, in use.

    It is handed back as it is: its transaction is the caller's to end.
    """
    driver: Any = connection.connection.driver_connection
    if driver.in_transaction:
        connection.close()
        raise transaction_open("SQLite")


def _file_of(connection: sqlite3.Connection) -> str | None:
    """The file behind a connection; None where it is in memory."""
    with translated():
        [(_, _, path), *_] = connection.execute("PRAGMA database_list").fetchall()
    return str(path) or None
