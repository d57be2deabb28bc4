"""Attacks with rules: on another's table, through another's function, by comments with a trap."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.errors import InsufficientRights
from tests.sql.mallory import sprung
from tests.sql.test_rules import DECLARE, PERSON, RULES

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

pytestmark = pytest.mark.one_database

SUPER = "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"


@pytest.fixture
def annas(run_sql: Run, sql_role: Role) -> str:
    """Anna, a runner, owns app.person; mallory, another runner, may read it. Returns his URL."""
    run_sql(PERSON)
    sql_role("anna")
    run_sql("ALTER ROLE anna PASSWORD 'annas'")
    run_sql("ALTER TABLE app.person OWNER TO anna")
    mallory = sql_role("mallory")
    run_sql("GRANT SELECT ON app.person TO mallory")
    run_sql("GRANT CREATE ON SCHEMA app TO mallory")
    return mallory


def expect_refusal(connection: psycopg.Connection[Any], statement: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as failure:
        connection.execute(statement.encode())
    assert failure.value.sqlstate == "42501"
    return failure.value


def test_only_the_owner_declares(annas: str, run_sql: Run, connect: Connect) -> None:
    mallory = connect(annas)
    assert "anna" in str(expect_refusal(mallory, DECLARE).diag.message_hint)
    expect_refusal(mallory, "SELECT dbanon.undeclare('app.person')")
    oid = run_sql("SELECT 'app.person'::regclass::oid::bigint")[0][0]
    request = f'{{"source": {oid}, "set": {{"age": {{"role": "drop"}}}}}}'
    for function in ("_declare", "_write_rules"):
        expect_refusal(mallory, f"SELECT dbanon.{function}('{request}')")
    for statement in (
        "INSERT INTO dbanon.rule VALUES ('app.person', 'age', '{}', now(), 'anna', 1)",
        "UPDATE dbanon.rule SET rule = '{}'",
        "DELETE FROM dbanon.rule",
        "TRUNCATE dbanon.rule",
    ):
        expect_refusal(mallory, statement)
    with pytest.raises(InsufficientRights):
        dbanon.declare(annas, "app.person", {"age": "drop"})
    assert run_sql("SELECT count(*) FROM dbanon.rule") == [(0,)]
    # The owner may, and so may members of that role.
    run_sql("GRANT anna TO mallory")
    mallory.execute(DECLARE.encode())
    assert run_sql("SELECT DISTINCT declared_by FROM dbanon.rule") == [("mallory",)]


def test_anothers_function_cannot_declare_for_its_caller(
    annas: str, run_sql: Run, connect: Connect
) -> None:
    """The session user is anna or a superuser; the caller is mallory."""
    mallory = connect(annas)
    mallory.execute(
        "CREATE FUNCTION app.helpful() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS $$"
        f" BEGIN PERFORM dbanon.declare('app.person', '{RULES}'); RETURN 1; END $$".encode()
    )
    oid = run_sql("SELECT 'app.person'::regclass::oid::bigint")[0][0]
    mallory.execute(
        "CREATE FUNCTION app.direct() RETURNS integer LANGUAGE sql SECURITY DEFINER AS $$"
        f' SELECT dbanon._write_rules(\'{{"source": {oid}, "set": {{}}}}\') $$'.encode()
    )
    superuser = connect()
    for caller in (connect(anna(annas)), superuser):
        for function in ("helpful", "direct"):
            expect_refusal(caller, f"SELECT app.{function}()")
    superuser.execute("SET ROLE mallory")
    expect_refusal(superuser, DECLARE)
    assert run_sql("SELECT count(*) FROM dbanon.rule") == [(0,)]


def anna(mallory: str) -> str:
    """Anna's URL."""
    return make_url(mallory).set(username="anna", password="annas").render_as_string(False)


def test_a_mark_of_an_earlier_transaction_does_not_count(
    annas: str, run_sql: Run, connect: Connect
) -> None:
    """A comment that anna wrote earlier is not a request by her now."""
    oid = run_sql("SELECT 'app.person'::regclass::oid::bigint")[0][0]
    [(request,)] = run_sql(
        f"""SELECT '{{"source": {oid}, "set": {{"age": {{"role": "drop"}}}}}}'::jsonb::text"""
    )
    mark = "dbanon rules " + hashlib.sha256(request.encode()).hexdigest()
    connect(anna(annas)).execute(f"COMMENT ON COLUMN app.person.person_id IS '{mark}'".encode())
    expect_refusal(connect(annas), f"SELECT dbanon._write_rules('{request}')")
    # Nor does a comment on his own table count for hers.
    mallory = connect(annas, autocommit=False)
    mallory.execute("CREATE TABLE app.own (age integer)")
    mallory.execute(f"COMMENT ON COLUMN app.own.age IS '{mark}'".encode())
    expect_refusal(mallory, f"SELECT dbanon._write_rules('{request}')")


TRAPS = (
    "dbanon: quasi_identifier'); ALTER ROLE mallory SUPERUSER; --",
    'dbanon: {"role": "drop", "reason": "x"}; ALTER ROLE mallory SUPERUSER',
    "dbanon: evil.spring()",
    "dbanon: identifier\ndbanon: drop",
    'dbanon: {"role": {"role": "drop"}}',
)


