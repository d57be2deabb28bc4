"""Objects that run Mallory's code as a superuser without naming his functions: refused.

Covers implicit casts, PostgreSQL's own functions that run or evaluate what a number or text refers
to, and estimates, in indexes and views.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql.mallory import MOOD, cast, sprung
from tests.sql.test_attacks_planner import PEOPLE, create_table, failings, runs_it

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

# Expressions that name no function of Mallory's, or only one on plain columns, and still run it:
# SQL whose text casts, PostgreSQL's own functions that evaluate, estimates. {oid} is his table
# whose partition key is a call.
WITHOUT_A_NAME: dict[str, str] = {
    "SQL of any type": "CREATE FUNCTION evil.f{i}(a anyelement) RETURNS text LANGUAGE sql IMMUTABLE"
    " AS $$ SELECT (CASE WHEN false THEN $1 ELSE 'sad' END)::text $$;"
    "CREATE INDEX ON {v} ((evil.f{i}(m)));",
    "SQL of any row": "CREATE DOMAIN evil.d{i} AS integer CHECK (evil.spring());"
    "ALTER TABLE {v} DROP m, ADD d evil.d{i};"
    "CREATE FUNCTION evil.f{i}(a anyelement) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN RETURN 1; END'; CREATE INDEX ON {v} ((evil.f{i}(v{i})));"
    "CREATE OR REPLACE FUNCTION evil.f{i}(a anyelement) RETURNS integer LANGUAGE sql IMMUTABLE AS"
    " $$ SELECT 1 FROM (SELECT CASE WHEN false THEN $1 ELSE '(1,1,a,1)' END) AS t $$;",
    "SQL that became STABLE": "CREATE VIEW evil.w{i} AS SELECT evil.spring();"
    "CREATE FUNCTION evil.f{i}(a integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1';"
    "CREATE INDEX ON {v} (id) WHERE n = evil.f{i}(id) OR n IS NOT NULL; ANALYZE {v};"
    "CREATE OR REPLACE FUNCTION evil.f{i}(a integer) RETURNS integer LANGUAGE sql STABLE AS"
    " $$ SELECT length(table_to_xml(E'evil\\x2ew{i}', true, true, '')::text) $$;",
    "a look at a partition key": "CREATE INDEX ON {v}"
    " ((satisfies_hash_partition({oid}, 2, 0, 1)));",
    "a look at it in SQL": "CREATE FUNCTION evil.f{i}(a integer) RETURNS boolean LANGUAGE sql"
    " IMMUTABLE AS 'SELECT satisfies_hash_partition({oid}, 2, 0, 1)';"
    "CREATE INDEX ON {v} ((evil.f{i}(id)));",
    "a look at it in parsed SQL": "CREATE FUNCTION evil.f{i}(a integer) RETURNS boolean LANGUAGE"
    " sql IMMUTABLE RETURN satisfies_hash_partition({oid}, 2, 0, 1);"
    "CREATE INDEX ON {v} ((evil.f{i}(id)));",
    "a superuser's SQL of any type": "CREATE INDEX ON {v} ((app.as_text('sad'::evil.mood)));",
    "an estimate of ranges": "ALTER TABLE {v} ADD r evil.span; UPDATE {v} SET r ="
    " evil.span(id, id + 5); CREATE INDEX ON {v} (id) WHERE r @> 15 OR n IS NOT NULL; ANALYZE {v};",
    "ranges in a view": "ALTER TABLE {v} RENAME TO t{i}; ALTER TABLE evil.t{i} ADD r evil.span;"
    "UPDATE evil.t{i} SET r = evil.span(id, id + 5); ANALYZE evil.t{i};"
    "CREATE VIEW {v} AS SELECT id, n FROM evil.t{i} WHERE r @> 15 OR id > 1;",
    "a partition key in a view": "ALTER TABLE {v} RENAME TO t{i}; CREATE VIEW {v} AS SELECT id, n"
    " FROM evil.t{i} WHERE satisfies_hash_partition({oid}, 2, 0, 1) OR true;",
}

# Columns that Mallory's views compute, read by ``SELECT *``.
COMPUTED: dict[str, str] = {
    "quoted": "quote_literal(m)",
    "quoted, or NULL": "quote_nullable(m)",
    "text and an enum": "'a'::text || m",
    "an enum and text": "m || 'a'::text",
    "an enum that no column has, as json": "to_json('sad'::evil.mood)::text",
    "a superuser's function of any type": "app.as_text(m)",
    "an operator on what runs SQL": "(tsquery 'a' OPERATOR(evil.##)"
    " 'SELECT tsquery ''a'', tsquery ''b'' WHERE evil.spring()')::text",
    "a look at a function's text": "fmgr_sql_validator({function})::text",
    "rows from XML": "(SELECT (x.b).a::integer FROM xmltable('/r' PASSING"
    " (xml '<r><b>(1)</b></r>') COLUMNS b evil.of_xml PATH 'b') AS x)",
}


@pytest.fixture
def helpers(run_sql: Run, mallory: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Mallory's types, and a superuser's function that he may use."""
    run_sql("GRANT USAGE ON SCHEMA app TO mallory")
    run_sql(
        "CREATE FUNCTION app.as_text(a anyelement) RETURNS text LANGUAGE sql IMMUTABLE AS"
        " 'SELECT $1::text'"
    )
    mallory.execute((PEOPLE + MOOD).encode())
    mallory.execute(cast("evil.mood", "text", "'a'").encode())
    mallory.execute(cast("evil.mood", "json", "'1'::json").encode())
    mallory.execute(
        b"CREATE FUNCTION evil.key() RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
        b" IF current_user <> 'mallory' THEN PERFORM nextval('evil.sprung'); END IF; RETURN 1;"
        b" END $$;"
        b"CREATE FUNCTION evil.apart(a integer, b integer) RETURNS double precision LANGUAGE"
        b" plpgsql IMMUTABLE AS 'BEGIN PERFORM evil.note(); RETURN a - b; END';"
        b"CREATE TYPE evil.span AS RANGE (subtype = integer, subtype_diff = evil.apart);"
        b"CREATE DOMAIN evil.trap AS integer CHECK (evil.spring());"
        b"CREATE TYPE evil.checked AS (a evil.trap);"
        # A new session: each evaluates such a check only once.
        b"CREATE DOMAIN evil.trap_of_xml AS integer CHECK (evil.spring());"
        b"CREATE TYPE evil.of_xml AS (a evil.trap_of_xml);"
        b"CREATE OPERATOR evil.## (LEFTARG = tsquery, RIGHTARG = text, FUNCTION = ts_rewrite);"
        b"SET check_function_bodies = off;"
        b"CREATE FUNCTION evil.parse() RETURNS evil.checked LANGUAGE sql AS"
        b" $$ SELECT '(1)'::evil.checked $$"
    )
    return mallory


