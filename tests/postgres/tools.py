"""Finds local programs to run a PostgreSQL server, and converts URLs."""

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

# The directory where .ci/prepare.sh unpacks missing programs.
UNPACKED = Path(os.environ.get("DBANON_TEST_PROGRAMS") or "/opt/dbanon-tests") / "postgresql"


class NoServerError(RuntimeError):
    """No PostgreSQL server can be started; the message says why."""


def find_server_binaries() -> Path:
    """The folder of initdb and postgres.

    Checked in order: DBANON_TEST_BINARIES, the folder of .ci/prepare.sh, pg_config's, Debian's
    newest, PATH.
    """
    candidates = []
    if named := os.environ.get("DBANON_TEST_BINARIES"):
        candidates.append(Path(named))
    # They exist only if the machine's own server lacks PL/Python or pg_cron.
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
    """Program folders below a folder like Debian's /usr/lib/postgresql, newest first."""
    binaries = [path for path in folder.glob("*/bin") if path.parent.name.isdigit()]
    return sorted(binaries, key=lambda path: int(path.parent.name), reverse=True)


def conninfo(url: str) -> str:
    """The URL in the form of libpq and psycopg."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def libpq_environment(url: str) -> dict[str, str]:
    """The URL as environment variables of libpq, for psql, pg_dump and others."""
    parts = make_url(url)
    return {
        "PGHOST": parts.host or "",
        "PGPORT": str(parts.port or 5432),
        "PGUSER": parts.username or "",
        "PGPASSWORD": str(parts.password or ""),
        "PGDATABASE": parts.database or "",
    }


def literal_sql(text: str) -> sql.SQL:
    # psycopg's types require literal text; options of CREATE ROLE are not values and cannot be
    # quoted.
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
    """A command prefix that stops the server if this process is killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", "--"] if setpriv else []


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def docker_answers() -> bool:
    # Docker's own client waits long, and leaves its socket open if there is no daemon.
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
