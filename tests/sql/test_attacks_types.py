"""Each test releases somebody else's relation as a superuser: none of its owner's code may run.

Mallory owns a schema, and a trap in it that remembers, past every rollback, who called it. What is
his runs as whoever reads: checks of domains, casts of enums, functions in views and indexes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon import audit
from dbanon.column_values import column_values
from dbanon.errors import DbanonError, ForeignCode
from dbanon.stores import open_store
from dbanon.stores.names import parse_relation

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

TRAP = (
    "CREATE SEQUENCE evil.sprung; GRANT USAGE ON SEQUENCE evil.sprung TO PUBLIC;"
    "CREATE FUNCTION evil.spring() RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN"
    " IF current_user <> 'mallory' THEN PERFORM nextval('evil.sprung'); END IF; RETURN true; END $$;"
    "CREATE FUNCTION evil.one(a integer) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN PERFORM evil.spring(); RETURN a; END $$;"
)
MOOD = "CREATE TYPE evil.mood AS ENUM ('sad', 'calm', 'glad');"
PLAIN_MOOD = "(ARRAY['sad', 'calm', 'glad'])[1 + g % 3]::evil.mood"


def cast(source: str, target: str, value: str, how: str = "") -> str:
    """A cast with a function that springs the trap."""
    name = f"cast_{zlib.crc32((source + target).encode())}"
    return (
        f"CREATE FUNCTION evil.{name}(a {source}) RETURNS {target} LANGUAGE plpgsql IMMUTABLE AS"
        f" $$ BEGIN PERFORM evil.spring(); RETURN {value}; END $$;"
        f"CREATE CAST ({source} AS {target}) WITH FUNCTION evil.{name}({source}) {how};"
    )


# Column types: what makes them, the type, SQL of the value of row g.
TYPES: dict[str, tuple[str, str, str]] = {
    "domain": ("CREATE DOMAIN evil.d AS integer CHECK (evil.spring());", "evil.d", "g % 7"),
    "nested domain": (
        "CREATE DOMAIN evil.d0 AS numeric(8,2) CHECK (evil.spring());"
        "CREATE DOMAIN evil.d AS evil.d0;",
        "evil.d",
        "g % 7",
    ),
    "domain over text": (
        "CREATE DOMAIN evil.d AS text CHECK (evil.spring() OR VALUE = '');",
        "evil.d",
        "'v' || g % 4",
    ),
    "domain over dates": (
        "CREATE DOMAIN evil.d AS date CHECK (evil.spring());",
        "evil.d",
        "date '2020-01-01' + g % 7",
    ),
    "unique domain": (
        "CREATE DOMAIN evil.d AS text CHECK (evil.spring());", "evil.d", "'v' || g",
    ),
    "superuser's domain, my check": ("", "app.d", "g % 7"),
    "enum to text": (
        MOOD + cast("evil.mood", "text", "enum_out(a)::text"), "evil.mood", PLAIN_MOOD,
    ),
    "enum to text, assigned": (
        MOOD + cast("evil.mood", "text", "enum_out(a)::text", "AS ASSIGNMENT"),
        "evil.mood",
        PLAIN_MOOD,
    ),
    "enum to text, implicit": (
        MOOD + cast("evil.mood", "text", "enum_out(a)::text", "AS IMPLICIT"),
        "evil.mood",
        PLAIN_MOOD,
    ),
    "text to enum": (
        MOOD + cast("text", "evil.mood", "'sad'"), "evil.mood", "format('%s', 'calm')::evil.mood",
    ),
    "enum to number": (
        MOOD + cast("evil.mood", "double precision", "1.0", "AS IMPLICIT"), "evil.mood", PLAIN_MOOD,
    ),
    "enum to json": (MOOD + cast("evil.mood", "json", "'1'::json"), "evil.mood", PLAIN_MOOD),
    "enum to jsonb": (MOOD + cast("evil.mood", "jsonb", "'1'::jsonb"), "evil.mood", PLAIN_MOOD),
    "domain over enum": (
        MOOD
        + cast("evil.mood", "text", "enum_out(a)::text")
        + "CREATE DOMAIN evil.d AS evil.mood CHECK (evil.spring());",
        "evil.d",
        PLAIN_MOOD,
    ),
    "enum called int4": (
        "CREATE TYPE evil.int4 AS ENUM ('1', '2', '3');"
        + cast("evil.int4", "double precision", "1.0")
        + cast("evil.int4", "bigint", "1"),
        "evil.int4",
        "format('%s', 1 + g % 3)::text::evil.int4",
    ),
    "enum called date": (
        "CREATE TYPE evil.date AS ENUM ('1', '2', '3');"
        + cast("evil.date", "pg_catalog.date", "date '2020-01-01'"),
        "evil.date",
        "(ARRAY['1', '2', '3'])[1 + g % 3]::evil.date",
    ),
    "enum called text": (
        "CREATE TYPE evil.text AS ENUM ('1', '2', '3');"
        + cast("evil.text", "pg_catalog.text", "'a'::pg_catalog.text"),
        "evil.text",
        "(ARRAY['1', '2', '3'])[1 + g % 3]::evil.text",
    ),
    "row": (
        "CREATE TYPE evil.pair AS (a integer, b pg_catalog.text);"
        + cast("evil.pair", "text", "'p'")
        + cast("evil.pair", "json", "'1'::json"),
        "evil.pair",
        "ROW(g % 3, 'b')::evil.pair",
    ),
    "range": (
        "CREATE FUNCTION evil.apart(a integer, b integer) RETURNS double precision LANGUAGE plpgsql"
        " IMMUTABLE AS $$ BEGIN PERFORM evil.spring(); RETURN a - b; END $$;"
        "CREATE TYPE evil.span AS RANGE (subtype = integer, subtype_diff = evil.apart);",
        "evil.span",
        "evil.span(g % 5, g % 5 + 2)",
    ),
    "array of a domain": (
        "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());", "evil.d[]", "ARRAY[g % 3]::evil.d[]",
    ),
    "array of an enum": (
        MOOD + cast("evil.mood[]", "text", "'a'"), "evil.mood[]", f"ARRAY[{PLAIN_MOOD}]",
    ),
}  # fmt: skip

# Every statement that reads the column x, or hands it on.
SURFACES = {
    "quasi-identifier": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{x}}', 5)",
    "two quasi-identifiers": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n,x}}', 5)",
    "generalized": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{n,x}}', 5)",
    "ranges": "SELECT dbanon.mondrian('evil.t', 'release.{o}', '{{x}}', 5,"
    ' options => \'{{"intervals": "range"}}\')',
    "medoid": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{x}}', 5,"
    ' options => \'{{"recoding": "medoid"}}\')',
    "stratum": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 2,"
    ' options => \'{{"by": ["x"]}}\')',
    "sensitive": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, sensitive => '{{x}}')",
    "kept": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, keep => '{{x}}')",
    "kept, as a view": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, keep => '{{x}}',"
    ' options => \'{{"output_kind": "view"}}\')',
    "model": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, sensitive => '{{x}}',"
    ' options => \'{{"distinct_l": {{"x": 2}}}}\')',
    "model with order": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5,"
    " sensitive => '{{x}}',"
    ' options => \'{{"t_closeness": {{"x": {{"level": 0.9, "distance": "ordered"}}}}}}\')',
    "entity": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 2, entity => 'x')",
    "key": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5,"
    ' options => \'{{"key": ["x"]}}\')',
    "key of two": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5,"
    ' options => \'{{"key": ["x", "id"]}}\')',
    "classes": "SELECT * FROM dbanon.classes('evil.t', 'gaa_cp', '{{x}}', 5)",
    "classes by key": "SELECT * FROM dbanon.classes('evil.t', 'mdav', '{{n}}', 5,"
    ' \'{{"key": ["id", "x"]}}\')',
    "classes of entities": "SELECT * FROM dbanon.classes('evil.t', 'mdav', '{{n}}', 2,"
    ' \'{{"entity": "x"}}\')',
    "suggest_hierarchy": "SELECT dbanon.suggest_hierarchy('evil.t', 'x')",
    "check_hierarchy": "SELECT * FROM dbanon.check_hierarchy("
    '\'{{"tree": {{"*": ["a", "b"]}}}}\', \'evil.t\', \'x\')',
    "hierarchy": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{label}}', 5,"
    ' hierarchies => \'{{"label": {{"table": "evil.tree"}}}}\')',
    "hierarchy of ways": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{label}}', 5,"
    ' hierarchies => \'{{"label": {{"table": "evil.ways"}}}}\')',
    "store_hierarchy": "SELECT dbanon.store_hierarchy('{o}', '{{\"table\": \"evil.tree\"}}')",
    "enum hierarchy": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{x}}', 5,"
    ' hierarchies => \'{{"x": {{"enum": true}}}}\')',
    "k_anonymity": "SELECT dbanon.k_anonymity('evil.t', '{{x}}')",
    "equivalence_classes": "SELECT * FROM dbanon.equivalence_classes('evil.t', '{{x,n}}')",
    "verify": "SELECT dbanon.verify('evil.t', '{{x}}', 2)",
    "information_loss": "SELECT dbanon.information_loss('evil.t', 'evil.t', '{{x}}')",
}  # fmt: skip


@pytest.fixture
def mallory(run_sql: Run, sql_role: Role, connect: Connect) -> psycopg.Connection[Any]:
    """A connection of the role whose code must not run, with the trap set."""
    connection = connect(sql_role("mallory", runner=False))
    run_sql("CREATE SCHEMA evil AUTHORIZATION mallory")
    connection.execute(TRAP.encode())
    # Made by a superuser who trusted him.
    run_sql("CREATE DOMAIN app.d AS integer CHECK (evil.spring())")
    run_sql("GRANT USAGE ON TYPE app.d TO mallory")
    return connection


def sprung(run_sql: Run) -> bool:
    """Whether the trap was called since it was last asked; it is set again."""
    [(called,)] = run_sql("SELECT is_called FROM evil.sprung")
    run_sql("SELECT setval('evil.sprung', 1, false)")
    return bool(called)


def make_table(mallory: psycopg.Connection[Any], kind: str) -> None:
    """Tables of Mallory's with a column x of a type of his."""
    made, sql_type, value = TYPES[kind]
    mallory.execute(made.encode())
    for statement in (
        f"CREATE TABLE evil.t AS SELECT g AS id, sin(g) AS n, ({value})::{sql_type} AS x,"
        " 'l' || g % 3 AS label FROM generate_series(1, 60) AS g",
        "CREATE TABLE evil.tree AS SELECT x AS child, x AS parent FROM evil.t",
        "CREATE TABLE evil.ways AS SELECT x AS leaf, label AS level1, 'all' AS level2 FROM evil.t",
        "SELECT setval('evil.sprung', 1, false)",
    ):
        mallory.execute(statement.encode())


