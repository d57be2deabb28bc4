"""Attacks with locks: a role without rights to run dbanon cannot block those who have them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import NullPool, create_engine

from dbanon.doors import install
from dbanon.doors.cli.main import main
from dbanon.errors import JobRunning
from dbanon.ledger.migrate import migrate
from dbanon.ledger.tables import LEDGER_REVISION
from dbanon.run.open import open_store
from tests.postgres_server import Server, conninfo
from tests.sql.ledger_entries import PEOPLE, anonymize

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

ADVISORY = "SELECT pg_advisory_lock(hashtextextended('dbanon job people', 0))"
LOCK_HOLDER = re.compile(
    r'It is held by process (\d+) of role "(\w+)", since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.'
)


@contextmanager
def expect_refusal(*roles: str, pid: int | None = None) -> Iterator[None]:
    """Require that the job is refused because one of these roles runs it; ``pid`` is its
    backend.
    """
    with pytest.raises(JobRunning) as failure:
        yield
    match = LOCK_HOLDER.search(failure.value.message)
    assert match is not None, failure.value.message
    assert match[2] in roles
    assert pid in (None, int(match[1]))


def test_a_role_without_rights_does_not_hold_a_job(
    run_sql: Run, connect: Connect, sql_role: Role, sql_url: str, backend_path: Path
) -> None:
    """pg_locks shows the lock number, and any role can take an advisory lock with it."""
    anna = sql_role("anna")
    mallory = connect(sql_role("mallory", runner=False))
    mallory.execute(ADVISORY)
    for statement in (
        "SELECT dbanon._hold_job('people')",
        "DO $$ BEGIN LOCK TABLE dbanon.run IN ROW EXCLUSIVE MODE; END $$",
        "INSERT INTO dbanon.run (run_id) VALUES (md5('dbanon job people')::uuid)",
        "SELECT * FROM dbanon.run FOR UPDATE",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute(statement)
    mallory.execute("SELECT set_config('application_name', 'dbanon job since ever', false)")
    for url in (anna, sql_url):
        with open_store(url).job_lock("people"):
            for other in (anna, sql_url):
                with (
                    expect_refusal("anna" if url == anna else "postgres"),
                    open_store(other).job_lock("people"),
                ):
                    pass
            with open_store(anna).job_lock("other"):
                pass
    with open_store(anna).job_lock("people"):
        pass
    assert run_sql("SELECT count(*) FROM dbanon.run") == [(0,)]
    # A role without the right gets an error from its own run.
    with open_store(sql_role("carol", runner=False)).job_lock("third"):
        pass


def test_a_lock_names_its_backend_and_goes_with_it(
    run_sql: Run, sql_role: Role, sql_url: str, backend_path: Path
) -> None:
    anna, bert = sql_role("anna"), sql_role("bert")
    with open_store(anna).job_lock("people"):
        [(pid,)] = run_sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'dbanon job %'"
        )
        with expect_refusal("anna", pid=pid), open_store(bert).job_lock("people"):
            pass
        run_sql("SELECT pg_terminate_backend(%s, 5000)", pid)
        with open_store(bert).job_lock("people"):
            pass


def test_a_runner_that_commits_a_lock_row_blocks_nothing(
    run_sql: Run, connect: Connect, sql_role: Role, backend_path: Path
) -> None:
    anna, mallory = sql_role("anna"), connect(sql_role("mallory"))
    mallory.execute("SELECT dbanon._hold_job('people')")
    assert run_sql("SELECT state, run_by FROM dbanon.run") == [("lock", "mallory")]
    with (
        open_store(anna).job_lock("people"),
        expect_refusal("anna"),
        open_store(anna).job_lock("people"),
    ):
        pass
    for name in ("", "x" * 201, None):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            mallory.execute("SELECT dbanon._hold_job(%s)", (name,))


def test_the_lock_before_and_after_the_first_release(sql_server: Server) -> None:
    """A run that started before the ledger existed still holds the lock afterwards."""
    with sql_server.database() as url:
        sql_server.execute("CREATE SCHEMA app", url=url)
        sql_server.execute(PEOPLE, url=url)
        mallory = sql_server.create_role("mallory", url=url)
        with open_store(url).job_lock("people"):
            with expect_refusal("postgres"), open_store(url).job_lock("people"):
                pass
            anonymize(url)
            with expect_refusal("postgres"), open_store(url).job_lock("people"):
                pass
        with psycopg.connect(conninfo(mallory)) as hers:
            hers.execute(ADVISORY)
            with (
                open_store(url).job_lock("people"),
                expect_refusal("postgres"),
                open_store(url).job_lock("people"),
            ):
                pass


@pytest.fixture(params=["installed", "client"])
def old_ledger(request: pytest.FixtureRequest, sql_server: Server) -> Iterator[str]:
    """A database with a ledger that `dbanon upgrade` has to change."""
    if request.param == "installed":
        request.getfixturevalue("sql_role")("anna")
        yield request.getfixturevalue("sql_url")
        return
    with sql_server.database() as url:
        with create_engine(url, poolclass=NullPool).begin() as connection:
            migrate(connection, "0005")
        yield url


def test_an_upgrade_behind_an_idle_reader_blocks_no_session(
    old_ledger: str, backend_path: Path
) -> None:
    """It used to wait without limit, with a queued lock request that blocked all later sessions."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            install.upgrade(old_ledger, python_paths=[str(backend_path)])
        except BaseException as error:
            failed.append(error)

    with psycopg.connect(conninfo(old_ledger)) as reader:
        reader.execute("SELECT count(*) FROM dbanon.release")
        upgrade = threading.Thread(target=run)
        upgrade.start()
        began = time.monotonic()
        with psycopg.connect(conninfo(old_ledger), autocommit=True) as other:
            other.execute("SET lock_timeout = '2s'")
            while time.monotonic() - began < 4:
                other.execute("SELECT count(*) FROM dbanon.release, dbanon.run")
                time.sleep(0.02)
        assert upgrade.is_alive(), failed
    upgrade.join(60)
    assert not upgrade.is_alive()
    assert failed == []


