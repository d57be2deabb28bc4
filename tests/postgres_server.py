"""A throw-away PostgreSQL server for tests, benchmarks and examples.

    with throwaway_server() as server:
        with server.database() as url:
            ...

`python -m tests.postgres_server` starts one and prints its URL until it is interrupted.

A server is a container when a Docker daemon answers, otherwise a cluster in a temporary directory
made with installed server binaries. `DBANON_TEST_SERVER=local` or `=container` allows only the one.
PL/Python functions import this environment's packages, so they need a local server:
`throwaway_server(kind="local")`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

CONTAINER_IMAGE = "postgres:16"
STARTUP_SECONDS = 60
SUPERUSER = "postgres"

Kind = Literal["local", "container"]


class NoServerError(RuntimeError):
    """No PostgreSQL server can be started here; the message says why."""


class Log:
    """What the server has logged since a point in time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._start = len(server.log_text())

    @property
    def text(self) -> str:
        return self._server.log_text()[self._start :]


class Server(ABC):
    """A running server; `host`, `port`, `version` (major) and URLs stay the same over restarts."""

    host: str
    port: int
    version: int
    log_path: Path | None = None
    """The log file; None in a container, where `log_text` asks Docker."""
    is_local: bool
    """Whether the server runs on this machine, where it can import this environment's packages."""

    def __init__(self) -> None:
        self.password = secrets.token_urlsafe(16)

    @abstractmethod
    def start(self) -> None:
        """Start after `stop` or `crash`, and wait until connections are accepted."""

    @abstractmethod
    def stop(self) -> None:
        """Shut down in order: sessions are ended, a checkpoint is written."""

    @abstractmethod
    def crash(self) -> None:
        """End at once without a checkpoint; the next start recovers from the write-ahead log."""

    @abstractmethod
    def remove(self) -> None:
        """Stop and delete everything."""

    @abstractmethod
    def log_text(self) -> str:
        """All that was logged since the server was made."""

    def url(
        self, database: str = "postgres", user: str = SUPERUSER, password: str | None = None
    ) -> str:
        """SQLAlchemy URL, with the superuser's password unless told."""
        return URL.create(
            "postgresql+psycopg",
            username=user,
            password=self.password if password is None else password,
            host=self.host,
            port=self.port,
            database=database,
        ).render_as_string(hide_password=False)

    @property
    def superuser_url(self) -> str:
        return self.url()

    def execute(
        self, statement: str | sql.Composed, *parameters: Any, url: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement in a connection of its own (autocommit) and return its rows, if any."""
        # psycopg's types want literal text, against injection; here it is the callers' own.
        query: Any = statement
        with psycopg.connect(conninfo(url or self.superuser_url), autocommit=True) as connection:
            cursor = connection.execute(query, parameters or None)
            return cursor.fetchall() if cursor.description is not None else []

    def psql(
        self, script: str, *, url: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a script (statements and backslash commands) through psql, unaligned, tuples only.

        The first error stops it; with `check` that raises, psql's messages in the exception's text.
        """
        command = [_binary("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-"]
        done = subprocess.run(
            command,
            input=script,
            capture_output=True,
            text=True,
            env={**os.environ, **libpq_environment(url or self.superuser_url)},
            check=False,
        )
        if check and done.returncode != 0:
            raise RuntimeError(f"psql ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def create_database(self, name: str | None = None, *, template: str = "template1") -> str:
        """Copy `template`, to which nobody may be connected, and return the new database's URL."""
        name = name or f"test_{secrets.token_hex(6)}"
        self.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database together with the sessions in it."""
        self.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )

    @contextlib.contextmanager
    def database(self, *, template: str = "template1") -> Iterator[str]:
        """URL of a fresh database; it and all roles made meanwhile are dropped afterwards."""
        roles = self._roles()
        url = self.create_database(template=template)
        try:
            yield url
        finally:
            self.drop_database(make_url(url).database or "")
            # Roles belong to the whole server: left behind, they would be seen by the next test.
            for role in self._roles() - roles:
                self.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))

    def create_role(self, name: str, *, url: str, options: str = "") -> str:
        """Make a role that may log in, and return its URL for the database of `url`.

        `options` are words of CREATE ROLE, such as `"CREATEDB IN ROLE dbanon_runner"`.
        """
        password = secrets.token_urlsafe(16)
        self.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} ").format(sql.Identifier(name), password)
            + _literal_sql(options)
        )
        return self.url(make_url(url).database or "", name, password)

    @contextlib.contextmanager
    def capture_log(self, *, statements: bool = False) -> Iterator[Log]:
        """What the server logs inside the block; with `statements` that is every statement, too."""
        if statements:
            self._log_statement("all")
        try:
            yield Log(self)
        finally:
            if statements:
                self._log_statement("none")

    def _log_statement(self, value: str) -> None:
        self.execute(sql.SQL("ALTER SYSTEM SET log_statement = {}").format(value))
        self.execute("SELECT pg_reload_conf()")
        # The signal is handled some time later; new sessions show when.
        deadline = time.monotonic() + STARTUP_SECONDS
        while self.execute("SHOW log_statement") != [(value,)]:
            if time.monotonic() > deadline:
                raise TimeoutError("the server does not take the new log_statement")
            time.sleep(0.01)

    def _roles(self) -> set[str]:
        return {name for (name,) in self.execute("SELECT rolname FROM pg_roles")}

    def _read_version(self) -> int:
        [(number,)] = self.execute("SELECT current_setting('server_version_num')::integer")
        return int(number) // 10000


class LocalServer(Server):
    """A cluster in a temporary directory, on 127.0.0.1 and a unix socket."""

    is_local = True

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        self._bin = find_server_binaries()
        self._account = _server_account()
        self._settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self.host = "127.0.0.1"
        # A socket's path may have 107 bytes; some temporary directories alone are longer than that.
        base = tempfile.gettempdir() if len(tempfile.gettempdir()) < 60 else "/tmp"
        self.directory = Path(tempfile.mkdtemp(prefix="dbanon-pg-", dir=base))
        self.log_path = self.directory / "server.log"
        self.socket_directory = self.directory
        try:
            self._initdb()
            self._first_start()
            self.version = self._read_version()
        except BaseException:
            self.remove()
            raise

    def _initdb(self) -> None:
        password_file = self.directory / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        self.log_path.touch(mode=0o600)
        if self._account:
            for path in (self.directory, password_file, self.log_path):
                shutil.chown(path, self._account, pwd.getpwnam(self._account).pw_gid)
        made = subprocess.run(
            [
                *(self._bin / "initdb", "--no-sync", "--encoding=UTF8"),
                "--locale=C.UTF-8" if sys.platform == "linux" else "--no-locale",
                *("--auth=scram-sha-256", f"--username={SUPERUSER}", f"--pwfile={password_file}"),
                *("--pgdata", self.directory / "data"),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.directory,
            check=False,
            **self._as_account(),
        )
        password_file.unlink()
        if made.returncode != 0:
            raise NoServerError(f"initdb ended with {made.returncode}: {made.stderr.strip()}")

    def _as_account(self) -> dict[str, Any]:
        """Arguments of subprocess functions: the server refuses to run as root."""
        if self._account is None:
            return {}
        account = pwd.getpwnam(self._account)
        # The environment is built anew: a HOME of root would not be readable.
        return {
            "user": account.pw_uid,
            "group": account.pw_gid,
            "extra_groups": [],
            "env": {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.directory)},
        }

    def _first_start(self) -> None:
        # Another process may take the free port before the server does: then another port.
        for attempt in range(3):
            self.port = _free_port()
            try:
                self.start()
            except NoServerError:
                if attempt == 2 or "Address already in use" not in self.log_text():
                    raise
            else:
                return

    def start(self) -> None:
        if self._process is not None:
            raise RuntimeError("the server runs already")
        settings = {
            **self._settings,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.socket_directory),
            # The log is read by tests: one language, and not redirected to another file.
            "lc_messages": "C",
            "logging_collector": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*_ends_with_us(), self._bin / "postgres", "-D", self.directory / "data", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                **self._as_account(),
            )
        self._wait_until_ready(self._process)

    @property
    def process_id(self) -> int | None:
        """Of the server's first process, the parent of all sessions; None when it does not run."""
        return self._process.pid if self._process else None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        pid_file = self.directory / "data" / "postmaster.pid"
        while time.monotonic() < deadline:
            if process.poll() is not None:
                self._process = None
                raise NoServerError(
                    f"the server did not start; its log:\n{self.log_text()[-2000:]}"
                )
            # Unlike trying to connect, this leaves no "database system is starting up" in the log.
            # The process id tells this start's file from one that a crash left behind.
            with contextlib.suppress(FileNotFoundError):
                lines = pid_file.read_text().splitlines()
                if len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                    return
            time.sleep(0.01)
        raise NoServerError(f"the server is not ready after {STARTUP_SECONDS} s")

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def crash(self) -> None:
        self._end(signal.SIGQUIT)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for request in (how, signal.SIGQUIT, signal.SIGKILL):
            process.send_signal(request)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STARTUP_SECONDS)
                return

    def remove(self) -> None:
        self._end(signal.SIGINT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace")

    log_path: Path


class ContainerServer(Server):
    """The official image, run by Docker; without PL/Python."""

    is_local = False

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        if not _docker_answers():
            raise NoServerError("no Docker daemon answers")
        # Imported here: it is slow, and not needed where no Docker daemon answers.
        from testcontainers.core.container import DockerContainer

        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._container: DockerContainer = (
            DockerContainer(CONTAINER_IMAGE)
            .with_env("POSTGRES_PASSWORD", self.password)
            # A chosen port: Docker would give another one after each restart.
            .with_bind_ports(5432, _free_port())
            .with_command(["postgres", *options])
        )
        try:
            self._container.start()
            self.host = self._container.get_container_host_ip()
            self.port = self._container.get_exposed_port(5432)
            self._wait_until_ready()
            self.version = self._read_version()
        except BaseException:
            self.remove()
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise NoServerError(
                        f"the container does not accept connections: {error}"
                    ) from None
                time.sleep(0.1)
            else:
                return

    def start(self) -> None:
        self._container.get_wrapped_container().start()
        self._wait_until_ready()

    def stop(self) -> None:
        self._container.get_wrapped_container().stop()

    def crash(self) -> None:
        self._container.get_wrapped_container().kill()
        self._container.get_wrapped_container().wait()

    def remove(self) -> None:
        self._container.stop()

    def log_text(self) -> str:
        output, errors = self._container.get_logs()
        return (output + errors).decode(errors="replace")


@contextlib.contextmanager
def throwaway_server(
    *, fsync: bool = True, settings: Mapping[str, str] | None = None, kind: Kind | None = None
) -> Iterator[Server]:
    """A new server with default settings, removed at the end of the block.

    `fsync=False` spares the disk, for tests but not for measurements: as safe against `crash`, not
    against a power failure. `settings` are those of postgresql.conf. `kind` overrides
    DBANON_TEST_SERVER.

    Raises NoServerError with the reasons when no server can be had.
    """
    wanted = dict(settings or {})
    if not fsync:
        wanted = {"fsync": "off", "full_page_writes": "off", **wanted}
    server = _make_server(wanted, kind or os.environ.get("DBANON_TEST_SERVER"))
    try:
        yield server
    finally:
        server.remove()


def _make_server(settings: Mapping[str, str], kind: str | None) -> Server:
    if kind not in (None, "", "local", "container"):
        raise ValueError(f"DBANON_TEST_SERVER is {kind!r}, not 'local' or 'container'")
    reasons = []
    for makes, name in ((ContainerServer, "container"), (LocalServer, "local")):
        if kind in (None, "", name):
            try:
                return makes(settings)
            # Whatever fails in Docker, such as fetching the image, must not prevent a local server.
            except Exception as error:
                reasons.append(f"{name}: {error}")
    raise NoServerError("no PostgreSQL server: " + "; ".join(reasons))


def find_server_binaries() -> Path:
    """The folder of initdb and postgres: pg_config's, else Debian's newest, else one on PATH."""
    candidates = []
    if pg_config := shutil.which("pg_config"):
        told = subprocess.run(
            [pg_config, "--bindir"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        candidates.append(Path(told.stdout.strip()))
    debian = [
        path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()
    ]
    candidates += sorted(debian, key=lambda path: int(path.parent.name), reverse=True)
    if initdb := shutil.which("initdb"):
        candidates.append(Path(initdb).resolve().parent)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServerError("no initdb by pg_config, in /usr/lib/postgresql or on PATH")


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


def _literal_sql(text: str) -> sql.SQL:
    # psycopg's types want literal text; words of CREATE ROLE are not values and cannot be quoted.
    words: Any = text
    return sql.SQL(words)


def _binary(name: str) -> str:
    with contextlib.suppress(NoServerError):
        path = find_server_binaries() / name
        if path.exists():
            return str(path)
    if found := shutil.which(name):
        return found
    raise NoServerError(f"{name} is not installed")


def _server_account() -> str | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise NoServerError("root may not run PostgreSQL, and there is no account postgres or nobody")


def _ends_with_us() -> list[str]:
    """A prefix that shuts the server down when this process is killed and cannot do it any more."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "INT", "--"] if setpriv else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _docker_answers() -> bool:
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


def _main() -> None:
    parser = argparse.ArgumentParser(description="Run a PostgreSQL server until interrupted.")
    parser.add_argument("--no-fsync", action="store_true", help="faster, not for measurements")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    # SystemExit, unlike the signal's default, lets the server be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    with (
        contextlib.suppress(KeyboardInterrupt),
        throwaway_server(fsync=not arguments.no_fsync, settings=settings) as server,
    ):
        print(server.superuser_url, flush=True)
        signal.pause()


if __name__ == "__main__":
    _main()