@pytest.mark.parametrize("kind", TYPES)
def test_no_code_of_a_columns_type_runs(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, kind: str
) -> None:
    make_table(mallory, kind)
    admin = connect()
    caught = []
    for place, (surface, statement) in enumerate(SURFACES.items()):
        try:
            admin.execute(statement.format(o=f"o{place}").encode())
        except psycopg.Error as error:
            # Refused for what it is, and never by the server in the midst of it.
            assert error.sqlstate not in ("42725", "42883", "58000", "XX000"), (surface, error)
        if sprung(run_sql):
            caught.append(surface)
    assert caught == []


@pytest.mark.parametrize("kind", TYPES)
def test_no_code_of_a_columns_type_runs_for_a_client(
    run_sql: Run, mallory: psycopg.Connection[Any], sql_url: str, sql_server: Any, kind: str
) -> None:
    make_table(mallory, kind)
    given: list[dict[str, Any]] = [
        {"quasi_identifiers": ["x"]},
        {"quasi_identifiers": ["n", "x"], "method": "gaa_cp"},
        {"quasi_identifiers": ["n"], "by": ["x"]},
        {"quasi_identifiers": ["n"], "keep": ["x"]},
        {"quasi_identifiers": ["n"], "sensitive": ["x"],
         "models": [dbanon.Model("distinct_l", "x", 2)]},
        {"quasi_identifiers": ["n"], "entity": "x"},
        {"quasi_identifiers": ["n"], "key": ["x", "id"]},
        {"quasi_identifiers": ["label"], "method": "gaa_cp",
         "hierarchies": {"label": {"table": "evil.tree"}}},
    ]  # fmt: skip
    caught = []
    with sql_server.database() as other:
        for target in (None, other):
            for place, arguments in enumerate(given):
                try:
                    dbanon.anonymize(
                        sql_url, table="evil.t", output=f"release.o{place}", k=2, target=target,
                        **arguments,
                    )  # fmt: skip
                except DbanonError as error:
                    assert error.exit_code != 4, (arguments, error)
                if sprung(run_sql):
                    caught.append((target is None, arguments))
    for read in (
        lambda: audit.verify(open_store(sql_url), parse_relation("evil.t"), ["x"], 2),
        lambda: column_values(open_store(sql_url), parse_relation("evil.t"), "x"),
    ):
        try:
            read()
        except DbanonError as error:
            assert error.exit_code != 4
        if sprung(run_sql):
            caught.append((True, {}))
    assert caught == []


