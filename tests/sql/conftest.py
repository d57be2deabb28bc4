"""A database with dbanon's SQL side, made once and cloned for each test."""

from __future__ import annotations

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
from tests.conftest import IN_CI
from tests.extension_files import extension_folder
from tests.postgres_server import Server, conninfo
from tests.sql.ledger_entries import PEOPLE
from tests.sql.mallory import TRAP
from tests.sql.private_calls import MAGIC


@pytest.fixture(scope="session")
def sql_server(local_pg_server: Server) -> Server:
    if not local_pg_server.execute(
        "SELECT 1 FROM pg_available_extensions WHERE name = 'plpython3u'"
    ):
        reason = f"PostgreSQL {local_pg_server.version} here has no PL/Python"
        if IN_CI:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return local_pg_server


@pytest.fixture(scope="session")
def sql_template(sql_server: Server, backend_path: Path) -> Iterator[str]:
    """Name of a database to which nobody is connected, with everything installed."""
    with sql_server.database() as url:
        install.install(url, python_paths=[str(backend_path)])
        sql_server.execute("CREATE SCHEMA app", url=url)
        sql_server.execute("CREATE SCHEMA release", url=url)
        yield str(make_url(url).database)


# All that a test makes in it: what dbanon has installed stays, its ledger is emptied.
_EMPTIED = """
DO $$
DECLARE one text;
BEGIN
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


# What is not emptied, by row: dbanon's schema with all in it, and what has no schema.
_KEPT = """
SELECT md5(string_agg(of_one, E'\n' ORDER BY of_one)) FROM (
  SELECT 'schema ' || nspname || nspowner || coalesce(nspacl::text, '') FROM pg_namespace
    WHERE nspname !~ '^pg_(toast_)?temp' AND nspname NOT IN ('app', 'release', 'public')
  UNION ALL SELECT concat('relation ', oid, relname, relkind, relowner, relacl, relchecks,
      relhasrules, relhastriggers, relhassubclass, relrowsecurity, relforcerowsecurity, reloptions)
    FROM pg_class WHERE relnamespace = 'dbanon'::regnamespace
  UNION ALL SELECT concat('column ', attrelid, attname, a.xmin) FROM pg_attribute AS a
    JOIN pg_class ON attrelid = pg_class.oid WHERE relnamespace = 'dbanon'::regnamespace
  UNION ALL SELECT concat('function ', p.oid, p.xmin) FROM pg_proc AS p
    WHERE pronamespace IN ('dbanon'::regnamespace, 'pg_catalog'::regnamespace)
  UNION ALL SELECT concat('type ', oid, typname, typacl) FROM pg_type
    WHERE typnamespace = 'dbanon'::regnamespace
  UNION ALL SELECT concat('trigger ', t.oid, t.xmin) FROM pg_trigger AS t
  UNION ALL SELECT concat('event ', t.oid, t.xmin) FROM pg_event_trigger AS t
  UNION ALL SELECT concat('cast ', t.oid, t.xmin) FROM pg_cast AS t
  UNION ALL SELECT concat('operator ', t.oid, t.xmin) FROM pg_operator AS t
  UNION ALL SELECT concat('extension ', t.oid, t.xmin) FROM pg_extension AS t
  UNION ALL SELECT concat('language ', t.oid, t.xmin) FROM pg_language AS t
  UNION ALL SELECT concat('publication ', t.oid, t.xmin) FROM pg_publication AS t
  UNION ALL SELECT concat('server ', t.oid, t.xmin) FROM pg_foreign_server AS t
  UNION ALL SELECT concat('rights ', t.oid, t.xmin) FROM pg_default_acl AS t
  UNION ALL SELECT concat('policy ', t.oid, t.xmin) FROM pg_policy AS t
  UNION ALL SELECT concat('object ', t.oid, t.xmin) FROM pg_largeobject_metadata AS t
  UNION ALL SELECT concat('setting ', setdatabase, setrole, setconfig) FROM pg_db_role_setting
    WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  UNION ALL SELECT concat('member ', t.roleid, t.member, t.admin_option) FROM pg_auth_members AS t
  UNION ALL SELECT concat('database ', datname, datdba, datacl) FROM pg_database
    WHERE datname = current_database()
  UNION ALL SELECT 'revision ' || version_num FROM dbanon.alembic_version
) AS all_of_them (of_one)"""


class Shared:
    """A database that tests have one after the other; another one after what is not emptied."""

    def __init__(self, server: Server, template: str) -> None:
        self._server, self._template = server, template
        self._url: str | None = None
        self._as_made: Any = None

    def url(self) -> str:
        if self._url is None:
            self._url = self._server.create_database(template=self._template)
            self._empty(self._url)
            self._as_made = self._server.execute(_KEPT, url=self._url)
        return self._url

    def clean(self) -> None:
        """Empty it; where that fails, or something else was changed, drop it."""
        if self._url is None:
            return
        try:
            self._empty(self._url)
            as_made = self._server.execute(_KEPT, url=self._url) == self._as_made
        except psycopg.Error:
            as_made = False
        if not as_made:
            self.drop()

    def _empty(self, url: str) -> None:
        self._server.execute("SET lock_timeout = '5s'; " + _EMPTIED, url=url)

    def drop(self) -> None:
        if self._url is not None:
            self._server.drop_database(str(make_url(self._url).database))
            self._url = None


@pytest.fixture(scope="session")
def _shared(sql_server: Server, sql_template: str) -> Iterator[Shared]:
    shared = Shared(sql_server, sql_template)
    yield shared
    shared.drop()


@pytest.fixture
def sql_url(request: pytest.FixtureRequest, sql_server: Server, sql_template: str) -> Iterator[str]:
    """A database with dbanon's functions, and schemas app and release, as superuser.

    Tests share one, emptied after each of them: so do they the superuser's backend, which loads
    Python, numpy and dbanon once and not for each. Those that are marked `own_database` do not.
    """
    if request.node.get_closest_marker("own_database") is not None:
        with sql_server.database(template=sql_template) as url:
            yield url
        return
    shared: Shared = request.getfixturevalue("_shared")
    url = shared.url()
    try:
        with sql_server.roles_dropped(url):
            yield url
    except psycopg.Error:
        # A role that has more than what is dropped with it.
        shared.drop()
        raise
    finally:
        shared.clean()


@pytest.fixture
def run_sql(sql_server: Server, sql_url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """One statement in a connection as new: its rows."""

    def run(statement: str, *parameters: Any, url: str = sql_url) -> list[tuple[Any, ...]]:
        return sql_server.execute(statement, *parameters, url=url)

    return run


@pytest.fixture
def connect(sql_url: str) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """Open connections, closed after the test."""
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
    """`sql_role("anna")` makes a role that may run dbanon and write to schema release: its URL."""

    def make(name: str, *, runner: bool = True) -> str:
        options = "IN ROLE dbanon_runner" if runner else ""
        url = sql_server.create_role(name, url=sql_url, options=options)
        sql_server.execute(f"GRANT USAGE ON SCHEMA app TO {name}", url=sql_url)
        sql_server.execute(f"GRANT USAGE, CREATE ON SCHEMA release TO {name}", url=sql_url)
        return url

    return make


@pytest.fixture
def extension_files(sql_server: Server, backend_path: Path) -> Iterator[Path]:
    """The server's directory of extensions; what a test writes there is removed."""
    with extension_folder() as folder:
        yield folder


