"""Installing, upgrading and removing the SQL side of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from dbanon.doors.extension import extension_directory, write_extension
from dbanon.doors.server_python import asked_python, own_paths, require_python, way_out
from dbanon.doors.sql_script import LEDGER_EXTENSION, script, tie_script
from dbanon.errors import (
    DbanonError,
    InstallRefused,
    InsufficientRights,
    InvalidParameter,
    MissingDependency,
    PythonNotUsable,
)
from dbanon.ledger.postgresql import OWNER
from dbanon.ledger.tables import HEAD, TABLES
from dbanon.run.open import open_store
from dbanon.sessions.ending import ending
from dbanon.stores.files import read_url
from dbanon.stores.postgresql.connecting import arguments_of, unreachable, unwatch, watch
from dbanon.stores.postgresql.errors import of_pooler, translated, translation
from dbanon.stores.postgresql.locks import lock_schema
from dbanon.stores.postgresql.session import PostgresqlSession
from dbanon.stores.postgresql.settings import LOCK_SECONDS, PINNED
from dbanon.version import version

_A_DAY = 86_400


def install(
    url: str,
    *,
    python_paths: Sequence[str] = (),
    sql_only: bool = False,
    extension: bool = False,
    trusted_owners: Sequence[str] = (),
    lock_timeout: float = LOCK_SECONDS,
) -> list[tuple[str, str]]:
    """Install the SQL side; what ``dbanon.check()`` then says.

    Parameters
    ----------
    python_paths : where the server's Python shall import dbanon and numpy from; this Python's
        own directories when empty.
    sql_only : leave out what needs PL/Python.
    extension : copy the extensions' files to this machine's server, and CREATE EXTENSION.
    trusted_owners : accounts of the server's machine, beside root and the server's own, that may
        own the package: each could run code as the server's account.
    lock_timeout : seconds for which the tables of a ledger that is there are asked for.

    Raises
    ------
    DatabaseBusy : others kept them; nothing was changed.
    DbanonError : it cannot be installed; nothing was changed in the database then.
    """
    paths = None if sql_only else _paths(url, python_paths)
    with _connected(url) as connection:
        _require_encoding(connection)
        if paths is not None:
            require_python(connection, paths, trusted_owners)
        _lock_ledger(connection, lock_timeout)
        if _is_extension(connection, "dbanon"):
            raise InstallRefused(
                "dbanon is installed as an extension in this database.",
                hint="Run: dbanon upgrade",
            )
        if extension:
            write_extension(extension_directory(connection), list(paths or ()))
            _bring_ledger(connection)
            connection.execute("CREATE EXTENSION dbanon CASCADE")
        else:
            if not _has_schema(connection):
                connection.execute("CREATE SCHEMA dbanon")
            connection.execute(script(paths))
        return _checked(connection)


def upgrade(
    url: str,
    *,
    python_paths: Sequence[str] = (),
    trusted_owners: Sequence[str] = (),
    lock_timeout: float = LOCK_SECONDS,
) -> list[tuple[str, str]]:
    """Bring ledger and SQL side to this version, in the way they were installed; grants stay.

    A ledger that a client made is brought to this version alone, on every database. On PostgreSQL
    releases are tied to their relations again, as is needed after a dump was restored.

    Parameters
    ----------
    lock_timeout : seconds for which the ledger's tables are asked for, on PostgreSQL.

    Raises
    ------
    InstallRefused : there is nothing of dbanon.
    DatabaseBusy : others kept the tables; nothing was changed.
    """
    _require_seconds(lock_timeout)
    if not _is_postgresql(url):
        return _upgraded_ledger(url, lock_timeout)
    with _connected(url) as connection:
        functions = _has_functions(connection)
        if functions:
            _upgrade_functions(url, connection, python_paths, trusted_owners, lock_timeout)
            return _checked(connection)
    return _upgraded_ledger(url, lock_timeout)


def _require_encoding(connection: Any) -> None:
    """Check that the server knows what the bytes of texts mean."""
    [(encoding,)] = _rows(connection, "SELECT pg_catalog.current_setting('server_encoding')")
    if encoding == "SQL_ASCII":
        raise InstallRefused(
            "This database has the encoding SQL_ASCII: it does not know what the bytes of a text"
            " mean, so no function can read them.",
            hint="Dump it, and restore it into a database with an encoding, as in CREATE DATABASE"
            " name ENCODING 'UTF8' TEMPLATE template0. Clients release from this one, too.",
        )


def _upgrade_functions(
    url: str,
    connection: Any,
    python_paths: Sequence[str],
    owners: Sequence[str],
    lock_timeout: float,
) -> None:
    with_python = _rows(connection, "SELECT to_regprocedure('dbanon._check()')")[0][0]
    paths = _paths(url, python_paths) if with_python else None
    if paths is not None:
        require_python(connection, paths, owners)
    _lock_ledger(connection, lock_timeout)
    if _is_extension(connection, "dbanon"):
        write_extension(extension_directory(connection), list(paths or ()))
        if not _is_extension(connection, LEDGER_EXTENSION):
            connection.execute(f"CREATE EXTENSION {LEDGER_EXTENSION}")
        _bring_ledger(connection)
        connection.execute(f"ALTER EXTENSION dbanon UPDATE TO '{version()}'")
        # A script that is not newer is not run again, and a dump may have been restored.
        connection.execute(tie_script())
    else:
        connection.execute(script(paths))


def _bring_ledger(connection: Any) -> None:
    """Update the ledger's extension, if it is there."""
    if _is_extension(connection, LEDGER_EXTENSION):
        connection.execute(f"ALTER EXTENSION {LEDGER_EXTENSION} UPDATE TO '{version()}'")


