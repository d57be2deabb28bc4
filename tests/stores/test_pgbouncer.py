"""Runs through pgbouncer, where each transaction may have another connection to the server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

import dbanon
from dbanon.doors import install, releases
from dbanon.errors import DatabaseUnreachable, JobRunning, PoolerUnsuitable
from dbanon.run.open import open_store
from tests.postgres.pooler import pgbouncer, through
from tests.postgres_server import NoServerError, Server, conninfo
from tests.prerequisites import skip_or_fail
from tests.stores.databases import PostgresqlDatabase
from tests.stores.forked import Command
from tests.stores.people import load_people
from tests.stores.test_job_runs import job_file

pytestmark = pytest.mark.postgresql

OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "keep": ["site"]}
SETTINGS = (
    "search_path",
    "row_security",
    "lock_timeout",
    "work_mem",
    "default_transaction_isolation",
    "idle_in_transaction_session_timeout",
    "tcp_keepalives_count",
    "tcp_user_timeout",
)
SCRIPT = "from dbanon.doors.cli.main import main; main()"


@contextmanager
def pooler(server: Server, **how: Any) -> Iterator[int]:
    with ExitStack() as stack:
        try:
            port = stack.enter_context(pgbouncer(server, **how))
        except NoServerError as error:
            skip_or_fail(str(error))
        yield port


@pytest.fixture
def pooled(pg_server: Server, postgresql: PostgresqlDatabase) -> Iterator[PostgresqlDatabase]:
    """The database of people, through pgbouncer in transaction mode."""
    load_people(postgresql)
    with pooler(pg_server) as port:
        yield PostgresqlDatabase(through(postgresql.url, port))


def is_as_before(pooled: PostgresqlDatabase, direct: PostgresqlDatabase) -> bool:
    """Nothing is left for whoever has the connections to the server next, and no lock."""
    with psycopg.connect(conninfo(pooled.url), prepare_threshold=None) as connection:
        for _ in range(4):
            left = "SELECT name FROM pg_settings WHERE source = 'session' AND name = ANY (%s)"
            assert connection.execute(left, (list(SETTINGS),)).fetchall() == []
            assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []
            # The next transaction has another connection.
            connection.commit()
    return direct.rows("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") == []


def test_many_runs(postgresql: PostgresqlDatabase, pooled: PostgresqlDatabase) -> None:
    """Names of prepared statements, and settings of a session, would be met by the next one."""
    for number in range(4):
        report = pooled.anonymize(
            **OPTIONS, k=3 + number % 2, if_exists="replace", output_kind="view"
        )
        assert report.k_achieved == 3 + number % 2
        assert dbanon.verify(pooled.url, "release.people").k_achieved == report.k_achieved
        releases.store_hierarchy(pooled.url, f"tree{number}", {"tree": {"all": ["a", "b"]}})
    assert len(releases.list_hierarchies(pooled.url)) == 4
    assert is_as_before(pooled, postgresql)


def test_an_engine_of_the_callers(
    postgresql: PostgresqlDatabase, pooled: PostgresqlDatabase
) -> None:
    """Its connections are used again: they are as they were."""
    url = sqlalchemy.make_url(pooled.url).set(drivername="postgresql+psycopg")
    engine = sqlalchemy.create_engine(url)
    for _ in range(3):
        pooled.anonymize(database=engine, **OPTIONS, if_exists="replace")
    driver: Any = engine.raw_connection()
    assert driver.driver_connection.prepare_threshold == 5
    assert "cancel_safe" not in vars(driver.driver_connection)
    driver.close()
    engine.dispose()
    assert is_as_before(pooled, postgresql)


def test_runs_of_jobs_one_after_the_other_and_at_once(
    postgresql: PostgresqlDatabase, pooled: PostgresqlDatabase, tmp_path: Path
) -> None:
    file = job_file(tmp_path, "people")
    file.write_text(file.read_text().replace("output: {", "output: {if_exists: replace, "))
    words = ["run", str(file), "--format", "json", "--no-progress"]
    environment = os.environ | {"PEOPLE": pooled.url}
    for _ in range(3):
        with Command(SCRIPT, *words, env=environment) as command:
            out, err = command.communicate(timeout=120)
        assert command.returncode == 0, err
        assert "report" in json.loads(out)["jobs"][0]
    assert is_as_before(pooled, postgresql)


def test_the_lock_of_a_job_is_one(
    postgresql: PostgresqlDatabase, pooled: PostgresqlDatabase
) -> None:
    """Clients without the pooler see it, too, and no other client uses its connection in the
    meantime.
    """
    for holder, asks in ((pooled, postgresql), (pooled, pooled), (postgresql, pooled)):
        with _soon_locked(holder, "a"):
            with pytest.raises(JobRunning), open_store(asks.url).job_lock("a"):
                pass
            with open_store(asks.url).job_lock("b"):
                pass
        with _soon_locked(asks, "a"):
            pass


@contextmanager
def _soon_locked(database: PostgresqlDatabase, job: str) -> Iterator[None]:
    """Tried again: the pooler ends the server's session a moment after its client has gone."""
    deadline = time.monotonic() + 20
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(open_store(database.url).job_lock(job))
                break
            except JobRunning:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield


def test_a_pooler_of_statements_is_refused(
    pg_server: Server, postgresql: PostgresqlDatabase
) -> None:
    load_people(postgresql)
    before = postgresql.state()
    with pooler(pg_server, mode="statement") as port:
        url = through(postgresql.url, port)
        with pytest.raises(PoolerUnsuitable, match="pool_mode") as caught:
            postgresql.anonymize(database=url, **OPTIONS)
        assert (caught.value.exit_code, caught.value.sqlstate) == (2, "08P01")
        with pytest.raises(PoolerUnsuitable, match="pool_mode"):
            install.install(url, sql_only=True)
    assert postgresql.state() == before


def test_too_few_connections_are_named(
    pg_server: Server, postgresql: PostgresqlDatabase, tmp_path: Path
) -> None:
    """The lock of a job has one, its run another."""
    load_people(postgresql)
    with pooler(pg_server, size=1, query_wait_timeout=1) as port:
        url = through(postgresql.url, port)
        with (
            open_store(url).job_lock("people"),
            pytest.raises(DatabaseUnreachable, match="pooler") as caught,
        ):
            postgresql.anonymize(database=url, **OPTIONS)
        assert "default_pool_size" in str(caught.value.hint)
        # Without a job one is enough.
        postgresql.anonymize(database=url, **OPTIONS)


def test_a_setting_that_a_pooler_does_not_take(
    pg_server: Server, postgresql: PostgresqlDatabase
) -> None:
    with pooler(pg_server) as port:
        url = sqlalchemy.make_url(through(postgresql.url, port))
        url_with_option = url.update_query_dict({"options": "-c statement_timeout=1000"})
        with pytest.raises(PoolerUnsuitable, match="options"):
            postgresql.anonymize(
                database=url_with_option.render_as_string(hide_password=False), **OPTIONS
            )


def test_the_functions_are_installed_and_upgraded(
    pg_server: Server, postgresql: PostgresqlDatabase
) -> None:
    with pg_server.database() as direct, pooler(pg_server) as port:
        url = through(direct, port)
        install.install(url, sql_only=True)
        install.upgrade(url)
        install.uninstall(url)
