"""``dbanon.show`` and ``dbanon.drop``: a release's view, table and summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.errors import InsufficientRights
from tests.sql.ledger_entries import mark

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

PEOPLE = "CREATE TABLE app.people AS SELECT g % 50 AS a, g AS id FROM generate_series(1, 200) AS g"
CALL = (
    "SELECT release_id FROM dbanon.mdav('app.people', 'release.p', '{{a}}', 5,"
    " keep => '{{id}}', if_exists => 'replace', {})"
)
VIEW = CALL.format('options => \'{"output_kind": "view"}\'')
TABLE = CALL.format("nulls => 'error'")
RELATIONS = "SELECT relname FROM pg_class WHERE relnamespace = 'release'::regnamespace ORDER BY 1"


def test_dropping_a_release_removes_only_its_objects(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(VIEW)
    [(earlier,)] = run_sql("SELECT relation_name FROM dbanon.release")
    [(release_id,)] = run_sql(VIEW)
    [(released,)] = run_sql("SELECT relation_name FROM dbanon.release WHERE superseded_at IS NULL")
    [(details,)] = run_sql("SELECT dbanon.show('release.p')")
    assert details["state"] == "current"
    assert details["run"]["door"] == "sql"
    assert [column["name"] for column in details["columns"]] == ["a", "id"]
    assert run_sql("SELECT dbanon.show(%s)", str(release_id)) == [(details,)]
    engine = create_engine(sql_url, poolclass=NullPool)
    client = dbanon.show(engine, "release.p")
    assert set(client) == set(details)
    assert {name: client[name] for name in ("release_id", "state", "arguments", "histogram")} == {
        name: details[name] for name in ("release_id", "state", "arguments", "histogram")
    }

    dropped = run_sql("SELECT dropped FROM dbanon.drop('release.p')")

    assert dropped == [("release.p",), (f"release.{released}",), ("release.p_summary",)]
    assert run_sql(RELATIONS) == [(earlier,)]
    assert run_sql("SELECT state FROM dbanon.releases()") == [("dropped",), ("superseded",)]
    assert run_sql("SELECT dbanon.show('release.p') ->> 'state'") == [("dropped",)]
    assert [release.state for release in dbanon.releases(engine)] == ["dropped", "superseded"]
    assert run_sql("SELECT dropped FROM dbanon.gc(0)") == [(f"release.{earlier}",)]


@pytest.mark.parametrize("call", [VIEW, TABLE])
def test_a_client_drops_the_summary_too(run_sql: Run, sql_url: str, call: str) -> None:
    run_sql(PEOPLE)
    run_sql(call)
    dropped = dbanon.drop(create_engine(sql_url, poolclass=NullPool), "release.p")
    assert dropped[0] == "release.p"
    assert "release.p_summary" in dropped
    assert run_sql(RELATIONS) == []
    run_sql(call)
    assert run_sql("SELECT state FROM dbanon.releases()") == [("current",), ("superseded",)]


def test_foreign_and_published_objects_stay(
    run_sql: Run, sql_url: str, connect: Connect, sql_role: Role
) -> None:
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO PUBLIC")
    anna, mallory = connect(sql_role("anna")), connect(sql_role("mallory"))
    anna.execute(TABLE.encode())
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    before = run_sql(RELATIONS)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="role anna"):
        mallory.execute("SELECT dbanon.drop('release.p')")
    mallory.execute("CREATE TABLE release.fake (a int)")
    mark(mallory, "release.fake", release_id)
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
        mallory.execute("SELECT dbanon.drop('release.fake')")
    with pytest.raises(psycopg.errors.UndefinedTable, match="no release"):
        mallory.execute("SELECT dbanon.drop('app.people')")
    mallory.execute("DROP TABLE release.fake")
    anna.execute("CREATE VIEW release.seen AS SELECT * FROM release.p")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="another object depends"):
        anna.execute("SELECT dbanon.drop('release.p')")
    with pytest.raises(InsufficientRights, match="another object depends"):
        dbanon.drop(create_engine(sql_url, poolclass=NullPool), "release.p")
    anna.execute("DROP VIEW release.seen")
    assert run_sql(RELATIONS) == before
    with pytest.raises(psycopg.errors.UndefinedTable, match="no such release"):
        anna.execute("SELECT dbanon.show('release.nothing')")


def test_a_table_that_bears_a_copied_mark_is_not_the_summary(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    """Dropping a release does not drop what another role put in its place."""
    run_sql(PEOPLE)
    run_sql(TABLE)
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    run_sql("DROP TABLE release.p_summary")
    mallory = connect(sql_role("mallory"))
    mallory.execute("CREATE TABLE release.p_summary (a int)")
    mark(mallory, "release.p_summary", release_id)
    assert run_sql("SELECT dropped FROM dbanon.drop('release.p')") == [("release.p",)]
    assert run_sql(RELATIONS) == [("p_summary",)]
