"""A throw-away MariaDB server for tests and benchmarks.

    with throwaway_mariadb() as server:
        url = server.url("app")

Its data are made by installed binaries, in memory where there is room, and it listens on a unix
socket alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pymysql

from tests.memory import memory
from tests.postgres.tools import NoServerError, ends_with_us

_STARTUP_SECONDS = 60
# Error codes for a missing table or database, and for a lost connection.
_MISSING, _DISCONNECTED = (1146, 1049), (0, 1053, 2002, 2003, 2006, 2013)
_SHARED = (Path("/usr/share/mysql"), Path("/usr/share/mariadb"))
# Before version 11 their names start with mysql.
_SYSTEM = ("m*_system_tables.sql", "m*_system_tables_data.sql")
# Few pages and files, as each test worker starts a server.
_SMALL = {
    "innodb-log-file-size": "16M",
    "innodb-buffer-pool-size": "64M",
    "key-buffer-size": "1M",
    "aria-pagecache-buffer-size": "16M",
    "performance-schema": "OFF",
    "max-connections": "60",
    "innodb-flush-log-at-trx-commit": "2",
}


class MariadbServer:
    """A server in a temporary directory, on a unix socket; ``root`` has no password."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        binary = shutil.which(
            "mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/libexec"
        )
        shared = next((folder for folder in _SHARED if any(folder.glob(_SYSTEM[0]))), None)
        if binary is None or shared is None:
            raise NoServerError("no MariaDB server: there is no mariadbd (mariadb-server-core)")
        self._binary, self._shared, self._settings = binary, shared, {**_SMALL, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self.directory = Path(tempfile.mkdtemp(prefix="dbanon-maria-", dir=memory() or "/tmp"))
        self.socket = self.directory / "s"
        try:
            self._make()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _command(self, *more: str) -> list[str]:
        variables = {
            "datadir": str(self.directory / "data"),
            "lc-messages-dir": str(self._shared),
            "tmpdir": str(self.directory),
            "socket": str(self.socket),
            "pid-file": str(self.directory / "pid"),
            **self._settings,
        }
        options = [f"--{name}={value}" for name, value in variables.items()]
        return [self._binary, "--no-defaults", "--skip-networking", *options, *more]

    def _as_account(self) -> dict[str, Any]:
        """Arguments of subprocess functions: the server refuses to run as root."""
        if os.geteuid() != 0:
            return {}
        account = pwd.getpwnam("nobody")
        return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def _make(self) -> None:
        (self.directory / "data").mkdir()
        if os.geteuid() == 0:
            account = pwd.getpwnam("nobody")
            for path in (self.directory, self.directory / "data"):
                os.chown(path, account.pw_uid, account.pw_gid)
        statements = ["create database mysql;", "use mysql;", "set @auth_root_socket=NULL;"]
        statements += ["set @skip_auth_anonymous=1;"]
        statements += [next(self._shared.glob(name)).read_text() for name in _SYSTEM]
        process = subprocess.run(
            self._command("--bootstrap"),
            input="\n".join(statements).encode(),
            capture_output=True,
            check=False,
            cwd=self.directory,
            **self._as_account(),
        )
        if process.returncode != 0:
            raise NoServerError(f"no MariaDB server: {process.stderr.decode()[-2000:]}")

    def start(self) -> None:
        log_path = self.directory / "log"
        before = len(self.log_text()) if log_path.exists() else 0
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*ends_with_us(), *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                **self._as_account(),
            )
        until = time.monotonic() + _STARTUP_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise NoServerError(f"no MariaDB server: {self.log_text()[-2000:]}")
            # A refused connection leaves its socket open.
            if "ready for connections" in self.log_text()[before:]:
                return
            time.sleep(0.02)
        raise NoServerError("no MariaDB server: it is not ready in time")

    @property
    def process_id(self) -> int:
        """The process id of the running server."""
        assert self._process is not None
        return self._process.pid

    def crash(self) -> None:
        """Kill it as a power failure would, except that the system's cache survives."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(timeout=_STARTUP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def remove(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)

    def log_text(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def connect(self, database: str | None = None, user: str = "root") -> Any:
        return pymysql.connect(
            unix_socket=str(self.socket),
            user=user,
            database=database,
            charset="utf8mb4",
            autocommit=True,
            ssl_disabled=True,
        )

    def execute(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as root and return the rows of the last one."""
        with contextlib.closing(self.connect(database)) as connection:
            cursor = connection.cursor()
            cursor.execute(
                "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,STRICT_ALL_TABLES,"
                "NO_BACKSLASH_ESCAPES'"
            )
            cursor.execute("SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin")
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def schemas(self) -> Sequence[str]:
        """The databases except system ones."""
        system_schemas = ("mysql", "information_schema", "performance_schema", "sys")
        return [name for (name,) in self.execute("SHOW DATABASES") if name not in system_schemas]

    def url(self, database: str, user: str = "root") -> str:
        # The driver loads the system's certificates for each connection, which takes 20 ms.
        query = f"unix_socket={self.socket}&ssl_disabled=1"
        return f"mysql+pymysql://{user}@localhost/{database}?{query}"


