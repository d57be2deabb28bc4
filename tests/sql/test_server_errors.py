"""Errors raised by the server itself: their class is reported, never their text."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import DatabaseFailure, DbanonError, InvalidParameter, SourceChanged

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

RELEASE = "SELECT dbanon.mdav('app.people', 'release.p', '{a}', 3)"


@pytest.fixture
def people(run_sql: Run) -> None:
    run_sql("CREATE TABLE app.people AS SELECT g, g % 9 AS a FROM generate_series(1, 90) AS g")


def release(url: str, **more: Any) -> dbanon.Report:
    """Make the same release as a client."""
    arguments = {"table": "app.people", "quasi_identifiers": ["a"], "k": 3, "output": "release.p"}
    return dbanon.anonymize(url, **arguments, **more)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("P0001", "raised by a function or a trigger in PL/pgSQL (SQLSTATE P0001)"),
        ("22012", "data exception (SQLSTATE 22012)"),
        ("ZZ123", "functions or triggers (SQLSTATE ZZ123)"),
    ],
)
def test_an_event_trigger_that_refuses(run_sql: Run, sql_url: str, code: str, words: str) -> None:
    run_sql(
        "CREATE FUNCTION app.no() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" RAISE EXCEPTION 'Jane Doe' USING ERRCODE = '{code}'; END $$"
    )
    run_sql(
        "CREATE EVENT TRIGGER no ON ddl_command_end WHEN TAG IN ('ALTER TABLE')"
        " EXECUTE FUNCTION app.no()"
    )
    try:
        with pytest.raises(psycopg.Error) as of_sql:
            run_sql(RELEASE)
        with pytest.raises(DatabaseFailure) as of_client:
            release(sql_url)
    finally:
        run_sql("DROP EVENT TRIGGER no")
    assert of_sql.value.sqlstate == of_client.value.sqlstate == "58000"
    for message in (str(of_sql.value), str(of_client.value)):
        assert words in message
        assert "Jane" not in message


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("door", ["sql", "client"])
def test_a_column_that_is_dropped_during_the_wait(
    run_sql: Run, connect: Connect, sql_url: str, door: str
) -> None:
    failures: list[Exception] = []

    def work() -> None:
        try:
            run_sql(RELEASE) if door == "sql" else release(sql_url)
        except (psycopg.Error, DbanonError) as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    with (holder := connect()).transaction():
        holder.execute("ALTER TABLE app.people DROP COLUMN a")
        thread.start()
        deadline = time.monotonic() + 60
        while not run_sql("SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation'"):
            assert time.monotonic() < deadline
    thread.join()
    assert [error.sqlstate for error in failures] == ["40001"]  # type: ignore[attr-defined]
    assert "dropped or renamed a column" in str(failures[0])
    assert door == "sql" or isinstance(failures[0], SourceChanged)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("where", ["nobody > 1", "EXISTS (SELECT FROM app.nobody)"])
def test_a_condition_on_missing_columns_is_no_change(sql_url: str, where: str) -> None:
    with pytest.raises(InvalidParameter, match="does not accept the condition"):
        release(sql_url, where=where)
