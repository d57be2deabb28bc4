"""How connections to PostgreSQL are made, and ended where their network does not answer.

Nothing here lasts longer than a transaction on the server: behind a pooler that gives each
transaction another connection, what a session leaves would be found by somebody else's.

Why a server cannot be reached comes from what the client library says. Its text names host, port,
role and database. It is read, and not passed on: what a server answers may stand in any language,
and settings of a URL hold secrets.
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
from dbanon.sessions.ending import ending
from dbanon.stores.postgresql.settings import CALLER_PATH, PINNED

if TYPE_CHECKING:
    from sqlalchemy import URL


# Of the client's socket, as libpq knows them, and of the server's. A peer that is gone is noticed
# after a minute. The server waits longer: a client that is busy with rows does not read more.
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
# What the driver says of a connection that is given up may hold text of the server. Who has loggers
# of their own gets it; it is not printed where nobody asked.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
# Seconds that a request to cancel a statement may take.
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
    """What a new connection leads to.

    Parameters
    ----------
    path : the search path that it was opened with.
    pid, since : the server's process and when it began; None behind a pooler.
    unset : settings of the server's socket that nobody made.
    """

    path: list[str]
    pid: int | None
    since: str | None
    unset: Sequence[str]

    def settings(self) -> str:
        """SQL that makes those settings for a transaction; nothing reads a table for it."""
        return "; ".join(f"SET LOCAL {name} = {_SERVER[name]}" for name in self.unset)


def arguments_of(url: URL) -> Mapping[str, Any]:
    """What is said to the driver beside a URL: nothing that the URL, or its service, says."""
    # At the connect, over what environment, role and database say: the very first answers are
    # read as text. Statements without names: behind a pooler another connection has them.
    arguments: dict[str, Any] = {"client_encoding": "UTF8", "prepare_threshold": None}
    if "service" not in url.query:
        arguments |= {name: value for name, value in _CLIENT.items() if name not in url.query}
    return arguments


def backend_of(driver: Any) -> Backend:
    """What a connection leads to; its transaction stays open, with a search path of its own."""
    with driver.cursor() as cursor:
        [(path,)] = cursor.execute(CALLER_PATH).fetchall()
        cursor.execute(_BACKEND)
        while cursor.nextset():
            pass
        [(pid, since, unset)] = cursor.fetchall()
    # A pooler tells clients a number that it made up.
    if pid != driver.info.backend_pid:
        pid = since = None
    return Backend(path, pid, since, unset)


def watch(driver: Any) -> None:
    """Let a connection be cut when its run is told to end, and be cancelled in bounded time."""
    ending().register(driver)
    if "cancel_safe" not in vars(driver) and hasattr(driver, "cancel_safe"):
        driver.cancel_safe = _bounded(driver.cancel_safe)


def unwatch(driver: Any) -> bool:
    """Whether it had to be cut; before a connection is closed, or handed back to its owner."""
    vars(driver).pop("cancel_safe", None)
    return ending().forget(driver)


def _bounded(cancel: Callable[..., None]) -> Callable[..., None]:
    """What cancels, and gives up in time: it has a connection of its own, which may stall, too."""

    def try_to(timeout: float) -> None:
        with contextlib.suppress(Exception):
            cancel(timeout=timeout)

    def cancel_safe(*, timeout: float = _CANCEL) -> None:
        # The driver cancels what a signal interrupts while it waits.
        if isinstance(sys.exc_info()[1], (KeyboardInterrupt, SystemExit)):
            ending().request_end()
        at_most = min(timeout, _CANCEL)
        thread = threading.Thread(target=try_to, args=(at_most,), daemon=True)
        thread.start()
        thread.join(at_most)

    return cancel_safe


def end(driver: Any, backend: Backend) -> None:
    """End another session of the same role, which would hold its locks until it notices."""
    with driver.cursor() as cursor:
        cursor.execute(PINNED)
        cursor.execute(_END, (backend.pid, backend.since))


_RUNNING = "Is the server running, and are host and port those it listens at?"
_PASSWORD = (
    "Passwords come from ~/.pgpass, a service file or PGPASSWORD; pg_hba.conf of the server says"
    " who is asked for what."
)

# The first that fits decides. Where several hosts were tried, what a server answered tells more
# than that another one did not. Pieces in braces are of the connection.
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


def unreachable(error: Exception, url: URL) -> DbanonError:
    """The error for one of the driver that came of connecting."""
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
    """A URL without its secrets."""
    return redact(url.render_as_string(hide_password=True))


def _pieces(error: Exception, url: URL) -> dict[str, str]:
    """Where to and as whom, as the URL says, or the environment."""
    tried = getattr(error, "pgconn", None)

    def connection_part(stated: object, part: str) -> str:
        if stated:
            return str(stated)
        try:
            value: Any = getattr(tried, part)
        except Exception:
            # A connection that never came about knows nothing.
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
