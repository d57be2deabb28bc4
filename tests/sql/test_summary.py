"""The summary of a repeated release: its grants, its views, and code of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

RELEASE = "SELECT dbanon.mdav('app.people', 'release.p', '{a}', %s, if_exists => 'replace')"
SUMMARY = "SELECT k_requested FROM release.p_summary"
# Objects that force dropping and recreating it, instead of writing a new row.
CHANGES = {
    "none": "SELECT 1",
    "an index": "CREATE INDEX ON release.p_summary (rows)",
    "a column more": "ALTER TABLE release.p_summary ADD COLUMN more integer",
    "a column less": "ALTER TABLE release.p_summary DROP COLUMN evaluation",
    "a check": "ALTER TABLE release.p_summary ADD CHECK (rows > 0)",
    "a default": "ALTER TABLE release.p_summary ALTER COLUMN rows SET DEFAULT 7",
    "a child": "CREATE TABLE release.child () INHERITS (release.p_summary)",
    "a publication": "CREATE PUBLICATION of_summaries FOR TABLE release.p_summary",
    "a policy": "ALTER TABLE release.p_summary ENABLE ROW LEVEL SECURITY",
}


@pytest.fixture
def people(run_sql: Run) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g % 9 AS a FROM generate_series(1, 90) AS g"
    )
    run_sql(RELEASE, 3)


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("change", CHANGES)
def test_grants_stay(run_sql: Run, connect: Connect, sql_role: Role, change: str) -> None:
    reader, admin, stranger = sql_role("reader"), sql_role("admin"), sql_role("stranger")
    run_sql("GRANT USAGE ON SCHEMA release TO reader, admin, stranger")
    # The summary was created earlier and lacks it.
    run_sql("ALTER DEFAULT PRIVILEGES IN SCHEMA release GRANT SELECT ON TABLES TO stranger")
    run_sql("GRANT SELECT (k_requested) ON release.p_summary TO reader")
    run_sql("GRANT SELECT ON release.p_summary TO admin WITH GRANT OPTION")
    run_sql(CHANGES[change])
    if change == "a child":
        with pytest.raises(psycopg.Error):
            run_sql(RELEASE, 4)
        run_sql("DROP TABLE release.child")
    for k in (4, 5):
        run_sql(RELEASE, k)
        assert run_sql(SUMMARY) == run_sql(SUMMARY, url=reader) == [(k,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_sql("SELECT rows FROM release.p_summary", url=reader)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_sql(SUMMARY, url=stranger)
    connect(admin).execute("GRANT SELECT ON release.p_summary TO reader")
    assert run_sql("SELECT rows FROM release.p_summary", url=reader) == [(90,)]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_view_over_it_stays(run_sql: Run, connect: Connect, isolation: str) -> None:
    run_sql(f"CREATE VIEW release.shown AS {SUMMARY}")
    with connect() as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL {isolation.upper()}".encode())
        connection.execute(RELEASE, (5,))
        connection.execute("SELECT dbanon.refresh('release.p')")
        connection.execute("COMMIT")
    assert run_sql("SELECT * FROM release.shown") == [(5,)]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_trigger_of_another_role_never_runs(
    run_sql: Run, connect: Connect, sql_role: Role, isolation: str
) -> None:
    mallory = connect(sql_role("mallory"))
    run_sql("GRANT USAGE, CREATE ON SCHEMA release TO mallory")
    run_sql("CREATE TABLE app.trap (who text)")
    run_sql("GRANT USAGE ON SCHEMA app TO mallory")
    run_sql("GRANT INSERT ON app.trap TO PUBLIC")
    run_sql("GRANT TRIGGER ON release.p_summary TO mallory")
    mallory.execute(
        "CREATE FUNCTION release.spring() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO app.trap VALUES (current_user); RETURN NULL; END'"
    )
    trigger = (
        "CREATE TRIGGER spring AFTER INSERT OR DELETE ON release.p_summary"
        " FOR EACH STATEMENT EXECUTE FUNCTION release.spring()"
    )
    connection = connect()
    connection.execute(f"BEGIN ISOLATION LEVEL {isolation.upper()}".encode())
    # A REPEATABLE READ snapshot precedes the trigger.
    connection.execute("SELECT 1 FROM app.people")
    mallory.execute(trigger)
    connection.execute(RELEASE, (5,))
    connection.execute("COMMIT")
    assert run_sql("SELECT * FROM app.trap") == []
    assert run_sql(SUMMARY) == [(5,)]


def test_a_client_rewrites_the_summary_of_a_release(
    people: None, run_sql: Run, sql_url: str
) -> None:
    figures = "SELECT release_id::text, rows, k_requested FROM release.p_summary"
    before = run_sql(figures)
    run_sql("GRANT SELECT ON release.p_summary TO PUBLIC")
    run_sql("INSERT INTO app.people SELECT g, g % 9 FROM generate_series(91, 100) AS g")
    report = dbanon.refresh(sql_url, "release.p")
    assert run_sql(figures) == [(report.release_id, 100, 3)]
    assert run_sql(figures) != before
    arguments = {"table": "app.people", "quasi_identifiers": ["a"], "if_exists": "replace"}
    report = dbanon.anonymize(sql_url, output="release.p", k=5, **arguments)
    assert run_sql(figures) == [(report.release_id, 100, 5)]
    assert run_sql(
        "SELECT has_table_privilege('dbanon_reader', 'release.p_summary', 'SELECT')"
    ) == [(True,)]
    assert run_sql("SELECT dropped FROM dbanon.drop('release.p')") == [
        ("release.p",),
        ("release.p_summary",),
    ]


def test_a_client_creates_no_missing_summary(run_sql: Run, sql_url: str) -> None:
    run_sql("CREATE TABLE app.people AS SELECT g % 9 AS a FROM generate_series(1, 90) AS g")
    arguments = {"table": "app.people", "quasi_identifiers": ["a"], "k": 5, "if_exists": "replace"}
    for output in ("release.p", "release.p"):
        dbanon.anonymize(sql_url, output=output, **arguments)
    # Another role's object with the name is left unchanged.
    run_sql("CREATE TABLE release.p_summary (a integer)")
    dbanon.anonymize(sql_url, output="release.p", **arguments)
    assert run_sql("SELECT count(*) FROM release.p_summary") == [(0,)]
