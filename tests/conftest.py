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

# What `make campaign` adds: tests that are marked so, all cases of tests that take turns.
CAMPAIGN = os.environ.get("CAMPAIGN") == "full"
# The most cases of a function, as `make check` has it; 0 for all.
CASES = int(os.environ.get("CASES", "0"))

# The most examples of a test; those that ask for more have them in campaigns.
EXAMPLES = 30

# No deadline, no health check on speed: a busy machine is not a wrong program.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
# Of `make check`; no test has more examples then, whatever it asks for.
settings.register_profile("check", settings.get_profile("dev"), max_examples=10)
settings.load_profile("ci" if IN_CI else "dev")

_NEEDS_MARIADB = {"mariadb_server", "mariadb"}
_NEEDS_SERVER = {"pg_server", "local_pg_server", "sql_server", "cron_server", "postgresql"}


def pytest_configure() -> None:
    # A shell that starts this in the background has interrupts ignored, here and in all processes
    # that tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A file of SQLite waits for the disk with each transaction, one of DuckDB with each end.
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
    # Of those that -m and -k leave.
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
        # Where a parameter names the database, the server's fixture is asked for by name only.
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        needed.update(value for value in parameters if isinstance(value, str))
        if needed & _NEEDS_SERVER:
            item.add_marker("postgresql")
        if needed & _NEEDS_MARIADB:
            item.add_marker("mariadb")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    # Syntax trees and tests are many objects and hardly any garbage: to look for it takes half of
    # the time of a first collection, which compiles all tests.
    gc.disable()
    try:
        import_share(session.config)
        yield
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    # What was imported and collected stays to the end: to look at it again and again for garbage
    # takes a twentieth of the time of small tests.
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Shares | None:
    if config.getoption("dist") != "loadfile":
        return None
    # By their number of tests, the default, files of few long ones would be begun last.
    config.option.loadscopereorder = False
    return Shares(config, log)


def _limit_examples(test: object, most: int) -> None:
    # What a test asks for wins over a profile, and hypothesis has no public way around that.
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
    """A server on this machine, as functions in PL/Python need it: `pg_server` if it is one."""
    if pg_server.is_local:
        yield pg_server
        return
    with _server_or_skip(kind="local") as server:
        yield server


@pytest.fixture(scope="session")
def backend_path() -> Iterator[Path]:
    """A directory from which another Python, such as the server's, imports dbanon and numpy."""
    base = Path(tempfile.mkdtemp(prefix="dbanon-package-"))
    base.chmod(0o755)
    try:
        (base / "site").mkdir()
        yield copy_package(base / "site")
    finally:
        shutil.rmtree(base)


@pytest.fixture(scope="session")
def sql_server(backend_path: Path) -> Iterator[Server]:
    """A server with PL/Python, whose backends need not load dbanon: see `tests.postgres.loaded`."""
    with _server_or_skip(kind="local") as server:
        if not server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"):
            skip_or_fail(f"PostgreSQL {server.version} here has no PL/Python")
        load(server, backend_path)
        yield server


@pytest.fixture
def pg_url(pg_server: Server) -> Iterator[str]:
    """A fresh database, as superuser; it and all roles made meanwhile are dropped afterwards."""
    with pg_server.database() as url:
        yield url


@pytest.fixture
def pg_role(pg_server: Server, pg_url: str) -> Callable[..., str]:
    """`pg_role("anna")` makes a role that may log in: its URL for the database of `pg_url`.

    A second argument has words of CREATE ROLE: `pg_role("anna", "CREATEDB IN ROLE dbanon_runner")`.
    """

    def make(name: str, options: str = "") -> str:
        return pg_server.create_role(name, url=pg_url, options=options)

    return make


@pytest.fixture
def plpython_url(local_pg_server: Server) -> Iterator[str]:
    """As `pg_url`, on a server of this machine, with the language plpython3u created."""
    if not local_pg_server.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"
    ):
        skip_or_fail(f"PostgreSQL {local_pg_server.version} here has no PL/Python")
    with local_pg_server.database() as url:
        local_pg_server.execute("CREATE EXTENSION plpython3u", url=url)
        yield url


@pytest.fixture(scope="session")
def casc() -> Callable[[str], Table]:
    """`casc("census")`: names and values of the numeric columns; also `tarragona` and `eia`.

    A test skips where the table is missing.
    """
    tables: dict[str, Table] = {}

    def load(name: str) -> Table:
        if name not in tables:
            tables[name] = load_casc(name, require_reference(f"casc/{name}.csv"))
            tables[name].values.flags.writeable = False
        return tables[name]

    return load
