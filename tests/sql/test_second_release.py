"""A second release of the same persons in PostgreSQL: refused, warned about, or requested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.test_calls import PEOPLE

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

pytestmark = pytest.mark.one_database

CALL = "SELECT rows_out FROM dbanon.mdav('app.people', 'release.{}', '{{a,b}}', 5{})"
BY_PERSON = ", entity => 'id'"


def expect_refusal(session: psycopg.Connection[Any], statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as failure:
        session.execute(statement.encode())
    session.rollback()
    assert failure.value.sqlstate == "ZK011", failure.value
    return failure.value


def test_it_is_refused_and_its_hint_works(run_sql: Run, connect: Connect, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(CALL.format("one", BY_PERSON))
    session = connect(sql_url)
    for output, more in (("two", ""), ("one", ", if_exists => 'replace'")):
        error = expect_refusal(session, CALL.format(output, BY_PERSON + more))
        hint = str(error.diag.message_hint)
        assert "dbanon chain create URL people --table app.people --entity id" in hint
        option = hint.rpartition("against this: ")[2].strip()
        assert run_sql(CALL.format(output, f"{BY_PERSON}{more}, {option}")) == [(40,)]


def test_refresh_takes_the_word_of_its_hint(run_sql: Run, connect: Connect, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(CALL.format("one", BY_PERSON))
    error = expect_refusal(connect(sql_url), "SELECT dbanon.refresh('release.one')")
    option = str(error.diag.message_hint).rpartition("against this: ")[2].strip()
    assert option == "accept => ARRAY['independent']"
    assert run_sql(f"SELECT rows_out FROM dbanon.refresh('release.one', {option})") == [(40,)]


def test_without_an_entity_it_warns(run_sql: Run, connect: Connect, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(CALL.format("one", ""))
    messages: list[tuple[str | None, str]] = []
    session = connect(sql_url)
    session.add_notice_handler(lambda d: messages.append((d.severity, str(d.message_primary))))
    session.execute(CALL.format("two", "").encode())
    [(severity, text)] = [message for message in messages if "was released before" in message[1]]
    assert severity == "WARNING"
    assert text.startswith("dbanon: app.people was released before: 1 earlier release")
    messages.clear()
    statement = CALL.format("three", ', options => \'{"releases": "independent"}\'')
    session.execute(statement.encode())
    assert not [message for message in messages if "was released before" in message[1]]
