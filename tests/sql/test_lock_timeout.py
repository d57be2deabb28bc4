"""A call waits for locks at most as long as the caller's lock_timeout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import DatabaseBusy
from dbanon.stores.postgresql.settings import lock_milliseconds

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

# If dbanon waited with its own limit, the statement would be cancelled.
IMPATIENT = ("SET lock_timeout = '200ms'", "SET statement_timeout = '15s'")
RELEASE = "SELECT dbanon.mdav('app.people', 'release.p', '{a}', 3, if_exists => 'replace')"
CALLS = {
    "a method": RELEASE,
    "suggest_hierarchy": "SELECT dbanon.suggest_hierarchy('app.people', 'a')",
    "classes": "SELECT * FROM dbanon.classes('app.people', 'mdav', '{a}', 3)",
    "refresh": "SELECT dbanon.refresh('release.p')",
}


@pytest.fixture
def people(run_sql: Run) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g % 9 AS a FROM generate_series(1, 90) AS g"
    )
    run_sql(RELEASE)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("call", CALLS)
def test_the_functions_wait_as_long_as_the_caller(connect: Connect, call: str) -> None:
    holder, impatient = connect(), connect()
    for setting in IMPATIENT:
        impatient.execute(setting.encode())
    with holder.transaction():
        holder.execute("LOCK TABLE app.people")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            impatient.execute(CALLS[call].encode())
    impatient.execute("RESET statement_timeout")
    with impatient.transaction():
        impatient.execute(CALLS[call].encode())
        assert impatient.execute("SHOW lock_timeout").fetchall() == [("200ms",)]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("setting", ["0", "5s", "2min"])
@pytest.mark.parametrize(
    "call", ["SELECT dbanon.drop('release.p')", "SELECT dbanon.gc(0)", RELEASE]
)
def test_the_setting_is_as_it_was(connect: Connect, setting: str, call: str) -> None:
    with (connection := connect()).transaction():
        connection.execute(f"SET lock_timeout = '{setting}'".encode())
        connection.execute(call.encode())
        assert connection.execute("SHOW lock_timeout").fetchall() == [(setting,)]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("relation", ["app.people", "release.p"])
def test_a_client_waits_as_long_as_its_connection_allows(
    connect: Connect, sql_url: str, relation: str
) -> None:
    url = f"{sql_url}{'&' if '?' in sql_url else '?'}"
    url += "options=-c%20lock_timeout%3D200ms%20-c%20statement_timeout%3D15s"
    holder = connect()
    with holder.transaction():
        # A reader of the output blocks its replacement.
        mode = "ACCESS SHARE" if relation == "release.p" else "ACCESS EXCLUSIVE"
        holder.execute(f"LOCK TABLE {relation} IN {mode} MODE".encode())
        with pytest.raises(DatabaseBusy) as caught:
            dbanon.anonymize(
                url,
                table="app.people",
                quasi_identifiers=["a"],
                k=3,
                output="release.p",
                if_exists="replace",
            )
    assert "60 seconds" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "milliseconds"),
    [
        ("0", 60_000),
        ("200ms", 200),
        ("5s", 5_000),
        ("1min", 60_000),
        ("2min", 60_000),
        ("1h", 60_000),
        ("3d", 60_000),
        ("1500ms", 1_500),
        ("1", 1),
    ],
)
def test_the_smaller_of_both(setting: str, milliseconds: int) -> None:
    assert lock_milliseconds(setting) == milliseconds