def _upgraded_ledger(url: str, lock_timeout: float) -> list[tuple[str, str]]:
    """Bring the ledger of a database without functions to this version."""
    with open_store(url).session(write=True) as session:
        if not session.has_ledger():
            raise InstallRefused(hint="Run: dbanon install")
        session.require_trusted_ledger()
        if isinstance(session, PostgresqlSession):
            session.lock_seconds = lock_timeout
        session.ensure_ledger()
        session.tie_releases()
    return [("ledger", HEAD), ("sql functions", "not installed")]


def uninstall(url: str, *, ledger: bool = False, lock_timeout: float = LOCK_SECONDS) -> None:
    """Remove functions and types; the ledger stays unless ``ledger`` says otherwise.

    Raises
    ------
    InstallRefused : there is nothing to remove.
    DatabaseBusy : others kept tables of the ledger for ``lock_timeout`` seconds.
    """
    with _connected(url) as connection:
        functions = _has_functions(connection)
        if not functions and not (ledger and _has_schema(connection)):
            raise InstallRefused(hint="There is nothing to remove.")
        if ledger:
            _lock_ledger(connection, lock_timeout)
        borrowed = _needs_owner(connection)
        if borrowed:
            connection.execute(f"GRANT {OWNER} TO CURRENT_USER")
        if _is_extension(connection, "dbanon"):
            # Version 0.1.0 had the ledger in it.
            for table in _members(connection, "dbanon"):
                connection.execute(f"ALTER EXTENSION dbanon DROP TABLE {table}")
            connection.execute("DROP EXTENSION dbanon")
        elif functions:
            for name in _rows(
                connection,
                "SELECT p.oid::regprocedure::text FROM pg_proc p"
                " WHERE p.pronamespace = 'dbanon'::regnamespace",
            ):
                connection.execute(f"DROP ROUTINE {name[0]} CASCADE")
            connection.execute("DROP TYPE dbanon.release_info, dbanon.verification")
        if ledger:
            connection.execute(f"DROP EXTENSION IF EXISTS {LEDGER_EXTENSION}")
            for table in (*TABLES, "alembic_version"):
                connection.execute(f"DROP TABLE IF EXISTS dbanon.{table}")
            connection.execute("DROP SCHEMA dbanon")
        if borrowed:
            connection.execute(f"REVOKE {OWNER} FROM CURRENT_USER")


class _Transaction:
    """The transaction of a plain connection, as what asks for locks takes it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self._executed(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._executed(sql, parameters).fetchall()
        return found

    def savepoint(self) -> AbstractContextManager[Any]:
        savepoint: AbstractContextManager[Any] = self._connection.transaction()
        return savepoint

    def _executed(self, sql: str, parameters: Sequence[Any]) -> Any:
        with translated():
            return self._connection.execute(sql.replace("?", "%s"), parameters or None)


def _lock_ledger(connection: Any, seconds: float) -> None:
    """Have the ledger's tables for this transaction alone, so that nobody waits behind it."""
    _require_seconds(seconds)
    transaction = _Transaction(connection)
    try:
        with transaction.savepoint():
            borrowed = _needs_owner(connection)
            if borrowed:
                transaction.run(f"GRANT {OWNER} TO CURRENT_USER")
            lock_schema(transaction, "dbanon", seconds)
            if borrowed:
                transaction.run(f"REVOKE {OWNER} FROM CURRENT_USER")
    except InsufficientRights:
        # What follows says whose it is.
        transaction.run(f"SET LOCAL lock_timeout = {int(seconds * 1000)}")


