"""A PostgreSQL database through a client: how it is opened, and what ends a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Engine, NullPool, create_engine, event

from dbanon.errors import ConnectionLost, DatabaseUnreachable, InvalidParameter
from dbanon.stores.base import OnSql
from dbanon.stores.idle import shared_driver, transaction_open
from dbanon.stores.interrupts import held_once_committed
from dbanon.stores.postgresql.client import FOUND_PATH, PsycopgSession
from dbanon.stores.postgresql.commit import commit
from dbanon.stores.postgresql.errors import translated
from dbanon.stores.postgresql.job_lock import hold_job
from dbanon.stores.postgresql.settings import CALLER_PATH
from dbanon.stores.postgresql.unreachable import shown, unreachable

if TYPE_CHECKING:
    from sqlalchemy import Connection


class PostgresqlStore:
    """A PostgreSQL database."""

    def __init__(self, engine: Engine | URL, on_sql: OnSql | None = None) -> None:
        url = engine.url if isinstance(engine, Engine) else engine
        if not isinstance(engine, Engine) or engine.driver != "psycopg":
            # At the connect, over what environment, role and database say: the very first
            # answers are read as text.
            engine = create_engine(
                url.set(drivername="postgresql+psycopg"),
                poolclass=NullPool,
                connect_args={"client_encoding": "UTF8"},
            )
            # Before SQLAlchemy, which asks a new connection things by unqualified names.
            event.listen(engine, "connect", _pin_search_path, insert=True)
        self._engine, self._url, self._on_sql = engine, url, on_sql

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return shown(self._url)

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """One REPEATABLE READ transaction; one that only reads when ``write`` is False."""
        _require_idle(shared_driver(self._engine))
        with held_once_committed() as hold:
            connection = self._connect()
            try:
                _require_idle(connection.connection.driver_connection)
            except InvalidParameter:
                connection.close()
                raise
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            try:
                with translated():
                    connection.begin()
                    session = PsycopgSession(connection, self._on_sql)
                    yield session
                    if write:
                        commit(connection, self._connect, session.release_id, hold)
                    else:
                        connection.commit()
            except BaseException:
                # Staging goes with the transaction; a connection in doubt is not used again.
                connection.invalidate()
                raise
            finally:
                connection.close()

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[PsycopgSession]:
        """A transaction that changes nothing: without temporary tables one that cannot."""
        with self.session(write=False) as session:
            if not staging:
                session.run("SET TRANSACTION READ ONLY")
            yield session

    def _connect(self) -> Connection:
        try:
            with translated(lost=lambda error: unreachable(error, self._url)):
                return self._engine.connect()
        except ConnectionLost as error:
            raise DatabaseUnreachable(
                f"The database {self.url} cannot be reached.", detail=error.detail
            ) from None

    @contextmanager
    def job_lock(self, job: str) -> Iterator[None]:
        """In an open transaction of a connection of its own: it goes with whoever holds it."""
        # What another transaction commits meanwhile is seen by the next statement.
        connection = self._connect().execution_options(isolation_level="READ COMMITTED")
        try:
            with translated():
                connection.begin()
                hold_job(PsycopgSession(connection), job)
            yield
        finally:
            # It is rolled back with the connection, which is not used again.
            connection.invalidate()
            connection.close()

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
    """Check that a connection that the caller's own engine shares has no transaction open.

    Raises
    ------
    InvalidParameter : it has one, which the run would commit or roll back with its own.
    """
    if driver is not None and not driver.closed and driver.info.transaction_status.name != "IDLE":
        raise transaction_open("PostgreSQL")


def _pin_search_path(connection: Any, record: Any) -> None:
    """Make a new connection independent of its search path, which may name anybody's functions."""
    with connection.cursor() as cursor:
        record.info[FOUND_PATH] = cursor.execute(CALLER_PATH).fetchone()[0]
        cursor.execute("SET search_path = pg_catalog, pg_temp")
    connection.commit()
