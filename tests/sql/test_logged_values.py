"""An administrator's logs show names and counts of a call, but no value read or computed.

All logging of statements, plans and parameters is on. The server's log is searched for values of
quasi-identifiers, hierarchies, orders and sensitive columns, as text and as the bytes that
``debug_print_plan`` prints for a constant.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

import dbanon
from tests.postgres_server import Server
from tests.sql.server_logging import ALL_LOGGING, printed_bytes, require_values_logged, unwrap

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

NUMBERS = [7317300 + 1000 * i for i in range(8)]
TREE = '{"place": {"table": "ref.places"}, "grade": {"name": "grades"}}'
# The caller's own statement is logged; these name only columns and tables.
CALLS = {
    "numbers": "SELECT dbanon.mdav('app.people', 'release.p', '{a,b,f}', 5,"
    " sensitive => '{illness}')",
    "order": "SELECT dbanon.mdav('app.people', 'release.p', '{a,mood}', 5,"
    " sensitive => '{illness}', entity => 'person')",
    "labels": "SELECT dbanon.gaa_cp('app.people', 'release.p', '{a,place,grade}', 5,"
    " sensitive => '{illness}', hierarchies => '" + TREE + "', options =>"
    ' \'{"l_diversity": {"illness": 2}, "t_closeness": {"illness": 0.9}, "by": ["part"]}\')',
    "exact": "SELECT dbanon.mdav('app.people', 'release.p', '{a,wide}', 5, keep => '{name}')",
    "null": "SELECT dbanon.mdav('app.people', 'release.p', '{a,hole}', 5, nulls => 'category')",
    "classes": "SELECT count(*) FROM dbanon.classes('app.people', 'gaa_cp', '{a,place}', 5)",
    "store": "SELECT dbanon.store_hierarchy('other', '{\"table\": \"ref.places\"}')",
    "check": 'SELECT count(*) FROM dbanon.check_hierarchy(\'{"table": "ref.places"}\','
    " 'app.people', 'grade')",
    "suggest": "SELECT count(*) FROM dbanon.suggest_hierarchy('app.people', 'place')",
}


def _load(run_sql: Run) -> None:
    run_sql("CREATE SCHEMA ref")
    run_sql("CREATE TYPE app.mood AS ENUM ('qzmark low', 'qzmark middle', 'qzmark high')")
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, 7317300 + 1000 * (g % 8) AS a,"
        " 7317300 + 1000 * (g % 8) AS b, 7317300.5 + 1000 * (g % 8)::float8 AS f,"
        " g / 2 AS person, 'qzmark person ' || g AS name,"
        " 9007199254740993 + 7317300::bigint * (g % 8) AS wide,"
        " CASE WHEN g % 2 = 0 THEN 7317300 END AS hole,"
        " (ARRAY['qzmark low', 'qzmark middle', 'qzmark high'])[1 + g % 3]::app.mood AS mood,"
        " 'qzmark place ' || g % 8 AS place, 'qzmark grade ' || g % 4 AS grade,"
        " 'qzmark part ' || g % 2 AS part, 'qzmark ill ' || g % 5 AS illness"
        " FROM generate_series(1, 160) AS g"
    )
    run_sql(
        "CREATE TABLE ref.places AS SELECT 'qzmark place ' || g AS leaf,"
        " 'qzmark town ' || g / 4 AS level1, 'qzmark all' AS level2 FROM generate_series(0, 7) AS g"
    )
    run_sql(
        "CREATE TABLE ref.grades AS SELECT 'qzmark grade ' || g AS leaf,"
        " 'qzmark school ' || g / 2 AS level1, 'qzmark all' AS level2 FROM generate_series(0, 3) g"
    )
    run_sql("SELECT dbanon.store_hierarchy('grades', '{\"table\": \"ref.grades\"}')")


def _traces(log: str) -> list[str]:
    traces = ["qzmark", "73173", "73183", "900719925474", printed_bytes(b"qzmark")]
    for number in NUMBERS:
        traces += [str(number), printed_bytes(struct.pack("<i", number))]
        traces.append(printed_bytes(struct.pack("<d", number + 0.5)))
        traces.append(printed_bytes(str(number).encode()))
    log = unwrap(log)
    return [
        log[max(match.start() - 200, 0) : match.end() + 60]
        for trace in traces
        if trace in log
        for match in re.finditer(re.escape(trace), log)
    ]


@pytest.mark.parametrize("name", list(CALLS))
def test_no_logging_shows_a_value(
    run_sql: Run, connect: Connect, sql_server: Server, name: str
) -> None:
    _load(run_sql)
    with connect() as connection:
        for setting in ALL_LOGGING:
            connection.execute(setting.encode())
        require_values_logged(connection, sql_server)
        before = sql_server.log_size()
        connection.execute(CALLS[name].encode())
    log = sql_server.log_text(before)
    # Logging is really on: the nested statements are there.
    assert log.count("Query Text: ") > 5
    assert "plan:" in log
    traces = _traces(log)
    assert not traces, f"{len(traces)} traces, the first: {traces[0]}"


@pytest.mark.parametrize(
    "call",
    [
        "SELECT dbanon.gaa_cp('app.people', 'release.p', '{a,place}', 5,"
        ' hierarchies => \'{"place": {"table": "ref.grades"}}\')',
        "SELECT dbanon.mdav('app.people', 'release.p', '{a}', 161, sensitive => '{illness}')",
        "SELECT dbanon.store_hierarchy('grades', '{\"table\": \"ref.places\"}')",
        "SELECT dbanon.mdav('app.people', 'release.people', '{a}', 5)",
    ],
)
def test_nor_does_a_failure(run_sql: Run, connect: Connect, sql_server: Server, call: str) -> None:
    _load(run_sql)
    run_sql("CREATE TABLE release.people (a integer)")
    with connect() as connection:
        for setting in ALL_LOGGING:
            connection.execute(setting.encode())
        require_values_logged(connection, sql_server)
        before = sql_server.log_size()
        with pytest.raises(psycopg.Error):
            connection.execute(call.encode())
    assert not _traces(sql_server.log_text(before))


def test_a_value_is_not_passed_to_other_calls(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    _load(run_sql)
    anna = connect(sql_role("anna"))
    run_sql("GRANT SELECT ON app.people TO anna")
    anna.execute(b"SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5)")
    # Nothing before the first call, after a call, or after one that failed.
    with pytest.raises(psycopg.Error):
        anna.execute(b"SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5)")
    for session in (anna, connect()):
        values = session.execute(b"SELECT dbanon._given(g) FROM generate_series(-1, 9) AS g")
        assert set(values) == {(None,)}
    outsider = connect(sql_role("outsider", runner=False))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        outsider.execute(b"SELECT dbanon._given(0)")


def test_a_client_with_installed_functions(
    run_sql: Run, connect: Connect, sql_url: str, sql_server: Server, sql_role: Role
) -> None:
    """Options are never part of a statement, so the ledger entry is not logged either."""
    _load(run_sql)
    sql_role("anna")
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO anna")
    for setting in ALL_LOGGING:
        words = setting.replace("LOAD 'auto", "SET session_preload_libraries = 'auto")
        run_sql(f"ALTER ROLE anna {words}")
    url = make_url(sql_url).set(username="anna", password="x").render_as_string(False)
    run_sql("ALTER ROLE anna PASSWORD 'x'")
    require_values_logged(connect(url), sql_server)
    grades = [f"qzmark grade {i}" for i in range(4)]
    before = sql_server.log_size()
    for how in (
        {"orders": {"grade": grades}},
        {"method": "gaa_cp", "hierarchies": {"grade": {"ordered": grades}}},
    ):
        dbanon.anonymize(
            url,
            table="app.people",
            k=5,
            quasi_identifiers=["a", "grade"],
            output="release.p",
            if_exists="replace",
            sensitive=["illness"],
            models=[dbanon.Model("t_closeness", "illness", 1.0)],
            **how,
        )
    log = sql_server.log_text(before)
    assert "_record_release" in log
    assert "Query Text: " in log
    traces = _traces(log)
    assert not traces, f"{len(traces)} traces, the first: {traces[0]}"
