"""Installs, upgrades and removes dbanon's objects in PostgreSQL: functions, types and ledger.

Together these objects are called the SQL side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from dbanon.data.types import SqlRow
from dbanon.doors.extension import extension_directory, write_extension
from dbanon.doors.server_python import (
    find_import_paths,
    install_hint,
    require_python,
    server_python_version,
)
from dbanon.doors.sql_script import LEDGER_EXTENSION, install_script, record_oids_script
from dbanon.errors import (
    DbanonError,
    InstallRefused,
    InsufficientRights,
    InvalidParameter,
    MissingDependency,
    PythonNotUsable,
)
from dbanon.ledger.postgresql import INTERNAL_VIEW, LEDGER_OWNER
from dbanon.ledger.tables import LEDGER_REVISION, TABLES
from dbanon.run.open import open_store
from dbanon.run.repair import Repair
from dbanon.run.repair import repair as repair_ledger
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.files import read_url
from dbanon.stores.postgresql.connecting import driver_arguments, unreachable_error, unwatch, watch
from dbanon.stores.postgresql.dialect import to_psycopg
from dbanon.stores.postgresql.errors import (
    translate_driver_error,
    translate_errors,
    translate_pooler_error,
)
from dbanon.stores.postgresql.locks import lock_schema
from dbanon.stores.postgresql.session import PostgresqlSession
from dbanon.stores.postgresql.settings import LOCK_SECONDS, PIN_STATEMENTS
from dbanon.version import version

if TYPE_CHECKING:
    from psycopg import Connection, Cursor, Transaction

_MAX_LOCK_SECONDS = 86_400

# SQLSTATEs.
_INSUFFICIENT_PRIVILEGE = "42501"
_LOCK_NOT_AVAILABLE = "55P03"


def install(
    url: str,
    *,
    python_paths: Sequence[str] = (),
    sql_only: bool = False,
    extension: bool = False,
    trusted_owners: Sequence[str] = (),
    lock_timeout: float = LOCK_SECONDS,
) -> list[tuple[str, str]]:
    """Install the SQL side, and return the results of ``dbanon.check()``: items and their values.

    Parameters
    ----------
    python_paths : directories from which the server's Python imports dbanon and numpy; if empty,
        the directories from which this Python imports them.
    sql_only : leave out functions that need PL/Python.
    extension : install with CREATE EXTENSION, after copying the files of the PostgreSQL
        extensions to the server, which must run on this machine.
    trusted_owners : accounts of the server's machine, besides root and the server's account, that
        may own the package. Each of them could run code as the server's account.
    lock_timeout : seconds to wait for locks on the tables of an existing ledger.

    Raises
    ------
    DatabaseBusy : other sessions hold locks on the ledger; nothing was changed.
    DbanonError : the installation failed; the database was not changed.
    """
    paths = None if sql_only else _choose_import_paths(url, python_paths)
    with _connect(url) as connection:
        _require_encoding(connection)
        if paths is not None:
            require_python(connection, paths, trusted_owners)
        lock_ledger(connection, lock_timeout)
        if _has_extension(connection, "dbanon"):
            raise InstallRefused(
                "dbanon is installed as an extension in this database.",
                hint="Run: dbanon upgrade",
            )
        if extension:
            write_extension(extension_directory(connection), list(paths or ()))
            _upgrade_ledger_extension(connection)
            connection.execute("CREATE EXTENSION dbanon CASCADE")
        else:
            if not _has_schema(connection):
                connection.execute("CREATE SCHEMA dbanon")
            connection.execute(install_script(paths))
        return _run_check(connection)


def upgrade(
    url: str,
    *,
    python_paths: Sequence[str] = (),
    trusted_owners: Sequence[str] = (),
    lock_timeout: float = LOCK_SECONDS,
) -> list[tuple[str, str]]:
    """Upgrade the SQL side to this version, in the form in which it was installed; grants stay.

    In a database without dbanon's functions, PostgreSQL or another, only the ledger is upgraded.
    On PostgreSQL, ledger entries are also reattached to the relations of their releases, which is
    necessary after a dump was restored.

    Parameters
    ----------
    lock_timeout : seconds to wait for locks on the ledger's tables, on PostgreSQL.

    Raises
    ------
    InstallRefused : dbanon is not installed.
    DatabaseBusy : other sessions hold locks on the tables; nothing was changed.
    """
    check_lock_timeout(lock_timeout)
    if not _is_postgresql(url):
        return _upgrade_ledger(url, lock_timeout)
    with _connect(url) as connection:
        if _has_functions(connection):
            _upgrade_functions(url, connection, python_paths, trusted_owners, lock_timeout)
            return [*_run_check(connection), *_to_check_rows(_run_repair(connection))]
    return _upgrade_ledger(url, lock_timeout)


def repair(
    url: str, *, accept_owners: Sequence[str] = (), lock_timeout: float = LOCK_SECONDS
) -> list[Repair]:
    """Reattach the entries of a PostgreSQL ledger to their relations, and list the repairs.

    Necessary after a dump was restored, and after a relation was renamed or got another owner.

    Parameters
    ----------
    accept_owners : roles that may own relations whose releases other roles published.
    lock_timeout : seconds to wait for locks on the ledger's tables.

    Raises
    ------
    InstallRefused : there is no ledger, or the database is not PostgreSQL.
    InsufficientRights : the ledger belongs to another role.
    DatabaseBusy : other sessions hold locks on the tables; nothing was changed.
    """
    check_lock_timeout(lock_timeout)
    if not _is_postgresql(url):
        raise InstallRefused(
            "Only a ledger on PostgreSQL is repaired.",
            hint="In other databases a ledger entry finds its relation by the name and by a comment"
            " on it, and needs no repair.",
        )
    with _connect(url) as connection:
        if fetch_rows(connection, "SELECT to_regprocedure('dbanon.repair(text[])')")[0][0]:
            lock_ledger(connection, lock_timeout)
            return _run_repair(connection, accept_owners)
        if _has_functions(connection):
            raise InstallRefused(
                "The functions of this database are of an earlier version.",
                hint="Run: dbanon upgrade",
            )
    return _upgrade_and_repair_ledger(url, lock_timeout, accept_owners)


def _run_repair(connection: Connection[SqlRow], accept_owners: Sequence[str] = ()) -> list[Repair]:
    """Call the database's repair function with the rights of the ledger's owner."""
    # The repair needs the right UPDATE. Only a member of the owner role can grant it, so this role
    # joins the owner role for a moment, before the repair and again after it. The braces stand for
    # GRANT … TO before the repair, and for REVOKE … FROM after it.
    grant_statements = (
        (
            f"GRANT {LEDGER_OWNER} TO CURRENT_USER",
            "{} UPDATE ON dbanon.release {} CURRENT_USER",
            f"REVOKE {LEDGER_OWNER} FROM CURRENT_USER",
        )
        if needs_owner_role(connection)
        else ()
    )
    for statement in grant_statements:
        connection.execute(statement.format("GRANT", "TO"))
    query = "SELECT release_id::text, output, action, reason FROM dbanon.repair(%s)"
    repairs = [Repair(*row) for row in connection.execute(query, (list(accept_owners),))]
    for statement in grant_statements:
        connection.execute(statement.format("REVOKE", "FROM"))
    return repairs


def _to_check_rows(repairs: Sequence[Repair]) -> list[tuple[str, str]]:
    """Convert repairs to pairs of item and value, as ``dbanon.check()`` returns them."""
    return [(f"release {entry.output}", f"{entry.action}: {entry.reason}") for entry in repairs]


def _require_encoding(connection: Connection[SqlRow]) -> None:
    """Check that the database has an encoding other than SQL_ASCII."""
    [(encoding,)] = fetch_rows(connection, "SELECT pg_catalog.current_setting('server_encoding')")
    if encoding == "SQL_ASCII":
        raise InstallRefused(
            "This database has the encoding SQL_ASCII: it does not know what the bytes of a text"
            " mean, so no function can read them.",
            hint="Dump it, and restore it into a database with an encoding, as in CREATE DATABASE"
            " name ENCODING 'UTF8' TEMPLATE template0. Clients can make releases of this database"
            " without the functions.",
        )


def _upgrade_functions(
    url: str,
    connection: Connection[SqlRow],
    python_paths: Sequence[str],
    trusted_owners: Sequence[str],
    lock_timeout: float,
) -> None:
    """Upgrade functions, types and ledger in the connection's transaction; see ``upgrade``."""
    has_python_functions = fetch_rows(connection, "SELECT to_regprocedure('dbanon._check()')")[0][0]
    paths = _choose_import_paths(url, python_paths) if has_python_functions else None
    if paths is not None:
        require_python(connection, paths, trusted_owners)
    lock_ledger(connection, lock_timeout)
    if _has_extension(connection, "dbanon"):
        write_extension(extension_directory(connection), list(paths or ()))
        if not _has_extension(connection, LEDGER_EXTENSION):
            connection.execute(f"CREATE EXTENSION {LEDGER_EXTENSION}")
        _upgrade_ledger_extension(connection)
        connection.execute(f"ALTER EXTENSION dbanon UPDATE TO '{version()}'")
        # An extension that already has this version does not run its script again, but a restore
        # may have changed OIDs.
        connection.execute(record_oids_script())
    else:
        connection.execute(install_script(paths))


