"""Types, views and indexes of the caller, of a superuser, or without effect still work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

TYPES = (
    "CREATE TYPE app.mood AS ENUM ('sad', 'calm', 'glad')",
    "CREATE DOMAIN app.amount AS numeric(8,2) CHECK (VALUE > -1000)",
    "CREATE DOMAIN app.sum AS app.amount CHECK (VALUE < 1000)",
    "CREATE DOMAIN app.code AS varchar(10) COLLATE \"C\" CHECK (VALUE <> '')",
    "CREATE DOMAIN app.feeling AS app.mood",
    "CREATE TYPE app.pair AS (a integer, b text)",
)
# Casts that give something else than the label, to make them visible.
CASTS = (
    "CREATE FUNCTION app.shout(m app.mood) RETURNS text LANGUAGE sql IMMUTABLE AS"
    " $$ SELECT 'CAST' $$",
    "CREATE CAST (app.mood AS text) WITH FUNCTION app.shout(app.mood)",
    "CREATE FUNCTION app.guess(t text) RETURNS app.mood LANGUAGE sql IMMUTABLE AS"
    " $$ SELECT 'sad'::app.mood $$",
    "CREATE CAST (text AS app.mood) WITH FUNCTION app.guess(text)",
)
PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, (g + 0.5)::app.sum AS x,"
    " (ARRAY['sad', 'calm', 'glad'])[1 + g / 21]::app.mood AS mood,"
    " 'glad'::app.mood::app.feeling AS feeling, ('c' || g % 3)::app.code AS code,"
    " ROW(g % 3, 'b')::app.pair AS pair, ARRAY['sad']::app.mood[] AS moods"
    " FROM generate_series(1, 60) AS g"
)
CALL = (
    "SELECT rows_out FROM dbanon.mdav('app.people', 'release.p', '{x,mood}', 5,"
    " keep => '{feeling%s}', options => '{\"by\": [\"code\"]}')"
)


def types_of(run_sql: Run, relation: str) -> dict[str, str]:
    return dict(
        run_sql(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{relation}'::regclass AND attnum > 0"
        )
    )


COLUMN_TYPES = {
    "x": "app.sum",
    "mood": "app.mood",
    "feeling": "app.feeling",
    "code": "app.code",
    "pair": "app.pair",
    "moods": "app.mood[]",
}
OTHERS = {
    "x": "numeric(8,2)",
    "mood": "text",
    "feeling": "text",
    "code": "character varying(10)",
}


@pytest.mark.parametrize("owner", ["caller", "superuser"])
def test_own_types_and_a_superusers_stay(
    run_sql: Run, connect: Connect, sql_role: Role, owner: str
) -> None:
    url = sql_role("anna")
    anna = connect(url)
    if owner == "caller":
        run_sql("GRANT CREATE ON SCHEMA app TO anna")
        anna.execute("; ".join((*TYPES, PEOPLE, *CASTS)).encode())
    else:
        for statement in (*TYPES, PEOPLE, *CASTS, "GRANT SELECT ON app.people TO anna"):
            run_sql(statement)
    assert anna.execute((CALL % ",pair,moods").encode()).fetchall() == [(60,)]
    assert types_of(run_sql, "release.p") == COLUMN_TYPES
    dbanon.anonymize(
        url,
        table="app.people",
        output="release.q",
        quasi_identifiers=["x", "mood"],
        by=["code"],
        keep=["feeling", "pair", "moods"],
        k=5,
    )
    assert types_of(run_sql, "release.q") == COLUMN_TYPES
    for relation in ("release.p", "release.q"):
        # Released values are the original ones; no cast affected them.
        assert run_sql(f"SELECT count(DISTINCT mood) > 1 FROM {relation}") == [(True,)]
        assert run_sql(f"SELECT DISTINCT format('%s', feeling) FROM {relation}") == [("glad",)]


def test_a_publisher_releases_the_types_of_an_owner(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    """As base types: the owner's checks and casts are not run."""
    owner, url = connect(sql_role("app_owner", runner=False)), sql_role("anna")
    run_sql("GRANT CREATE ON SCHEMA app TO app_owner")
    owner.execute(
        "; ".join((*TYPES, PEOPLE, *CASTS, "GRANT SELECT ON app.people TO anna")).encode()
    )
    anna = connect(url)
    assert anna.execute((CALL % "").encode()).fetchall() == [(60,)]
    dbanon.anonymize(
        url,
        table="app.people",
        output="release.q",
        quasi_identifiers=["x", "mood"],
        by=["code"],
        keep=["feeling"],
        k=5,
    )
    for relation in ("release.p", "release.q"):
        assert types_of(run_sql, relation) == OTHERS
        assert run_sql(f"SELECT DISTINCT feeling FROM {relation}") == [("glad",)]
        assert run_sql(f"SELECT bool_or(mood = 'CAST') FROM {relation}") == [(False,)]
    # A type without a base type is refused by name.
    for column in ("pair", "moods"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="of role app_owner"):
            anna.execute((CALL % f",{column}").replace("release.p", "release.r").encode())
    anna.execute(b"SELECT dbanon.k_anonymity('app.people', '{pair,moods,mood}')")


