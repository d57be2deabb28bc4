"""Backends that die inside CALL dbanon.dp_ranks, between spending and release."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from tests.postgres_server import Server
from tests.prerequisites import import_or_skip
from tests.sql.private_calls import CALL, Connect, Run, spent

import_or_skip("opendp")

LOCK = 4711
# After spending, tables are created and renamed; each step waits for the lock's holder.
WAITING = f"""CREATE FUNCTION app.wait() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_user = 'anna' AND tg_tag = '{{}}' THEN
        PERFORM pg_catalog.pg_advisory_xact_lock({LOCK});
    END IF;
END $$"""
BLOCKED_BACKEND = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database ="
    " (SELECT oid FROM pg_database WHERE datname = current_database())"
)


@pytest.fixture
def sql_url(private_url: str) -> str:
    """A database with OpenDP next to dbanon, and rows to release."""
    return private_url


def until(done: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (value := done()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return value


@pytest.mark.parametrize("tag", ["CREATE TABLE", "ALTER TABLE"])
@pytest.mark.parametrize("interruption", ["pg_terminate_backend", "kill -9"])
def test_a_killed_backend_has_spent_but_published_nothing(
    run_sql: Run,
    connect: Connect,
    sql_role: Callable[..., str],
    sql_server: Server,
    sql_url: str,
    budget: None,
    interruption: str,
    tag: str,
) -> None:
    """Killed before a row is written, and before the table is renamed; then the next call works."""
    url = sql_role("anna")
    run_sql(WAITING.format(tag))
    run_sql("CREATE EVENT TRIGGER waiting ON ddl_command_end EXECUTE FUNCTION app.wait()")
    holder = connect()
    holder.execute(f"SELECT pg_advisory_lock({LOCK})")
    failures: list[BaseException] = []

    def call() -> None:
        try:
            connect(url).execute(CALL.format("magic", 1))
        except psycopg.Error as error:
            failures.append(error)

    running = threading.Thread(target=call)
    running.start()
    [(pid,)] = until(lambda: run_sql(BLOCKED_BACKEND))
    # Others see only the spending.
    assert spent(run_sql) == (1.0, 1)
    starts = sql_server.log_size()
    if interruption == "pg_terminate_backend":
        assert run_sql("SELECT pg_terminate_backend(%s)", pid) == [(True,)]
        running.join()
    else:
        os.kill(pid, signal.SIGKILL)
        running.join()
        until(lambda: "ready to accept connections" in sql_server.log_text(starts))
    assert isinstance(failures[0], psycopg.OperationalError)
    assert spent(run_sql) == (1.0, 1)
    assert run_sql("SELECT state, release_id FROM dbanon.spending") == [("spent", None)]
    assert run_sql("SELECT count(*) FROM dbanon.release") == [(0,)]
    assert run_sql(
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'release'::regnamespace"
    ) == [(0,)]
    run_sql("DROP EVENT TRIGGER waiting")
    connect(url).execute(CALL.format("magic", 1))
    assert spent(run_sql) == (2.0, 2)
    assert dbanon.verify(sql_url, "release.magic").unchanged