def _upgrade_ledger_extension(connection: Connection[SqlRow]) -> None:
    """Update the ledger's extension, if it exists."""
    if _has_extension(connection, LEDGER_EXTENSION):
        connection.execute(f"ALTER EXTENSION {LEDGER_EXTENSION} UPDATE TO '{version()}'")


def _upgrade_ledger(url: str, lock_timeout: float) -> list[tuple[str, str]]:
    """Upgrade the ledger of a database without functions.

    Returns pairs of item and value: the ledger's revision, and the repairs.
    """
    repairs = _upgrade_and_repair_ledger(url, lock_timeout)
    return [
        ("ledger", LEDGER_REVISION),
        ("sql functions", "not installed"),
        *_to_check_rows(repairs),
    ]


def _upgrade_and_repair_ledger(
    url: str, lock_timeout: float, accept_owners: Sequence[str] = ()
) -> list[Repair]:
    """Upgrade the ledger of a database without functions, and list the repairs."""
    with open_store(url).session(write=True) as session:
        if not session.ledger.exists():
            raise InstallRefused(hint="Run: dbanon install")
        session.ledger.require_trusted()
        if isinstance(session, PostgresqlSession):
            session.connection.lock_seconds = lock_timeout
        session.ledger.ensure_current()
        # A restored dump has other OIDs than the ledger recorded.
        session.ledger.update_oids()
        if isinstance(session, PostgresqlSession):
            return repair_ledger(session, accept_owners)
        return []


