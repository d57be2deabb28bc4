"""Attacks on a release's identity: its name, comment, oid and rows on another relation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import DbanonError
from tests.sql.ledger_entries import PEOPLE, mark
from tests.sql.mallory import sprung

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

VIEW = (
    "SELECT dbanon.mdav('app.people', 'release.v', '{a}', 5, if_exists => 'replace',"
    ' options => \'{"output_kind": "view"}\')'
)
STATES = "SELECT output, state FROM dbanon.releases() ORDER BY 1, 2"
REPAIRS = "SELECT output, action, reason FROM dbanon.repair()"


def copy_release(forger: psycopg.Connection[Any], run_sql: Run, name: str = "fake") -> None:
    """Create mallory's table with the columns, rows and mark of anna's release."""
    run_sql("GRANT SELECT ON release.p TO mallory")
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    forger.execute(f"CREATE TABLE release.{name} AS SELECT * FROM release.p".encode())
    mark(forger, f"release.{name}", release_id)
    forger.commit()


def require_no_release(run_sql: Run, url: str, name: str = "release.p") -> None:
    """Check that every interface refuses the relation as a release and leaves it unchanged."""
    before = run_sql(f"SELECT '{name}'::regclass::oid, count(*) FROM {name}")
    for call in (
        f"verify('{name}')",
        f"refresh('{name}')",
        f"drop('{name}')",
        f"information_loss('{name}')",
        f"evaluate('{name}', 'app.people')",
    ):
        with pytest.raises(psycopg.errors.UndefinedTable):
            run_sql(f"SELECT dbanon.{call}")
    with pytest.raises(psycopg.errors.DuplicateTable, match=r"not made by|did not make"):
        run_sql(f"SELECT dbanon.mdav('app.people', '{name}', '{{a}}', 5, if_exists => 'replace')")
    for door in (dbanon.verify, dbanon.refresh, dbanon.drop):
        with pytest.raises(DbanonError) as refused:
            door(url, name)
        assert refused.value.sqlstate == "42P01"
    assert run_sql(f"SELECT '{name}'::regclass::oid, count(*) FROM {name}") == before


def test_a_relation_renamed_onto_the_recorded_name(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    copy_release(forger, run_sql)
    run_sql("ALTER TABLE release.p RENAME TO moved")
    forger.execute("ALTER TABLE release.fake RENAME TO p")
    forger.commit()
    require_no_release(run_sql, sql_url)
    assert run_sql(STATES) == [("release.moved", "current")]
    assert run_sql(REPAIRS) == [
        ("release.moved", "renamed", "its entry named it release.p"),
    ]
    require_no_release(run_sql, sql_url)


def test_a_foreign_relation_has_the_recorded_oid(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    """For example after an oid wraparound, or after a restore that gave the oid to another
    relation.
    """
    copy_release(forger, run_sql)
    run_sql("DROP TABLE release.p")
    forger.execute("ALTER TABLE release.fake RENAME TO p")
    forger.commit()
    run_sql(
        "UPDATE dbanon.release SET relation_oid = 'release.p'::regclass::oid::bigint,"
        " output_oid = 'release.p'::regclass::oid::bigint"
    )
    require_no_release(run_sql, sql_url)
    [(action, reason)] = run_sql("SELECT action, reason FROM dbanon.repair()")
    assert (action, "role mallory" in reason) == ("left", True)
    # In another database the owner's oid may belong to another role.
    run_sql("UPDATE dbanon.release SET owner_oid = 'mallory'::regrole::oid::bigint, ledger_oid = 1")
    require_no_release(run_sql, sql_url)
    [(action, reason)] = run_sql("SELECT action, reason FROM dbanon.repair()")
    assert (action, "role mallory" in reason) == ("left", True)


def test_a_foreign_relation_that_was_put_in_place_of_a_dropped_one(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    copy_release(forger, run_sql)
    run_sql("DROP TABLE release.p")
    forger.execute("ALTER TABLE release.fake RENAME TO p")
    forger.commit()
    require_no_release(run_sql, sql_url)
    assert run_sql(STATES) == [("release.p", "dropped")]
    [(output, action, reason)] = run_sql(REPAIRS)
    assert (output, action, "accept_owners" in reason) == ("release.p", "left", True)
    # Accepting the role by name attaches the released rows, or nothing.
    forger.execute("UPDATE release.p SET a = a + 1")
    forger.commit()
    accepted = "SELECT action, reason FROM dbanon.repair('{mallory}')"
    assert run_sql(accepted) == [("left", "its rows are not those that were released")]
    forger.execute("ALTER TABLE release.p ADD COLUMN name text")
    forger.commit()
    assert run_sql(accepted) == []
    require_no_release(run_sql, sql_url)


def test_a_table_of_the_owner_in_place_of_a_dropped_one(run_sql: Run, forger: object) -> None:
    """A name does not turn other rows into a release."""
    run_sql("DROP TABLE release.p")
    run_sql("CREATE TABLE release.p AS SELECT a FROM app.people")
    run_sql("ALTER TABLE release.p OWNER TO anna")
    assert run_sql(STATES) == [("release.p", "untied")]
    assert run_sql(REPAIRS) == [
        ("release.p", "left", "its rows are not those that were released"),
    ]
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
        run_sql("SELECT dbanon.verify('release.p')")


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("SELECT a + 0 AS a FROM {}", "rows"),
        ("SELECT a, a AS more FROM {}", "columns"),
        ("SELECT a FROM app.people", "rows"),
        ("SELECT s.a FROM {} AS s, app.people AS p WHERE p.id = 1", None),
    ],
)
def test_a_view_that_was_replaced(
    run_sql: Run, sql_url: str, forger: object, query: str, refusal: str | None
) -> None:
    """For the same owner verify reports the differences; the published table stays."""
    run_sql(VIEW)
    [(table,)] = run_sql("SELECT relation_name FROM dbanon.release WHERE output_kind = 'view'")
    name = f'release."{table}"'
    if refusal == "rows":
        query = query.replace("a + 0", "-a")
    run_sql(f"CREATE OR REPLACE VIEW release.v AS {query.format(name)}")
    if refusal is None:
        assert run_sql("SELECT unchanged FROM dbanon.verify('release.v')") == [(True,)]
    else:
        with pytest.raises(psycopg.Error, match=f"{refusal}.* differ|class sizes|fewer than"):
            run_sql("SELECT dbanon.verify('release.v')")
        with pytest.raises(DbanonError, match=r"differ|fewer than"):
            dbanon.verify(sql_url, "release.v")
    # Also without the mark.
    run_sql("COMMENT ON VIEW release.v IS NULL")
    if refusal is not None:
        with pytest.raises(psycopg.Error, match=f"{refusal}.* differ|class sizes|fewer than"):
            run_sql("SELECT dbanon.verify('release.v')")
    # In another database the view is attached only if it shows the released table unchanged.
    run_sql("UPDATE dbanon.release SET ledger_oid = 1 WHERE output_kind = 'view'")
    assert [(name, action) for name, action, _ in run_sql(REPAIRS)] == [("release.v", "left")]
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
        run_sql("SELECT dbanon.verify('release.v')")


def test_a_view_of_another_role_under_the_recorded_name(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    run_sql(VIEW)
    [(table,)] = run_sql("SELECT relation_name FROM dbanon.release WHERE output_kind = 'view'")
    run_sql(f'GRANT SELECT ON release."{table}" TO mallory')
    run_sql("DROP VIEW release.v")
    forger.execute(f'CREATE VIEW release.v AS SELECT a FROM release."{table}"'.encode())
    forger.commit()
    run_sql(
        "UPDATE dbanon.release SET output_oid = 'release.v'::regclass::oid::bigint"
        " WHERE output_kind = 'view'"
    )
    for numbers in ("ledger_oid = ledger_oid", "ledger_oid = 1"):
        run_sql(f"UPDATE dbanon.release SET {numbers}")
        with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
            run_sql("SELECT dbanon.verify('release.v')")
        with pytest.raises(DbanonError):
            dbanon.drop(sql_url, "release.v")
        left = {name: action for name, action, _ in run_sql(REPAIRS)}
        assert left["release.v"] == "left"


def test_gc_drops_no_table_of_another_role_by_its_oid(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    run_sql(VIEW)
    run_sql(VIEW)
    forger.execute("CREATE TABLE release.hers (a double precision)")
    forger.commit()
    run_sql(
        "UPDATE dbanon.release SET relation_oid = 'release.hers'::regclass::oid::bigint"
        " WHERE superseded_at IS NOT NULL"
    )
    assert run_sql("SELECT dbanon.gc(0)") == []
    assert dbanon.drop(sql_url, "release.v")[0] == "release.v"
    assert run_sql("SELECT count(*) FROM release.hers") == [(0,)]


def test_a_table_like_a_summary_of_another_role_stays(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str
) -> None:
    run_sql("CREATE TABLE release.copy AS SELECT * FROM release.p_summary")
    run_sql("DROP TABLE release.p_summary")
    run_sql("ALTER TABLE release.copy RENAME TO p_summary")
    run_sql("ALTER TABLE release.p_summary OWNER TO mallory")
    with pytest.raises(psycopg.errors.DuplicateTable, match="did not make"):
        run_sql("SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5, if_exists => 'replace')")
    assert run_sql("SELECT dropped FROM dbanon.drop('release.p')") == [("release.p",)]
    assert run_sql("SELECT count(*) FROM release.p_summary") == [(1,)]


def test_only_the_owner_of_the_ledger_repairs(forger: psycopg.Connection[Any]) -> None:
    for call in ("SELECT * FROM dbanon.repair()", "SELECT * FROM dbanon.repair('{anna}')"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), forger.transaction():
            forger.execute(call.encode())


def test_a_table_that_runs_code_neither_runs_it_nor_stops_the_others(
    mallory: psycopg.Connection[Any], run_sql: Run, sql_role: Role
) -> None:
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO PUBLIC; GRANT USAGE ON SCHEMA app TO PUBLIC")
    run_sql("SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5)", url=sql_role("anna"))
    run_sql("GRANT dbanon_runner TO mallory; GRANT USAGE, CREATE ON SCHEMA release TO mallory")
    mallory.execute("SELECT dbanon.mdav('app.people', 'release.a_trap', '{a}', 5)")
    mallory.execute("ALTER TABLE release.a_trap ADD CHECK (evil.spring())")
    mallory.execute("CREATE INDEX ON release.a_trap ((evil.one(a::integer)))")
    run_sql("UPDATE dbanon.release SET ledger_oid = 1")
    sprung(run_sql)
    repairs = {name: (action, reason) for name, action, reason in run_sql(REPAIRS)}
    assert repairs["release.p"][0] == "attached"
    assert repairs["release.a_trap"][0] == "left"
    assert "could not be compared" in repairs["release.a_trap"][1]
    assert not sprung(run_sql)
