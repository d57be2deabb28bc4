"""Plans may be cached between the calls of a connection, results of checks may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.mallory import MOOD, sprung

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

CALL = "SELECT (dbanon.mdav('{0}', 'release.r{1}', '{{n}}', 5, keep => '{{w}}')).k_achieved"
ROWS = "AS SELECT g AS id, g % 7 AS n, 'v' || g % 2 AS w FROM generate_series(1, 40) AS g"
REFUSED = psycopg.errors.InsufficientPrivilege


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        (
            "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
            "ALTER TABLE evil.p ALTER n TYPE evil.d",
            False,
        ),
        (MOOD + "ALTER TABLE evil.p ALTER w TYPE evil.mood[] USING '{sad}'", True),
        ("CREATE INDEX ON evil.p (evil.one(coalesce(1, id)))", True),
    ],
)
def test_a_table_that_changed(
    connect: Connect,
    mallory: psycopg.Connection[Any],
    run_sql: Run,
    changes: str,
    refused: bool,
) -> None:
    mallory.execute(f"CREATE TABLE evil.p {ROWS}".encode())
    with connect() as superuser:
        for number in range(2):
            superuser.execute(CALL.format("evil.p", number).encode())
        mallory.execute(changes.encode())
        sprung(run_sql)
        if refused:
            with pytest.raises(REFUSED, match="mallory"):
                superuser.execute(CALL.format("evil.p", 2).encode())
        else:
            superuser.execute(CALL.format("evil.p", 2).encode())
    assert not sprung(run_sql)


@pytest.mark.parametrize(
    ("revocations", "message"),
    [
        (
            "REVOKE EXECUTE ON FUNCTION dbanon._record_release(jsonb, jsonb, jsonb)"
            " FROM dbanon_runner",
            "may not write into the ledger",
        ),
        ("REVOKE SELECT ON app.p FROM anna", "may not read"),
        (
            "REVOKE SELECT ON app.p FROM anna; GRANT SELECT (n, id) ON app.p TO anna",
            'may not read "w"',
        ),
        ("REVOKE CREATE ON SCHEMA release FROM anna", "may not create tables"),
        (
            "GRANT TRIGGER ON dbanon.release TO anna; CREATE ROLE again_other;"
            "GRANT TRIGGER ON dbanon.release TO again_other",
            "not trusted",
        ),
    ],
)
def test_revoked_rights(
    connect: Connect, sql_role: Callable[..., str], run_sql: Run, revocations: str, message: str
) -> None:
    run_sql(f"CREATE TABLE app.p {ROWS}")
    url = sql_role("anna")
    run_sql("GRANT SELECT ON app.p TO anna")
    with connect(url) as anna:
        for number in range(2):
            anna.execute(CALL.format("app.p", number).encode())
        try:
            for statement in revocations.split(";"):
                run_sql(statement)
            with pytest.raises(psycopg.Error, match=message):
                anna.execute(CALL.format("app.p", 2).encode())
        finally:
            if "again_other" in revocations:
                run_sql("DROP OWNED BY again_other")
                run_sql("DROP ROLE again_other")
            if "EXECUTE" in revocations:
                run_sql(revocations.replace("REVOKE", "GRANT").replace(" FROM ", " TO "))


def test_another_role_in_the_same_connection(
    connect: Connect, sql_role: Callable[..., str], run_sql: Run
) -> None:
    run_sql(f"CREATE TABLE app.p {ROWS}")
    sql_role("anna")
    with connect() as superuser:
        for number in range(2):
            superuser.execute(CALL.format("app.p", number).encode())
        superuser.execute("SET ROLE anna")
        with pytest.raises(REFUSED, match="may not read"):
            superuser.execute(CALL.format("app.p", 2).encode())
