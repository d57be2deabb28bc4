"""Concurrent sessions that anonymize."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]


def test_eight_sessions_two_of_them_into_the_same_output(run_sql: Run, connect: Connect) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a FROM generate_series(1, 5000) AS g"
    )
    outputs = ["same", "same", *(f"p{i}" for i in range(6))]
    results: list[str] = []
    barrier = threading.Barrier(len(outputs))

    def call(output: str) -> None:
        connection = connect()
        barrier.wait()
        try:
            connection.execute(
                "SELECT dbanon.mdav('app.people', %s, '{a}', 5)", (f"release.{output}",)
            )
            results.append("done")
        except psycopg.Error as error:
            results.append(f"{error.sqlstate}: {error.diag.message_primary}")

    threads = [threading.Thread(target=call, args=(output,)) for output in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count("done") == 7
    [refused] = [result for result in results if result != "done"]
    # By the lock while the other runs, by the name afterwards.
    assert refused.startswith(("55P03: Another run is writing release.same", "42P07: "))
    for output in set(outputs):
        assert run_sql("SELECT k_achieved FROM dbanon.verify(%s::regclass)", f"release.{output}")
    assert run_sql("SELECT count(*), count(DISTINCT output) FROM dbanon.releases()") == [(7, 7)]


def test_a_second_session_is_refused_before_it_works(run_sql: Run, connect: Connect) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g % 7 AS a FROM generate_series(1, 50) AS g"
    )
    call = "SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5, if_exists => 'replace')"
    first, second = connect(), connect()
    with first.transaction():
        first.execute(call)
        # A session that already has the lock may replace its own output.
        first.execute(call)
        with pytest.raises(
            psycopg.errors.LockNotAvailable, match=r"Another run is writing release\.p"
        ):
            second.execute(call)
    second.execute(call)
    with first.transaction():
        first.execute("SELECT dbanon.refresh('release.p')")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            second.execute("SELECT dbanon.refresh('release.p')")


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
@pytest.mark.parametrize("kind", ["table", "view"])
def test_sessions_that_replace_one_output(
    run_sql: Run, connect: Connect, kind: str, isolation: str
) -> None:
    """Each call succeeds in turn or reports that a retry may help; the ledger agrees."""
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a FROM generate_series(1, 3000) AS g"
    )
    results: list[str] = []
    sessions = [connect() for _ in range(4)]
    for session in sessions:
        session.execute(f"SET default_transaction_isolation = '{isolation}'".encode())
    for output in ("p", "p", "q"):
        barrier = threading.Barrier(4)

        def call(
            session: psycopg.Connection[Any],
            k: int,
            output: str = output,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait()
            try:
                session.execute(
                    "SELECT dbanon.mdav('app.people', %s, '{a}', %s, if_exists => 'replace',"
                    " options => jsonb_build_object('output_kind', %s::text))",
                    (f"release.{output}", k, kind),
                )
                results.append("done")
            except psycopg.Error as error:
                results.append(f"{error.sqlstate}: {error.diag.message_primary}")

        threads = [
            threading.Thread(target=call, args=(session, 3 + i))
            for i, session in enumerate(sessions)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        current = run_sql(
            "SELECT k_requested FROM dbanon.release WHERE superseded_at IS NULL"
            " AND output_name = %s",
            output,
        )
        assert len(current) == 1
        [(smallest,)] = run_sql(
            "SELECT dbanon.k_anonymity(%s::regclass, '{a}')", f"release.{output}"
        )
        assert smallest >= current[0][0]
        summary = run_sql(f"SELECT k_requested FROM release.{output}_summary")
        assert summary == current
    assert results.count("done") >= 3
    # 40001 and 55P03 are errors with exit code 4.
    assert {result.partition(":")[0] for result in results} <= {"done", "40001", "55P03"}, results
