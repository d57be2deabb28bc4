"""A transaction that has read an output delays its replacement, but not new readers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import DatabaseBusy
from dbanon.stores.postgresql import locks as postgresql_locks

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Replace = Callable[[int], None]


@pytest.fixture(params=["client", "sql"])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["table", "view"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def replace(sql_url: str, connect: Connect, run_sql: Run, door: str, kind: str) -> Replace:
    """Create the output, or replace it."""
    run_sql("CREATE TABLE app.people AS SELECT g AS id, g AS a FROM generate_series(1, 60) AS g")

    def by_client(k: int) -> None:
        dbanon.anonymize(
            sql_url,
            table="app.people",
            quasi_identifiers=["a"],
            k=k,
            output="release.p",
            output_kind=kind,
            if_exists="replace",
        )

    def by_sql(k: int) -> None:
        connect().execute(
            "SELECT dbanon.mdav('app.people', 'release.p', '{a}', %s, if_exists => 'replace',"
            " options => jsonb_build_object('output_kind', %s::text))",
            (k, kind),
        )

    run = {"client": by_client, "sql": by_sql}[door]
    run(3)
    return run


def waits(run_sql: Run) -> bool:
    """Whether a session waits for the output, or pauses between two tries."""
    [(count,)] = run_sql(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND (wait_event_type = 'Lock' OR wait_event = 'PgSleep')"
    )
    return bool(count)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_new_readers_get_through(
    connect: Connect, run_sql: Run, replace: Replace, door: str
) -> None:
    reader = connect()
    reader.execute(b"BEGIN")
    reader.execute(b"SELECT count(*) FROM release.p")
    failed: list[BaseException] = []

    def run() -> None:
        try:
            replace(5)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: waits(run_sql) or bool(failed))
    relations = [b"release.p", *([b"release.p_summary"] if door == "sql" else [])]
    # Until the longest pause is reached, plus some more.
    until = time.monotonic() + 2
    while time.monotonic() < until:
        for relation in relations:
            with connect() as new:
                # Without retries it would wait as long as the first reader stays, for minutes.
                new.execute(b"SET statement_timeout = '15s'")
                new.execute(b"SELECT count(*) FROM " + relation)
        time.sleep(0.05)
    assert thread.is_alive()
    reader.execute(b"COMMIT")
    thread.join()
    assert not failed
    smallest = run_sql("SELECT min(n) FROM (SELECT count(*) AS n FROM release.p GROUP BY a) AS c")
    assert smallest == [(5,)]


@pytest.mark.parametrize("door", ["sql"], indirect=True)
def test_a_reader_of_the_summary_delays_both_or_neither(
    connect: Connect, run_sql: Run, replace: Replace
) -> None:
    """The client writes no summary. A summary with an index is recreated."""
    run_sql("CREATE INDEX ON release.p_summary (rows)")
    reader = connect()
    reader.execute(b"BEGIN")
    reader.execute(b"SELECT count(*) FROM release.p_summary")
    thread = threading.Thread(target=replace, args=(5,))
    thread.start()
    wait_until(lambda: waits(run_sql))
    for _ in range(20):
        with connect() as new:
            new.execute(b"SET statement_timeout = '30s'")
            # The output is not locked while waiting for the summary.
            new.execute(b"SELECT count(*) FROM release.p")
            new.execute(b"SELECT count(*) FROM release.p_summary")
        time.sleep(0.05)
    reader.execute(b"COMMIT")
    thread.join()
    assert run_sql("SELECT k_requested FROM release.p_summary") == [(5,)]


@pytest.mark.parametrize("door", ["sql"], indirect=True)
def test_a_reader_of_the_summary_delays_no_release(
    connect: Connect, run_sql: Run, replace: Replace
) -> None:
    reader = connect()
    reader.execute(b"BEGIN")
    reader.execute(b"SELECT count(*) FROM release.p_summary")
    replace(5)
    reader.execute(b"COMMIT")
    assert run_sql("SELECT k_requested FROM release.p_summary") == [(5,)]


@pytest.mark.parametrize("door", ["client"], indirect=True)
def test_a_reader_that_stays_is_reported(
    connect: Connect, run_sql: Run, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit cannot be changed inside the server; the code is the same."""
    monkeypatch.setattr(postgresql_locks.run_with_retries, "__defaults__", (0.5,))
    reader = connect()
    reader.execute(b"BEGIN")
    reader.execute(b"SELECT count(*) FROM release.p")
    before = run_sql("SELECT count(*) FROM dbanon.release")
    with pytest.raises(DatabaseBusy, match=r"in 0\.5 seconds: readers") as caught:
        replace(5)
    assert caught.value.exit_code == 4
    assert run_sql("SELECT count(*) FROM dbanon.release") == before
    reader.execute(b"COMMIT")
    replace(5)


@pytest.mark.parametrize(("door", "kind"), [("sql", "view")], indirect=True)
def test_gc_skips_tables_in_use(connect: Connect, run_sql: Run, replace: Replace) -> None:
    """Views have old tables, whichever interface created them."""
    for k in (4, 5):
        replace(k)
    [(oldest,)] = run_sql("SELECT relation_name FROM dbanon.release ORDER BY created_at LIMIT 1")
    reader = connect()
    reader.execute(b"BEGIN")
    reader.execute(f'SELECT count(*) FROM release."{oldest}"'.encode())
    assert len(run_sql("SELECT dbanon.gc(0)")) == 1
    reader.execute(b"COMMIT")
    assert run_sql("SELECT dbanon.gc(0)") == [(f"release.{oldest}",)]
