"""Why a PostgreSQL server cannot be reached: from what the client library says.

Its text names host, port, role and database. It is read, and not passed on: what a server answers
may stand in any language, and settings of a URL hold secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dbanon.errors import (
    AccessRefused,
    DatabaseNotFound,
    DatabaseUnreachable,
    DbanonError,
    InvalidParameter,
    TlsFailed,
)

if TYPE_CHECKING:
    from sqlalchemy import URL

_SECRET = re.compile("pass|secret|token", re.IGNORECASE)

_RUNNING = "Is the server running, and are host and port those it listens at?"
_PASSWORD = (
    "Passwords come from ~/.pgpass, a service file or PGPASSWORD; pg_hba.conf of the server says"
    " who is asked for what."
)

# The first that fits decides. Where several hosts were tried, what a server answered tells more
# than that another one did not. Pieces in braces are of the connection.
_KNOWN: tuple[tuple[str, type[DbanonError], str, str | None], ...] = (
    (
        r"no pg_hba\.conf entry",
        AccessRefused,
        "pg_hba.conf of the server has no entry that lets {role} into {database} from here",
        "Ask its administrator for one; where only encrypted connections have one, add"
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
        "Settings stand after the ?, as in ?sslmode=require&connect_timeout=10.",
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
        "sslmode, sslrootcert and sslcert in the URL or PGSSLMODE … say what is asked for; the"
        " server's ssl says what it has.",
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
    said = str(error)
    pieces = _pieces(error, url)
    for pattern, kind, what, hint in _KNOWN:
        if re.search(pattern, said):
            why = what.format(**pieces)
            return kind(f"The database {shown(url)} cannot be reached: {why}.", hint=hint)
    return DatabaseUnreachable(
        f"The database {shown(url)} cannot be reached.",
        detail=f"{type(error).__name__}: {pieces['role']}, {pieces['database']}, {pieces['place']}",
        hint=_RUNNING,
    )


def shown(url: URL) -> str:
    """A URL without its secrets."""
    query = {name: "***" if _SECRET.search(name) else value for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True)


def _pieces(error: Exception, url: URL) -> dict[str, str]:
    """Where to and as whom, as the URL says, or the environment."""
    tried = getattr(error, "pgconn", None)

    def found(stated: object, part: str) -> str:
        if stated:
            return str(stated)
        try:
            told: Any = getattr(tried, part)
        except Exception:
            # A connection that never came about knows nothing.
            told = None
        return told.decode("utf-8", "replace") if isinstance(told, bytes) else ""

    host, port = found(url.host or url.query.get("host"), "host"), found(url.port, "port")
    role, database = found(url.username, "user"), found(url.database, "db")
    local = not host or host.startswith("/")
    place = f"the socket in {host}" if host and local else host or "this machine's socket"
    return {
        "host": f'"{host}"',
        "place": f"{place}, port {port or 5432}",
        "role": f'role "{role}"' if role else "the role",
        "database": f'database "{database}"' if database else "the database",
    }
