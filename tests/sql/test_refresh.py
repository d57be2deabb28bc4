"""dbanon.refresh repeats a release from its entry, for its publisher, with current rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from tests.sql.test_rules import DECLARE, PERSON

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

pytestmark = pytest.mark.one_database

RELEASE = "SELECT dbanon.mdav('app.person', 'release.person', k => 5)"
REFRESH = "SELECT rows_in, k_achieved FROM dbanon.refresh('release.person', '{independent}')"
MORE = "INSERT INTO app.person SELECT 500 + g, 'x', 30, 'none' FROM generate_series(1, 10) AS g"


def expect_refusal(session: psycopg.Connection[Any], statement: str, state: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as failure:
        session.execute(statement.encode())
    assert failure.value.sqlstate == state, failure.value
    return failure.value


def test_declared_released_and_refreshed(run_sql: Run) -> None:
    run_sql(PERSON)
    run_sql(DECLARE)
    run_sql(RELEASE)
    run_sql(MORE)
    [(rows, smallest)] = run_sql(REFRESH)
    assert (rows, smallest >= 5) == (130, True)
    assert run_sql("SELECT state FROM dbanon.releases()") == [("current",), ("superseded",)]
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.person')") == [(True,)]
    run_sql("""SELECT * FROM dbanon.declare('app.person', '{"diagnosis": "drop"}')""")
    with pytest.raises(psycopg.Error, match="would differ from") as failure:
        run_sql(REFRESH)
    assert failure.value.sqlstate == "ZK010"
    assert failure.value.diag.message_detail == "the rules of app.person have changed."
    run_sql("SELECT dbanon.refresh('release.person', '{rules}')")


def test_a_release_of_a_client_is_refreshed_where_sql_can(run_sql: Run, sql_url: str) -> None:
    run_sql(PERSON)
    arguments: dict[str, Any] = {"table": "app.person", "quasi_identifiers": ["age"], "k": 5}
    first = dbanon.anonymize(sql_url, **arguments, output="release.person", seed=4)
    run_sql(MORE)
    assert run_sql("SELECT rows_in FROM dbanon.refresh('release.person')") == [(130,)]
    [(seed, summary)] = run_sql(
        "SELECT arguments -> 'seed', to_regclass('release.person_summary')::text"
        " FROM dbanon.release WHERE superseded_at IS NULL"
    )
    assert (seed, summary, first.rows_in) == (4, "release.person_summary", 120)
    dbanon.anonymize(sql_url, **arguments, output="release.chosen", where="age < 40")
    with pytest.raises(psycopg.Error, match="does not take where") as failure:
        run_sql("SELECT dbanon.refresh('release.chosen')")
    assert failure.value.sqlstate == "0A000"
    assert dbanon.refresh(sql_url, "release.person").rows_in == 130


def test_lost_rights_are_reported(run_sql: Run, connect: Connect, sql_role: Role) -> None:
    run_sql(PERSON)
    run_sql(DECLARE)
    url = sql_role("anna")
    run_sql("GRANT SELECT ON app.person TO anna")
    anna = connect(url)
    anna.execute(RELEASE.encode())
    before = run_sql("SELECT 'release.person'::regclass::oid")
    run_sql("REVOKE SELECT ON app.person FROM anna")
    expect_refusal(anna, REFRESH, "42501")
    run_sql("GRANT SELECT ON app.person TO anna")
    run_sql("REVOKE CREATE ON SCHEMA release FROM anna")
    expect_refusal(anna, REFRESH, "42501")
    run_sql("GRANT CREATE ON SCHEMA release TO anna")
    run_sql("REVOKE dbanon_runner FROM anna")
    expect_refusal(connect(url), REFRESH, "42501")
    run_sql("GRANT dbanon_runner TO anna")
    run_sql("ALTER TABLE app.person ENABLE ROW LEVEL SECURITY")
    run_sql("CREATE POLICY younger ON app.person USING (age < 30)")
    expect_refusal(anna, REFRESH, "42501")
    assert run_sql("SELECT 'release.person'::regclass::oid") == before
    run_sql("ALTER TABLE app.person DISABLE ROW LEVEL SECURITY")
    connect(url).execute(REFRESH.encode())


def test_an_entry_of_another_role_is_not_run(
    run_sql: Run, connect: Connect, sql_role: Role, sql_url: str
) -> None:
    """Conditions, files and hierarchies would be evaluated with the caller's rights."""
    run_sql(PERSON)
    run_sql("GRANT SELECT ON app.person TO PUBLIC")
    url = sql_role("mallory")
    trap = "person_id IN (SELECT 1 FROM pg_authid)"
    dbanon.anonymize(
        url,
        table="app.person",
        quasi_identifiers=["age"],
        k=5,
        output="release.person",
        where="age < 100",
    )
    # The ledger's owner could have written it; a runner's entry may claim anything.
    run_sql(
        "UPDATE dbanon.release"
        " SET request = jsonb_set(request, '{asked,where}', to_jsonb(%s::text))",
        trap,
    )
    failure = expect_refusal(connect(sql_url), REFRESH, "42501")
    assert "published by role mallory" in str(failure)
    with pytest.raises(dbanon.DbanonError) as client_failure:
        dbanon.refresh(sql_url, "release.person")
    assert client_failure.value.sqlstate == "42501"
    expect_refusal(connect(sql_role("anna")), REFRESH, "42501")
    # Nor is another relation with the name and a copied mark.
    mark = run_sql("SELECT obj_description('release.person'::regclass, 'pg_class')")[0][0]
    run_sql("DROP TABLE release.person")
    run_sql("CREATE TABLE release.person (age integer)")
    run_sql(f"COMMENT ON TABLE release.person IS '{mark}'")
    expect_refusal(connect(sql_url), REFRESH, "42P01")


def test_relations_that_are_no_release_and_null(
    run_sql: Run, connect: Connect, sql_url: str
) -> None:
    run_sql(PERSON)
    session = connect(sql_url)
    expect_refusal(session, "SELECT dbanon.refresh('app.person')", "42P01")
    expect_refusal(session, "SELECT dbanon.refresh(NULL)", "22004")
    expect_refusal(session, "SELECT dbanon.refresh('app.person', NULL)", "22004")
    expect_refusal(session, "SELECT dbanon.refresh('app.person', '{all}')", "22023")
