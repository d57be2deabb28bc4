"""What is on this machine to run a PostgreSQL server with, and forms of its URL."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg import sql
from sqlalchemy import make_url

# Where .ci/prepare.sh unpacks programs that the machine does not have.
UNPACKED = Path(os.environ.get("DBANON_TEST_PROGRAMS") or "/opt/dbanon-tests") / "postgresql"


class NoServerError(RuntimeError):
    """No PostgreSQL server can be started here; the message says why."""


def find_server_binaries() -> Path:
    """The folder of initdb and postgres.

    That of DBANON_TEST_BINARIES, else what .ci/prepare.sh unpacked, else pg_config's, else Debian's
    newest, else one on PATH.
    """
    candidates = []
    if named := os.environ.get("DBANON_TEST_BINARIES"):
        candidates.append(Path(named))
    # They are there only if the machine's own server lacks PL/Python or pg_cron.
    candidates += _debian_binaries(UNPACKED / "usr/lib/postgresql")
    if pg_config := shutil.which("pg_config"):
        output = subprocess.run(
            [pg_config, "--bindir"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        candidates.append(Path(output.stdout.strip()))
    candidates += _debian_binaries(Path("/usr/lib/postgresql"))
    if initdb := shutil.which("initdb"):
        candidates.append(Path(initdb).resolve().parent)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServerError("no initdb by pg_config, in /usr/lib/postgresql or on PATH")


def _debian_binaries(folder: Path) -> list[Path]:
    """The folders of programs below a folder as Debian's /usr/lib/postgresql, newest first."""
    binaries = [path for path in folder.glob("*/bin") if path.parent.name.isdigit()]
    return sorted(binaries, key=lambda path: int(path.parent.name), reverse=True)


def conninfo(url: str) -> str:
    """The URL as libpq and psycopg write it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def libpq_environment(url: str) -> dict[str, str]:
    """The URL as environment variables of libpq, for psql, pg_dump and the like."""
    parts = make_url(url)
    return {
        "PGHOST": parts.host or "",
        "PGPORT": str(parts.port or 5432),
        "PGUSER": parts.username or "",
        "PGPASSWORD": str(parts.password or ""),
        "PGDATABASE": parts.database or "",
    }


def literal_sql(text: str) -> sql.SQL:
    # psycopg's types want literal text; words of CREATE ROLE are not values and cannot be quoted.
    words: Any = text
    return sql.SQL(words)


def binary(name: str) -> str:
    with contextlib.suppress(NoServerError):
        path = find_server_binaries() / name
        if path.exists():
            return str(path)
    if on_path := shutil.which(name):
        return on_path
    raise NoServerError(f"{name} is not installed")


def server_account() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise NoServerError("root may not run PostgreSQL, and there is no account postgres or nobody")


def ends_with_us() -> list[str]:
    """A prefix that shuts the server down when this process is killed and cannot do it any more."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", "--"] if setpriv else []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def docker_answers() -> bool:
    # Not by Docker's own client: it waits for long, and leaves its socket open when nobody answers.
    parts = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    try:
        if parts.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(2)
                probe.connect(parts.path)
        elif parts.hostname:
            socket.create_connection((parts.hostname, parts.port or 2375), timeout=2).close()
    except OSError:
        return False
    return True