def digest_of(rows: Sequence[str]) -> str:
    """A digest of rows as texts."""
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


class Readers:
    """Two sessions that read a whole release in a loop, as another account would.

    ``seen`` has the digest of every answer and how often it was met; ``missing`` counts answers
    that there is no such table; ``lost`` those that a server which ended did not give. ``pause`` is
    how many seconds they rest after an answer: none where what they shall meet lasts no longer than
    a statement, which takes as much of this process as they can get.
    """

    def __init__(
        self, server: MariadbServer, schema: str, relation: str, pause: float = 0.0
    ) -> None:
        self.seen: dict[str, int] = {}
        self.missing = self.lost = 0
        self._server, self._sql = server, f"SELECT * FROM {relation}"
        # Uses another account than dbanon, since a campaign kills all sessions of dbanon's account.
        server.execute(
            "CREATE USER IF NOT EXISTS reader@localhost",
            f"GRANT SELECT ON {schema}.* TO reader@localhost",
        )
        self._pause = pause
        self._stop, self._lock = threading.Event(), threading.Lock()

    def digest(self) -> str | None:
        """A digest of the current table as readers see it, or None."""
        try:
            rows = self._server.execute(self._sql)
        except pymysql.err.ProgrammingError:
            return None
        return digest_of(sorted(map(repr, rows)))

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read in threads during the block."""
        self._stop.clear()
        threads = [threading.Thread(target=self._loop) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()

    def wait(self) -> None:
        """Wait until readers get another result, at most 10 s."""
        deadline, answers_before = time.monotonic() + 10, sum(self.seen.values()) + self.missing
        while (
            sum(self.seen.values()) + self.missing == answers_before and time.monotonic() < deadline
        ):
            time.sleep(0.005)

    def _loop(self) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._server.connect(user="reader")) as connection:
                    cursor = connection.cursor()
                    cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES'")
                    while not self._stop.is_set():
                        cursor.execute(self._sql)
                        self._note(digest_of(sorted(map(repr, cursor.fetchall()))))
                        if self._pause:
                            self._stop.wait(self._pause)
            except (pymysql.err.Error, OSError) as error:
                code = error.args[0] if error.args else 0
                with self._lock:
                    self.missing += code in _MISSING
                    self.lost += code in _DISCONNECTED
                if code not in _MISSING + _DISCONNECTED:
                    self._note(f"error {code}")
                time.sleep(0.005)

    def _note(self, digest: str) -> None:
        with self._lock:
            self.seen[digest] = self.seen.get(digest, 0) + 1

    def findings(self, allowed: Sequence[str | None]) -> list[str]:
        """Report results that match none of these digests, or missing tables."""
        findings = []
        others = {digest for digest in self.seen if digest not in allowed}
        if others:
            findings.append(
                f"readers met {len(others)} other tables than the old and the new release"
            )
        if self.missing and None not in allowed:
            findings.append(f"readers met no table {self.missing} times")
        return findings


@contextlib.contextmanager
def throwaway_mariadb(settings: Mapping[str, str] | None = None) -> Iterator[MariadbServer]:
    """A new server, removed at the end of the block.

    Raises NoServerError with the reason if none can be started.
    """
    server = MariadbServer(settings or {})
    try:
        yield server
    finally:
        server.remove()