def uninstall(url: str, *, ledger: bool = False, lock_timeout: float = LOCK_SECONDS) -> None:
    """Remove functions and types; with ``ledger``, remove the ledger, too.

    Raises
    ------
    InstallRefused : there is nothing to remove.
    DatabaseBusy : other sessions held locks on the ledger for ``lock_timeout`` seconds.
    """
    with _connect(url) as connection:
        has_functions = _has_functions(connection)
        if not has_functions and not (ledger and _has_schema(connection)):
            raise InstallRefused(hint="There is nothing to remove.")
        if ledger:
            lock_ledger(connection, lock_timeout)
        needs_grant = needs_owner_role(connection)
        if needs_grant:
            connection.execute(f"GRANT {LEDGER_OWNER} TO CURRENT_USER")
        if _has_extension(connection, "dbanon"):
            # The extension of version 0.1.0 includes the ledger's tables. Take them out of it, or
            # they would be dropped with it.
            for table in _extension_tables(connection, "dbanon"):
                connection.execute(f"ALTER EXTENSION dbanon DROP TABLE {table}")
            connection.execute("DROP EXTENSION dbanon")
        elif has_functions:
            for (routine,) in fetch_rows(
                connection,
                "SELECT p.oid::regprocedure::text FROM pg_proc p"
                " WHERE p.pronamespace = 'dbanon'::regnamespace",
            ):
                connection.execute(f"DROP ROUTINE {routine} CASCADE")
            connection.execute(f"DROP VIEW IF EXISTS dbanon.{INTERNAL_VIEW}")
            connection.execute("DROP TYPE dbanon.release_info, dbanon.verification")
        if ledger:
            connection.execute(f"DROP EXTENSION IF EXISTS {LEDGER_EXTENSION}")
            # The table alembic_version holds the ledger's revision.
            for table in (*TABLES, "alembic_version"):
                connection.execute(f"DROP TABLE IF EXISTS dbanon.{table}")
            connection.execute("DROP SCHEMA dbanon")
        if needs_grant:
            connection.execute(f"REVOKE {LEDGER_OWNER} FROM CURRENT_USER")


