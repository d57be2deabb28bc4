"""The resources of a campaign: a folder, and servers with and without dbanon's functions."""

from __future__ import annotations

import logging
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from sqlalchemy import make_url

from dbanon.doors import install
from tests.backend_package import copy_package
from tests.faults.backends import Backend, DuckdbBackend, PostgresqlBackend, SqliteBackend
from tests.faults.mariadb_backend import MariadbBackend
from tests.mariadb_server import MariadbServer, throwaway_mariadb
from tests.memory import memory
from tests.object_server import served
from tests.postgres_server import Server, throwaway_server

ERRORS = Path(__file__).resolve().parents[2] / "docs" / "errors.md"


@cache
def documented_errors() -> Mapping[str, tuple[int, str]]:
    """Exit code and SQLSTATE by code, parsed from docs/errors.md."""
    lines = re.findall(r"^\| `(\w+)` \| (\d+) \| (\w{5}) \|", ERRORS.read_text("utf-8"), re.M)
    return {code: (int(exit_code), sqlstate) for code, exit_code, sqlstate in lines}


class Workspace:
    """Creates databases and removes them."""

    def __init__(self, folder: Path, server: Server, installed: str) -> None:
        self.folder, self.server, self.installed = folder, server, installed
        self._count = 0
        self._others = ExitStack()
        self._mariadb: MariadbServer | None = None
        self._bucket: str | None = None

    @property
    def mariadb(self) -> MariadbServer:
        """A MariaDB server, started on first use."""
        if self._mariadb is None:
            self._mariadb = self._others.enter_context(throwaway_mariadb())
        return self._mariadb

    def objects(self) -> str:
        """The bucket of an object store, started on first use; sets the environment to reach it."""
        if self._bucket is None:
            # It logs each request.
            logging.getLogger("werkzeug").setLevel(logging.ERROR)
            self._bucket = self._others.enter_context(served())
        return self._bucket

    def close(self) -> None:
        """Stop the servers."""
        self._others.close()

    @contextmanager
    def backend(self, kind: str, functions: bool = True) -> Iterator[Backend]:
        """An empty database; with ``functions``, dbanon is installed in it (PostgreSQL only)."""
        self._count += 1
        if kind == "mariadb":
            mariadb = MariadbBackend(self.mariadb)
            try:
                yield mariadb
            finally:
                mariadb.close()
            return
        if kind == "postgresql":
            postgresql = PostgresqlBackend(
                self.server, self.installed if functions else "template1"
            )
            try:
                yield postgresql
            finally:
                postgresql.close()
            return
        folder = self.folder / f"place {self._count}"
        folder.mkdir()
        try:
            yield DuckdbBackend(folder) if kind == "duckdb" else SqliteBackend(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_workspace(package: Path | None = None) -> Iterator[Workspace]:
    """A workspace with its own server; ``package`` is a copy of dbanon that the server may read."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="dbanon-faults-", dir=memory()))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if package is None:
            package = stack.enter_context(package_copy())
        server = stack.enter_context(throwaway_server(fsync=False, kind="local"))
        url = server.create_database("faults_installed")
        install.install(url, python_paths=[str(package)])
        workspace = Workspace(folder, server, str(make_url(url).database))
        stack.callback(workspace.close)
        yield workspace


@contextmanager
def package_copy() -> Iterator[Path]:
    """A directory from which the server's Python can import dbanon and numpy."""
    base = Path(tempfile.mkdtemp(prefix="dbanon-package-"))
    base.chmod(0o755)
    try:
        (base / "site").mkdir()
        yield copy_package(base / "site")
    finally:
        shutil.rmtree(base, ignore_errors=True)
