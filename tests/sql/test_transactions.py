"""Everything runs in the caller's transaction, from one snapshot, with nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, 'n ' || g AS name"
    " FROM generate_series(1, 300) AS g"
)
CALL = "SELECT (dbanon.mdav('app.people', 'release.{}', '{{a}}', 5, keep => '{{id}}')).rows_out"
TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'release'::regnamespace ORDER BY 1"
# The settings of plpgsql appear once the server loads it.
SETTINGS = "SELECT name, setting FROM pg_settings WHERE name NOT LIKE 'plpgsql.%' ORDER BY name"
STAGING = "SELECT relname FROM pg_class WHERE relname LIKE 'dbanon\\_%' AND relkind = 'r'"


def test_several_calls_in_a_transaction_and_rollback(run_sql: Run, connect: Connect) -> None:
    run_sql(PEOPLE)
    connection = connect()
    with connection.transaction(force_rollback=True):
        settings = connection.execute(SETTINGS).fetchall()
        for name in ("first", "second", "third"):
            assert connection.execute(CALL.format(name).encode()).fetchall() == [(300,)]
        assert connection.execute(STAGING.encode()).fetchall() == []
        assert connection.execute("SELECT count(*) FROM dbanon.release").fetchall() == [(3,)]
        assert connection.execute("SELECT count(*) FROM dbanon.run").fetchall() == [(3,)]
        # No setting outlives the call, even within the transaction.
        assert connection.execute(SETTINGS).fetchall() == settings
    assert run_sql(TABLES) == []
    assert run_sql("SELECT count(*) FROM dbanon.release") == [(0,)]


def test_a_refused_call_leaves_nothing_even_when_caught(run_sql: Run, connect: Connect) -> None:
    run_sql(PEOPLE)
    run_sql("UPDATE app.people SET a = NULL WHERE id = 7")
    connection = connect()
    with connection.transaction():
        settings = connection.execute(SETTINGS).fetchall()
        connection.execute(
            "DO $$ BEGIN PERFORM dbanon.mdav('app.people', 'release.p', '{a}', 5);"
            " RAISE 'not refused'; EXCEPTION WHEN null_value_not_allowed THEN NULL; END $$"
        )
        assert connection.execute(SETTINGS).fetchall() == settings
        # The function below the public one returns errors; nothing of its work remains either.
        [(outcome,)] = connection.execute(
            "SELECT dbanon._anonymize(jsonb_build_object('method', 'mdav', 'source',"
            " 'app.people'::regclass::oid::bigint, 'output', 'release.p', 'quasi_identifiers',"
            " ARRAY['a'], 'k', 5, 'entity', NULL, 'keep', '[]'::jsonb, 'sensitive', '[]'::jsonb,"
            " 'hierarchies', '{}'::jsonb, 'max_suppression', 0, 'nulls', 'error',"
            " 'if_exists', 'error', 'options', '{}'::jsonb))"
        ).fetchall()
        assert outcome["error"]["sqlstate"] == "22004"
        assert connection.execute(STAGING.encode()).fetchall() == []
    assert run_sql(TABLES) == []


def test_settings_of_the_caller_change_nothing(run_sql: Run, connect: Connect) -> None:
    run_sql(PEOPLE)
    run_sql("UPDATE app.people SET name = E'a\\\\b''c' WHERE id = 1")
    connection = connect()
    for setting in (
        "standard_conforming_strings = off",
        "datestyle = 'SQL, DMY'",
        "timezone = 'Asia/Tokyo'",
        "array_nulls = off",
        "enable_mergejoin = off",
        "enable_seqscan = off",
        "work_mem = '64kB'",
        "extra_float_digits = -15",
        "bytea_output = escape",
        "search_path = ''",
        "intervalstyle = sql_standard",
        "lc_numeric = 'C'",
        "quote_all_identifiers = on",
        "synchronize_seqscans = on",
        "row_security = on",
        "client_min_messages = error",
    ):
        connection.execute(f"SET {setting}".encode())
    connection.execute(CALL.format("odd").encode())
    run_sql(CALL.format("plain"))
    same = "SELECT count(*) FROM release.odd AS o JOIN release.plain AS p USING (id, a)"
    assert run_sql(same) == [(300,)]


def test_read_committed_with_a_writer(run_sql: Run, connect: Connect) -> None:
    """Each commit changes all rows; a release never mixes two states."""
    run_sql(
        "CREATE TABLE app.moving AS SELECT g AS id, g::float8 AS a, 0 AS version,"
        " repeat('x', 100) AS filler FROM generate_series(1, 20000) AS g"
    )
    stop = threading.Event()
    versions = [0]

    def write() -> None:
        with connect() as connection:
            while not stop.is_set():
                with connection.transaction():
                    connection.execute("UPDATE app.moving SET a = a + 1e6, version = version + 1")
                    connection.execute("DELETE FROM app.moving WHERE id > 19000")
                    connection.execute(
                        "INSERT INTO app.moving SELECT g, g + 1e6 * v.version, v.version, 'y'"
                        " FROM generate_series(19001, 20000) AS g,"
                        " (SELECT max(version) AS version FROM app.moving) AS v"
                    )
                versions[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = set()
        reader = connect()
        for round_ in range(6):
            reader.execute(
                "SELECT dbanon.mdav('app.moving', %s, '{a}', 5, keep => '{version}')",
                (f"release.m{round_}",),
            )
            classes = reader.execute(
                "SELECT count(*), count(DISTINCT version), min(version),"
                " round(avg(a - 1e6 * version)::numeric, 3)"
                f" FROM release.m{round_}".encode()
            ).fetchall()
            assert classes[0][:2] == (20000, 1)
            assert float(classes[0][3]) == 10000.5
            seen.add(classes[0][2])
            labels = reader.execute(
                "SELECT count(*), count(DISTINCT class) FROM dbanon.classes('app.moving',"
                " 'mdav', '{a}', 5)"
            ).fetchall()
            assert labels == [(20000, 4000)]
    finally:
        stop.set()
        writer.join()
    assert versions[0] > 1
    assert len(seen) > 1


def test_a_used_staging_name_is_refused(run_sql: Run, connect: Connect) -> None:
    run_sql(PEOPLE)
    connection = connect()
    for trap in ("TABLE dbanon_labels (x integer)", "VIEW dbanon_source AS SELECT 1 AS a"):
        connection.execute(f"CREATE TEMPORARY {trap}".encode())
        with pytest.raises(psycopg.errors.DuplicateTable, match="temporary relation"):
            connection.execute(CALL.format("p").encode())
        connection.execute("DISCARD TEMP")


def test_view_outputs_keep_their_grants(run_sql: Run) -> None:
    run_sql(PEOPLE)
    view = "SELECT dbanon.mdav('app.people', 'release.v', '{a}', 5, if_exists => %s, options => %s)"
    kind = '{"output_kind": "view"}'
    run_sql(view, "error", kind)
    run_sql("GRANT SELECT ON release.v TO dbanon_reader")
    run_sql(view, "replace", kind)
    assert run_sql("SELECT has_table_privilege('dbanon_reader', 'release.v', 'SELECT')") == [
        (True,)
    ]
    assert run_sql("SELECT count(*) FROM dbanon.releases() WHERE superseded") == [(1,)]
    assert run_sql("SELECT k_achieved FROM dbanon.verify('release.v')") == [(5,)]
