"""Attacks on the functions that write the ledger: false entries."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.ledger_entries import MAKE, RECORD, entry, expect_refusal, mark, oid

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

# Recorded for releases of classes, but not for synthetic rows.
OF_CLASSES = (
    "k_requested",
    "k_achieved",
    "classes",
    "smallest_class",
    "median_class",
    "largest_class",
    "histogram",
    "information_loss",
    "information_loss_before_rounding",
)


def test_a_runner_writes_no_row_by_hand(forger: psycopg.Connection[Any]) -> None:
    for statement in (
        "INSERT INTO dbanon.release SELECT * FROM dbanon.release",
        "UPDATE dbanon.release SET superseded_at = now()",
        "UPDATE dbanon.release SET published_by = 'mallory'",
        "DELETE FROM dbanon.release",
        "INSERT INTO dbanon.release_column SELECT * FROM dbanon.release_column",
        "UPDATE dbanon.release_column SET role = 'sensitive'",
        "INSERT INTO dbanon.run SELECT * FROM dbanon.run",
        "TRUNCATE dbanon.release",
        "SELECT * FROM dbanon.release FOR UPDATE",
        "LOCK TABLE dbanon.release IN ACCESS EXCLUSIVE MODE",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), forger.transaction():
            forger.execute(statement.encode())


def test_an_entry_is_of_a_relation_that_its_owner_marked_in_this_transaction(
    forger: psycopg.Connection[Any], run_sql: Run
) -> None:
    first_id, fresh = str(uuid.uuid4()), str(uuid.uuid4())
    # Another role's table, with its mark, or with a mark of ours that only its owner could write.
    theirs = oid(forger, "release.p")
    [(release_id,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    expect_refusal(forger, entry(fresh, theirs))
    expect_refusal(forger, entry(release_id, theirs))
    with pytest.raises(psycopg.errors.InsufficientPrivilege), forger.transaction():
        mark(forger, "release.p", fresh)
    run_sql("GRANT ALL ON release.p TO mallory WITH GRANT OPTION")
    with pytest.raises(psycopg.errors.InsufficientPrivilege), forger.transaction():
        mark(forger, "release.p", fresh)
    # Our own table, but unmarked, marked for another release, or marked in an earlier transaction.
    forger.execute(MAKE.format("release.mine").encode())
    mine = oid(forger, "release.mine")
    expect_refusal(forger, entry(first_id, mine))
    mark(forger, "release.mine", fresh)
    expect_refusal(forger, entry(first_id, mine))
    mark(forger, "release.mine", first_id)
    forger.commit()
    expect_refusal(forger, entry(first_id, mine))
    expect_refusal(forger, entry(fresh, mine, theirs))
    # A comment on a column, or on an object with this oid in another catalog, is not a mark.
    forger.execute(f"COMMENT ON COLUMN release.mine.a IS 'dbanon release {fresh}'".encode())
    expect_refusal(forger, entry(fresh, mine))
    mark(forger, "release.mine", first_id)
    forger.execute(RECORD, entry(first_id, mine))
    expect_refusal(forger, entry(first_id, mine), "23505")
    forger.commit()
    mark(forger, "release.mine", first_id)
    expect_refusal(forger, entry(first_id, mine), "23505")
    assert run_sql(
        "SELECT output_name, published_by, superseded_at, created_at <= now()"
        " FROM dbanon.release ORDER BY created_at"
    ) == [("p", "anna", None, True), ("mine", "mallory", None, True)]


def test_callers_cannot_set_role_time_or_names(forger: psycopg.Connection[Any]) -> None:
    forger.execute(MAKE.format("release.mine").encode())
    mine, release_id = oid(forger, "release.mine"), str(uuid.uuid4())
    mark(forger, "release.mine", release_id)
    for key, value in (
        ("published_by", "anna"),
        ("created_at", "2099-01-01"),
        ("superseded_at", "2000-01-01"),
        ("output_name", "p"),
        ("output_schema", "release"),
        ("relation_name", "p"),
        ("output_kind", "view"),
        ("owner_oid", 10),
        ("publisher_oid", 10),
        ("ledger_oid", 1),
        ("xmin", "1"),
        ("tableoid", "1"),
        ("ctid", "(0,1)"),
        ("a b", 1),
    ):
        expect_refusal(forger, entry(release_id, mine, **{key: value}), "22023")
    parts = entry(release_id, mine)
    expect_refusal(forger, [parts[0], '[{"position": 0, "release_id": "x"}]', parts[2]], "22023")
    expect_refusal(
        forger, [parts[0], parts[1], '{"door": "sql", "started_at": "2000-01-01"}'], "22023"
    )
    expect_refusal(forger, [parts[0], parts[1], '{"door": "root", "elapsed": 1}'], "23502")
    run = {"door": "job", "elapsed": 1, "job": "people"}
    for key, value in (
        ("door", "sql"),
        ("door", None),
        ("job", None),
        ("job", "a b"),
        ("job", "x" * 64),
        ("job", 7.5),
        ("fingerprint", "A"),
        ("fingerprint", "x" * 301),
        ("source_types", []),
        ("source_types", {"a": 1}),
        ("source_types", {"a": {"b": "c"}}),
        ("source_types", "x"),
        ("source_counts", []),
        ("source_counts", {"persons": "x"}),
        ("source_counts", 7),
    ):
        expect_refusal(forger, [parts[0], parts[1], json.dumps(run | {key: value})], "22023")
    for odd in ("null", "[]", '"x"', "1", "{}"):
        expect_refusal(forger, [odd, parts[1], parts[2]], "22023", "42501")
        expect_refusal(forger, [parts[0], parts[1], odd], "22023", "23502")
        if odd != "[]":
            expect_refusal(forger, [parts[0], odd, parts[2]], "22023")
    for oid_key in ("relation_oid", "output_oid"):
        for number in (0, -1, 2**62, 2**70, "x", None, 1.5, [mine], 1259):
            odd_oid = entry(release_id, mine, **{oid_key: number})
            expect_refusal(forger, odd_oid, "42501", "22P02", "22003")
    expect_refusal(forger, entry("x", mine), "22P02")
    expect_refusal(forger, entry(release_id, mine, source="x" * 20_000_000), "54000")
    expect_refusal(forger, [parts[0], json.dumps([{}] * 5000), parts[2]], "54000")
    for value in (None, [], "x", [[]] * 5000):
        expect_refusal(forger, entry(release_id, mine, arguments=value), "22023")
    expect_refusal(forger, ["[" * 9999 + "]" * 9999, parts[1], parts[2]], "54001", "22023")
    expect_refusal(forger, entry(release_id, mine, k_requested="many"), "22P02")
    expect_refusal(forger, entry(release_id, mine, k_requested=None), "23502")
    # Neither from a budget nor a release of classes.
    of_none = json.loads(entry(release_id, mine, budget=None, epsilon=1, neighbours="rows")[0])
    expect_refusal(forger, [json.dumps(of_none), parts[1], parts[2]], "22023")
    without = {key: value for key, value in of_none.items() if key not in OF_CLASSES}
    expect_refusal(forger, [json.dumps(without), parts[1], parts[2]], "22023")
    expect_refusal(
        forger, entry(release_id, mine, budget="b", **dict.fromkeys(OF_CLASSES)), "22023"
    )
    expect_refusal(forger, entry(release_id, mine, rows_in=2**70), "22003")


def test_subtransactions_and_savepoints(forger: psycopg.Connection[Any], run_sql: Run) -> None:
    first, two = str(uuid.uuid4()), str(uuid.uuid4())
    # Mark in a subtransaction and call outside, or vice versa: one transaction.
    with forger.transaction():
        with forger.transaction():
            forger.execute(MAKE.format("release.mine").encode())
            mark(forger, "release.mine", first)
        with forger.transaction():
            forger.execute(RECORD, entry(first, oid(forger, "release.mine")))
    forger.commit()
    # A mark that was rolled back does not count; neither does a release.
    forger.execute(MAKE.format("release.other").encode())
    other = oid(forger, "release.other")
    with forger.transaction(force_rollback=True):
        mark(forger, "release.other", two)
        forger.execute(RECORD, entry(two, other))
    expect_refusal(forger, entry(two, other))
    forger.rollback()
    # Dropped after it was recorded; the entry reports that.
    forger.execute(MAKE.format("release.gone").encode())
    mark(forger, "release.gone", two)
    dropped_oid = oid(forger, "release.gone")
    forger.execute(RECORD, entry(two, dropped_oid))
    forger.execute("DROP TABLE release.gone")
    expect_refusal(forger, entry(str(uuid.uuid4()), dropped_oid))
    forger.commit()
    assert run_sql(
        "SELECT output, state FROM dbanon.releases() WHERE published_by = 'mallory' ORDER BY 1"
    ) == [("release.gone", "dropped"), ("release.mine", "current")]
    # At REPEATABLE READ the snapshot precedes the transaction's own id.
    forger.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    forger.execute("SELECT 1")
    run_sql("CREATE TABLE app.later (a integer)")
    three = str(uuid.uuid4())
    forger.execute(MAKE.format("release.third").encode())
    mark(forger, "release.third", three)
    forger.execute(RECORD, entry(three, oid(forger, "release.third")))
    forger.commit()


def test_set_role_definer_wrappers_and_shadows(
    forger: psycopg.Connection[Any], run_sql: Run
) -> None:
    """The entry belongs to the table's owner, whoever calls, logs in, or shadows names."""
    run_sql("CREATE ROLE team IN ROLE dbanon_runner")
    run_sql("GRANT team TO mallory")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO team")
    for name in ("release", "release_column", "run", "pg_class", "pg_description", "pg_namespace"):
        forger.execute(f"CREATE TEMPORARY TABLE {name} (release_id uuid, oid oid)".encode())
    forger.execute("CREATE TYPE pg_temp.jsonb AS (a integer)")
    forger.execute("CREATE TYPE pg_temp.uuid AS (a integer)")
    forger.execute(
        "CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz RETURN '2099-01-01'"
        "::timestamptz"
    )
    forger.execute("SET search_path = pg_temp, release, pg_catalog")
    forger.execute("SET ROLE team")
    forger.execute(MAKE.format("release.mine").encode())
    forger.execute("RESET ROLE")
    release_id = str(uuid.uuid4())
    mark(forger, "release.mine", release_id)
    forger.execute(
        RECORD.replace("::jsonb", "::pg_catalog.jsonb"),
        entry(release_id, oid(forger, "release.mine")),
    )
    forger.commit()
    assert run_sql(
        "SELECT published_by, created_at <= clock_timestamp() FROM dbanon.release"
        " WHERE output_name = 'mine'"
    ) == [("team", True)]
    # A superuser's wrapper function gives mallory no entry for a table that she does not own.
    run_sql(
        "CREATE FUNCTION app.wrapped(jsonb, jsonb, jsonb) RETURNS jsonb SECURITY DEFINER"
        " LANGUAGE sql AS 'SELECT dbanon._record_release($1, $2, $3)'"
    )
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="does not have the mark"):
        forger.execute(
            "SELECT app.wrapped(%s::pg_catalog.jsonb, %s::pg_catalog.jsonb, %s::pg_catalog.jsonb)",
            entry(str(uuid.uuid4()), oid(forger, "release.p")),
        )


