"""Per-attribute releases in SQL: same as the client, with a warning, and counted accordingly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.errors import RowsNotAnonymous

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, g * 7919 % 101 AS b,"
    " (9007199254740992 + g * 104729 % 5000)::bigint AS wide, g % 2 AS side"
    " FROM generate_series(1, 200) AS g"
)
CALL = (
    "SELECT * FROM dbanon.individual_ranking('app.people', 'release.p', '{a,b,wide}', 4,"
    ' keep => \'{id}\', options => \'{"guarantee": "per_attribute", "by": ["side"]}\')'
)


def test_the_same_by_both_ways(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(CALL)
    with pytest.warns(RowsNotAnonymous):
        report = dbanon.anonymize(
            create_engine(sql_url, poolclass=NullPool),
            table="app.people",
            output="release.client",
            quasi_identifiers=["a", "b", "wide"],
            keep=["id"],
            k=4,
            by=["side"],
            method="individual_ranking",
            guarantee="per_attribute",
        )
    client = run_sql("SELECT t::text FROM release.client t ORDER BY t::text")
    assert len(client) == 200
    assert run_sql("SELECT t::text FROM release.p t ORDER BY t::text") == client
    recorded = run_sql(
        "SELECT DISTINCT histogram::text, k_achieved, information_loss, guarantee,"
        " arguments->'k_rows' FROM dbanon.release"
    )
    assert len(recorded) == 1
    assert recorded[0][1] == report.k_achieved == 4
    assert recorded[0][4] == report.k_rows
    # The risk shown to readers is that of rows.
    assert run_sql("SELECT highest_risk, k_achieved FROM release.p_summary") == [
        (1 / report.k_rows, 4)
    ]


def test_warnings_of_the_call_and_of_verify(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql(PEOPLE)
    connection = connect()
    messages: list[tuple[str | None, str | None]] = []
    connection.add_notice_handler(lambda d: messages.append((d.severity, d.message_primary)))
    connection.execute(CALL)  # type: ignore[call-overload]
    assert any(s == "WARNING" and m and "NOT k-anonymous; the rarest" in m for s, m in messages)
    messages.clear()
    [verdict] = connection.execute("SELECT * FROM dbanon.verify('release.p')").fetchall()
    assert any(s == "WARNING" and m and "NOT k-anonymous" in m for s, m in messages)
    assert verdict[1] == 200
    [(classes, smallest)] = run_sql(
        "SELECT sum(n), min(least) FROM ("
        + " UNION ALL ".join(
            f"SELECT count(*) AS n, min(size) AS least FROM (SELECT count(*) AS size"
            f" FROM release.p GROUP BY {name}, side) AS own"
            for name in ("a", "b", "wide")
        )
        + ") AS counted"
    )
    assert verdict[2:4] == (classes, smallest)
    assert verdict[6] == smallest >= 4
    assert verdict[8] is True
    connection.execute(
        "UPDATE release.p SET b = b + 1000 WHERE id = (SELECT min(id) FROM release.p)"
    )
    with pytest.raises(psycopg.Error) as failure:
        connection.execute("SELECT dbanon.verify('release.p')")
    assert failure.value.sqlstate == "ZK001"


def test_refused_without_the_word(run_sql: Run) -> None:
    run_sql(PEOPLE)
    with pytest.raises(psycopg.Error, match='"guarantee": "per_attribute"') as failure:
        run_sql("SELECT dbanon.individual_ranking('app.people', 'release.p', '{a,b}', 4)")
    assert failure.value.sqlstate == "22023"
    with pytest.raises(psycopg.Error, match="groups rows"):
        run_sql(
            "SELECT dbanon.mdav('app.people', 'release.p', '{a,b}', 4,"
            ' options => \'{"guarantee": "per_attribute"}\')'
        )
    assert run_sql("SELECT to_regclass('release.p')") == [(None,)]