def _choose_import_paths(url: str, python_paths: Sequence[str]) -> list[str]:
    """Choose the directories that the server's Python imports from.

    If dbanon is an editable install, the server cannot import it. The hint of the error then has
    the command that installs dbanon on the server.
    """
    try:
        return list(python_paths) or find_import_paths()
    except PythonNotUsable as error:
        try:
            with _connect(url) as connection:
                python = server_python_version(connection)
                # Undo the extension plpython3u, which may have been created to run Python.
                connection.rollback()
        except MissingDependency:
            raise
        except DbanonError:
            # Without a connection, the hint cannot name the server's Python.
            raise error from None
        # ``checkout`` is the directory of the editable install.
        error.hint = install_hint(python, error.checkout)
        raise


def _run_check(connection: Connection[SqlRow]) -> list[tuple[str, str]]:
    """Return the rows of ``dbanon.check()``: item and value."""
    return fetch_rows(connection, "SELECT item, found FROM dbanon.check()")


def _has_extension(connection: Connection[SqlRow], name: str) -> bool:
    """Return True if the database has an extension of this name."""
    return bool(fetch_rows(connection, "SELECT 1 FROM pg_extension WHERE extname = %s", name))


def _extension_tables(connection: Connection[SqlRow], extension: str) -> list[str]:
    """Return the tables that belong to an extension."""
    tables = fetch_rows(
        connection,
        "SELECT d.objid::regclass::text FROM pg_depend AS d"
        " JOIN pg_extension AS e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass"
        " JOIN pg_class AS c ON c.oid = d.objid AND c.relkind = 'r'"
        " WHERE d.classid = 'pg_class'::regclass AND e.extname = %s",
        extension,
    )
    return [name for (name,) in tables]


def _has_schema(connection: Connection[SqlRow]) -> bool:
    """Return True if the database has dbanon's schema."""
    return bool(fetch_rows(connection, "SELECT 1 FROM pg_namespace WHERE nspname = 'dbanon'"))


def _has_functions(connection: Connection[SqlRow]) -> bool:
    """Return True if the database has dbanon's SQL functions."""
    return bool(fetch_rows(connection, "SELECT to_regprocedure('dbanon.version()')")[0][0])


def _is_postgresql(url: str) -> bool:
    return url.partition(":")[0].partition("+")[0] in ("postgresql", "postgres")


