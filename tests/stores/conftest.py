from __future__ import annotations

import gc
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pymysql.connections import Connection

from dbanon.run import fingerprint
from tests.conftest import CAMPAIGN
from tests.mariadb_server import MariadbServer
from tests.postgres.warm import close_warm, warm
from tests.postgres_server import Server
from tests.stores import kept_duckdb
from tests.stores.catalogs import close_catalogs, open_files
from tests.stores.databases import (
    NAMES,
    Database,
    DuckdbDatabase,
    MariadbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)
from tests.stores.signals import handler

# The value outside these tests.
FINGERPRINT_HASH_ROUNDS = fingerprint._HASH_ROUNDS


@pytest.fixture(scope="module", autouse=True)
def _fast_fingerprints() -> Iterator[None]:
    """Use fewer rounds of the slow hash than is safe, since a job that checks twice waits twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "_HASH_ROUNDS", 1000)
        yield


@pytest.fixture(autouse=True)
def _kept_files() -> Iterator[None]:
    """Keep the files that a test queries open in that test, and close them afterwards."""
    kept_duckdb.keep_files()
    yield
    kept_duckdb.close_kept()


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Handle SIGINT as at a terminal; processes started in the background by a shell ignore it."""
    with handler(signal.SIGINT, signal.default_int_handler):
        yield


PLANTED = "planted-9f3a"


@pytest.fixture
def catalog_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The files of the catalog `here`, which is in a SQLite file, as the environment has it.

    Nothing holds the catalog's file open once a test is over, without the garbage collector.
    """
    folder = tmp_path / "warehouse"
    folder.mkdir()
    for name, value in (
        ("TYPE", "sql"),
        ("URI", f"sqlite:///{tmp_path}/catalog.db"),
        ("WAREHOUSE", f"file://{folder}"),
    ):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__HERE__{name}", value)
    # It reads them when it is imported.
    from pyiceberg.utils.config import Config

    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    yield folder
    close_catalogs()
    assert not open_files(tmp_path / "catalog.db")


@pytest.fixture
def warehouse(tmp_path: Path, catalog_files: Path) -> Path:
    """The files of a catalog, and a database with a table to be released."""
    database = SqliteDatabase(tmp_path / "d.sqlite")
    rows = [(i, 20 + i % 30, f"{PLANTED}-{i % 3}") for i in range(100)]
    database.load("people", {"id": "BIGINT", "age": "BIGINT", "site": "TEXT"}, rows)
    return catalog_files


# SQLite, in this process, answers five times as fast as the others: two of three cases are its own.
TURNS = (
    "sqlite",
    "postgresql",
    "sqlite",
    "sqlite",
    "sqlite",
    "postgresql",
    "sqlite",
    "duckdb",
    "sqlite",
    "sqlite",
    "sqlite",
    "duckdb",
)
_NOTHING = SimpleNamespace(params={})
_MARKS = {"postgresql": pytest.mark.postgresql, "mariadb": pytest.mark.mariadb}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames:
        # The mark belongs on the parameter, because the server's fixture is only requested by name.
        metafunc.parametrize(
            "database",
            [
                pytest.param(name, marks=_MARKS.get(name, ()))
                for name in getattr(metafunc.module, "DATABASES", NAMES)
            ],
            indirect=True,
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run each case marked `in_turn` on one database only, and the first case on all.

    ``CAMPAIGN=full`` runs every case on all of them.
    """
    if CAMPAIGN:
        return
    groups: dict[str, dict[tuple[str, ...], list[pytest.Item]]] = {}
    for item in items:
        mark = item.get_closest_marker("in_turn")
        if mark is None or "database" not in getattr(item, "callspec", _NOTHING).params:
            continue
        callspec = item.callspec  # type: ignore[attr-defined]
        case = callspec.id.split("-")
        case.remove(callspec.params["database"])
        function = item.nodeid.partition("[")[0]
        group = str(item.path) if mark.kwargs.get("of") == "file" else function
        groups.setdefault(group, {}).setdefault((function, *case), []).append(item)
    left_out = set()
    for cases in groups.values():
        for index, on_each in enumerate(cases.values()):
            if index:
                left_out.update(on_each)
                left_out.discard(_in_turn(on_each, index))
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))


def _in_turn(on_each: list[pytest.Item], index: int) -> pytest.Item:
    """The test on the database whose turn it is."""
    by_name = {item.callspec.params["database"]: item for item in on_each}  # type: ignore[attr-defined]
    item = by_name.get(TURNS[index % len(TURNS)])
    return item or on_each[index % len(on_each)]


@pytest.fixture(scope="session")
def _shared_url(pg_server: Server) -> Iterator[str]:
    with pg_server.database() as url:
        yield url
        close_warm()


@pytest.fixture
def postgresql(request: pytest.FixtureRequest, _shared_url: str) -> Iterator[PostgresqlDatabase]:
    """An empty PostgreSQL database: one for all, emptied, as making one takes most of a second.

    Tests that make roles take `pg_url`, which `pg_role` belongs to. dbanon's connections share
    backends, but in tests that are marked `own_backends`.
    """
    database = PostgresqlDatabase(_shared_url)
    database.clear()
    if request.node.get_closest_marker("own_backends") is not None:
        close_warm()
        yield database
        return
    with warm(_shared_url):
        yield database


@pytest.fixture
def mariadb(mariadb_server: MariadbServer) -> Iterator[MariadbDatabase]:
    """An empty MariaDB database, the only one of its server."""
    database = MariadbDatabase(mariadb_server)
    database.clear()
    refused: list[str] = []
    connect = Connection.connect

    def record_refusal(connection: Connection[Any], sock: Any = None) -> None:
        try:
            connect(connection, sock)
        except BaseException as error:
            refused.append(type(error).__name__)
            raise

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "connect", record_refusal)
        yield database
    # PyMySQL closes no socket of a connection that is refused, as by a server that was killed.
    if refused:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def make_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Database]:
    """`make_database("sqlite")`: an empty database of that kind, one of each kind a test."""

    def make(name: str) -> Database:
        if name == "duckdb":
            return DuckdbDatabase(tmp_path / "test.duckdb")
        if name == "sqlite":
            return SqliteDatabase(tmp_path / "test.db")
        if name == "mariadb":
            on_mariadb: MariadbDatabase = request.getfixturevalue("mariadb")
            return on_mariadb
        on_postgresql: PostgresqlDatabase = request.getfixturevalue("postgresql")
        return on_postgresql

    return make


@pytest.fixture
def database(request: pytest.FixtureRequest, make_database: Callable[[str], Database]) -> Database:
    """An empty database; a test that takes it runs once on each kind."""
    return make_database(request.param)


@pytest.fixture
def duckdb_file(tmp_path: Path) -> DuckdbDatabase:
    """An empty DuckDB file."""
    return DuckdbDatabase(tmp_path / "other.duckdb")


@pytest.fixture
def sqlite_file(tmp_path: Path) -> SqliteDatabase:
    """An empty SQLite file."""
    return SqliteDatabase(tmp_path / "other.db")


@pytest.fixture
def no_temporary_file(tmp_path: Path) -> Iterator[None]:
    """Asserts that the test leaves no temporary export file behind."""
    yield
    assert list(tmp_path.rglob(".dbanon-*")) == []