def test_an_output_is_a_view_of_its_table_alone(
    forger: psycopg.Connection[Any], run_sql: Run
) -> None:
    release_id = str(uuid.uuid4())
    for statement in (
        MAKE.format("release.mine"),
        MAKE.format("release.other"),
        "CREATE VIEW release.right AS SELECT a FROM release.mine",
        "CREATE VIEW release.wrong AS SELECT a FROM release.other",
        "CREATE VIEW release.both AS SELECT o.a FROM release.other AS o, release.mine AS m",
        "CREATE VIEW release.nothing AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW release.stale AS SELECT a FROM release.mine",
        "CREATE TEMPORARY TABLE mine AS SELECT 1 AS a",
    ):
        forger.execute(statement.encode())
    for kind, name in (
        ("TABLE", "release.mine"),
        ("TABLE", "release.other"),
        ("VIEW", "release.right"),
        ("VIEW", "release.wrong"),
        ("VIEW", "release.both"),
        ("VIEW", "release.nothing"),
        ("MATERIALIZED VIEW", "release.stale"),
        ("TABLE", "pg_temp.mine"),
    ):
        mark(forger, name, release_id, kind)
    mine = oid(forger, "release.mine")
    for name in ("wrong", "both", "nothing", "stale", "other"):
        expect_refusal(forger, entry(release_id, mine, oid(forger, f"release.{name}")))
    right = oid(forger, "release.right")
    expect_refusal(forger, entry(release_id, right, right))
    temporary = oid(forger, "pg_temp.mine")
    expect_refusal(forger, entry(release_id, temporary))
    forger.execute(RECORD, entry(release_id, mine, right))
    forger.commit()
    assert run_sql(
        "SELECT output_kind, output_name, relation_name FROM dbanon.release"
        " WHERE published_by = 'mallory'"
    ) == [("view", "right", "mine")]