@contextmanager
def _connect(url: str) -> Iterator[Connection[SqlRow]]:
    """Connect to PostgreSQL for a ``with`` block, which commits its transaction at the end."""
    try:
        import psycopg
    except ModuleNotFoundError:
        raise MissingDependency.of_postgresql() from None
    parsed_url = read_url(url)
    if parsed_url.get_backend_name() != "postgresql":
        raise InstallRefused("Only a PostgreSQL database has SQL functions to install.")
    conninfo = parsed_url.set(drivername="postgresql").render_as_string(hide_password=False)
    try:
        connection = psycopg.connect(conninfo, **driver_arguments(parsed_url))
    except psycopg.OperationalError as error:
        raise translate_pooler_error(error) or unreachable_error(error, parsed_url) from None
    with connection, thread_connections().scope():
        # Registers the connection, so that it can be closed if the run must end.
        watch(connection)
        try:
            # Settings that statements depend on, such as the search path.
            connection.execute(PIN_STATEMENTS)
            connection.execute("SET LOCAL client_min_messages = warning")
            yield connection
        except psycopg.Error as error:
            # A pooler, such as pgbouncer, may have refused the statement instead of the server.
            if refusal := translate_pooler_error(error):
                # The error's traceback refers to this frame. Without ``del``, the frame would refer
                # to the error, and neither would be freed soon.
                try:
                    raise refusal from None
                finally:
                    del refusal
            # Only dbanon's DDL ran, so the server's message quotes no value of a table.
            message = error.diag.message_primary or type(error).__name__
            if error.sqlstate == _LOCK_NOT_AVAILABLE:
                raise translate_driver_error(error) from None
            if error.sqlstate == _INSUFFICIENT_PRIVILEGE:
                details = {"detail": error.diag.message_detail, "hint": error.diag.message_hint}
                raise InsufficientRights(message, **details) from None
            raise InstallRefused(message, hint=error.diag.message_hint) from None
        finally:
            unwatch(connection)


class _Transaction:
    """Adapts a psycopg connection to the interface that ``lock_schema`` needs."""

    def __init__(self, connection: Connection[SqlRow]) -> None:
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        self._execute(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        return self._execute(sql, parameters).fetchall()

    def savepoint(self) -> AbstractContextManager[Transaction]:
        return self._connection.transaction()

    def _execute(self, sql: str, parameters: Sequence[object]) -> Cursor[SqlRow]:
        with translate_errors():
            return self._connection.execute(
                to_psycopg(sql) if parameters else sql, parameters or None
            )


def lock_ledger(connection: Connection[SqlRow], seconds: float) -> None:
    """Lock the ledger's tables for this transaction.

    The lock is tried again and again for short times. A single long wait would block all sessions
    that request the tables meanwhile.

    Parameters
    ----------
    seconds : how long to wait for the locks.
    """
    check_lock_timeout(seconds)
    transaction = _Transaction(connection)
    try:
        with transaction.savepoint():
            needs_grant = needs_owner_role(connection)
            if needs_grant:
                transaction.run(f"GRANT {LEDGER_OWNER} TO CURRENT_USER")
            lock_schema(transaction, "dbanon", seconds)
            if needs_grant:
                transaction.run(f"REVOKE {LEDGER_OWNER} FROM CURRENT_USER")
    except InsufficientRights:
        # This role cannot lock the tables. The next statement on them fails, with an error that
        # names their owner.
        transaction.run(f"SET LOCAL lock_timeout = {int(seconds * 1000)}")


def check_lock_timeout(lock_timeout: float) -> None:
    """Check that a lock timeout is above 0 and at most a day."""
    if not 0 < lock_timeout <= _MAX_LOCK_SECONDS:
        raise InvalidParameter("lock_timeout must be a number of seconds above 0, up to 86400.")


def needs_owner_role(connection: Connection[SqlRow]) -> bool:
    """Return True if the ledger's owner role exists and the current role is not a superuser.

    The current role must then become a member of the owner role to lock or change the ledger.
    """
    query = "SELECT 1 FROM pg_roles WHERE rolname = current_user AND NOT rolsuper"
    return bool(
        fetch_rows(connection, query)
        and fetch_rows(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", LEDGER_OWNER)
    )


def fetch_rows(connection: Connection[SqlRow], query: str, *parameters: str) -> list[SqlRow]:
    """Run a query and return its rows."""
    return connection.execute(query, parameters or None).fetchall()
