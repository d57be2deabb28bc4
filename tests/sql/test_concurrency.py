"""Sessions that anonymize at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg

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
    assert refused.startswith("42P07: ")
    for output in set(outputs):
        assert run_sql("SELECT k_achieved FROM dbanon.verify(%s::regclass)", f"release.{output}")
    assert run_sql("SELECT count(*), count(DISTINCT output) FROM dbanon.releases()") == [(7, 7)]
