"""SQLite: locked for writing from the start, so that one snapshot is read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, NullPool, create_engine

from dbanon.stores.base import OnSql
from dbanon.stores.files import SQLITE, file_for, will_be_made
from dbanon.stores.interrupts import held_once_committed
from dbanon.stores.sqlite.errors import translated
from dbanon.stores.sqlite.session import SqliteSession

_INSTRUCTIONS_BETWEEN_LOOKS = 100_000


class SqliteStore:
    """A SQLite database."""

    def __init__(self, engine: Engine | URL, on_sql: OnSql | None = None) -> None:
        if not isinstance(engine, Engine):
            engine = create_engine(engine, poolclass=NullPool)
        self._engine = engine
        self._url, self._on_sql = self._engine.url, on_sql

    @property
    def url(self) -> str:
        """Where it is."""
        return self._url.render_as_string(hide_password=True)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[SqliteSession]:
        """One transaction; other writers wait from its start when ``write`` is True."""
        with (
            # Around the file, too: one that was made goes when what follows raises.
            held_once_committed() as hold,
            file_for(self._path, SQLITE, write=write, create=create),
            self._session(write, hold) as session,
        ):
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[SqliteSession]:
        """A transaction that changes nothing; on an empty database for a file that is not made."""
        if create and will_be_made(self._path, SQLITE):
            empty = SqliteStore(create_engine("sqlite://", poolclass=NullPool), self._on_sql)
            with empty.session(write=False) as session:
                yield session
            return
        with (
            file_for(self._path, SQLITE, write=True, create=False),
            self._session(False) as session,
        ):
            yield session

    @property
    def _path(self) -> Path | None:
        """The file; None for a database that is none."""
        name = self._url.database
        return Path(name) if name and name != ":memory:" and not name.startswith("file:") else None

    @contextmanager
    def _session(
        self, write: bool, hold: Callable[[], None] = lambda: None
    ) -> Iterator[SqliteSession]:
        with translated():
            connection = self._engine.connect()
        driver: Any = connection.connection.driver_connection
        before = driver.isolation_level
        # Python runs the handlers of signals only between its own instructions: some are given.
        driver.set_progress_handler(lambda: 0, _INSTRUCTIONS_BETWEEN_LOOKS)
        try:
            # The driver shall not begin or commit by itself, least of all around DDL.
            driver.isolation_level = None
            connection.begin()
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

    def same_database(self, other: object) -> bool:
        """True when both are the same file or the same engine."""
        if not isinstance(other, SqliteStore):
            return False
        if self._engine is other._engine:
            return True
        mine, theirs = self._url.database, other._url.database
        if not mine or not theirs or ":memory:" in (mine, theirs):
            return False
        return Path(mine).resolve() == Path(theirs).resolve()
