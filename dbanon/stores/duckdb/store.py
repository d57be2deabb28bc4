"""DuckDB databases, in files or behind a caller's connection, and the transactions on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import duckdb

from dbanon.data.memory import (
    MIN_DATABASE_BYTES,
    duckdb_limit_statements,
    half_of_memory,
)
from dbanon.errors import InvalidParameter
from dbanon.sessions.base import OnSql
from dbanon.sessions.session import Session
from dbanon.stores.duckdb import dialect
from dbanon.stores.duckdb.errors import translate_errors
from dbanon.stores.duckdb.session import DuckdbSession
from dbanon.stores.file_session import FileDatabase
from dbanon.stores.files import DUCKDB
from dbanon.stores.interrupts import open_transaction_error

# Settings that a run may change because of its options ``memory_limit`` and ``spill``.
_RESOURCE_SETTINGS = ("memory_limit", "threads", "temp_directory")
# The values that settings must have because they change the meaning of statements: equality of
# texts, default order, and division. The caller may have set others.
_PINNED_VALUES = {
    "default_collation": "",
    "default_null_order": "NULLS_LAST",
    "default_order": "ASCENDING",
    "ieee_floating_point_ops": "true",
    "integer_division": "false",
}


def connect_in_memory(memory_bytes: int | None = None) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that never spills to disk.

    Parameters
    ----------
    memory_bytes : the memory limit; None for half of the process's limit.
    """
    connection = duckdb.connect()
    for setting in duckdb_limit_statements(memory_bytes or half_of_memory()):
        connection.execute(setting)
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET temp_directory = ''")
    return connection


