"""Stale releases according to the server's counters, and what these cannot show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dbanon
from dbanon.ledger.releases import is_stale
from tests.sql.test_rules import PERSON

Run = Callable[..., list[tuple[Any, ...]]]

pytestmark = pytest.mark.one_database

STALENESS = "SELECT output, stale, stale_by FROM dbanon.releases() WHERE state = 'current'"


def listed_as_stale(run_sql: Run, url: str) -> bool | None:
    """What SQL and a client report; both must agree."""
    [(_, stale, by)] = run_sql(STALENESS)
    [listed] = [release for release in dbanon.releases(url) if release.state == "current"]
    assert (listed.stale, listed.stale_by) == (stale, by)
    assert (by is None) is (stale is None)
    return stale  # type: ignore[no-any-return]


def write(run_sql: Run, statement: str) -> None:
    """Run a statement and flush its counters at once."""
    run_sql(statement)
    if run_sql("SELECT to_regprocedure('pg_stat_force_next_flush()') IS NOT NULL") == [(True,)]:
        run_sql("SELECT pg_stat_force_next_flush()")
    else:
        run_sql("SELECT pg_sleep(1.5)")


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO app.person VALUES (1000, 'x', 30, 'flu')",
        "UPDATE app.person SET name = name WHERE person_id = 1",
        "DELETE FROM app.person WHERE person_id = 1",
        "TRUNCATE app.person",
        "DROP TABLE app.person; CREATE TABLE app.person (age integer)",
    ],
)
def test_what_was_written_since(run_sql: Run, sql_url: str, change: str) -> None:
    write(run_sql, PERSON)
    run_sql("SELECT dbanon.mdav('app.person', 'release.person', '{age}', 5)")
    assert listed_as_stale(run_sql, sql_url) is False
    # Reads, and writes to other tables, change nothing.
    run_sql("SELECT count(*) FROM app.person")
    write(run_sql, "CREATE TABLE app.other AS TABLE app.person")
    assert listed_as_stale(run_sql, sql_url) is False
    for statement in change.split("; "):
        write(run_sql, statement)
    assert listed_as_stale(run_sql, sql_url) is True


def test_partitions_are_looked_at(run_sql: Run, sql_url: str) -> None:
    write(run_sql, "CREATE TABLE app.person (id integer, age integer) PARTITION BY RANGE (id)")
    write(run_sql, "CREATE TABLE app.low PARTITION OF app.person FOR VALUES FROM (0) TO (100)")
    write(run_sql, "INSERT INTO app.person SELECT g, g % 7 FROM generate_series(1, 50) AS g")
    run_sql("SELECT dbanon.mdav('app.person', 'release.person', '{age}', 5)")
    assert listed_as_stale(run_sql, sql_url) is False
    write(run_sql, "INSERT INTO app.low VALUES (60, 3)")
    assert listed_as_stale(run_sql, sql_url) is True


def test_staleness_is_unknown_for_views_and_reset_counters(run_sql: Run, sql_url: str) -> None:
    write(run_sql, PERSON)
    run_sql("CREATE VIEW app.shown AS SELECT person_id, age FROM app.person")
    run_sql(
        "SELECT dbanon.mdav('app.shown', 'release.person', '{age}', 5,"
        """ options => '{"key": ["person_id"]}')"""
    )
    assert listed_as_stale(run_sql, sql_url) is None
    run_sql("SELECT * FROM dbanon.drop('release.person')")
    run_sql("SELECT dbanon.mdav('app.person', 'release.person', '{age}', 5)")
    run_sql("SELECT pg_stat_reset_single_table_counters('app.person'::regclass)")
    assert listed_as_stale(run_sql, sql_url) is None


def test_a_refreshed_release_is_not_stale(run_sql: Run, sql_url: str) -> None:
    write(run_sql, PERSON)
    run_sql("SELECT dbanon.mdav('app.person', 'release.person', '{age}', 5)")
    write(run_sql, "INSERT INTO app.person VALUES (1000, 'x', 30, 'flu')")
    assert listed_as_stale(run_sql, sql_url) is True
    run_sql("SELECT dbanon.refresh('release.person')")
    assert listed_as_stale(run_sql, sql_url) is False


def test_exact_staleness_uses_the_rows(run_sql: Run, sql_url: str) -> None:
    """A write that leaves the read values unchanged does not make a release stale; others do."""
    write(run_sql, PERSON)
    exact = STALENESS.replace("releases()", "releases(exact => true)")
    run_sql(
        "SELECT dbanon.mdav('app.person', 'release.person', '{age}', 5,"
        """ options => '{"source_digest": true}')"""
    )
    for change, stale in (
        ("INSERT INTO app.person SELECT * FROM app.person WHERE false", False),
        ("UPDATE app.person SET name = name || 'x'", False),
        ("UPDATE app.person SET age = age + 1 WHERE person_id = 7", True),
        ("UPDATE app.person SET age = age - 1 WHERE person_id = 7", False),
        ("DELETE FROM app.person WHERE person_id = 7", True),
    ):
        write(run_sql, change)
        assert run_sql(exact) == [("release.person", stale, "digest")]
        [listed] = [
            release
            for release in dbanon.releases(sql_url, exact=True)
            if release.state == "current"
        ]
        assert (listed.stale, listed.stale_by) == (stale, "digest")
    assert listed_as_stale(run_sql, sql_url) is True
    run_sql("SELECT dbanon.refresh('release.person')")
    assert run_sql(exact) == [("release.person", False, "digest")]
    # Without a recorded digest the same call uses counters.
    run_sql("SELECT dbanon.mdav('app.person', 'release.other', '{age}', 5)")
    assert {output: by for output, _, by in run_sql(exact)} == {
        "release.person": "digest",
        "release.other": "counters",
    }


def test_states_of_sources() -> None:
    before = {"oid": 7, "writes": 10, "since": None, "file": "a"}
    assert is_stale(before, before) is False
    assert is_stale(before, before | {"writes": 11}) is True
    assert is_stale(before, before | {"file": "b"}) is True
    assert is_stale(before, before | {"oid": 8}) is True
    for unknown in ({}, before | {"writes": 9}, before | {"since": "2026"}, {"oid": 7}):
        assert is_stale(before, unknown) is None
    assert is_stale({}, before) is None
