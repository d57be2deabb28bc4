"""Notices of SQL calls: about columns that are lost, and about a k counted on raw data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people (age int, town text)",
    "INSERT INTO app.people SELECT g, 'town ' || g FROM generate_series(1, 12) AS g",
)


def test_a_lost_column_is_reported_in_a_notice(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    for statement in PEOPLE:
        run_sql(statement)
    messages: list[tuple[str | None, str | None]] = []
    connection = connect()
    connection.add_notice_handler(lambda d: messages.append((d.severity, d.message_primary)))
    connection.execute("SELECT dbanon.mondrian('app.people', 'release.p', '{age,town}', 3)")
    [(severity, text)] = messages
    assert severity == "NOTICE"
    assert str(text).startswith('dbanon: column "town" is lost completely')


def test_raw_data_is_measured_without_being_withdrawn(run_sql: Run) -> None:
    for statement in PEOPLE:
        run_sql(statement)
    with pytest.raises(psycopg.Error) as refused:
        run_sql("SELECT dbanon.verify('app.people', '{age}', 2)")
    diagnostics = refused.value.diag
    assert diagnostics.sqlstate == "ZK001"
    assert "made with this k" in str(diagnostics.message_hint)
    assert "ithdraw" not in str(diagnostics.message_hint)


def test_a_schema_that_is_created_is_a_warning(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql("CREATE TABLE app.few AS SELECT g AS id, g % 3 AS a FROM generate_series(1, 30) AS g")
    connection = connect()
    messages: list[tuple[str | None, str | None]] = []
    connection.add_notice_handler(lambda d: messages.append((d.severity, d.message_primary)))
    call = "SELECT dbanon.mdav('app.few', %s, '{a}', 5, options => %s::jsonb)"
    with pytest.raises(psycopg.Error, match='no schema "relaese"'):
        connection.execute(call, ("relaese.few", '{"strict": true}'))
    connection.execute(call, ("relaese.few", "{}"))
    assert ("WARNING", 'dbanon: There was no schema "relaese": it was created.') in messages
    messages.clear()
    connection.execute(call, ("release.few", '{"releases": "independent"}'))
    assert not [text for severity, text in messages if severity == "WARNING"]
