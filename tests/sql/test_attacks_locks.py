"""Attacks by locks: a role that may run nothing keeps nobody from running."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dbanon.errors import JobRunning
from dbanon.run.open import open_store
from tests.postgres_server import Server, conninfo
from tests.sql.ledger_entries import PEOPLE, anonymize

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

ADVISORY = "SELECT pg_advisory_lock(hashtextextended('dbanon job people', 0))"
HELD = re.compile(
    r'It is held by process (\d+) of role "(\w+)", since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\.'
)


@contextmanager
def refused(*roles: str, pid: int | None = None) -> Iterator[None]:
    """The job is refused because one of these roles runs it; ``pid`` is its backend."""
    with pytest.raises(JobRunning) as failure:
        yield
    told = HELD.search(failure.value.message)
    assert told is not None, failure.value.message
    assert told[2] in roles
    assert pid in (None, int(told[1]))


def test_a_role_without_rights_does_not_hold_a_job(
    run_sql: Run, connect: Connect, sql_role: Role, sql_url: str, backend_path: Path
) -> None:
    """By its number in pg_locks, known or not, anybody could take an advisory lock."""
    anna = sql_role("anna")
    mallory = connect(sql_role("mallory", runner=False))
    mallory.execute(ADVISORY)
    for statement in (
        "SELECT dbanon._hold_job('people')",
        "DO $$ BEGIN LOCK TABLE dbanon.run IN ROW EXCLUSIVE MODE; END $$",
        "INSERT INTO dbanon.run (run_id) VALUES (md5('dbanon job people')::uuid)",
        "SELECT * FROM dbanon.run FOR UPDATE",
    ):  # fmt: skip
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            mallory.execute(statement)
    mallory.execute("SELECT set_config('application_name', 'dbanon job since ever', false)")
    for url in (anna, sql_url):
        with open_store(url).job_lock("people"):
            for other in (anna, sql_url):
                with (
                    refused("anna" if url == anna else "postgres"),
                    open_store(other).job_lock("people"),
                ):
                    pass
            with open_store(anna).job_lock("other"):
                pass
    with open_store(anna).job_lock("people"):
        pass
    assert run_sql("SELECT count(*) FROM dbanon.run") == [(0,)]


def test_a_lock_names_its_backend_and_goes_with_it(
    run_sql: Run, sql_role: Role, sql_url: str, backend_path: Path
) -> None:
    anna, bert = sql_role("anna"), sql_role("bert")
    with open_store(anna).job_lock("people"):
        [(pid,)] = run_sql(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'dbanon job %'"
        )
        with refused("anna", pid=pid), open_store(bert).job_lock("people"):
            pass
        run_sql("SELECT pg_terminate_backend(%s, 5000)", pid)
        with open_store(bert).job_lock("people"):
            pass


def test_a_runner_that_commits_the_row_of_a_lock_holds_nothing(
    run_sql: Run, connect: Connect, sql_role: Role, backend_path: Path
) -> None:
    anna, mallory = sql_role("anna"), connect(sql_role("mallory"))
    mallory.execute("SELECT dbanon._hold_job('people')")
    assert run_sql("SELECT state, run_by FROM dbanon.run") == [("lock", "mallory")]
    with open_store(anna).job_lock("people"), refused("anna"), open_store(anna).job_lock("people"):
        pass
    for name in ("", "x" * 201, None):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            mallory.execute("SELECT dbanon._hold_job(%s)", (name,))


def test_the_lock_before_and_after_the_first_release(sql_server: Server) -> None:
    """Who began before there was a ledger still holds it when there is one."""
    with sql_server.database() as url:
        sql_server.execute("CREATE SCHEMA app", url=url)
        sql_server.execute(PEOPLE, url=url)
        mallory = sql_server.create_role("mallory", url=url)
        with open_store(url).job_lock("people"):
            with refused("postgres"), open_store(url).job_lock("people"):
                pass
            anonymize(url)
            with refused("postgres"), open_store(url).job_lock("people"):
                pass
        with psycopg.connect(conninfo(mallory)) as hers:
            hers.execute(ADVISORY)
            with (
                open_store(url).job_lock("people"),
                refused("postgres"),
                open_store(url).job_lock("people"),
            ):
                pass
