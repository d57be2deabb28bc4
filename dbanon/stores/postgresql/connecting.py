"""Open connections to PostgreSQL, and end them if the network is dead.

No server state outlives a transaction here: a pooler may give each transaction another connection,
so leftovers would reach another client's session.

The client library's message explains why a server is unreachable. It is parsed but never passed on:
it may be in any language, and the settings of a URL may be secret.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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
from dbanon.stores.postgresql.settings import CALLER_PATH, PINNED

if TYPE_CHECKING:
    from sqlalchemy import URL


# Keepalive settings of the client's socket (libpq) and the server's. A dead peer is noticed after a
# minute. The server waits longer, since a client that is processing rows does not read.
_CLIENT = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_SERVER = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "120000",
}
# The driver logs failed connections, possibly with text of the server. Only applications that
# configure logging should get it; by default nothing is printed.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
# Seconds that cancelling a statement may take.
_CANCEL = 1.0

_BACKEND = f"""
{PINNED};
SELECT pg_backend_pid(), (SELECT backend_start::text FROM pg_stat_get_activity(pg_backend_pid())),
    ARRAY(SELECT name FROM pg_settings WHERE source = 'default' AND name IN ({
    ", ".join(f"'{name}'" for name in _SERVER)
}))"""
_END = (
    "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_get_activity(%s)"
    " WHERE backend_start::text = %s"
)


class Backend(NamedTuple):
    """The server side of a new connection.

    Parameters
    ----------
    path : the search path when it was opened.
    pid, since : the server process and its start time; None behind a pooler.
    unset : socket settings of the server that have their defaults.
    """

    path: list[str]
    pid: int | None
    since: str | None
    unset: Sequence[str]

    def settings(self) -> str:
        """SQL that sets them for a transaction, without reading a table."""
        return "; ".join(f"SET LOCAL {name} = {_SERVER[name]}" for name in self.unset)


def arguments_of(url: URL) -> Mapping[str, Any]:
    """Return driver arguments that complete a URL; its own settings and service win."""
    # The encoding is set while connecting, since even the first answers are decoded. Prepared
    # statements are off: behind a pooler, another connection would have them.
    arguments: dict[str, Any] = {"client_encoding": "UTF8", "prepare_threshold": None}
    if "service" not in url.query:
        arguments |= {name: value for name, value in _CLIENT.items() if name not in url.query}
    return arguments


def backend_of(driver: Any) -> Backend:
    """Query the backend of a connection; its transaction stays open with a pinned search path."""
    with driver.cursor() as cursor:
        [(path,)] = cursor.execute(CALLER_PATH).fetchall()
        cursor.execute(_BACKEND)
        while cursor.nextset():
            pass
        [(pid, since, unset)] = cursor.fetchall()
    # Poolers report an invented process id.
    if pid != driver.info.backend_pid:
        pid = since = None
    return Backend(path, pid, since, unset)


def watch(driver: Any) -> None:
    """Register a connection to be cut when its run must end, and bound the time of cancels."""
    thread_connections().register(driver)
    if "cancel_safe" not in vars(driver) and hasattr(driver, "cancel_safe"):
        driver.cancel_safe = _bounded(driver.cancel_safe)


def unwatch(driver: Any) -> bool:
    """Unregister a connection before it is closed or returned; True if it had been cut."""
    vars(driver).pop("cancel_safe", None)
    return thread_connections().unregister(driver)


def _bounded(cancel: Callable[..., None]) -> Callable[..., None]:
    """Wrap a cancel function with a timeout, since its own connection may stall, too."""

    def try_to(timeout: float) -> None:
        with contextlib.suppress(Exception):
            cancel(timeout=timeout)

    def cancel_safe(*, timeout: float = _CANCEL) -> None:
        # The driver calls this when a signal interrupts a wait.
        if isinstance(sys.exc_info()[1], (KeyboardInterrupt, SystemExit)):
            thread_connections().request_end()
        at_most = min(timeout, _CANCEL)
        thread = threading.Thread(target=try_to, args=(at_most,), daemon=True)
        thread.start()
        thread.join(at_most)

    return cancel_safe


def end(driver: Any, backend: Backend) -> None:
    """End another session of the same role, which would otherwise hold its locks for long."""
    with driver.cursor() as cursor:
        cursor.execute(PINNED)
        cursor.execute(_END, (backend.pid, backend.since))


_RUNNING = "Is the server running, and are host and port those it listens at?"
_PASSWORD = (
    "Passwords come from ~/.pgpass, a service file or PGPASSWORD; pg_hba.conf of the server says"
    " who is asked for what."
)

# The first match decides: if several hosts were tried, a server's answer says more than a timeout.
# Placeholders in braces describe the connection.
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
        "the server did not take the password of {role}, or got none",
        _PASSWORD,
    ),
    (r'role ".*" does not exist', AccessRefused, "the server has no {role}", None),
    (
        r"authentication failed|is not permitted to log in|authentication method",
        AccessRefused,
        "the server does not let {role} log in",
        _PASSWORD,
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
        "what answers at {place} is no PostgreSQL server",
        None,
    ),
    (
        r"\b(SSL|TLS|GSSAPI)\b|certificate",
        TlsFailed,
        "no encrypted connection as it was asked for came about (TLS) with {place}",
        "sslmode, sslrootcert and sslcert in the URL or PGSSLMODE … set what the client asks"
        " for, and the server's ssl setting what it offers.",
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
        "{place} did not answer in time",
        _RUNNING + " A firewall may stand between.",
    ),
    (
        r"Connection refused|No such file",
        DatabaseUnreachable,
        "nothing answers at {place}",
        _RUNNING,
    ),
)


def unreachable_error(error: Exception, url: URL) -> DbanonError:
    """Translate an error of the driver while connecting."""
    message = str(error)
    pieces = _pieces(error, url)
    for pattern, kind, reason, hint in _CAUSES:
        if re.search(pattern, message):
            cause = reason.format(**pieces)
            if kind is AccessRefused:
                return kind(f"{redacted_url(url)} refused the login: {cause}.", hint=hint)
            return kind(f"The database {redacted_url(url)} cannot be reached: {cause}.", hint=hint)
    return DatabaseUnreachable(
        f"The database {redacted_url(url)} cannot be reached.",
        detail=f"{type(error).__name__}: {pieces['role']}, {pieces['database']}, {pieces['place']}",
        hint=_RUNNING,
    )


def redacted_url(url: URL) -> str:
    """Return a URL without its secrets."""
    return redact(url.render_as_string(hide_password=True))


def _pieces(error: Exception, url: URL) -> dict[str, str]:
    """Describe address, role and database from the URL or the environment."""
    tried = getattr(error, "pgconn", None)

    def connection_part(stated: object, part: str) -> str:
        if stated:
            return str(stated)
        try:
            value: Any = getattr(tried, part)
        except Exception:
            # A connection that was never established has no such attribute.
            value = None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""

    host, port = (
        connection_part(url.host or url.query.get("host"), "host"),
        connection_part(url.port, "port"),
    )
    role, database = connection_part(url.username, "user"), connection_part(url.database, "db")
    local = not host or host.startswith("/")
    address = f"the socket in {host}" if host and local else host or "this machine's socket"
    return {
        "host": f'"{host}"',
        "place": f"{address}, port {port or 5432}",
        "role": f'role "{role}"' if role else "the role",
        "database": f'database "{database}"' if database else "the database",
    }
