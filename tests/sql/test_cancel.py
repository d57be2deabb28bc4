"""A running call can be cancelled at any moment and leaves nothing behind."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.postgres_server import Server

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

CALL = b"SELECT dbanon.mdav('app.people', 'release.p', '{a,b}', 5, keep => '{id}')"
LEFT = """
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'release'::regnamespace)
     + (SELECT count(*) FROM pg_class WHERE relname LIKE 'dbanon\\_%' AND relpersistence = 't')
     + (SELECT count(*) FROM dbanon.release)"""


def _people(run_sql: Run, n: int) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, random() AS a, random() AS b"
        f" FROM generate_series(1, {n}) AS g"
    )


def test_a_time_limit_stops_a_large_call(run_sql: Run, connect: Connect) -> None:
    _people(run_sql, 1_000_000)
    connection = connect()
    connection.execute("SET statement_timeout = '1s'")
    with pytest.raises(psycopg.errors.QueryCanceled) as failure:
        connection.execute(CALL)
    assert "Traceback" not in str(failure.value)
    assert connection.execute(LEFT.encode()).fetchall() == [(0,)]


def test_cancels_at_random_moments_and_then_a_complete_call(run_sql: Run, connect: Connect) -> None:
    _people(run_sql, 20_000)
    connection, other = connect(), connect()
    started = time.monotonic()
    connection.execute(b"BEGIN")
    connection.execute(CALL)
    connection.execute(b"ROLLBACK")
    full_seconds = time.monotonic() - started
    pid = connection.info.backend_pid
    chance = random.Random(5)
    stopped = 0
    for _ in range(20):
        timer = threading.Timer(
            chance.uniform(0, 0.9 * full_seconds),
            other.execute,
            (f"SELECT pg_cancel_backend({pid})",),
        )
        timer.start()
        try:
            connection.execute(b"BEGIN")
            connection.execute(CALL)
        except psycopg.errors.QueryCanceled:
            stopped += 1
        finally:
            timer.join()
            # A late cancel must not hit the next statement.
            try:
                connection.execute(b"ROLLBACK")
            except psycopg.errors.QueryCanceled:
                connection.execute(b"ROLLBACK")
        assert connection.execute(LEFT.encode()).fetchall() == [(0,)]
    assert stopped >= 5
    assert connection.info.backend_pid == pid
    connection.execute(CALL)
    assert run_sql("SELECT dbanon.k_anonymity('release.p', '{a,b}')") == [(5,)]


def test_a_cancel_noticed_in_a_notice_is_reported_as_one(run_sql: Run, connect: Connect) -> None:
    """The first notice of a call, about unnamed columns, comes after everything is written."""
    _people(run_sql, 100)
    # A cancel waits from here on; earlier statements would handle it.
    run_sql(
        """CREATE FUNCTION app.cancel_at_notice() RETURNS void LANGUAGE plpython3u AS $$
import os, signal
from dbanon.doors import plpython
release = plpython._release
class Cancelled:
    def __init__(self, plpy):
        self._plpy = plpy
    def __getattr__(self, name):
        return getattr(self._plpy, name)
    def notice(self, text):
        os.kill(os.getpid(), signal.SIGINT)
        self._plpy.notice(text)
plpython._release = lambda plpy, *rest: release(Cancelled(plpy), *rest)
$$"""
    )
    connection = connect()
    # Functions add the package to the path of a backend that has not loaded it yet.
    connection.execute(b"SELECT dbanon.check()")
    connection.execute(b"SELECT app.cancel_at_notice()")
    with pytest.raises(psycopg.errors.QueryCanceled) as failure:
        connection.execute(b"SELECT dbanon.mdav('app.people', 'release.p', '{a,b}', 5)")
    assert "unexpectedly" not in str(failure.value)
    assert connection.execute(LEFT.encode()).fetchall() == [(0,)]


def test_progress_is_reported_in_notices(run_sql: Run, connect: Connect) -> None:
    _people(run_sql, 1000)
    # Notices are two seconds apart; copying takes longer.
    run_sql(
        "CREATE VIEW app.slow AS SELECT p.* FROM app.people AS p,"
        " (SELECT pg_sleep(2.1) OFFSET 0) AS s"
    )
    connection = connect()
    connection.execute("SET application_name = 'psql'")
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    connection.execute(
        b"SELECT dbanon.mdav('app.slow', 'release.p', '{a,b}', 5,"
        b' options => \'{"progress": true, "key": ["id"]}\')'
    )
    assert any("%" in notice for notice in notices)
    assert connection.execute("SHOW application_name").fetchall() == [("psql",)]


def test_killed_backends_leave_no_half_release(
    run_sql: Run, connect: Connect, sql_server: Server
) -> None:
    _people(run_sql, 60_000)
    ready = "database system is ready to accept connections"
    for moment in (0.05, 0.2, 0.35, 0.5, 0.7):
        starts = sql_server.log_size()
        connection = connect()
        pid = connection.info.backend_pid
        timer = threading.Timer(moment, os.kill, (pid, signal.SIGKILL))
        timer.start()
        connection.execute(b"BEGIN")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(CALL + b" FROM pg_sleep(0) UNION ALL SELECT NULL FROM pg_sleep(5)")
        timer.join()
        deadline = time.monotonic() + 30
        while ready not in sql_server.log_text(starts):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert run_sql(LEFT) == [(0,)]
    run_sql(CALL.decode())
    assert run_sql("SELECT dbanon.k_anonymity('release.p', '{a,b}')") == [(5,)]