ORDINARY = (
    "CREATE TABLE app.t (id integer PRIMARY KEY, n double precision DEFAULT app.const(),"
    " name text CHECK (app.sane(name)), s app.status,"
    " upper text GENERATED ALWAYS AS (app.sane_text(name)) STORED)",
    "CREATE INDEX ON app.t (app.normalize(name))",
    "CREATE INDEX ON app.t (app.sane_text(name))",
    "CREATE INDEX ON app.t (lower(name)) WHERE app.sane(name) AND n > 1 + 2",
    "CREATE STATISTICS app.st ON (app.normalize(name)), n FROM app.t",
    "CREATE TRIGGER t BEFORE INSERT ON app.t FOR EACH ROW EXECUTE FUNCTION app.touch()",
    "INSERT INTO app.t SELECT g, sin(g), 'n' || g % 3, 'open' FROM generate_series(1, 60) AS g",
    "ANALYZE app.t",
    "CREATE TABLE app.child (more integer) INHERITS (app.t)",
    "CREATE VIEW app.v AS SELECT t.id, max(t.n) OVER (PARTITION BY t.name) + t.n AS n,"
    " upper(t.name) || to_char(now(), 'YYYY') AS name, CASE WHEN t.s = 'open' THEN 1 END AS open,"
    " coalesce(t.n::numeric(5,2), 0) AS m, current_date - date '2000-01-01' AS days, t.s"
    " FROM app.t JOIN (SELECT name, string_agg(upper, ',' ORDER BY id) FROM app.t GROUP BY name) AS"
    " x USING (name) WHERE t.s IN ('open', 'closed') AND t.name LIKE 'n%'",
    "CREATE VIEW app.w AS SELECT id, n FROM app.v",
    "CREATE MATERIALIZED VIEW app.m AS SELECT id, n, app.normalize(name) AS name FROM app.t",
    "GRANT SELECT ON ALL TABLES IN SCHEMA app TO anna",
)
FUNCTIONS = (
    "CREATE TYPE app.status AS ENUM ('open', 'closed')",
    "CREATE FUNCTION app.const() RETURNS double precision LANGUAGE plpgsql AS"
    " $$ BEGIN RETURN 1; END $$",
    "CREATE FUNCTION app.sane(a text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN RETURN a <> ''; END $$",
    "CREATE FUNCTION app.sane_text(a text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS"
    " $$ BEGIN RETURN a; END $$",
    "CREATE FUNCTION app.normalize(a text) RETURNS text LANGUAGE sql IMMUTABLE AS"
    " $$ SELECT lower(trim($1)) $$",
    "CREATE FUNCTION app.touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
)


def test_an_ordinary_owners_tables_and_views_are_read(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    owner, url = connect(sql_role("app_owner", runner=False)), sql_role("anna")
    run_sql("GRANT CREATE ON SCHEMA app TO app_owner")
    for statement in (*FUNCTIONS, *ORDINARY):
        owner.execute(statement.encode())
    anna, admin = connect(url), connect()
    for relation in ("t", "child", "v", "w", "m"):
        for number, session in enumerate((anna, admin)):
            session.execute(f"SELECT dbanon.k_anonymity('app.{relation}', '{{n}}')".encode())
            if relation != "child":
                rows = session.execute(
                    f"SELECT rows_out FROM dbanon.mdav('app.{relation}',"
                    f" 'release.{relation}{number}', '{{n}}', 5, options => %s)",
                    ('{"key": ["id"]}',),
                ).fetchall()
                assert rows == [(60,)]
        if relation != "child":
            report = dbanon.anonymize(
                url,
                table=f"app.{relation}",
                output=f"release.{relation}",
                quasi_identifiers=["n"],
                key=["id"],
                k=5,
            )
            assert report.rows_out == 60


@pytest.mark.parametrize("maker", ["caller", "superuser"])
def test_a_trusted_view_of_anothers_function_is_refused(
    run_sql: Run, connect: Connect, sql_role: Role, maker: str
) -> None:
    """The function's owner can change it."""
    owner, anna = connect(sql_role("app_owner", runner=False)), connect(sql_role("anna"))
    run_sql("GRANT CREATE ON SCHEMA app TO app_owner, anna")
    owner.execute("; ".join(FUNCTIONS).encode())
    view = (
        "CREATE VIEW app.mine AS SELECT g AS id, sin(g) + app.const() AS n"
        " FROM generate_series(1, 60) AS g"
    )
    if maker == "caller":
        anna.execute(view.encode())
    else:
        run_sql(view)
        run_sql("GRANT SELECT ON app.mine TO anna")
    query = b"SELECT dbanon.k_anonymity('app.mine', '{n}')"
    for session in (anna, connect()):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="role app_owner"):
            session.execute(query)
    # The owner's own code is allowed.
    run_sql("GRANT SELECT ON app.mine TO app_owner")
    run_sql("GRANT dbanon_reader TO app_owner")
    if maker == "superuser":
        assert owner.execute(query).fetchall() == [(1,)]
    # Nor is a superuser's, once he owns it.
    run_sql("ALTER FUNCTION app.const() OWNER TO CURRENT_USER")
    assert anna.execute(query).fetchall() == [(1,)]