RELEASED = {
    # What the column is released as: computed, and as it is.
    "domain": ("integer", "integer"),
    "nested domain": ("numeric(8,2)", "numeric(8,2)"),
    "domain over text": (None, "text"),
    "domain over dates": ("date", "date"),
    "superuser's domain, my check": ("integer", "integer"),
    "enum to text, implicit": ("text", "text"),
    "text to enum": ("text", "text"),
    "domain over enum": ("text", "text"),
    "enum called int4": ("text", "text"),
}


@pytest.mark.parametrize("kind", RELEASED)
def test_a_release_has_no_type_of_another_role(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, kind: str
) -> None:
    """Else its owner could add a check, and have it run over the release, or drop the column."""
    make_table(mallory, kind)
    admin = connect()
    computed, kept = RELEASED[kind]
    admin.execute(b"SELECT dbanon.mdav('evil.t', 'release.kept', '{n}', 5, keep => '{x,id}')")
    wanted = {"kept": kept}
    if computed is not None:
        admin.execute(b"SELECT dbanon.mdav('evil.t', 'release.made', '{x}', 5)")
        wanted["made"] = computed
    found = run_sql(
        "SELECT c.relname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
        " JOIN pg_class c ON c.oid = a.attrelid WHERE a.attname = 'x' AND c.relnamespace ="
        " 'release'::regnamespace AND c.relname IN ('kept', 'made')"
    )
    assert dict(found) == wanted
    same = run_sql(
        "SELECT count(*) FROM release.kept AS r JOIN evil.t AS t USING (id)"
        " WHERE format('%s', r.x) = format('%s', t.x)"
    )
    assert same == [(60,)]
    run_sql("SELECT setval('evil.sprung', 1, false)")
    mallory.execute(b"DROP SCHEMA evil CASCADE" if kind != "superuser's domain, my check" else b"")
    assert run_sql("SELECT count(x) FROM release.kept") == [(60,)]


