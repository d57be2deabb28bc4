"""Each test reads a relation of Mallory's as a superuser that would run his code: it is refused.

Functions in views, and in what the planner evaluates beforehand: indexes, statistics, partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon import audit
from dbanon.column_values import column_values
from dbanon.errors import ForeignCode
from dbanon.stores import open_store
from dbanon.stores.names import parse_relation
from tests.sql.mallory import MOOD, cast, sprung

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

# Relations that run Mallory's code when they are read, whatever their columns are.
RELATIONS: dict[str, str] = {
    "function in a view": "CREATE VIEW evil.v AS SELECT *, evil.spring() AS b FROM evil.p;",
    "function in a condition": "CREATE VIEW evil.v AS SELECT * FROM evil.p WHERE evil.spring();",
    "nested view": "CREATE VIEW evil.v0 AS SELECT * FROM evil.p WHERE evil.one(id) > 0;"
    "CREATE VIEW evil.v AS TABLE evil.v0;",
    "operator in a view": "CREATE FUNCTION evil.op(a integer, b integer) RETURNS integer LANGUAGE"
    " plpgsql AS $$ BEGIN RETURN evil.one(a); END $$;"
    "CREATE OPERATOR evil.&&& (LEFTARG = integer, RIGHTARG = integer, FUNCTION = evil.op);"
    "CREATE VIEW evil.v AS SELECT id, n + (id OPERATOR(evil.&&&) 1) AS n FROM evil.p;",
    "aggregate in a view": "CREATE FUNCTION evil.step(a integer, b integer) RETURNS integer"
    " LANGUAGE plpgsql AS $$ BEGIN RETURN evil.one(b); END $$;"
    "CREATE AGGREGATE evil.total(integer) (SFUNC = evil.step, STYPE = integer, INITCOND = 0);"
    "CREATE VIEW evil.v AS SELECT id, sum(n) AS n FROM evil.p GROUP BY id"
    " HAVING evil.total(id) >= 0;",
    "window in a view": "CREATE FUNCTION evil.step(a integer, b integer) RETURNS integer"
    " LANGUAGE plpgsql AS $$ BEGIN RETURN evil.one(b); END $$;"
    "CREATE AGGREGATE evil.total(integer) (SFUNC = evil.step, STYPE = integer, INITCOND = 0);"
    "CREATE VIEW evil.v AS SELECT id, n + evil.total(id) OVER () AS n FROM evil.p;",
    "domain in a view": "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
    "CREATE VIEW evil.v AS SELECT id, n + (id::evil.d) AS n FROM evil.p;",
    "cast in a view": MOOD
    + cast("evil.mood", "integer", "1")
    + "CREATE VIEW evil.v AS SELECT id, n + ('sad'::evil.mood)::integer AS n FROM evil.p;",
    "default of an argument": "CREATE FUNCTION evil.many(a integer DEFAULT evil.one(1)) RETURNS"
    " integer LANGUAGE sql AS 'SELECT a'; CREATE VIEW evil.v AS SELECT id, n + evil.many() AS n"
    " FROM evil.p;",
    "function in FROM": "CREATE FUNCTION evil.rows() RETURNS SETOF evil.p LANGUAGE plpgsql AS"
    " $$ BEGIN PERFORM evil.spring(); RETURN QUERY TABLE evil.p; END $$;"
    "CREATE VIEW evil.v AS SELECT * FROM evil.rows();",
    "SQL by query_to_xml": "CREATE VIEW evil.v AS SELECT *,"
    " query_to_xml('SELECT evil.spring()', true, true, '')::text AS b FROM evil.p;",
    "somebody's table by table_to_xml": "CREATE VIEW evil.v AS SELECT *,"
    " table_to_xml('evil.p', true, true, '')::text AS b FROM evil.p;",
    "a domain's input function": "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
    "CREATE VIEW evil.v AS SELECT id, n, domain_in('1', (SELECT oid FROM pg_type WHERE typname ="
    " 'd' AND typnamespace = to_regnamespace('evil')), -1)::text AS b FROM evil.p;",
    "setting by set_config": "CREATE VIEW evil.v AS SELECT id, n,"
    " set_config('search_path', 'evil', true) AS b FROM evil.p;",
    "cast to json": MOOD
    + cast("evil.mood", "json", "'1'::json")
    + "CREATE TABLE evil.m AS SELECT *, 'sad'::evil.mood AS x FROM evil.p;"
    "CREATE VIEW evil.v AS SELECT id, n, to_jsonb(x)::text AS b FROM evil.m;",
    "row filled by json": "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
    "CREATE TABLE evil.w (a evil.d); CREATE VIEW evil.v AS SELECT id, n,"
    " (jsonb_populate_record(w, '{\"a\": 1}')).a::integer AS b FROM evil.p"
    " LEFT JOIN evil.w ON true;",
    "constant call in an index": "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v ((evil.one(1)));",
    "constant call within an index": "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v ((id + evil.one(length('a'))));",
    "constant operator in an index": "CREATE FUNCTION evil.op(a integer, b integer) RETURNS"
    " integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN evil.one(a); END $$;"
    "CREATE OPERATOR evil.&&& (LEFTARG = integer, RIGHTARG = integer, FUNCTION = evil.op);"
    "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v ((id + (1 OPERATOR(evil.&&&) 1)));",
    "constant call in a partial index": "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v (id) WHERE evil.spring();",
    "SQL function in an index": "CREATE FUNCTION evil.more(a integer) RETURNS integer LANGUAGE sql"
    " IMMUTABLE AS 'SELECT a + evil.one(1)'; CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v (evil.more(id));",
    "SQL body in an index": "CREATE FUNCTION evil.more(a integer) RETURNS integer LANGUAGE sql"
    " IMMUTABLE RETURN a + evil.one(1); CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v (evil.more(id));",
    "constant call in statistics": "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE STATISTICS evil.s ON id, (evil.one(1)) FROM evil.v; ANALYZE evil.v;",
    "constant call in a partition key": "CREATE TABLE evil.v (id integer, n double precision)"
    " PARTITION BY LIST ((id + evil.one(1)));"
    "CREATE TABLE evil.v0 PARTITION OF evil.v DEFAULT; INSERT INTO evil.v TABLE evil.p;",
    "index of a child": "CREATE TABLE evil.v AS TABLE evil.p; CREATE TABLE evil.c () INHERITS"
    " (evil.v); CREATE INDEX ON evil.c ((evil.one(1)));",
    "index behind a view": "CREATE TABLE evil.v0 AS TABLE evil.p;"
    "CREATE INDEX ON evil.v0 ((evil.one(1))); CREATE VIEW evil.v AS TABLE evil.v0;",
    "index of a materialized view": "CREATE MATERIALIZED VIEW evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v ((evil.one(1)));",
}  # fmt: skip

READS = (
    "SELECT dbanon.mdav('{v}', 'release.o1', '{{n}}', 5, options => '{{\"key\": [\"id\"]}}')",
    "SELECT * FROM dbanon.classes('{v}', 'mdav', '{{n}}', 5, '{{\"key\": [\"id\"]}}')",
    "SELECT dbanon.k_anonymity('{v}', '{{n}}')",
    "SELECT * FROM dbanon.equivalence_classes('{v}', '{{n}}')",
    "SELECT dbanon.verify('{v}', '{{n}}', 2)",
    "SELECT dbanon.information_loss('{v}', 'evil.p', '{{n}}')",
    "SELECT dbanon.information_loss('evil.p', '{v}', '{{n}}')",
    "SELECT dbanon.suggest_hierarchy('{v}', 'n')",
    "SELECT dbanon.check_hierarchy('{{\"tree\": {{\"*\": [\"a\"]}}}}', '{v}', 'n')",
)
PEOPLE = "CREATE TABLE evil.p AS SELECT g AS id, sin(g) AS n FROM generate_series(1, 60) AS g"


def refused(run_sql: Run, admin: psycopg.Connection[Any], sql_url: str, relation: str) -> None:
    """Check that nothing reads a relation, as it would run foreign code, and that none ran."""
    caught: list[str] = []
    wrong: list[tuple[str, object]] = []
    for read in READS:
        statement = read.format(v=relation)
        try:
            admin.execute(statement.encode())
            wrong.append((statement, "not refused"))
        except psycopg.Error as error:
            if error.sqlstate != "42501" or "role mallory" not in str(error):
                wrong.append((statement, error))
        if sprung(run_sql):
            caught.append(statement)
    store = open_store(sql_url)
    for name, call in (
        ("anonymize", lambda: dbanon.anonymize(sql_url, table=relation, output="release.o",
                                               key=["id"], quasi_identifiers=["n"], k=5)),
        ("verify", lambda: audit.verify(store, parse_relation(relation), ["n"], 2)),
        ("column_values", lambda: column_values(store, parse_relation(relation), "n")),
    ):  # fmt: skip
        try:
            call()
            wrong.append((name, "not refused"))
        except ForeignCode as error:
            if "role mallory" not in str(error):
                wrong.append((name, error))
        if sprung(run_sql):
            caught.append(name)
    assert (caught, wrong) == ([], [])


@pytest.mark.parametrize("kind", RELATIONS)
def test_a_relation_that_would_run_foreign_code_is_refused(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, sql_url: str, kind: str
) -> None:
    mallory.execute(PEOPLE.encode())
    mallory.execute(RELATIONS[kind].encode())
    # Now and then the trap is of no matter: what counts is what the function may read or set.
    run_sql("SELECT setval('evil.sprung', 1, false)")
    refused(run_sql, connect(), sql_url, "evil.v")