def _require_seconds(lock_timeout: float) -> None:
    """Check a time that locks are asked for."""
    if not 0 < lock_timeout <= _A_DAY:
        raise InvalidParameter("lock_timeout must be a number of seconds above 0, up to 86400.")


def _paths(url: str, given: Sequence[str]) -> list[str]:
    """Where the server's Python shall import from; an error names what to run on its machine."""
    try:
        return list(given) or own_paths()
    except PythonNotUsable as error:
        try:
            with _connected(url) as connection:
                python = asked_python(connection)
                connection.rollback()
        except MissingDependency:
            raise
        except DbanonError:
            # A server that cannot be asked leaves the error without its Python.
            raise error from None
        error.hint = way_out(python, error.checkout)
        raise


def _checked(connection: Any) -> list[tuple[str, str]]:
    return _rows(connection, "SELECT item, found FROM dbanon.check()")


def _is_extension(connection: Any, name: str) -> bool:
    return bool(_rows(connection, "SELECT 1 FROM pg_extension WHERE extname = %s", name))


def _members(connection: Any, extension: str) -> list[str]:
    """The tables that belong to an extension."""
    found = _rows(
        connection,
        "SELECT d.objid::regclass::text FROM pg_depend AS d"
        " JOIN pg_extension AS e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass"
        " JOIN pg_class AS c ON c.oid = d.objid AND c.relkind = 'r'"
        " WHERE d.classid = 'pg_class'::regclass AND e.extname = %s",
        extension,
    )
    return [name for (name,) in found]


def _needs_owner(connection: Any) -> bool:
    """True for an administrator who is no superuser, where another role owns the ledger."""
    query = "SELECT 1 FROM pg_roles WHERE rolname = current_user AND NOT rolsuper"
    return bool(
        _rows(connection, query)
        and _rows(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", OWNER)
    )


def _has_schema(connection: Any) -> bool:
    return bool(_rows(connection, "SELECT 1 FROM pg_namespace WHERE nspname = 'dbanon'"))


def _has_functions(connection: Any) -> bool:
    return bool(_rows(connection, "SELECT to_regprocedure('dbanon.version()')")[0][0])


def _is_postgresql(url: str) -> bool:
    return url.partition(":")[0].partition("+")[0] in ("postgresql", "postgres")


def _rows(connection: Any, query: str, *parameters: str) -> list[Any]:
    found: list[Any] = connection.execute(query, parameters or None).fetchall()
    return found


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """A connection whose transaction is committed at the end of the block."""
    try:
        import psycopg
    except ModuleNotFoundError:
        raise MissingDependency.of_postgresql() from None
    parsed = read_url(url)
    if parsed.get_backend_name() != "postgresql":
        raise InstallRefused("Only a PostgreSQL database has a SQL side to install.")
    conninfo = parsed.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        connection = psycopg.connect(conninfo, **arguments_of(parsed))
    except psycopg.OperationalError as error:
        raise of_pooler(error) or unreachable(error, parsed) from None
    with connection, ending().scope():
        watch(connection)
        try:
            connection.execute(PINNED)
            connection.execute("SET LOCAL client_min_messages = warning")
            yield connection
        except psycopg.Error as error:
            if refusal := of_pooler(error):
                try:
                    raise refusal from None
                finally:
                    del refusal
            # DDL of ours alone: the server's text holds no value of a table.
            text = error.diag.message_primary or type(error).__name__
            if error.sqlstate == "55P03":
                raise translation(error) from None
            if error.sqlstate == "42501":
                told = {"detail": error.diag.message_detail, "hint": error.diag.message_hint}
                raise InsufficientRights(text, **told) from None
            raise InstallRefused(text, hint=error.diag.message_hint) from None
        finally:
            unwatch(connection)