# Relations that run Mallory's code when they are read, whatever their columns are.
RELATIONS: dict[str, str] = {
    "function in a view": "CREATE VIEW evil.v AS SELECT *, evil.spring() AS b FROM evil.p;",
    "function in a condition": "CREATE VIEW evil.v AS SELECT * FROM evil.p WHERE evil.spring();",
    "nested view": "CREATE VIEW evil.v0 AS SELECT * FROM evil.p WHERE evil.one(id) > 0;"
    "CREATE VIEW evil.v AS TABLE evil.v0;",
    "operator in a view": "CREATE FUNCTION evil.op(a integer, b integer) RETURNS integer LANGUAGE"
    " plpgsql AS $$ BEGIN RETURN evil.one(a); END $$;"
    "CREATE OPERATOR evil.+++ (LEFTARG = integer, RIGHTARG = integer, FUNCTION = evil.op);"
    "CREATE VIEW evil.v AS SELECT id, n + (id OPERATOR(evil.+++) 1) AS n FROM evil.p;",
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
    " (jsonb_populate_record(w, '{\"a\": 1}')).a::integer AS b FROM evil.p LEFT JOIN evil.w ON true;",
    "constant call in an index": "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v ((evil.one(1)));",
    "constant call within an index": "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v ((id + evil.one(length('a'))));",
    "constant operator in an index": "CREATE FUNCTION evil.op(a integer, b integer) RETURNS"
    " integer LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN evil.one(a); END $$;"
    "CREATE OPERATOR evil.+++ (LEFTARG = integer, RIGHTARG = integer, FUNCTION = evil.op);"
    "CREATE TABLE evil.v AS TABLE evil.p;"
    "CREATE INDEX ON evil.v ((id + (1 OPERATOR(evil.+++) 1)));",
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
    caught = []
    for read in READS:
        statement = read.format(v=relation)
        with pytest.raises(psycopg.Error) as failure:
            admin.execute(statement.encode())
        assert failure.value.sqlstate == "42501", (statement, failure.value)
        assert "role mallory" in str(failure.value)
        if sprung(run_sql):
            caught.append(statement)
    store = open_store(sql_url)
    for number, call in enumerate((
        lambda: dbanon.anonymize(sql_url, table=relation, output="release.o", key=["id"],
                                 quasi_identifiers=["n"], k=5),
        lambda: audit.verify(store, parse_relation(relation), ["n"], 2),
        lambda: column_values(store, parse_relation(relation), "n"),
    )):  # fmt: skip
        with pytest.raises(ForeignCode, match="role mallory"):
            call()
        if sprung(run_sql):
            caught.append(str(number))
    assert caught == []


@pytest.mark.parametrize("kind", RELATIONS)
def test_a_relation_that_would_run_foreign_code_is_refused(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, sql_url: str, kind: str
) -> None:
    mallory.execute(PEOPLE.encode())
    mallory.execute(RELATIONS[kind].encode())
    # Now and then the trap is of no matter: what counts is what the function may read or set.
    run_sql("SELECT setval('evil.sprung', 1, false)")
    refused(run_sql, connect(), sql_url, "evil.v")