def test_expressions_that_name_no_function_of_his(
    run_sql: Run, helpers: psycopg.Connection[Any], connect: Connect, sql_url: str
) -> None:
    admin, wrong = connect(), {}
    for number, (label, statements) in enumerate(WITHOUT_A_NAME.items()):
        parts = f"evil.parts{number}"
        helpers.execute(
            f"CREATE TABLE {parts} (id integer) PARTITION BY HASH ((id + evil.key()))".encode()
        )
        [(oid,)] = run_sql(f"SELECT '{parts}'::regclass::integer")
        name = create_table(helpers, number, statements.replace("{oid}", str(oid)))
        failed = [] if runs_it(run_sql, name) else ["a SELECT does not run it"]
        if failed := failed + failings(run_sql, admin, sql_url, name, number):
            wrong[label] = failed
    assert wrong == {}


def test_columns_computed_by_views(
    run_sql: Run, helpers: psycopg.Connection[Any], connect: Connect, sql_url: str
) -> None:
    admin, wrong = connect(), {}
    [(function,)] = run_sql("SELECT 'evil.parse()'::regprocedure::integer")
    helpers.execute(b"CREATE TABLE evil.m AS SELECT *, 'calm'::evil.mood AS m FROM evil.p")
    for number, (label, column) in enumerate(COMPUTED.items()):
        name, computed = f"evil.c{number}", column.format(function=function)
        helpers.execute(f"CREATE VIEW {name} AS SELECT id, n, {computed} AS b FROM evil.m".encode())
        sprung(run_sql)
        run_sql(f"SELECT * FROM {name}")
        failed: list[object] = [] if sprung(run_sql) else ["a SELECT does not run it"]
        if failed := failed + failings(run_sql, admin, sql_url, name, number):
            wrong[label] = failed
    assert wrong == {}


def test_a_text_and_a_number_with_a_plain_enum_are_accepted(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, sql_url: str
) -> None:
    mallory.execute((PEOPLE + MOOD).encode())
    mallory.execute(
        b"CREATE TABLE evil.m AS SELECT *, 'calm'::evil.mood AS m FROM evil.p;"
        b"CREATE VIEW evil.v AS SELECT id, n, name || id AS b, m FROM evil.m"
    )
    statement = b"SELECT dbanon.k_anonymity('evil.v', ARRAY['n'])"
    assert connect().execute(statement).fetchall() == [(10,)]
    mallory.execute(cast("evil.mood", "text", "'a'").encode())
    assert failings(run_sql, connect(), sql_url, "evil.v") == []