def test_a_failed_run_belongs_to_the_session_user(
    forger: psycopg.Connection[Any], run_sql: Run
) -> None:
    good = {
        "door": "cli",
        "method": "mdav",
        "source": "app.people",
        "output_schema": "release",
        "output_name": "p",
        "error_code": "too_few_records",
        "elapsed": 2.5,
    }
    for bad in (
        {"run_by": "anna"},
        {"state": "done"},
        {"started_at": "2000-01-01"},
        {"release_id": "x"},
        {"door": "sql"},
        {"error_code": "I quote a value"},
        {"error_code": None},
        {"job": "people"},
        {"job": "a b", "door": "job"},
        {"job": 7.5, "door": "job"},
        {"fingerprint": "1:a"},
        {"source_types": {}},
        {"method": "x; y"},
        {"source": "x" * 1000},
        {"output_name": None},
        {"source": "x" * 99999},
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue), forger.transaction():
            forger.execute("SELECT dbanon._record_run(%s::jsonb)", (json.dumps(good | bad),))
    forger.execute("SELECT dbanon._record_run(%s::jsonb)", (json.dumps(good),))
    forger.commit()
    assert run_sql(
        "SELECT run_by, state, release_id, finished_at - started_at = '2.5 s'"
        " FROM dbanon.run WHERE state = 'failed'"
    ) == [("mallory", "failed", None, True)]