@pytest.mark.parametrize("trap", TRAPS)
def test_a_comment_with_a_trap_is_read_and_not_run(
    annas: str, run_sql: Run, connect: Connect, sql_url: str, trap: str
) -> None:
    mallory = connect(annas)
    mallory.execute("CREATE TABLE app.his (age integer)")
    mallory.execute(f"COMMENT ON COLUMN app.his.age IS {_quote(trap)}".encode())
    with pytest.raises(psycopg.Error) as failure:
        run_sql("SELECT * FROM dbanon.declare('app.his', from_comments => true)")
    assert failure.value.sqlstate == "22023"
    assert "SUPERUSER" not in str(failure.value)
    assert "spring" not in str(failure.value)
    with pytest.raises(dbanon.DbanonError) as client_failure:
        dbanon.declare(sql_url, "app.his", from_comments=True)
    assert client_failure.value.exit_code == 2
    assert "SUPERUSER" not in str(client_failure.value)
    assert run_sql(SUPER) == [(False,)]
    assert run_sql("SELECT count(*) FROM dbanon.rule") == [(0,)]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("name", ["%s", "%1$s", "%L", "%%", "a'b", 'a"b', "$1", "x\\"])
def test_names_and_comments_of_columns_are_no_format(
    annas: str, run_sql: Run, connect: Connect, name: str
) -> None:
    """The comment on the first column is restored; its name would have been executed as SQL."""
    comment = '" IS NULL; ALTER ROLE mallory SUPERUSER; COMMENT ON COLUMN app.his."a'
    column = '"' + name.replace('"', '""') + '"'
    mallory = connect(annas)
    mallory.execute(f"CREATE TABLE app.his ({column} integer, age integer)".encode())
    mallory.execute(f"COMMENT ON COLUMN app.his.{column} IS {_quote(comment)}".encode())
    run_sql("""SELECT * FROM dbanon.declare('app.his', '{"age": "quasi_identifier"}')""")
    assert run_sql(SUPER) == [(False,)]
    assert run_sql("SELECT col_description('app.his'::regclass, 1)") == [(comment,)]


def test_declaring_rules_runs_no_code_of_the_table(
    run_sql: Run, mallory: psycopg.Connection[Any]
) -> None:
    """Types, defaults, indexes, triggers and views of another role are not evaluated."""
    mallory.execute("GRANT USAGE, CREATE ON SCHEMA evil TO PUBLIC")
    mallory.execute(
        "CREATE FUNCTION evil.caught() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM evil.note(); RETURN NEW; END $$"
    )
    mallory.execute("CREATE DOMAIN evil.d AS integer DEFAULT evil.one(1) CHECK (evil.spring())")
    mallory.execute("CREATE TABLE evil.his (age evil.d DEFAULT evil.one(1), b boolean)")
    mallory.execute("INSERT INTO evil.his VALUES (1, true)")
    mallory.execute("CREATE INDEX ON evil.his (evil.one(coalesce(1, age)))")
    mallory.execute(
        "CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON evil.his FOR EACH STATEMENT"
        " EXECUTE FUNCTION evil.caught()"
    )
    mallory.execute("CREATE VIEW evil.shown AS SELECT age FROM evil.his WHERE evil.spring()")
    mallory.execute("COMMENT ON COLUMN evil.his.age IS 'dbanon: quasi_identifier'")
    sprung(run_sql)
    for table in ("evil.his", "evil.shown"):
        run_sql(f"SELECT * FROM dbanon.declare('{table}', '{{\"age\": \"quasi_identifier\"}}')")
        run_sql(f"SELECT * FROM dbanon.rules('{table}')")
    run_sql("SELECT * FROM dbanon.declare('evil.his', from_comments => true)")
    run_sql("SELECT * FROM dbanon.rules()")
    run_sql("SELECT dbanon.undeclare('evil.his')")
    assert not sprung(run_sql)
    # A call by rules refuses what a call with a list refuses.
    with pytest.raises(psycopg.Error) as failure:
        run_sql("SELECT dbanon.mdav('evil.shown', 'release.p', k => 2)")
    assert failure.value.sqlstate == "42501"
    assert not sprung(run_sql)


def test_a_rule_releases_no_labels_that_the_tables_owner_may_not_read(
    annas: str, run_sql: Run, connect: Connect, sql_url: str
) -> None:
    """A release by rules reads the named hierarchies with the caller's rights."""
    run_sql("CREATE TABLE app.secret (child text, parent text)")
    run_sql(
        "INSERT INTO app.secret VALUES ('1', 'what only a few know'), ('2', 'what only a few know')"
    )
    mallory = connect(annas)
    mallory.execute(
        "CREATE TABLE app.his AS SELECT 1 + g % 2 AS age FROM generate_series(1, 9) AS g"
    )
    rule = '{"age": {"role": "quasi_identifier", "hierarchy": {"table": "app.secret"}}}'
    mallory.execute(f"SELECT * FROM dbanon.declare('app.his', '{rule}')".encode())
    call = "SELECT k_achieved FROM dbanon.gaa_cp('app.his', 'release.his', k => 5)"
    assert "may not read" in str(expect_refusal(connect(), call))
    with pytest.raises(InsufficientRights, match="may not read"):
        dbanon.anonymize(
            sql_url, table="app.his", declared=True, k=5, method="gaa_cp", output="release.his"
        )
    run_sql("GRANT SELECT ON app.secret TO mallory")
    assert run_sql(call) == [(9,)]
