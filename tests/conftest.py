from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.backend_package import copy_package
from tests.mariadb_server import MariadbServer, throwaway_mariadb
from tests.memory import memory
from tests.postgres.loaded import load
from tests.postgres_server import Kind, NoServerError, Server, throwaway_server
from tests.prerequisites import IN_CI, require_reference, skip_or_fail
from tests.reference.data import Table, load_casc
from tests.shares import Shares, few_of_each, import_share, sort_long_first

# `make campaign` adds the tests with this mark, and all cases of tests that take turns.
CAMPAIGN = os.environ.get("CAMPAIGN") == "full"
# The maximum number of cases per function in `make check`; 0 for all.
CASES = int(os.environ.get("CASES", "0"))

# The maximum number of examples per test; tests that ask for more get them in campaigns.
EXAMPLES = 30

# No deadline and no health check on speed: a busy machine is not a bug.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
# For `make check`: no test has more examples, whatever it asks for.
settings.register_profile("check", settings.get_profile("dev"), max_examples=10)
settings.load_profile("ci" if IN_CI else "dev")

_NEEDS_MARIADB = {"mariadb_server", "mariadb"}
_NEEDS_SERVER = {"pg_server", "local_pg_server", "sql_server", "cron_server", "postgresql"}


def pytest_configure() -> None:
    # A shell that starts this in the background ignores interrupts, here and in all child
    # processes.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # SQLite waits for the disk at each transaction, DuckDB whenever a file is closed.
    if memory_folder := memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory_folder))


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    checks = config.getoption("--hypothesis-profile") == "check"
    _prepare(items, checks)
    if not CAMPAIGN:
        _keep(
            [item for item in items if item.get_closest_marker("campaign") is None], items, config
        )
    yield
    # Items selected by -m and -k.
    if CASES:
        _keep(few_of_each(items, CASES), items, config)


def _keep(selected: list[pytest.Item], items: list[pytest.Item], config: pytest.Config) -> None:
    if left_out := [*{*items} - {*selected}]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = selected


def _prepare(items: list[pytest.Item], checks: bool) -> None:
    """Sort, limit examples, and mark what needs a server."""
    sort_long_first(items)
    most = settings.get_profile("check").max_examples if checks else None if CAMPAIGN else EXAMPLES
    for item in items:
        if most is not None:
            _limit_examples(getattr(item, "obj", None), most)
        needed = set(getattr(item, "fixturenames", ()))
        # If a parameter names the database, the server's fixture is requested only by name.
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        needed.update(value for value in parameters if isinstance(value, str))
        if needed & _NEEDS_SERVER:
            item.add_marker("postgresql")
        if needed & _NEEDS_MARIADB:
            item.add_marker("mariadb")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    # Syntax trees and tests are many objects with hardly any garbage. Looking for it takes half of
    # the time of a first collection, which compiles all tests.
    gc.disable()
    try:
        import_share(session.config)
        yield
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    # Imported modules and collected tests are never garbage; scanning them repeatedly takes a
    # twentieth of the time of small tests.
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    if config.getoption("dist") != "loadfile":
        return None
    # The default order, by number of tests, would start files with few long tests last.
    config.option.loadscopereorder = False
    return Shares(config, log)


def _limit_examples(test: object, most: int) -> None:
    # A test's own setting takes precedence over a profile, and hypothesis has no public way around
    # it.
    test_settings = getattr(test, "_hypothesis_internal_use_settings", None)
    if test_settings is not None:
        fewer = min(test_settings.max_examples, most)
        test._hypothesis_internal_use_settings = settings(test_settings, max_examples=fewer)  # type: ignore[attr-defined]


@contextmanager
def _server_or_skip(kind: Kind | None = None) -> Iterator[Server]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(throwaway_server(fsync=False, kind=kind))
        except NoServerError as error:
            skip_or_fail(str(error))
        yield server


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run outside the checkout, so that nothing is left among the sources."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield
    os.chdir(before)


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Server]:
    """A server for the whole session. A test that stops it must start it again."""
    with _server_or_skip() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    """A MariaDB server for the whole session. A test that stops it must start it again."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(throwaway_mariadb())
        except NoServerError as error:
            skip_or_fail(str(error))
        yield server


@pytest.fixture(scope="session")
def local_pg_server(pg_server: Server) -> Iterator[Server]:
    """A local server, as functions in PL/Python need it; the same as `pg_server` if that
    is local.
    """
    if pg_server.is_local:
        yield pg_server
        return
    with _server_or_skip(kind="local") as server:
        yield server


@pytest.fixture(scope="session")
def backend_path() -> Iterator[Path]:
    """A directory from which another Python, such as the server's, can import dbanon and numpy."""
    base = Path(tempfile.mkdtemp(prefix="dbanon-package-"))
    base.chmod(0o755)
    try:
        (base / "site").mkdir()
        yield copy_package(base / "site")
    finally:
        shutil.rmtree(base)


@pytest.fixture(scope="session")
def sql_server(backend_path: Path) -> Iterator[Server]:
    """A server with PL/Python, whose backends have dbanon preloaded: see
    `tests.postgres.loaded`.
    """
    with _server_or_skip(kind="local") as server:
        if not server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"):
            skip_or_fail(f"PostgreSQL {server.version} here has no PL/Python")
        load(server, backend_path)
        yield server


@pytest.fixture
def pg_url(pg_server: Server) -> Iterator[str]:
    """A new database, as superuser; it and all roles created meanwhile are dropped afterwards."""
    with pg_server.database() as url:
        yield url


@pytest.fixture
def pg_role(pg_server: Server, pg_url: str) -> Callable[..., str]:
    """`pg_role("anna")` creates a role that may log in and returns its URL for the database of
    `pg_url`.

    A second argument adds options of CREATE ROLE: `pg_role("anna", "CREATEDB IN ROLE
    dbanon_runner")`.
    """

    def make(name: str, options: str = "") -> str:
        return pg_server.create_role(name, url=pg_url, options=options)

    return make


@pytest.fixture
def plpython_url(local_pg_server: Server) -> Iterator[str]:
    """Like `pg_url`, on a local server, with the language plpython3u."""
    if not local_pg_server.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"
    ):
        skip_or_fail(f"PostgreSQL {local_pg_server.version} here has no PL/Python")
    with local_pg_server.database() as url:
        local_pg_server.execute("CREATE EXTENSION plpython3u", url=url)
        yield url


@pytest.fixture(scope="session")
def casc() -> Callable[[str], Table]:
    """`casc("census")` returns names and values of the numeric columns; also `tarragona`, `eia`.

    The test is skipped if the table is missing.
    """
    tables: dict[str, Table] = {}

    def load(name: str) -> Table:
        if name not in tables:
            tables[name] = load_casc(name, require_reference(f"casc/{name}.csv"))
            tables[name].values.flags.writeable = False
        return tables[name]

    return load
