"""A cancel interrupts reading and building hierarchies, merging for models, and refining.

``python -m benchmarks cancellation`` measures the delay.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.test_cancel import LEFT

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]


def cancel(connection: psycopg.Connection[Any], other: Any, after: float, call: str) -> None:
    """Cancel the call after this many seconds; it must leave nothing behind."""
    statement = f"SELECT pg_cancel_backend({connection.info.backend_pid})"
    timer = threading.Timer(after, other.execute, (statement,))
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        connection.execute(call.encode())
    timer.join()
    assert connection.execute(LEFT.encode()).fetchall() == [(0,)]


def _people(run_sql: Run, n: int) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, 'leaf ' || g AS place, (g * 7919::bigint"
        f" % 1000003)::integer AS age, 'v' || g % 7 AS ill FROM generate_series(1, {n}) AS g"
    )


def _call(trees: dict[str, Any], options: dict[str, Any], columns: str = "{place}") -> str:
    return (
        f"SELECT dbanon.mondrian('app.people', 'release.p', '{columns}', 5, sensitive => '{{ill}}',"
        f" hierarchies => '{json.dumps(trees)}', options => '{json.dumps(options)}')"
    )


TREES: dict[str, Any] = {
    "table": {"table": "app.tree"},
    "levels": {"table": "app.levels"},
    "ordered": {"ordered": True},
    "mask": {"mask": True},
}


@pytest.mark.parametrize("kind", TREES)
def test_while_a_tree_is_read_or_made(run_sql: Run, connect: Connect, kind: str) -> None:
    n = 150_000
    _people(run_sql, n)
    if kind == "table":
        run_sql(
            "CREATE TABLE app.tree AS SELECT 'leaf ' || g AS child, 'group ' || g / 100 AS parent"
            f" FROM generate_series(1, {n}) AS g UNION ALL SELECT 'group ' || g, '*'"
            f" FROM generate_series(0, {n // 100}) AS g"
        )
    if kind == "levels":
        run_sql(
            "CREATE TABLE app.levels AS SELECT 'leaf ' || g AS leaf, 'group ' || g / 100 AS level1,"
            f" '*' AS level2 FROM generate_series(1, {n}) AS g"
        )
    connection, other = connect(), connect()
    call = _call({"place": TREES[kind]}, {"local_range": True})
    for after in (0.3, 0.9):
        cancel(connection, other, after, call)


def test_while_classes_merge_for_a_model(run_sql: Run, connect: Connect) -> None:
    _people(run_sql, 200_000)
    run_sql("UPDATE app.people SET ill = 'v' || (age > 500000)")
    connection, other = connect(), connect()
    call = _call({}, {"models": [{"attribute": "ill", "kind": "distinct_l", "level": 2}]}, "{age}")
    for after in (2, 4):
        cancel(connection, other, after, call)


def test_while_classes_are_refined(run_sql: Run, connect: Connect) -> None:
    _people(run_sql, 50_000)
    connection, other = connect(), connect()
    call = _call({"place": {"mask": [8, 7, 6]}}, {"refine": "thorough"}, "{place,age}")
    for after in (2, 4):
        cancel(connection, other, after, call)
