"""The digest inside PostgreSQL: what it detects, for every column type, and after a dump."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.stores import digest
from tests.conftest import CAMPAIGN
from tests.postgres_server import Server, conninfo, find_server_binaries, libpq_environment

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

CALL = (
    "SELECT verified FROM dbanon.mdav('app.t', 'release.t', '{a}', 3, keep => '{b,c}',"
    ' options => \'{"output_kind": "%s"}\')'
)


def dump_of(url: str) -> str:
    return subprocess.run(
        [str(find_server_binaries() / "pg_dump")],
        env={**os.environ, **libpq_environment(url)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def load(run_sql: Run, kind: str = "table") -> str:
    """A release, and the name of the table that stores its rows."""
    run_sql(
        "CREATE TABLE app.t AS SELECT g / 4 AS a, (g * 7 % 5)::text AS b, g::numeric AS c"
        " FROM generate_series(0, 39) AS g"
    )
    run_sql(CALL % kind)
    [(name,)] = run_sql("SELECT relation_name FROM dbanon.release")
    return f'release."{name}"'


CHANGES = (
    ("UPDATE {} SET b = 'x' WHERE c = 7", r"rows \(digest\)"),
    ("UPDATE {} SET b = NULL WHERE c = 7", r"rows \(digest\)"),
    ("UPDATE {} SET c = 7.0 WHERE c = 7", r"rows \(digest\)"),
    # Two values are swapped, within a class and between two.
    (
        "UPDATE {} SET b = CASE c WHEN 4 THEN '0' ELSE '3' END WHERE c IN (4, 5)",
        r"rows \(digest\)",
    ),
    ("UPDATE {} SET c = 53 - c WHERE c IN (25, 28)", r"rows \(digest\)"),
    ("UPDATE {} SET a = a + 100", r"rows \(digest\)"),
    (
        "DELETE FROM {} WHERE c = 7; INSERT INTO {} SELECT * FROM {} WHERE c = 6",
        r": rows \(digest\)",
    ),
    ("INSERT INTO {} SELECT * FROM {} WHERE c = 6", r"class sizes, rows \(digest\)"),
)


def differing(connection: psycopg.Connection[Any], change: str) -> str:
    """What verification says of a release after a change, which is then undone."""
    with connection.transaction(force_rollback=True):
        connection.execute(change.encode())
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(b"SELECT dbanon.verify('release.t')")
    assert caught.value.sqlstate == "ZK007", change
    return str(caught.value)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_what_changed_is_said(run_sql: Run, connect: Connect, sql_url: str, kind: str) -> None:
    table = load(run_sql, kind)
    unchanged = "SELECT unchanged, digest FROM dbanon.verify('release.t')"
    assert run_sql(unchanged) == [(True, "unchanged")]
    assert verify(open_store(sql_url), parse_relation("release.t")).unchanged
    connection = connect()
    for change, parts in CHANGES:
        message = differing(connection, change.replace("{}", table))
        assert re.search(f"{parts} differ", message), (change, message)
    assert run_sql(unchanged) == [(True, "unchanged")]


def test_changed_columns_are_said(run_sql: Run, connect: Connect) -> None:
    load(run_sql)
    connection = connect()
    for change, parts in (
        ("ADD COLUMN full_name text DEFAULT 'Anna'", "columns"),
        ("RENAME COLUMN b TO d", "columns"),
        ("RENAME COLUMN a TO d", "columns"),
        ("DROP COLUMN b", "columns"),
        ("DROP COLUMN a", "columns"),
        ("ALTER COLUMN a TYPE bigint", "types"),
        ("ALTER COLUMN b TYPE varchar(20)", "types"),
        ('ALTER COLUMN b TYPE text COLLATE "POSIX"', "types"),
    ):
        message = differing(connection, f"ALTER TABLE release.t {change}")
        assert f": {parts} differ" in message, (change, message)
        assert "Anna" not in message


def test_without_a_digest_no_release_is_called_unchanged(run_sql: Run) -> None:
    load(run_sql)
    for recorded, status in (
        ("NULL", "not recorded"),
        ("'pg1:5:6:7:8'", "recorded by another version of the database"),
        ("'pg7' || substr(digest, 4)", "recorded by another version of the database"),
    ):
        run_sql(f"UPDATE dbanon.release SET digest = {recorded}")
        if recorded == "NULL":
            # At that time neither row order nor column types were recorded.
            assert run_sql("SELECT unchanged, digest FROM dbanon.verify('release.t')") == [
                (None, status)
            ]
            run_sql("UPDATE dbanon.release SET digest = 'pg1:1:2:3:4'")
            continue
        assert run_sql("SELECT unchanged, digest FROM dbanon.verify('release.t')") == [
            (None, status)
        ]


def test_settings_of_the_caller_change_nothing(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """Types whose text depends on settings are hashed independently of them, including
    nested ones.
    """
    run_sql(
        "CREATE TABLE app.t AS SELECT g / 4 AS a, ARRAY[interval '1 day 2:03', NULL] AS b,"
        " ARRAY[now()] AS c FROM generate_series(0, 39) AS g"
    )
    run_sql(CALL % "table")
    connection = connect()
    for setting in (
        "intervalstyle = 'sql_standard'",
        "timezone = 'Asia/Tokyo'",
        "datestyle = 'SQL, DMY'",
        "extra_float_digits = -5",
        "bytea_output = 'escape'",
        "search_path = pg_temp, release",
    ):
        connection.execute(f"SET {setting}".encode())
    rows = connection.execute("SELECT digest FROM dbanon.verify('release.t')").fetchall()
    assert rows == [("unchanged",)]


# -- every type of column --------------------------------------------------------------------------

# Values that must all give a row different hashes.
KINDS: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false", "NULL"),
    "smallint": ("0", "1", "-1", "NULL"),
    "integer": ("0", "1", "-1", "65536", "NULL"),
    # hashint8 gives 1 and 2^32 the same hash.
    "bigint": ("0", "1", "4294967296", "-1", "4294967295", "NULL"),
    "real": ("0", "'-0'", "'NaN'", "'inf'", "1e-30", "NULL"),
    "double precision": ("0", "'-0'", "'NaN'", "'inf'", "5e-324", "NULL"),
    "numeric": ("0", "0.0", "1", "1.0", "'NaN'", "1e100", "NULL"),
    "money": ("0", "'1.00'", "NULL"),
    "text": ("''", "'a'", "'a '", "'A'", "'NULL'", "NULL"),
    "varchar(9)": ("''", "'a'", "'a '", "NULL"),
    "bpchar": ("''", "'a'", "'a  '", "NULL"),
    'text COLLATE "und-x-icu"': ("'a'", "'A'", "'ä'", "NULL"),
    "text COLLATE app.loose": ("'a'", "'A'", "'ä'", "NULL"),
    "name": ("''", "'a'", "NULL"),
    '"char"': ("''", "'a'", "NULL"),
    "bytea": ("''", "'\\x00'", "'\\x0000'", "NULL"),
    "uuid": ("'00000000-0000-0000-0000-000000000000'", "gen_random_uuid()", "NULL"),
    "date": ("'2000-01-01'", "'infinity'", "'-infinity'", "NULL"),
    "time": ("'00:00'", "'24:00'", "NULL"),
    "timetz": ("'00:00+00'", "'01:00+01'", "NULL"),
    "timestamp": ("'2000-01-01'", "'infinity'", "NULL"),
    "timestamptz": ("'2000-01-01 00:00+00'", "'2000-01-01 00:00:01+00'", "NULL"),
    "interval": ("'0'", "'1 mon'", "'30 days'", "'720 h'", "NULL"),
    "json": ("'{}'", "'{ }'", "'null'", "NULL"),
    "jsonb": ("'{}'", "'[]'", "'1'", "'1.0'", "'null'", "NULL"),
    "xml": ("'<a/>'", "'<a></a>'", "NULL"),
    "point": ("'0,0'", "'0,-0'", "'1,0'", "NULL"),
    "inet": ("'10.0.0.1'", "'10.0.0.1/8'", "NULL"),
    "bit(3)": ("'000'", "'001'", "NULL"),
    "varbit": ("''", "'0'", "'00'", "NULL"),
    "regclass": ("'pg_class'", "'pg_type'", "NULL"),
    "integer[]": ("'{}'", "'{1}'", "'{{1}}'", "'[0:0]={1}'", "'{NULL}'", "NULL"),
    "text[]": ("'{a,b}'", "'{\"a,b\"}'", "'{NULL}'", "'{\"NULL\"}'", "NULL"),
    "int4range": ("'empty'", "'[1,2)'", "'(,2)'", "NULL"),
    "tsvector": ("''", "'a'", "'a:1'", "NULL"),
    "app.mood": ("'sad'", "'ok'", "NULL"),
    "app.pair": ("'(,)'", "'(1,)'", "'(1,\"\")'", "NULL"),
    "app.positive": ("1", "2", "NULL"),
    "app.nested": ("0", "'-0'", "1.5", "NULL"),
    "app.mood[]": ("'{sad}'", "'{ok}'", "NULL"),
}
MAKE = (
    "CREATE TYPE app.mood AS ENUM ('sad', 'ok')",
    "CREATE TYPE app.pair AS (x integer, y text)",
    "CREATE DOMAIN app.positive AS integer CHECK (VALUE > 0)",
    "CREATE DOMAIN app.fine AS double precision",
    "CREATE DOMAIN app.nested AS app.fine",
    "CREATE COLLATION app.loose"
    " (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
)


def current_digest(url: str, name: str, salt: int = 5) -> tuple[int, int]:
    with open_store(url).session(write=False) as session:
        return session.digests.of_rows(RelationName("app", name), salt)


@pytest.fixture
def kinds(run_sql: Run) -> None:
    for statement in MAKE:
        run_sql(statement)


@pytest.mark.usefixtures("kinds")
def test_values_of_every_type_are_distinguished(sql_url: str) -> None:
    """Computed by the client and by SQL, which must agree."""
    with psycopg.connect(conninfo(sql_url), autocommit=True) as owner:
        for kind, values in KINDS.items():
            cells = [(value, values[0]) for value in values]
            cells += [(values[0], value) for value in values[1:]]
            for at, (x, y) in enumerate(cells):
                owner.execute(f"CREATE TABLE app.one_{at} (x {kind}, y {kind})".encode())
                owner.execute(f"INSERT INTO app.one_{at} VALUES ({x}, {y})".encode())
            sums = set()
            with open_store(sql_url).session(write=False) as session:
                probe = session.digests.probe()
                for at, cell in enumerate(cells):
                    rows, total = session.digests.of_rows(RelationName("app", f"one_{at}"), 5)
                    assert rows == 1
                    sums.add(total)
                    [(compared,)] = owner.execute(
                        "SELECT dbanon._compare_rows(%s::regclass, %s)",
                        (f"app.one_{at}", f"pg1:5:{probe}:{rows}:{total}"),
                    )
                    assert compared == "unchanged", (kind, cell)
            assert len(sums) == len(cells), kind
            tables = ", ".join(f"app.one_{at}" for at in range(len(cells)))
            owner.execute(f"DROP TABLE {tables}".encode())


@pytest.mark.usefixtures("kinds")
def test_a_restored_dump_still_matches_its_digest(
    run_sql: Run, sql_server: Server, sql_url: str
) -> None:
    """Enums and relation names are stored as numbers, which differ after a restore."""
    body = ", ".join(f"c{i} {kind}" for i, kind in enumerate(KINDS))
    run_sql(f"CREATE TABLE app.t (a integer, {body})")
    for row in range(6):
        values = ", ".join(values[row % len(values)] for values in KINDS.values())
        run_sql(f"INSERT INTO app.t VALUES ({row % 2}, {values})")
    keep = ", ".join(f"c{i}" for i in range(len(KINDS)))
    call = (
        "SELECT rows_out FROM dbanon.mdav('app.t', 'release.{}', '{{a}}', 3, keep =>"
        f" '{{{{{keep}}}}}', options => '{{{{\"output_kind\": \"{{}}\"}}}}')"
    )
    for name, kind in (("as_table", "table"), ("as_view", "view")):
        assert run_sql(call.format(name, kind)) == [(6,)]
    with sql_server.database() as url:
        # The numbers of recreated enums differ.
        sql_server.execute("CREATE TYPE public.before AS ENUM ('a', 'b', 'c')", url=url)
        sql_server.psql(dump_of(sql_url), url=url)
        for name in ("as_table", "as_view"):
            with open_store(url).session(write=False) as session:
                [(recorded,)] = sql_server.execute(
                    "SELECT digest FROM dbanon.release WHERE output_name = %s", name, url=url
                )
                relation = RelationName("release", name)
                assert digest.compare(session, relation, recorded) == digest.UNCHANGED
            assert sql_server.execute(
                "SELECT dbanon._compare_columns(r, release_id), dbanon._compare_rows(r, digest)"
                " FROM dbanon.release, to_regclass('release.' || output_name) AS r"
                " WHERE output_name = %s",
                name,
                url=url,
            ) == [(None, "unchanged")]


def test_the_maximum_number_of_columns(run_sql: Run, sql_url: str) -> None:
    body = ", ".join(f"c{i} {'text' if i % 2 else 'bigint'}" for i in range(1600))
    run_sql(f"CREATE TABLE app.wide ({body})")
    run_sql("INSERT INTO app.wide (c0, c1599) VALUES (1, 'a'), (NULL, NULL)")
    before = current_digest(sql_url, "wide")
    assert before[0] == 2
    run_sql("UPDATE app.wide SET c801 = '' WHERE c0 = 1")
    assert current_digest(sql_url, "wide") != before
    with open_store(sql_url).session(write=False) as session:
        recorded = digest.digest_relation(session, RelationName("app", "wide"))
    assert run_sql("SELECT dbanon._compare_rows('app.wide', %s)", recorded) == [("unchanged",)]


def test_no_code_of_a_types_owner_runs(run_sql: Run, sql_server: Server, sql_url: str) -> None:
    """The digest reads values without running domain checks or enum casts."""
    for statement in (
        "CREATE SCHEMA evil",
        "CREATE TABLE evil.log (who text)",
        "CREATE FUNCTION evil.spy(anyelement) RETURNS boolean LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO evil.log VALUES (current_user); RETURN true; END$$",
        "CREATE TYPE evil.mood AS ENUM ('sad', 'ok')",
        "CREATE FUNCTION evil.as_text(evil.mood) RETURNS text LANGUAGE plpgsql AS"
        " $$BEGIN INSERT INTO evil.log VALUES (current_user); RETURN 'x'; END$$",
        "CREATE CAST (evil.mood AS text) WITH FUNCTION evil.as_text(evil.mood)",
        "CREATE DOMAIN evil.number AS double precision",
        "CREATE DOMAIN evil.big AS bigint",
        "CREATE DOMAIN evil.word AS text",
        "CREATE TYPE evil.pair AS (x evil.number, y evil.mood)",
        "CREATE TABLE app.bad (a evil.number, b evil.big, c evil.word, d evil.mood, e evil.pair,"
        " f evil.mood[])",
        "INSERT INTO app.bad VALUES (1, 2, 'x', 'sad', '(1,ok)', '{ok}'), (0, NULL, NULL, NULL,"
        " NULL, NULL)",
        "ALTER DOMAIN evil.number ADD CHECK (evil.spy(VALUE)) NOT VALID",
        "ALTER DOMAIN evil.big ADD CHECK (evil.spy(VALUE)) NOT VALID",
        "ALTER DOMAIN evil.word ADD CHECK (evil.spy(VALUE)) NOT VALID",
        "CREATE FUNCTION evil.same(evil.number, double precision) RETURNS boolean LANGUAGE plpgsql"
        " AS $$BEGIN INSERT INTO evil.log VALUES (current_user); RETURN true; END$$",
        "CREATE OPERATOR evil.= (LEFTARG = evil.number, RIGHTARG = double precision,"
        " FUNCTION = evil.same)",
    ):
        run_sql(statement)
    with open_store(sql_url).session(write=True) as session:
        recorded = digest.digest_relation(session, RelationName("app", "bad"))
    assert run_sql("SELECT dbanon._compare_rows('app.bad', %s)", recorded) == [("unchanged",)]
    assert run_sql("SELECT count(*) FROM evil.log") == [(0,)]
    # The spies work.
    run_sql("SELECT d::text, 1::float8::evil.number FROM app.bad")
    assert run_sql("SELECT count(*) > 0 FROM evil.log") == [(True,)]


# -- in general ------------------------------------------------------------------------------------

CELL = st.tuples(
    st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1, 2**32])),
    st.one_of(st.none(), st.floats(allow_nan=False), st.sampled_from([0.0, -0.0])),
    st.one_of(
        st.none(),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9),
    ),
)


@pytest.fixture
def scratch(sql_url: str, run_sql: Run) -> Iterator[Callable[[list[Any]], tuple[int, int]]]:
    """The digest of these rows."""
    run_sql("CREATE TABLE app.scratch (i bigint, f double precision, t text)")
    with psycopg.connect(conninfo(sql_url)) as connection:

        def of(rows: list[Any]) -> tuple[int, int]:
            connection.execute("TRUNCATE app.scratch")
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO app.scratch VALUES (%s, %s, %s)", rows)
            connection.commit()
            return current_digest(sql_url, "scratch")

        yield of


@settings(
    max_examples=40 if CAMPAIGN else 15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_only_the_order_of_rows_may_change(scratch: Any, data: st.DataObject) -> None:
    rows = data.draw(st.lists(CELL, min_size=1, max_size=8))
    before = scratch(rows)
    assert scratch(data.draw(st.permutations(rows))) == before
    row = data.draw(st.integers(0, len(rows) - 1))
    new = data.draw(CELL)
    changed = [*rows[:row], new, *rows[row + 1 :]]
    same = sorted(map(repr, changed)) == sorted(map(repr, rows))
    assert (scratch(changed) == before) == same
    # A duplicate of an existing row: equal rows must not cancel out.
    assert scratch([*rows, rows[row], rows[row]]) != before