class DuckdbStore(FileDatabase):
    """A DuckDB database: a file, or a connection that belongs to the caller.

    Parameters
    ----------
    memory_bytes : the memory limit of a database that is opened here; None for DuckDB's default.
        The connection of a caller keeps its limit.
    """

    kind = DUCKDB

    def __init__(
        self,
        database: str | duckdb.DuckDBPyConnection,
        on_sql: OnSql | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self._database, self._on_sql = database, on_sql
        self._memory_bytes = memory_bytes
        # The settings that ``spill`` has chosen, and the memory limit among them.
        self._spill_statements: list[str] = []
        self._spill_bytes: int | None = None

    @property
    def url(self) -> str:
        """The URL of the file; without a path for a caller's connection."""
        return f"duckdb:///{self._database}" if isinstance(self._database, str) else "duckdb://"

    @property
    def _path(self) -> Path | None:
        return Path(self._database) if isinstance(self._database, str) else None

    @contextmanager
    def _empty_session(self) -> Iterator[Session]:
        """Open a session on an empty database in memory, to plan for a file that is missing."""
        with (
            closing(_connect(":memory:", write=True)) as connection,
            DuckdbStore(connection, self._on_sql).session(write=False) as session,
        ):
            yield session

    @contextmanager
    def _session(
        self, write: bool, before_commit: Callable[[], None] = lambda: None
    ) -> Iterator[DuckdbSession]:
        # The settings to restore at the end, by name.
        previous_values: dict[str, str] = {}
        if isinstance(self._database, str):
            connection = _connect(self._database, write)
        else:
            connection = self._database
            _require_idle(connection)
        try:
            with translate_errors():
                values = _setting_values(connection, (*_RESOURCE_SETTINGS, *_PINNED_VALUES))
                if isinstance(self._database, str):
                    limit_statements = (
                        []
                        if self._memory_bytes is None
                        else duckdb_limit_statements(self._memory_bytes)
                    )
                    if limit_statements or self._spill_statements:
                        # Other connections of this process to the file share these settings.
                        previous_values = {name: values[name] for name in _RESOURCE_SETTINGS}
                        # DuckDB displays the limit truncated to one decimal. Append the digit 5,
                        # so that the restored limit is displayed in the same way.
                        number, _, unit = values["memory_limit"].partition(" ")
                        if "." in number:
                            previous_values["memory_limit"] = f"{number}5 {unit}"
                    for setting in (*limit_statements, *self._spill_statements):
                        connection.execute(setting)
            previous_values |= _pin_settings(connection, values)
            with translate_errors():
                connection.execute("BEGIN TRANSACTION")
            session = self._new_session(connection)
            session.connection.stays_open = not isinstance(self._database, str)
            if self.shares_memory:
                limit_bytes = self._spill_bytes or self._memory_bytes
                if limit_bytes is not None:
                    session.memory_bytes = max(limit_bytes, MIN_DATABASE_BYTES)
                session.n_databases = 1
            # One dictionary for both, so that settings that the session changes are restored, too.
            previous_values = session.previous_settings = {**previous_values}
            try:
                yield session
                session.drop_staging()
                if write:
                    # Defer signals until the connection is closed, as closing writes, too.
                    before_commit()
                with translate_errors():
                    connection.execute("COMMIT")
            except BaseException:
                session.connection.stop_reading()
                _roll_back(connection)
                raise
        finally:
            # After a fatal error of the database, all statements fail.
            for name, value in previous_values.items():
                with suppress(duckdb.Error):
                    connection.execute(f"SET {name} = {dialect.literal(value)}")
            if isinstance(self._database, str):
                connection.close()

    def _new_session(self, connection: duckdb.DuckDBPyConnection) -> DuckdbSession:
        return DuckdbSession(connection, self._on_sql)

    def spill(self, directory: Path | None, memory_bytes: int | None) -> None:
        """Choose the directory to which DuckDB spills, and its memory limit.

        This has no effect on a caller's connection.

        Parameters
        ----------
        directory : the directory; None for DuckDB's default, next to the database file.
        memory_bytes : the memory limit; None to keep the limit.
        """
        self._spill_statements, self._spill_bytes = [], memory_bytes
        if directory is not None:
            self._spill_statements.append(
                f"SET temp_directory = {dialect.literal(str(directory / 'duckdb'))}"
            )
        if memory_bytes is not None:
            self._spill_statements += duckdb_limit_statements(memory_bytes)

    @property
    def shares_memory(self) -> bool:
        # Other connections belong to callers.
        return isinstance(self._database, str)

    def is_same_database(self, other: object) -> bool:
        """Whether both stores have the same file or the same connection."""
        if not isinstance(other, DuckdbStore):
            return False
        if isinstance(self._database, str) and isinstance(other._database, str):
            return Path(self._database).resolve() == Path(other._database).resolve()
        return self._database is other._database


def _connect(database: str, write: bool) -> duckdb.DuckDBPyConnection:
    """Open a database file, or ``:memory:``."""
    with translate_errors(f"The database {database} cannot be opened."):
        connection = duckdb.connect(database, read_only=not write)
        # The progress bar of slow statements would mix with the report on stdout.
        connection.execute("SET enable_progress_bar = false")
        return connection


def _require_idle(connection: duckdb.DuckDBPyConnection) -> None:
    """Check that the caller's connection has no open transaction.

    A BEGIN would abort an open transaction. So compare the transaction IDs of two statements: they
    differ in autocommit mode, and are equal within a transaction.
    """
    # Qualify the function, because a database may define a macro of this name.
    transaction_id_query = "SELECT system.main.txid_current()"
    with translate_errors():
        try:
            first_id, second_id = (
                connection.execute(transaction_id_query).fetchall() for _ in range(2)
            )
        except duckdb.TransactionException:
            # The open transaction has failed; rolling it back is up to the caller.
            raise open_transaction_error("DuckDB") from None
    if first_id == second_id:
        raise open_transaction_error("DuckDB")


def _pin_settings(
    connection: duckdb.DuckDBPyConnection, values: Mapping[str, str]
) -> dict[str, str]:
    """Pin settings that change what statements mean; returns their previous values.

    Parameters
    ----------
    values : the current values by name.

    Raises
    ------
    InvalidParameter : one differs, and the connection's configuration is locked.
    """
    previous_values = {
        name: values[name]
        for name, pinned_value in _PINNED_VALUES.items()
        if values[name].upper() != pinned_value.upper()
    }
    for name in previous_values:
        try:
            connection.execute(f"SET {name} = {dialect.literal(_PINNED_VALUES[name])}")
        except duckdb.InvalidInputException:
            raise InvalidParameter(
                f"DuckDB's setting {name} changes what statements mean, and the configuration of"
                " this connection is locked.",
                hint=f"Run RESET {name} on a new connection, before SET lock_configuration = true.",
            ) from None
    return previous_values


def _setting_values(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> dict[str, str]:
    """Return the current values of settings, by name."""
    names = list(names)
    # Qualify the function, because a database may define a macro of this name.
    columns = ", ".join(f"system.main.current_setting('{name}')::VARCHAR" for name in names)
    [values] = connection.execute(f"SELECT {columns}").fetchall()
    return dict(zip(names, values, strict=True))


def _roll_back(connection: duckdb.DuckDBPyConnection) -> None:
    """Roll back the transaction, if it is still open."""
    try:
        connection.execute("ROLLBACK")
    except duckdb.Error:
        # The transaction has ended already; the error that ended it is being raised.
        return
