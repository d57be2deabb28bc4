"""DuckDB, a file or a connection that the caller keeps: how a session on it begins and ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import duckdb

from dbanon.data.memory import duckdb_limit_statements, half_of_memory
from dbanon.errors import InvalidParameter
from dbanon.sessions.base import OnSql
from dbanon.sessions.session import Session
from dbanon.stores.duckdb import dialect as types
from dbanon.stores.duckdb.errors import translated
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.file_session import FileDatabase
from dbanon.stores.files import DUCKDB
from dbanon.stores.interrupts import transaction_open

# Settings that limit a job's resources.
_RESOURCES = ("memory_limit", "threads", "temp_directory")
# Settings that change what statements mean: text equality, default order, and division. The
# caller's connection, or a file that this process has open already, may have other values.
_PINS = {
    "default_collation": "",
    "default_null_order": "NULLS_LAST",
    "default_order": "ASCENDING",
    "ieee_floating_point_ops": "true",
    "integer_division": "false",
}


def in_memory(memory: int | None = None) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that never spills to disk.

    Parameters
    ----------
    memory : its memory limit in bytes; None for half of the process's limit.
    """
    connection = duckdb.connect()
    for setting in duckdb_limit_statements(memory or half_of_memory()):
        connection.execute(setting)
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET temp_directory = ''")
    return connection


class DuckdbStore(FileDatabase):
    """A DuckDB database: a file, or a connection that belongs to the caller.

    Parameters
    ----------
    memory : the memory limit in bytes of a database opened here; None for DuckDB's own limit. The
        caller's connection keeps its limit.
    """

    kind = DUCKDB

    def __init__(
        self,
        database: str | duckdb.DuckDBPyConnection,
        on_sql: OnSql | None = None,
        memory: int | None = None,
    ) -> None:
        self._database, self._on_sql = database, on_sql
        self._bounds = [] if memory is None else duckdb_limit_statements(memory)
        self._settings: list[str] = []

    @property
    def url(self) -> str:
        """Where it is."""
        return f"duckdb:///{self._database}" if isinstance(self._database, str) else "duckdb://"

    @property
    def _path(self) -> Path | None:
        return Path(self._database) if isinstance(self._database, str) else None

    @contextmanager
    def _empty(self) -> Iterator[Session]:
        with (
            closing(_connect(":memory:", True)) as empty,
            DuckdbStore(empty, self._on_sql).session(write=False) as session,
        ):
            yield session

    @contextmanager
    def _session(
        self, write: bool, hold: Callable[[], None] = lambda: None
    ) -> Iterator[DuckdbSession]:
        before: dict[str, str] = {}
        if isinstance(self._database, str):
            connection = _connect(self._database, write)
            with translated():
                if self._bounds or self._settings:
                    # Other connections of this process to the file share what they may use.
                    before = _values(connection, _RESOURCES)
                    # It is shown cut to one digit: with half of the next, it is shown so again.
                    before["memory_limit"] = re.sub(r"(\.\d) ", r"\g<1>5 ", before["memory_limit"])
                for setting in (*self._bounds, *self._settings):
                    connection.execute(setting)
        else:
            connection = self._database
            _require_idle(connection)
        try:
            before |= _pin(connection)
            with translated():
                connection.execute("BEGIN TRANSACTION")
            session = self._opened(connection)
            session.stays_open = not isinstance(self._database, str)
            before = session.settings_before = {**before}
            try:
                yield session
                session.drop_staging()
                if write:
                    # Until the connection is closed: that writes, too.
                    hold()
                with translated():
                    connection.execute("COMMIT")
            except BaseException:
                session.stop_reading()
                _roll_back(connection)
                raise
        finally:
            # A database that a fatal error has closed takes no statement any more.
            for name, value in before.items():
                with suppress(duckdb.Error):
                    connection.execute(f"SET {name} = {types.literal(value)}")
            if isinstance(self._database, str):
                connection.close()

    def _opened(self, connection: duckdb.DuckDBPyConnection) -> DuckdbSession:
        return DuckdbSession(connection, self._on_sql)

    def spill(self, directory: Path | None, memory: int | None) -> None:
        """Of a file: what does not fit goes into a directory, and not beside the file."""
        self._settings = []
        if directory is None:
            return
        self._settings.append(f"SET temp_directory = {types.literal(str(directory / 'duckdb'))}")
        if memory is not None:
            self._settings += duckdb_limit_statements(memory)

    def same_database(self, other: object) -> bool:
        """True when both are the same file or the same connection."""
        if not isinstance(other, DuckdbStore):
            return False
        if isinstance(self._database, str) and isinstance(other._database, str):
            return Path(self._database).resolve() == Path(other._database).resolve()
        return self._database is other._database


def _connect(database: str, write: bool) -> duckdb.DuckDBPyConnection:
    with translated(f"The database {database} cannot be opened."):
        connection = duckdb.connect(database, read_only=not write)
        # The progress bar of slow statements would go to stdout, where the report is.
        connection.execute("SET enable_progress_bar = false")
        return connection


def _require_idle(connection: duckdb.DuckDBPyConnection) -> None:
    """Check that the caller's connection has no open transaction, without disturbing an open one.

    A BEGIN would fail and abort an open transaction. In autocommit mode each statement has a new
    transaction ID, so two equal IDs mean an open transaction.
    """
    # Qualified, since a database may define a macro of this name.
    number = "SELECT system.main.txid_current()"
    with translated():
        try:
            first, second = (connection.execute(number).fetchall() for _ in range(2))
        except duckdb.TransactionException:
            # The open transaction has failed; rolling it back is up to the caller.
            raise transaction_open("DuckDB") from None
    if first == second:
        raise transaction_open("DuckDB")


def _pin(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Pin settings that change what statements mean; returns their previous values.

    Raises
    ------
    InvalidParameter : one differs, and the connection's configuration is locked.
    """
    with translated():
        values = _values(connection, _PINS)
    differing = {
        name: value for name, value in values.items() if value.upper() != _PINS[name].upper()
    }
    for name in differing:
        try:
            connection.execute(f"SET {name} = {types.literal(_PINS[name])}")
        except duckdb.InvalidInputException:
            raise InvalidParameter(
                f"DuckDB's setting {name} changes what statements mean, and the configuration of"
                " this connection is locked.",
                hint=f"Run RESET {name} on a new connection, before SET lock_configuration = true.",
            ) from None
    return differing


def _values(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> dict[str, str]:
    """The values of settings."""
    names = list(names)
    # Qualified, since a database may define a macro of this name.
    columns = ", ".join(f"system.main.current_setting('{name}')::VARCHAR" for name in names)
    [values] = connection.execute(f"SELECT {columns}").fetchall()
    return dict(zip(names, values, strict=True))


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:
        # The transaction has ended already; the error that ended it is being raised.
        return
