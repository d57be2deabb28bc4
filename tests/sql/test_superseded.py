"""Superseded releases are verified in SQL by their table and id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.postgres_server import conninfo

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, (g * 7919 % 1009)::integer AS a"
    " FROM generate_series(1, 60) AS g"
)
CALL = (
    "SELECT release_id::text, output FROM dbanon.mdav('app.people', 'release.p', '{{a}}', {},"
    " if_exists => 'replace', options => '{{\"output_kind\": \"view\"}}')"
)
VERIFIED = "SELECT release_id::text, k_requested, unchanged, relation::text FROM "


def test_a_superseded_release_is_verified_in_sql(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    [(first, _)], [(second, _)] = run_sql(CALL.format(3)), run_sql(CALL.format(5))
    [(name,)] = run_sql(f"SELECT relation_name FROM dbanon.release WHERE release_id = '{first}'")
    table = f"release.{name}"
    assert run_sql(f"{VERIFIED}dbanon.verify('{table}')") == [(first, 3, True, table)]
    notices: list[str] = []
    with psycopg.connect(conninfo(sql_url)) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute(f"SELECT dbanon.verify('{table}')".encode())
        connection.execute(b"SELECT dbanon.verify('release.p')")
    assert [first in text and "superseded" in text for text in notices] == [True]
    for release in (first, first.upper()):
        assert run_sql(f"{VERIFIED}dbanon.verify_release('{release}')") == [(first, 3, True, table)]
    for release in (second, "release.p"):
        assert run_sql(f"{VERIFIED}dbanon.verify_release('{release}')") == [
            (second, 5, True, "release.p")
        ]
    run_sql(f"UPDATE {table} SET a = a + 1")
    with pytest.raises(psycopg.Error, match="changed since it was released") as changed:
        run_sql(f"SELECT dbanon.verify_release('{first}')")
    assert changed.value.sqlstate == "ZK007"
    run_sql("SELECT dbanon.gc(0)")
    with pytest.raises(psycopg.errors.UndefinedTable, match="was dropped") as dropped:
        run_sql(f"SELECT dbanon.verify_release('{first}')")
    assert first in str(dropped.value)
    with pytest.raises(psycopg.errors.UndefinedTable, match="no such release"):
        run_sql("SELECT dbanon.verify_release('00000000-0000-4000-8000-000000000000')")