def test_an_upgrade_that_gives_up_names_the_reader(old_ledger: str, backend_path: Path) -> None:
    state = "SELECT version_num FROM dbanon.alembic_version"
    with psycopg.connect(conninfo(old_ledger)) as reader:
        before = reader.execute(state).fetchall()
        done = CliRunner().invoke(
            main,
            ["upgrade", old_ledger, "--python-path", str(backend_path), "--lock-timeout", "1.5"],
        )
        assert done.exit_code == 4, done.stderr
        stderr = " ".join(done.stderr.split())
        assert "[database_busy]" in stderr
        assert f"process {reader.info.backend_pid} of role" in stderr
        assert "1.5 seconds" in stderr
        assert reader.execute(state).fetchall() == before
    done = CliRunner().invoke(
        main, ["upgrade", old_ledger, "--python-path", str(backend_path), "--lock-timeout", "0"]
    )
    assert done.exit_code == 2


def test_a_job_brings_an_older_ledger_up_to_date(sql_server: Server) -> None:
    """The lock is stored in the ledger, whose tables the upgrade then locks."""
    with sql_server.database() as url:
        for statement in ("CREATE SCHEMA app", PEOPLE):
            sql_server.execute(statement, url=url)
        with create_engine(url, poolclass=NullPool).begin() as connection:
            migrate(connection, "0005")
        with open_store(url).job_lock("people"):
            anonymize(url)
            with expect_refusal("postgres"), open_store(url).job_lock("people"):
                pass
        assert sql_server.execute("SELECT version_num FROM dbanon.alembic_version", url=url) == [
            (LEDGER_REVISION,)
        ]


def test_a_lock_takes_away_no_entry(connect: Connect, sql_role: Role, run_sql: Run) -> None:
    """A caller-chosen run id cannot match a lock's id, and a lock row is not an entry."""
    anna = connect(sql_role("anna"))
    record = {"door": "cli", "error_code": "x", "method": "mdav", "source": "s", "output_name": "o"}
    [(of_lock, plain)] = run_sql(
        "SELECT overlay(md5('dbanon job zz') PLACING '8' FROM 13 FOR 1)::uuid::text,"
        " md5('dbanon job zz')::uuid::text"
    )
    for run_id in (of_lock, plain):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            anna.execute(
                "SELECT dbanon._record_run(%s::jsonb)", [json.dumps({**record, "run_id": run_id})]
            )
    # If it were there, it would remain.
    run_sql(
        "INSERT INTO dbanon.run (run_id, door, method, source, output_name, started_at, state,"
        " run_by) VALUES (%s, 'cli', 'mdav', 's', 'o', now(), 'failed', 'anna')",
        of_lock,
    )
    anna.execute("SELECT dbanon._hold_job('zz')")
    assert run_sql("SELECT state FROM dbanon.run") == [("failed",)]
