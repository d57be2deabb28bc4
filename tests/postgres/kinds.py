"""Ways to run a server: locally installed binaries, or Docker."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from tests.memory import memory
from tests.postgres.server import STARTUP_SECONDS, SUPERUSER, Server
from tests.postgres.tools import (
    NoServerError,
    docker_answers,
    ends_with_us,
    find_server_binaries,
    free_port,
    server_account,
)

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

CONTAINER_IMAGE = "postgres:16"


def _base(settings: Mapping[str, str]) -> str:
    """The parent directory of a cluster: in memory if it fits and need not last."""
    # Most tests copy and drop a database of a thousand files, which is five times as fast in
    # memory.
    if settings.get("fsync") == "off" and (memory_folder := memory()):
        return str(memory_folder)
    # A socket's path is limited to 107 bytes; some temporary directories alone are longer.
    return tempfile.gettempdir() if len(tempfile.gettempdir()) < 60 else "/tmp"


class LocalServer(Server):
    """A cluster in a temporary directory, on 127.0.0.1 and a unix socket."""

    is_local = True

    def __init__(
        self,
        settings: Mapping[str, str],
        binaries: Path | None = None,
        initdb: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.binaries = binaries or find_server_binaries()
        self._account = server_account()
        self.settings = dict(settings)
        self.environment: dict[str, str] = {}
        """Additional environment variables of the server, from the next start on, as `settings`."""
        self._process: subprocess.Popen[bytes] | None = None
        self.host = "127.0.0.1"
        self.directory = Path(tempfile.mkdtemp(prefix="dbanon-pg-", dir=_base(self.settings)))
        self.log_path = self.directory / "server.log"
        self.socket_directory = self.directory
        try:
            self._initdb(initdb)
            self._first_start()
            self.version = self._read_version()
        except BaseException:
            self.remove()
            raise

    def _initdb(self, options: Sequence[str]) -> None:
        password_file = self.directory / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        self.log_path.touch(mode=0o600)
        if self._account:
            for path in (self.directory, password_file, self.log_path):
                shutil.chown(path, self._account, pwd.getpwnam(self._account).pw_gid)
        process = subprocess.run(
            [
                *(self.binaries / "initdb", "--no-sync", "--encoding=UTF8"),
                "--locale=C.UTF-8" if sys.platform == "linux" else "--no-locale",
                *("--auth=md5", f"--username={SUPERUSER}", f"--pwfile={password_file}"),
                *("--pgdata", self.directory / "data"),
                *options,
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.directory,
            check=False,
            **self.as_account(),
        )
        password_file.unlink()
        if process.returncode != 0:
            raise NoServerError(f"initdb ended with {process.returncode}: {process.stderr.strip()}")

    def as_account(self) -> dict[str, Any]:
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
        # Another process may take the free port before the server does; then try another one.
        for attempt in range(3):
            self.port = free_port()
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
            **self.settings,
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.socket_directory),
            # Tests read the log: one language, and not redirected to another file.
            "lc_messages": "C",
            "logging_collector": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        account = self.as_account()
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *ends_with_us(),
                    self.binaries / "postgres",
                    "-D",
                    self.directory / "data",
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                **{**account, "env": {**account.get("env", os.environ), **self.environment}},
            )
        self._wait_until_ready(self._process)

    @property
    def process_id(self) -> int | None:
        """The process id of the postmaster, the parent of all sessions, or None."""
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
            # The process id distinguishes this start's file from one left by a crash.
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

    def log_text(self, start: int = 0) -> str:
        with self.log_path.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def log_size(self) -> int:
        # Logged plans are long: do not read those of others.
        return self.log_path.stat().st_size

    log_path: Path


class ContainerServer(Server):
    """The official image, run by Docker; without PL/Python."""

    is_local = False

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__()
        if not docker_answers():
            raise NoServerError("no Docker daemon answers")
        # Imported lazily: it is slow, and unnecessary without a Docker daemon.
        from testcontainers.core.container import DockerContainer

        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._container: DockerContainer = (
            DockerContainer(CONTAINER_IMAGE)
            .with_env("POSTGRES_PASSWORD", self.password)
            # A fixed port: Docker would choose another one after each restart.
            .with_bind_ports(5432, free_port())
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

    def log_text(self, start: int = 0) -> str:
        output, errors = self._container.get_logs()
        return (output + errors).decode(errors="replace")[start:]