@pytest.fixture
def fresh(sql_server: Server) -> Iterator[Callable[[], str]]:
    """Make databases without anything of dbanon in them."""
    made = []

    def make() -> str:
        made.append(sql_server.create_database())
        return made[-1]

    yield make
    for url in made:
        sql_server.drop_database(url.rpartition("/")[2])


@pytest.fixture
def forger(
    connect: Callable[..., psycopg.Connection[Any]],
    sql_role: Callable[..., str],
    run_sql: Callable[..., Any],
) -> psycopg.Connection[Any]:
    """The runner mallory in a transaction; app.people and anna's release.p are there."""
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
    # Made by a superuser who trusted him.
    run_sql("CREATE DOMAIN app.d AS integer CHECK (evil.spring())")
    run_sql("GRANT USAGE ON TYPE app.d TO mallory")
    return connection


@pytest.fixture(scope="session")
def private_template(
    sql_server: Server, backend_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """As ``sql_template``, with OpenDP beside dbanon, and a table of rows to release."""
    # Beside the package, where the server's account may look.
    opendp = link_opendp(backend_path.parent / f"opendp-{uuid.uuid4().hex[:8]}")
    with sql_server.database() as url:
        install.install(url, python_paths=[str(backend_path), str(opendp)])
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
    """Three of epsilon for the table of ``private_template``."""
    dbanon.create_budget(sql_url, "magic", source="app.magic", epsilon=3)
