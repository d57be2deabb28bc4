"""Open the store of a database from a URL, engine, connection or file.

An *origin* is a source without a store of its own, such as another database or an Arrow stream: its
rows are fetched into a DuckDB instance of this program.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from dbanon.data.extension import (
    Database,
    find_database,
    find_table_format,
    installed_extensions,
    load,
)
from dbanon.data.memory import database_share
from dbanon.errors import InvalidParameter, MissingDependency, name_missing_extras
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob
from dbanon.job.reading import DEFAULT_READING, Reading
from dbanon.job.requirements import CLIENT
from dbanon.sessions.base import OnSql
from dbanon.stores.files import hint_for_path, parse_duckdb_path, read_url
from dbanon.stores.schemes import is_object, is_row_file_url

if TYPE_CHECKING:
    import sqlite3

    from duckdb import DuckDBPyConnection
    from sqlalchemy import URL, Engine

    from dbanon.sessions.store import ClientStore
    from dbanon.stores.postgresql.store import PostgresqlStore

_FRAME_HINT = "Pass it to dbanon.anonymize_frame."
# Hint for sources whose rows would have to leave their database.
_CLIENT_HINT = (
    "Its original rows would be read into the memory of this program, and released into another"
    ' database. To allow it: `kept_columns="client"`, with that database as target.'
    " docs/warehouse.md explains it."
)
_ENGINE_HINT = "Pass its URL, or a SQLAlchemy engine: sqlalchemy.create_engine(…)."

# Objects of these packages cannot be opened: message and hint, by package.
_REFUSALS_BY_PACKAGE: dict[str, tuple[str, str]] = {
    "pandas": ("A data frame is not a database.", _FRAME_HINT),
    "polars": ("A data frame is not a database.", _FRAME_HINT),
    "pyarrow": ("An Arrow table is not a database.", _FRAME_HINT),
    "psycopg": ("A psycopg connection cannot be used: a run opens its own.", _ENGINE_HINT),
    "psycopg2": ("A psycopg2 connection cannot be used: a run opens its own.", _ENGINE_HINT),
    "asyncpg": ("An asyncpg connection cannot be used: a run opens its own.", _ENGINE_HINT),
    "aiosqlite": ("An aiosqlite connection cannot be used: a run opens its own.", _ENGINE_HINT),
}


def _normalize_database(database: object) -> object:
    """Convert or refuse an object for which there is no store; return others unchanged."""
    if _is_sqlite_connection(database):
        return database
    package = type(database).__module__.partition(".")[0]
    if package in ("duckdb", "_duckdb"):
        if hasattr(database, "cursor"):
            return database
        raise InvalidParameter(
            "A DuckDB relation is not a database.",
            hint="Give the connection and the name of a table, or the relation to"
            " dbanon.anonymize_frame.",
        )
    if isinstance(database, Path):
        raise InvalidParameter(
            "A path does not say what kind of database its file is.",
            hint=hint_for_path(str(database))
            or f"Write duckdb:///{database} or sqlite:///{database}.",
        )
    if package in _REFUSALS_BY_PACKAGE:
        message, hint = _REFUSALS_BY_PACKAGE[package]
        raise InvalidParameter(message, hint=hint)
    return _normalize_sqlalchemy(database) if package == "sqlalchemy" else database


def _normalize_sqlalchemy(database: object) -> object:
    """Return an engine, or the engine of a connection; refuse sessions and asynchronous engines."""
    from sqlalchemy import Connection

    if isinstance(database, Connection):
        if database.in_transaction():
            raise InvalidParameter(
                "The SQLAlchemy connection has an open transaction. A run needs its own"
                " transaction, and would not see the changes of the open one.",
                hint="Commit or roll back first, or give connection.engine.",
            )
        return database.engine
    if getattr(database, "get_bind", None) is not None:
        raise InvalidParameter(
            "A SQLAlchemy session cannot be used, because a run needs its own transaction.",
            hint="Commit first, and give session.get_bind().",
        )
    if type(database).__module__.startswith("sqlalchemy.ext.asyncio"):
        raise InvalidParameter(
            "An asynchronous engine or connection cannot be used.", hint=_ENGINE_HINT
        )
    return database


class _NoStore(InvalidParameter):
    """There is no store for this SQLAlchemy dialect.

    Only ``open_source`` catches this class. Callers in other modules know it as InvalidParameter.
    """


# If a driver is missing, the error names the extra to install.
@name_missing_extras()
def open_source(
    database: object,
    on_sql: OnSql | None,
    job: Job,
    target: object,
    progress: Callable[[str, float], None] | None = None,
) -> ClientStore:
    """Open the store of a job's source.

    If dbanon has no store for this kind of source, open a store that fetches its rows into this
    program, if the job allows that.

    Parameters
    ----------
    database : as in ``open_store``; with ``kept_columns="client"`` also a URL or an engine of
        another SQLAlchemy dialect, ``delta:DIRECTORY``, ``iceberg:CATALOG``, an ADBC connection, an
        Arrow stream or an iterator of data frames.
    on_sql : called with the text of each statement before it runs.
    job : the job, with the options for reading its source.
    target : the database to write to; None for the database of the source.
    progress : called while rows are fetched.

    Raises
    ------
    InvalidParameter : the rows would have to leave their database, and no option allows that.
    DbanonError : as ``open_store``.
    """
    may_fetch_rows = job.kept_columns == CLIENT
    origin, is_local_folder = None, False
    # A stream needs another database as its target. If the option that allows fetching is missing,
    # the error below names it.
    if (may_fetch_rows or target is not None) and not isinstance(database, (str, Path)):
        from dbanon.stores.origins import find_stream_origin

        origin = find_stream_origin(database)
    elif isinstance(database, str) and (table_format := find_table_format(database)) is not None:
        location = database.removeprefix(table_format.prefix)
        # ``open_origin`` is the path of a function, which is imported only here.
        origin = load(table_format.open_origin)(location, job.reading.foreign_files)
        is_local_folder = table_format.reads_folders and not is_object(location)
    if origin is None:
        try:
            return open_store(
                database, on_sql, reading=job.reading, table=job.table, memory=job.memory_limit
            )
        except _NoStore as error:
            if not may_fetch_rows:
                raise InvalidParameter(error.message, hint=_CLIENT_HINT) from None
            from dbanon.stores.origins_sql import to_sql_origin

            origin = to_sql_origin(
                _normalize_database(database) if _is_engine(database) else read_url(database)
            )
    if not may_fetch_rows:
        raise InvalidParameter("There is no store for this source.", hint=_CLIENT_HINT)
    job.reading.require_no_format_options()
    # Only folders on this machine can have files of other accounts.
    if not is_local_folder:
        job.reading.require_no_foreign_files()
    if job.where is not None:
        raise InvalidParameter(
            "A condition (where) cannot be used with an unknown kind of source.",
            hint="Leave out `where`, and name a view of these rows.",
        )
    from dbanon.stores.duckdb.stream_store import StreamStore

    return StreamStore(
        origin,
        on_sql,
        table=job.table,
        # A chain counts persons in the database, by a column that is not read otherwise.
        columns=(*job.columns_to_read, *job.guarantee.counted_columns),
        chunk_rows=job.chunk_rows,
        # DuckDB holds the fetched rows.
        memory_bytes=database_share(job.memory_limit),
        progress=progress,
    )


def open_stores(
    job: Job | PrivateJob,
    database: object,
    target: object = None,
    on_sql: OnSql | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> tuple[ClientStore, ClientStore | None]:
    """Open the stores of a job's source and of its target.

    The target's store is None if releases go to the database of the source, so that one
    transaction can read and write.

    Parameters
    ----------
    database : the source, as in ``open_source``; for a private job as in ``open_store``.
    target : the database to write to, as in ``open_store``; None for the database of the source.
    on_sql : called with the text of each statement before it runs.
    progress : called while rows are fetched.

    Raises
    ------
    DbanonError : as ``open_source``.
    """
    if isinstance(job, PrivateJob):
        source = open_store(database, on_sql, table=job.table, memory=job.memory_limit)
    else:
        source = open_source(database, on_sql, job, target, progress)
    if target is None:
        return source, None
    target_store = open_store(target, on_sql, memory=job.memory_limit)
    return source, None if target_store.is_same_database(source) else target_store


def _is_sqlite_connection(database: object) -> TypeGuard[sqlite3.Connection]:
    """Return True for a ``sqlite3.Connection``."""
    # If there is such a connection, its module is already loaded; otherwise avoid the import.
    sqlite_module = sys.modules.get("_sqlite3")
    return sqlite_module is not None and isinstance(database, sqlite_module.Connection)


def _is_duckdb_connection(database: object) -> TypeGuard[DuckDBPyConnection]:
    """Return True for a DuckDB connection, if ``_normalize_database`` accepted the object."""
    return type(database).__module__.partition(".")[0] in ("duckdb", "_duckdb")


def _is_engine(database: object) -> bool:
    """Return True for a SQLAlchemy engine, checked without importing SQLAlchemy."""
    return type(database).__module__.partition(".")[0] == "sqlalchemy" and hasattr(
        database, "connect"
    )


@name_missing_extras()
def open_store(
    database: object,
    on_sql: OnSql | None = None,
    *,
    reading: Reading = DEFAULT_READING,
    table: str | None = None,
    memory: int | None = None,
) -> ClientStore:
    """Open the store for a URL, a SQLAlchemy engine, a SQLite or a DuckDB connection.

    Parameters
    ----------
    database : ``postgresql://…``, ``mysql+pymysql://…``, ``sqlite:///file.db``,
        ``duckdb:///file.duckdb``, data files as ``file:people.csv``, ``file:data/*.parquet`` or
        ``s3://bucket/folder/``, a SQLAlchemy ``Engine`` of PostgreSQL, MariaDB or SQLite, a
        SQLAlchemy ``Connection`` without an open transaction, whose engine is used, a
        ``sqlite3.Connection``, or a DuckDB connection.
    on_sql : called with the text of each statement before it runs.
    reading : the format of a CSV file.
    table : the table name for the rows of a file; None for the file's own name.
    memory : the memory limit of the job in bytes, of which a DuckDB that is opened here gets half.

    Raises
    ------
    InvalidParameter : there is no store for the database, or ``reading`` is set and the database is
        not a CSV file.
    MissingDependency : the driver of the database is not installed.
    """
    database = _normalize_database(database)
    if isinstance(database, str) and is_row_file_url(database):
        from dbanon.stores.duckdb.file_source import FileStore

        return FileStore(
            database, on_sql, reading=reading, table=table, memory_bytes=database_share(memory)
        )
    reading.require_no_file_options()
    # Import only the store that is needed: each import takes a quarter of a second or more.
    if _is_duckdb_connection(database):
        from dbanon.stores.duckdb.store import DuckdbStore

        return DuckdbStore(database, on_sql)
    if _is_sqlite_connection(database):
        from dbanon.stores.sqlite.store import SqliteStore

        return SqliteStore(database, on_sql)
    duckdb_path = parse_duckdb_path(database) if isinstance(database, str) else None
    if duckdb_path is not None:
        return _open_duckdb_store(duckdb_path, query={}, on_sql=on_sql, memory=memory)
    if isinstance(database, str):
        _require_sqlalchemy(database)
    from sqlalchemy import Engine

    try:
        url = database.url if isinstance(database, Engine) else read_url(database)
    except InvalidParameter as error:
        error.message = _name_broken_extensions(error.message)
        raise
    backend = url.get_backend_name()
    if backend == "postgresql":
        return open_postgresql_store(database if isinstance(database, Engine) else url, on_sql)
    if backend == "sqlite":
        from dbanon.stores.sqlite.store import SqliteStore

        if not isinstance(database, Engine) and _is_in_memory(url):
            raise InvalidParameter(
                "A SQLite URL must name a file.",
                hint="Write sqlite:///file.db: a database in memory is gone with the run. In Python"
                " an engine may be given.",
            )
        return SqliteStore(database if isinstance(database, Engine) else url, on_sql)
    if backend == "duckdb":
        return _open_duckdb_store(url.database, url.query, on_sql, memory)
    if (kind := find_database(backend)) is not None:
        store: ClientStore = load(kind.open_store)(
            database if isinstance(database, Engine) else url, on_sql
        )
        return store
    raise _NoStore(
        _name_broken_extensions(f"There is no store for {backend}."),
        hint="Use PostgreSQL, MariaDB, DuckDB or SQLite; anonymize draws rows from others, too:"
        " docs/warehouse.md.",
    )


def _name_broken_extensions(message: str) -> str:
    """Add the errors of extensions that failed to load, one of which may open the database."""
    return " ".join([message, *(error.message for error in installed_extensions().errors)])


def open_postgresql_store(database: Engine | URL, on_sql: OnSql | None = None) -> PostgresqlStore:
    """Open the store of a PostgreSQL server.

    Raises
    ------
    MissingDependency : psycopg is not installed.
    """
    try:
        from dbanon.stores.postgresql.store import PostgresqlStore
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        raise MissingDependency.of_postgresql() from None
    return PostgresqlStore(database, on_sql)


def supports_view_releases(url: str) -> bool:
    """Return whether a release in the database of a URL may be a view."""
    kind = _find_kind(url)
    return kind is None or kind.has_views


def supports_chains(url: str) -> bool:
    """Return whether releases in the database of a URL may continue a chain."""
    kind = _find_kind(url)
    return kind is None or kind.has_chains


def _find_kind(url: str) -> Database | None:
    """Return the extension's kind of database for a URL.

    None for kinds of database that dbanon opens without an extension, and for unknown ones.
    """
    return find_database(url.partition(":")[0].partition("+")[0])


def _require_sqlalchemy(url: str) -> None:
    """Raise an error that names the extra to install if SQLAlchemy is missing."""
    try:
        import sqlalchemy  # noqa: F401
    except ModuleNotFoundError:
        if url.partition(":")[0].partition("+")[0] in ("postgresql", "postgres"):
            raise MissingDependency.of_postgresql("SQLAlchemy") from None
        kind = _find_kind(url)
        if kind is not None and kind.extra:
            raise MissingDependency.of_extra(kind.label, "SQLAlchemy", kind.extra) from None
        raise


def _open_duckdb_store(
    path: str | None, query: Mapping[str, object], on_sql: OnSql | None, memory: int | None
) -> ClientStore:
    """Open a DuckDB file; ``query`` are the arguments in its URL, which must be empty.

    ``memory`` is the memory limit of the job in bytes; None for no limit.
    """
    from dbanon.stores.duckdb.store import DuckdbStore

    if not path or path.startswith(":memory:"):
        raise InvalidParameter(
            "A DuckDB URL must name a file.",
            hint="Write duckdb:///file.duckdb; in Python a DuckDB connection may be given.",
        )
    if query:
        raise InvalidParameter(
            "A DuckDB URL takes no arguments.",
            hint="Write duckdb:///file.duckdb: a file is opened read-only wherever nothing is"
            " written.",
        )
    return DuckdbStore(path, on_sql, database_share(memory))


def _is_in_memory(url: URL) -> bool:
    """Return True for a SQLite database in memory."""
    name = url.database or ""
    return (
        not name
        or ":memory:" in name
        or (name.startswith("file:") and url.query.get("mode") == "memory")
    )
