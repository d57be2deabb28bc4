"""Relations of Mallory's that would run his code when a superuser reads them: refused.

Covers functions in views, and in what the planner evaluates: indexes, statistics, partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import ForeignCode, ReleaseNotFound
from dbanon.run.hierarchies import read_column_values
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.conftest import CAMPAIGN
from tests.prerequisites import skip_or_fail
from tests.sql.mallory import MOOD, calls_not_refused, cast, sprung

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

# Relations that run Mallory's code on read, whatever their columns are.
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
    " $$ BEGIN PERFORM evil.note(); RETURN QUERY TABLE evil.p; END $$;"
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
    "row read from text": "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
    "CREATE TYPE evil.w AS (a evil.d); CREATE VIEW evil.v AS SELECT id, n,"
    " ('(' || id || ')')::evil.w::text AS b FROM evil.p;",
    "array read from text": "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
    "CREATE VIEW evil.v AS SELECT id, n, ('{' || id || '}')::evil.d[]::text AS b FROM evil.p;",
    "columns of a record": "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
    "CREATE VIEW evil.v AS SELECT id, n + t.a AS n FROM evil.p,"
    " jsonb_to_record('{\"a\": 1}') AS t(a evil.d);",
    "null of a row type": "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());"
    "CREATE TYPE evil.w AS (a evil.d); CREATE VIEW evil.v AS SELECT id, n + t.a AS n FROM evil.p,"
    " jsonb_populate_record(NULL::evil.w, '{\"a\": 1}') AS t;",
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
}

READS = (
    "SELECT dbanon.mdav('{v}', 'release.o1', '{{n}}', 5, options => '{{\"key\": [\"id\"]}}')",
    "SELECT * FROM dbanon.classes('{v}', 'mdav', '{{n}}', 5, '{{\"key\": [\"id\"]}}')",
    "SELECT dbanon.k_anonymity('{v}', '{{n}}')",
    "SELECT * FROM dbanon.equivalence_classes('{v}', '{{n}}')",
    "SELECT dbanon.verify('{v}', '{{n}}', 2)",
    "SELECT dbanon.information_loss('{v}', 'evil.p', '{{n}}')",
    "SELECT dbanon.information_loss('evil.p', '{v}', '{{n}}')",
    "SELECT dbanon.evaluate('{v}', NULL, '{{\"quasi_identifiers\": [\"n\"]}}')",
    "SELECT dbanon.evaluate('{v}', 'evil.p', '{{\"quasi_identifiers\": [\"n\"]}}')",
    "SELECT dbanon.evaluate('evil.p', '{v}', '{{\"quasi_identifiers\": [\"n\"]}}')",
    "SELECT dbanon.evaluate('{v}', 'evil.p', '{{\"quasi_identifiers\": [\"n\"], \"risk\": {{}}}}')",
    "SELECT dbanon.evaluate('evil.p', '{v}', '{{\"quasi_identifiers\": [\"n\"], \"risk\": {{}}}}')",
    "SELECT dbanon.suggest_hierarchy('{v}', 'n')",
    "SELECT dbanon.check_hierarchy('{{\"tree\": {{\"*\": [\"a\"]}}}}', '{v}', 'n')",
)
PEOPLE = "CREATE TABLE evil.p AS SELECT g AS id, sin(g) AS n FROM generate_series(1, 60) AS g"


def expect_refusal(run_sql: Run, sql_url: str, relation: str, reads: Sequence[str] = READS) -> None:
    """Check that no call reads the relation, and that none of its code ran."""
    caught: list[str] = []
    wrong: list[tuple[str, object]] = []
    for read in reads:
        statement = read.format(v=relation)
        try:
            run_sql(statement)
            wrong.append((statement, "not refused"))
        except psycopg.Error as error:
            if error.sqlstate != "42501" or "role mallory" not in str(error):
                wrong.append((statement, error))
        if sprung(run_sql):
            caught.append(statement)
    store = open_store(sql_url)
    calls = (
        (
            "anonymize",
            lambda: dbanon.anonymize(
                sql_url,
                table=relation,
                output="release.o",
                key=["id"],
                quasi_identifiers=["n"],
                k=5,
            ),
        ),
        ("verify", lambda: verify(store, parse_relation(relation), ["n"], 2)),
        ("column_values", lambda: read_column_values(store, parse_relation(relation), "n")),
    )
    wrong += calls_not_refused(run_sql, calls)
    assert (caught, wrong) == ([], [])


@pytest.mark.parametrize("kind", RELATIONS)
def test_a_relation_that_would_run_foreign_code_is_refused(
    run_sql: Run, mallory: psycopg.Connection[Any], sql_url: str, kind: str
) -> None:
    mallory.execute(PEOPLE.encode())
    mallory.execute(RELATIONS[kind].encode())
    # The trap may be irrelevant in some cases: the function's access to data and settings matters.
    run_sql("SELECT setval('evil.sprung', 1, false)")
    # The first at all SQL functions; the others at a third of them in turn.
    turn = 0 if CAMPAIGN else list(RELATIONS).index(kind)
    expect_refusal(run_sql, sql_url, "evil.v", READS[turn % 3 :: 3] if turn else READS)


def test_a_foreign_table_of_mallorys_is_refused(
    run_sql: Run, mallory: psycopg.Connection[Any], sql_url: str
) -> None:
    """A superuser needs no password: Mallory would choose the user and the query."""
    if not run_sql("SELECT 1 FROM pg_available_extensions WHERE name = 'postgres_fdw'"):
        skip_or_fail("postgres_fdw is not installed on this server")
    mallory.execute(PEOPLE.encode())
    run_sql("CREATE EXTENSION postgres_fdw")
    run_sql("GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO mallory")
    mallory.execute(
        b"CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw;"
        b"CREATE USER MAPPING FOR PUBLIC SERVER loop OPTIONS (user 'postgres');"
        b"CREATE FOREIGN TABLE evil.v (id integer, n double precision) SERVER loop"
        b" OPTIONS (table_name 'p')"
    )
    expect_refusal(run_sql, sql_url, "evil.v")


def test_checks_of_children_are_not_evaluated(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, sql_url: str
) -> None:
    """The planner would evaluate it to exclude child tables; this is switched off."""
    mallory.execute(PEOPLE.encode())
    mallory.execute(
        b"ALTER TABLE evil.p ADD CHECK (evil.one(1) = 1); CREATE TABLE evil.c () INHERITS (evil.p);"
    )
    run_sql("SELECT setval('evil.sprung', 1, false)")
    run_sql("SELECT * FROM evil.p WHERE n > 0")
    assert sprung(run_sql)
    admin = connect()
    for read in READS:
        if "suggest" in read or "check_hierarchy" in read or "verify" in read:
            continue
        statement = read.format(v="evil.p")
        admin.execute(statement.encode())
        assert not sprung(run_sql), statement
    dbanon.anonymize(
        sql_url, table="evil.p", output="release.o", quasi_identifiers=["n"], key=["id"], k=5
    )
    assert not sprung(run_sql)


def test_a_child_of_mallorys_under_a_table_of_ones_own(
    run_sql: Run, mallory: psycopg.Connection[Any], sql_url: str
) -> None:
    run_sql("CREATE TABLE app.t (id integer, n double precision)")
    run_sql("CREATE TABLE evil.c () INHERITS (app.t)")
    run_sql("ALTER TABLE evil.c OWNER TO mallory")
    mallory.execute(PEOPLE.encode())
    mallory.execute(b"INSERT INTO evil.c TABLE evil.p; CREATE INDEX ON evil.c ((evil.one(1)))")
    run_sql("SELECT setval('evil.sprung', 1, false)")
    expect_refusal(run_sql, sql_url, "app.t")


@pytest.mark.parametrize("kind", ["function in a view", "constant call in an index"])
def test_a_hierarchy_is_not_read_from_it(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, sql_url: str, kind: str
) -> None:
    mallory.execute(PEOPLE.encode())
    if kind == "function in a view":
        definition = "CREATE VIEW evil.tree AS SELECT 'a' AS child, evil.one(1)::text AS parent"
    else:
        definition = (
            "CREATE TABLE evil.tree AS SELECT 'a' AS child, 'b' AS parent;"
            "CREATE INDEX ON evil.tree ((evil.one(1)))"
        )
    mallory.execute(definition.encode())
    run_sql("SELECT setval('evil.sprung', 1, false)")
    admin = connect()
    for statement in (
        "SELECT dbanon.gaa_cp('evil.p', 'release.o', '{n}', 5,"
        ' hierarchies => \'{"n": {"table": "evil.tree"}}\')',
        "SELECT dbanon.store_hierarchy('h', '{\"table\": \"evil.tree\"}')",
        'SELECT * FROM dbanon.check_hierarchy(\'{"table": "evil.tree"}\')',
        "SELECT * FROM dbanon.classes('evil.p', 'gaa_cp', '{n}', 5,"
        ' \'{"hierarchies": {"n": {"table": "evil.tree"}}}\')',
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="role mallory"):
            admin.execute(statement.encode())
        assert not sprung(run_sql)
    with pytest.raises(ForeignCode):
        dbanon.anonymize(
            sql_url,
            table="evil.p",
            output="release.o",
            quasi_identifiers=["n"],
            k=5,
            method="gaa_cp",
            hierarchies={"n": {"table": "evil.tree"}},
        )
    assert not sprung(run_sql)


def test_a_release_whose_owner_made_a_view_of_it_is_not_verified(
    run_sql: Run,
    mallory: psycopg.Connection[Any],
    connect: Connect,
    sql_url: str,
) -> None:
    """The ledger has the name, but the relation is now Mallory's."""
    mallory.execute(PEOPLE.encode())
    run_sql("CREATE TABLE app.p AS TABLE evil.p")
    run_sql("SELECT dbanon.mdav('app.p', 'release.p', '{n}', 5)")
    run_sql("DROP TABLE release.p")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO mallory")
    mallory.execute(b"CREATE VIEW release.p AS SELECT n FROM evil.p WHERE evil.spring()")
    # Neither by name, the only recorded property, nor by columns.
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table or view that the"):
        connect().execute(b"SELECT dbanon.verify('release.p')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="role mallory"):
        connect().execute(b"SELECT dbanon.verify('release.p', '{n}', 5)")
    with pytest.raises(ReleaseNotFound):
        verify(open_store(sql_url), parse_relation("release.p"))
    with pytest.raises(ForeignCode):
        verify(open_store(sql_url), parse_relation("release.p"), ["n"], 5)
    assert not sprung(run_sql)


def test_a_collation_of_mallorys_is_not_released(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect
) -> None:
    """He could drop it, and with it the column."""
    mallory.execute(
        b'CREATE COLLATION evil.own FROM "C"; CREATE TABLE evil.p AS SELECT sin(g) AS n,'
        b" ('v' || g % 3) COLLATE evil.own AS x FROM generate_series(1, 60) AS g"
    )
    connect().execute(b"SELECT dbanon.mdav('evil.p', 'release.p', '{n}', 5, keep => '{x}')")
    mallory.execute(b"DROP SCHEMA evil CASCADE")
    assert run_sql("SELECT count(x) FROM release.p") == [(60,)]


def test_a_check_that_is_added_later_does_not_see_the_release(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect
) -> None:
    """PostgreSQL applies a new domain check to every value in every table that uses the domain."""
    mallory.execute(
        b"CREATE DOMAIN evil.d AS integer; CREATE TABLE evil.seen (a integer);"
        b"CREATE TABLE evil.p AS SELECT sin(g) AS n, g::evil.d AS x"
        b" FROM generate_series(1, 60) AS g"
    )
    connect().execute(b"SELECT dbanon.mdav('evil.p', 'release.p', '{x}', 5, keep => '{n}')")
    mallory.execute(
        b"CREATE FUNCTION evil.see(a integer) RETURNS boolean LANGUAGE plpgsql AS"
        b" $$ BEGIN INSERT INTO evil.seen VALUES (a); RETURN true; END $$;"
        b"TRUNCATE evil.p; ALTER DOMAIN evil.d ADD CHECK (evil.see(VALUE))"
    )
    assert run_sql("SELECT count(*) FROM evil.seen") == [(0,)]
