"""Open connections to PostgreSQL, and end them if the network is dead.

No setting outlives a transaction here: a pooler may run each transaction on another connection to
the server, so settings would leak into other clients' sessions.

The client library's message explains why a server is unreachable. It is matched against patterns
but never shown: it may be in any language, and may contain secret settings of the URL.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dbanon.data.types import KeywordArguments, SqlRow
from dbanon.errors import (
    AccessRefused,
    DatabaseNotFound,
    DatabaseUnreachable,
    DbanonError,
    InvalidParameter,
    TlsFailed,
    redact,
)
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.postgresql.settings import PIN_STATEMENTS, SHOW_SEARCH_PATH

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import URL


# Keepalive settings of the client's socket (libpq), to notice a dead server after a minute.
_CLIENT_KEEPALIVES = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
# Keepalive settings of the server's socket. Its timeout is longer, since a client does not read
# from the socket while it processes rows.
_SERVER_KEEPALIVES = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "120000",
}
# The driver logs failed connections, possibly with the server's text. Without this handler Python
# would print the messages if the application does not configure logging.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
# Maximum seconds to wait until a statement is cancelled.
_CANCEL_SECONDS = 1.0

# Returns the id and the start time of the server process, and the keepalive settings that have
# their defaults.
_QUERY_BACKEND = f"""
{PIN_STATEMENTS};
SELECT pg_backend_pid(), (SELECT backend_start::text FROM pg_stat_get_activity(pg_backend_pid())),
    ARRAY(SELECT name FROM pg_settings WHERE source = 'default' AND name IN ({
    ", ".join(f"'{name}'" for name in _SERVER_KEEPALIVES)
}))"""
_TERMINATE_SESSION = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_get_activity(%s)"
    " WHERE backend_start::text = %s"
)


class Backend(NamedTuple):
    """The server side of a new connection.

    Parameters
    ----------
    search_path : the schemas of the search path when the connection was opened.
    pid, started_at : id and start time of the server process; None behind a pooler.
    default_settings : names of the server's keepalive settings that have their default values.
    """

    search_path: list[str]
    pid: int | None
    started_at: str | None
    default_settings: Sequence[str]

    def keepalive_statements(self) -> str:
        """SQL that sets these keepalives for one transaction."""
        return "; ".join(
            f"SET LOCAL {name} = {_SERVER_KEEPALIVES[name]}" for name in self.default_settings
        )


def driver_arguments(url: URL) -> KeywordArguments:
    """Return defaults for the driver's connection arguments.

    Settings in the URL take precedence. If the URL names a service of libpq's service file,
    keepalives are left to that service.
    """
    # The encoding must be set while connecting, since even the first results are decoded. Prepared
    # statements are disabled: behind a pooler, the next transaction may run on another connection
    # to the server, which does not have them.
    arguments: KeywordArguments = {"client_encoding": "UTF8", "prepare_threshold": None}
    if "service" not in url.query:
        arguments |= {
            name: value for name, value in _CLIENT_KEEPALIVES.items() if name not in url.query
        }
    return arguments


def query_backend(driver_connection: psycopg.Connection[SqlRow]) -> Backend:
    """Query the backend of a connection of psycopg.

    This leaves a transaction open with a fixed search path.
    """
    with driver_connection.cursor() as cursor:
        [(search_path,)] = cursor.execute(SHOW_SEARCH_PATH).fetchall()
        cursor.execute(_QUERY_BACKEND)
        # Skip to the result of the last statement: those before it only set settings.
        while cursor.nextset():
            pass
        [(pid, started_at, default_settings)] = cursor.fetchall()
    # Poolers report an invented process id.
    if pid != driver_connection.info.backend_pid:
        pid = started_at = None
    return Backend(search_path, pid, started_at, default_settings)


def watch(driver_connection: Any) -> None:
    """Register a connection to be closed when its run must end, and limit the time of cancels.

    A cancel is a request of the driver, over another connection, to stop a statement.

    Parameters
    ----------
    driver_connection : a connection of psycopg.
    """
    thread_connections().register(driver_connection)
    # Wrap the method once per connection. Older drivers do not have it.
    if "cancel_safe" not in vars(driver_connection) and hasattr(driver_connection, "cancel_safe"):
        driver_connection.cancel_safe = _limit_cancel_time(driver_connection.cancel_safe)


def unwatch(driver_connection: psycopg.Connection[SqlRow]) -> bool:
    """Unregister a connection before it is closed or returned to a pool.

    Returns True if it was cut because its run had to end.
    """
    vars(driver_connection).pop("cancel_safe", None)
    return thread_connections().unregister(driver_connection)


def _limit_cancel_time(cancel: Callable[..., None]) -> Callable[..., None]:
    """Add a timeout to a function that cancels statements: the connection it opens may stall."""

    def try_cancel(timeout: float) -> None:
        with contextlib.suppress(Exception):
            cancel(timeout=timeout)

    def cancel_safe(*, timeout: float = _CANCEL_SECONDS) -> None:
        # The driver calls this when a signal interrupts a wait.
        if isinstance(sys.exc_info()[1], (KeyboardInterrupt, SystemExit)):
            # From now on, connections that do not answer are cut after a short time.
            thread_connections().request_end()
        timeout = min(timeout, _CANCEL_SECONDS)
        thread = threading.Thread(target=try_cancel, args=(timeout,), daemon=True)
        thread.start()
        thread.join(timeout)

    return cancel_safe


def terminate_session(driver_connection: psycopg.Connection[SqlRow], backend: Backend) -> None:
    """Terminate the backend of a dead connection, which would otherwise hold its locks for long.

    Parameters
    ----------
    driver_connection : another connection of the same role.
    backend : the backend of the dead connection.
    """
    with driver_connection.cursor() as cursor:
        cursor.execute(PIN_STATEMENTS)
        cursor.execute(_TERMINATE_SESSION, (backend.pid, backend.started_at))


_SERVER_HINT = "Is the server running, and does it listen on this host and port?"
_PASSWORD_HINT = (
    "Passwords come from ~/.pgpass, a service file or PGPASSWORD; pg_hba.conf of the server says"
    " how each role must authenticate."
)

# Pattern for the library's message, error class, reason and hint. The first match is used. If
# several hosts were tried, the message has an error for each, so patterns for answers of a server
# come before those for timeouts. Placeholders in braces are keys of the dictionary that
# ``_describe_connection`` returns.
_CAUSES: tuple[tuple[str, type[DbanonError], str, str | None], ...] = (
    (
        r"no pg_hba\.conf entry",
        AccessRefused,
        "pg_hba.conf of the server has no entry that lets {role} into {database} from here",
        "Ask its administrator for an entry. If only encrypted connections have one, add"
        " ?sslmode=require to the URL.",
    ),
    (
        r"password authentication failed|no password supplied|empty password",
        AccessRefused,
        "the server rejected the password of {role}, or got none",
        _PASSWORD_HINT,
    ),
    (r'role ".*" does not exist', AccessRefused, "the server has no {role}", None),
    (
        r"authentication failed|is not permitted to log in|authentication method",
        AccessRefused,
        "the server does not let {role} log in",
        _PASSWORD_HINT,
    ),
    (
        r"permission denied for database|does not have CONNECT",
        AccessRefused,
        "{role} may not connect to {database}",
        "GRANT CONNECT ON DATABASE … to it.",
    ),
    (
        r'database ".*" does not exist',
        DatabaseNotFound,
        "the server has no {database}",
        "psql -l lists its databases.",
    ),
    (
        r"too many (clients|connections)|connection slots|connection limit",
        DatabaseUnreachable,
        "the server has no connection left for {role}",
        "Try again later.",
    ),
    (
        r"(starting up|shutting down|recovery|not yet accepting)",
        DatabaseUnreachable,
        "the server is starting or stopping",
        "Try again later.",
    ),
    (
        r"invalid \w+ value|invalid connection option|definition of service|invalid port"
        r"|invalid integer value|invalid URI|missing \"=\"",
        InvalidParameter,
        "the client library does not know a setting of the URL, or its service",
        "Settings follow the ?, as in ?sslmode=require&connect_timeout=10.",
    ),
    (
        r"invalid response to \w+ negotiation|unsupported frontend protocol|invalid message",
        DatabaseNotFound,
        "the server at {address} is not a PostgreSQL server",
        None,
    ),
    (
        r"\b(SSL|TLS|GSSAPI)\b|certificate",
        TlsFailed,
        "the encrypted connection (TLS) to {address} could not be established",
        "Check the client's side (sslmode, sslrootcert and sslcert in the URL, or variables such"
        " as PGSSLMODE) and the server's side (its setting ssl).",
    ),
    (
        r"Temporary failure in name resolution|Try again|\[Errno -3\]",
        DatabaseUnreachable,
        "the name of the host {host} could not be resolved now",
        "Is the name server reachable?",
    ),
    (
        r"failed to resolve host|could not translate host name|Name or service not known",
        DatabaseNotFound,
        "there is no host {host}: its name does not resolve",
        None,
    ),
    (
        r"timeout expired|timed out|No route to host|unreachable",
        DatabaseUnreachable,
        "{address} did not answer in time",
        _SERVER_HINT + " A firewall may block the connection.",
    ),
    (
        r"Connection refused|No such file",
        DatabaseUnreachable,
        "nothing answers at {address}",
        _SERVER_HINT,
    ),
)


def unreachable_error(error: Exception, url: URL) -> DbanonError:
    """Translate an error of the driver while connecting."""
    message = str(error)
    names = _describe_connection(error, url)
    for pattern, error_class, reason, hint in _CAUSES:
        if re.search(pattern, message):
            cause = reason.format(**names)
            if error_class is AccessRefused:
                return error_class(f"{redacted_url(url)} refused the login: {cause}.", hint=hint)
            return error_class(
                f"The database {redacted_url(url)} cannot be reached: {cause}.", hint=hint
            )
    return DatabaseUnreachable(
        f"The database {redacted_url(url)} cannot be reached.",
        detail=f"{type(error).__name__}: {names['role']}, {names['database']}, {names['address']}",
        hint=_SERVER_HINT,
    )


def redacted_url(url: URL) -> str:
    """Return a URL without its secrets."""
    return redact(url.render_as_string(hide_password=True))


def _describe_connection(error: Exception, url: URL) -> dict[str, str]:
    """Describe host, address, role and database for messages.

    What the URL does not name is taken from the failed connection.
    """
    connection = getattr(error, "pgconn", None)

    def url_or_connection(from_url: object, connection_attribute: str) -> str:
        if from_url:
            return str(from_url)
        try:
            value: object = getattr(connection, connection_attribute)
        except Exception:
            # A connection that was never established has no such attribute.
            value = None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""

    host = url_or_connection(url.host or url.query.get("host"), "host")
    port = url_or_connection(url.port, "port")
    role = url_or_connection(url.username, "user")
    database = url_or_connection(url.database, "db")
    is_socket = not host or host.startswith("/")
    server = f"the socket in {host}" if host and is_socket else host or "this machine's socket"
    return {
        "host": f'"{host}"',
        "address": f"{server}, port {port or 5432}",
        "role": f'role "{role}"' if role else "the role",
        "database": f'database "{database}"' if database else "the database",
    }
