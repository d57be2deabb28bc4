"""A database with dbanon's SQL side, built once and cloned for each test."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.doors import install
from tests.backend_package import link_opendp
from tests.extension_files import extension_folder
from tests.postgres.loaded import load, unload
from tests.postgres.warm import close_warm, warm
from tests.postgres_server import Server, conninfo, find_server_binaries
from tests.sql.ledger_entries import PEOPLE
from tests.sql.mallory import TRAP
from tests.sql.private_calls import MAGIC


@pytest.fixture(autouse=True)
def _python(request: pytest.FixtureRequest) -> None:
    """Set what backends preload.

    For tests marked `own_python` backends load Python, numpy and dbanon themselves. For tests that
    release synthetic rows OpenDP is preloaded, too.
    """
    if "sql_server" not in request.fixturenames:
        return
    server: Server = request.getfixturevalue("sql_server")
    if request.node.get_closest_marker("own_python") is not None:
        unload(server)
        return
    private = "private_url" in request.fixturenames
    load(
        server,
        request.getfixturevalue("backend_path"),
        request.getfixturevalue("opendp_path") if private else None,
    )


@pytest.fixture(scope="session")
def sql_template(sql_server: Server, backend_path: Path) -> Iterator[str]:
    """Name of a template database without connections, with everything installed."""
    with sql_server.database() as url:
        install.install(url, python_paths=[str(backend_path)])
        sql_server.execute("CREATE SCHEMA app", url=url)
        sql_server.execute("CREATE SCHEMA release", url=url)
        yield str(make_url(url).database)


# Remove everything that a test created: keep what dbanon installed, and empty its ledger.
_EMPTIED = """
DO $$
DECLARE one text;
BEGIN
  EXECUTE format('ALTER DATABASE %I RESET ALL', current_database());
  FOR one IN SELECT extname FROM pg_extension WHERE extname NOT IN ('plpgsql', 'plpython3u')
  LOOP EXECUTE format('DROP EXTENSION %I CASCADE', one); END LOOP;
  FOR one IN SELECT nspname FROM pg_namespace
    WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'dbanon')
  LOOP EXECUTE format('DROP SCHEMA %I CASCADE', one); END LOOP;
  EXECUTE (SELECT 'TRUNCATE ' || string_agg(oid::regclass::text, ', ') FROM pg_class
    WHERE relnamespace = 'dbanon'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version');
  CREATE SCHEMA app;
  CREATE SCHEMA release;
  CREATE SCHEMA public;
  GRANT USAGE ON SCHEMA public TO PUBLIC;
END $$"""


@pytest.fixture
def programs(tmp_path: Path) -> str:
    """A PATH with PostgreSQL's programs and this checkout's command."""
    command = tmp_path / "programs" / "dbanon"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c '
        '"from dbanon.doors.cli.start import start; start()" "$@"\n'
    )
    command.chmod(0o755)
    return f"{command.parent}:{find_server_binaries()}:{os.environ['PATH']}"


@pytest.fixture(scope="session")
def _one_url(sql_server: Server, sql_template: str) -> Iterator[str]:
    with sql_server.database(template=sql_template) as url:
        yield url
        close_warm()


@pytest.fixture
def sql_url(request: pytest.FixtureRequest, sql_server: Server, sql_template: str) -> Iterator[str]:
    """A database with dbanon's functions and the schemas app and release, as superuser.

    Tests marked `one_database` share one that is emptied after each test. They also share the
    superuser's backends, those of `run_sql` and of dbanon itself, so that caches are filled once.
    """
    if request.node.get_closest_marker("one_database") is None:
        with sql_server.database(template=sql_template) as url:
            yield url
        return
    shared: str = request.getfixturevalue("_one_url")
    with sql_server.roles_dropped(shared):
        with warm(shared):
            yield shared
        sql_server.execute(_EMPTIED, url=shared)


@pytest.fixture
def run_sql(sql_server: Server, sql_url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Run one statement in a connection with default settings and return its rows."""

    def run(statement: str, *parameters: Any, url: str = sql_url) -> list[tuple[Any, ...]]:
        return sql_server.execute(statement, *parameters, url=url)

    return run


@pytest.fixture
def connect(sql_url: str) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """Open connections that are closed after the test."""
    opened = []

    def make(url: str = sql_url, **how: Any) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = psycopg.connect(
            conninfo(url), **{"autocommit": True, **how}
        )
        opened.append(connection)
        return connection

    yield make
    for connection in opened:
        connection.close()


@pytest.fixture
def sql_role(sql_server: Server, sql_url: str) -> Callable[..., str]:
    """`sql_role("anna")` creates a role that may run dbanon and write to schema release, and
    returns its URL.
    """

    def make(name: str, *, runner: bool = True) -> str:
        options = "IN ROLE dbanon_runner" if runner else ""
        url = sql_server.create_role(name, url=sql_url, options=options)
        sql_server.execute(f"GRANT USAGE ON SCHEMA app TO {name}", url=sql_url)
        sql_server.execute(f"GRANT USAGE, CREATE ON SCHEMA release TO {name}", url=sql_url)
        return url

    return make


@pytest.fixture
def extension_files(sql_server: Server, backend_path: Path) -> Iterator[Path]:
    """The server's extension directory; files that a test writes there are removed."""
    with extension_folder() as folder:
        yield folder


@pytest.fixture
def fresh(sql_server: Server) -> Iterator[Callable[[], str]]:
    """Create databases without dbanon."""
    urls = []

    def make() -> str:
        urls.append(sql_server.create_database())
        return urls[-1]

    yield make
    for url in urls:
        sql_server.drop_database(url.rpartition("/")[2])


@pytest.fixture
def forger(
    connect: Callable[..., psycopg.Connection[Any]],
    sql_role: Callable[..., str],
    run_sql: Callable[..., Any],
) -> psycopg.Connection[Any]:
    """The runner mallory in a transaction; app.people and anna's release.p exist."""
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO PUBLIC")
    connect(sql_role("anna")).execute("SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5)")
    return connect(sql_role("mallory"), autocommit=False)


@pytest.fixture
def mallory(
    run_sql: Callable[..., list[tuple[Any, ...]]],
    sql_role: Callable[..., str],
    connect: Callable[..., psycopg.Connection[Any]],
) -> psycopg.Connection[Any]:
    """A connection of the role whose code must not run, with the trap set."""
    connection = connect(sql_role("mallory", runner=False))
    run_sql("CREATE SCHEMA evil AUTHORIZATION mallory")
    connection.execute(TRAP.encode())
    # Created by a superuser who trusted him.
    run_sql("CREATE DOMAIN app.d AS integer CHECK (evil.spring())")
    run_sql("GRANT USAGE ON TYPE app.d TO mallory")
    return connection


@pytest.fixture(scope="session")
def opendp_path(backend_path: Path) -> Path:
    """A copy of OpenDP next to the package, readable by the server's account."""
    return link_opendp(backend_path.parent / f"opendp-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="session")
def private_template(sql_server: Server, backend_path: Path, opendp_path: Path) -> Iterator[str]:
    """Like ``sql_template``, plus OpenDP and a table of rows to release."""
    with sql_server.database() as url:
        install.install(url, python_paths=[str(backend_path), str(opendp_path)])
        for statement in ("CREATE SCHEMA app", "CREATE SCHEMA release", MAGIC):
            sql_server.execute(statement, url=url)
        sql_server.execute("GRANT USAGE ON SCHEMA app TO PUBLIC", url=url)
        sql_server.execute("GRANT SELECT ON app.magic TO PUBLIC", url=url)
        yield str(make_url(url).database)


@pytest.fixture
def private_url(sql_server: Server, private_template: str) -> Iterator[str]:
    """A database for CALL dbanon.dp_ranks, as superuser."""
    with sql_server.database(template=private_template) as url:
        yield url


@pytest.fixture
def budget(sql_url: str) -> None:
    """A budget of epsilon 3 for the table of ``private_template``."""
    dbanon.create_budget(sql_url, "magic", source="app.magic", epsilon=3)
