"""The SQL functions give the same results under any session settings."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.doors import sql_script
from dbanon.methods import METHODS
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from dbanon.stores.postgresql.foreign import foreign_code_query
from dbanon.stores.postgresql.settings import CLIENT_STATEMENTS, PIN_STATEMENTS
from dbanon.version import share_path
from tests.conftest import CAMPAIGN
from tests.sql.settings_table import other_values

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

MIXES = 30 if CAMPAIGN else 2
# Not combined: the first three refuse what a call does, or change the encoding of results; the
# others start a process for each statement of each function.
LEFT_OUT = frozenset(
    (
        "default_transaction_read_only",
        "restrict_nonsystem_relation_kind",
        "client_encoding",
        "force_parallel_mode",
        "debug_parallel_query",
    )
)
# Every combination has the first two. With LLVM, a low jit_above_cost compiles each expression for
# seconds.
ALWAYS = {"standard_conforming_strings": "off", "quote_all_identifiers": "on", "jit": "off"}

# Values whose text, type or meaning depends on a setting.
SOURCE = (
    "CREATE TYPE app.mood AS ENUM ('sad', 'a\\b')",
    "CREATE TABLE app.p AS SELECT g AS id, g % 7 + sin(g) AS a, (g % 11)::numeric(6, 2) AS b,"
    " (ARRAY['sad', 'a\\b'])[1 + g % 2]::app.mood AS mood, 'p\\' || g % 9 AS \"Name\","
    " timestamptz '2024-03-31 00:30+00' + g * interval '1 hour' AS at, make_interval(days => g)"
    " AS lasts, decode(lpad(to_hex(g), 4, '0'), 'hex') AS bytes, ARRAY[NULL, g::text] AS list,"
    " xmlparse(content 'a' || g) AS paper, date '2024-01-01' + g AS day,"
    " g / 3.0::float8 AS third, (g / 8.0)::money AS paid, ARRAY[1, g % 3] AS tags"
    " FROM generate_series(1, 90) AS g",
    "ALTER TABLE app.p ADD PRIMARY KEY (id)",
    "CREATE INDEX ON app.p USING gin (tags)",
    # Rows by a GIN index, dates and texts by the session's settings.
    "CREATE VIEW app.v AS SELECT id, a, b, at::date AS day, at::text AS moment, lasts::text AS"
    " span, third::text AS digits, bytes::text AS hexed FROM app.p WHERE tags @> ARRAY[1]",
    "COMMENT ON COLUMN app.p.a IS 'years. dbanon: quasi_identifier'",
    "CREATE TABLE app.tree AS SELECT * FROM (VALUES ('sad', 'low'), ('a\\b', 'high'),"
    " ('low', '*'), ('high', '*')) AS t(child, parent)",
)
KEEP = "{mood,Name,at,lasts,bytes,list,paper,day,third,paid}"

# Calls in order, by function. None returns anything random, a time, or the caller.
CALLS: dict[str, str] = {
    "version": "SELECT dbanon.version()",
    "help": "SELECT dbanon.help() AS a, dbanon.help('mdav') AS b",
    "check": "SELECT item FROM dbanon.check()",
    "declare": "SELECT * FROM dbanon.declare('app.p', '{\"b\": \"quasi_identifier\"}', true)",
    "rules": "SELECT source_name, column_name, role, rule, state FROM dbanon.rules('app.p')",
    "undeclare": "SELECT dbanon.undeclare('app.p')",
    "advise": "SELECT part, item, found FROM dbanon.advise('app.p', '{a,b}')"
    " WHERE part <> 'release'",
    "classes": "SELECT * FROM dbanon.classes('app.v', 'mdav', '{a,b}', 5, '{\"key\": [\"id\"]}')",
    "suggest_hierarchy": "SELECT dbanon.suggest_hierarchy('app.p', 'Name') AS a,"
    " dbanon.suggest_hierarchy('app.p', 'day') AS b",
    "check_hierarchy": "SELECT * FROM dbanon.check_hierarchy('{\"table\": \"app.tree\"}', 'app.p',"
    " 'Name')",
    "store_hierarchy": "SELECT leaves, height, sha256 FROM dbanon.store_hierarchy('tree',"
    ' \'{"table": "app.tree"}\', true)',
    "hierarchies": "SELECT name, leaves, nodes FROM dbanon.hierarchies()",
    "show_hierarchy": "SELECT * FROM dbanon.show_hierarchy('tree')",
    "anonymize": "SELECT f.rows_out, f.k_achieved, f.information_loss FROM dbanon.anonymize("
    "'app.v', 'release.view', '{a,b}', 5, keep => '{day,moment,span,digits,hexed}',"
    ' options => \'{"key": ["id"]}\') AS f',
    "k_anonymity": "SELECT dbanon.k_anonymity('app.v', '{day}') AS a, dbanon.k_anonymity("
    "'app.p', '{tags,mood}') AS b",
    "equivalence_classes": "SELECT * FROM dbanon.equivalence_classes('app.v', '{day}', 2)",
    "disclosure_risk": "SELECT * FROM dbanon.disclosure_risk('release.view')",
    "evaluate": "SELECT * FROM dbanon.evaluate('release.view', 'app.v')",
    "information_loss": "SELECT dbanon.information_loss('release.view', 'app.v', '{a,b}')",
    "verify": "SELECT v.k_achieved, v.rows, v.digest, v.unchanged FROM"
    " dbanon.verify('release.view') AS v",
    "verify_release": "SELECT v.k_achieved, v.rows, v.digest, v.unchanged FROM"
    " dbanon.verify_release('release.view') AS v",
    "repair": "SELECT output, action, reason FROM dbanon.repair()",
    "refresh": "SELECT f.rows_out, f.k_achieved, f.information_loss FROM"
    " dbanon.refresh('release.view') AS f",
    "releases": "SELECT output, method, k_requested, k_achieved, rows_out, information_loss,"
    " superseded, state, stale, stale_by FROM dbanon.releases(true)"
    " WHERE output = 'release.view' AND NOT superseded",
    "show": "SELECT (dbanon.show('release.view') - ARRAY['created_at', 'release_id', 'run',"
    " 'seed', 'elapsed', 'random_seed', 'published_at', 'digest', 'transaction']) ->> 'columns'",
    "internal_figures": "SELECT dbanon.internal_figures('release.view') - 'release_id'",
    "usage": "SELECT role, quota FROM dbanon.usage()",
    "gc": "SELECT count(*) FROM dbanon.gc(1)",
    "drop": "SELECT * FROM dbanon.drop('release.view')",
    "drop_hierarchy": "SELECT dbanon.drop_hierarchy('tree')",
}
# The other functions of methods have the same body; procedures are random.
METHOD = (
    "SELECT f.rows_out, f.k_achieved, f.information_loss FROM dbanon.mdav('app.p', 'release.p',"
    f" '{{a,b}}', 5, keep => '{KEEP}') AS f"
)


@pytest.fixture
def source(run_sql: Run) -> None:
    for statement in SOURCE:
        run_sql(statement)


def round_numbers(rows: list[tuple[Any, ...]]) -> list[str]:
    """Results with numbers rounded to ten digits, since the plan determines the order of sums."""
    return [
        re.sub(r"\d+\.\d{9,}(e-\d+)?", lambda number: f"{float(number[0]):.10g}", str(row))
        for row in rows
    ]


def ask(session: psycopg.Connection[Any], run_sql: Run) -> Iterator[tuple[str, object]]:
    """The results of all calls, read by a session with default settings."""
    for name, call in (*CALLS.items(), ("mdav", METHOD)):
        if name == "repair":
            # As after a restore: the digest decides whether the rows are the same.
            run_sql("UPDATE dbanon.release SET relation_oid = 1, output_oid = 1")
        session.execute(f"CREATE TABLE app.answer AS {call}".encode())
        yield name, round_numbers(run_sql("SELECT t::text FROM app.answer AS t ORDER BY 1"))
        session.execute(b"DROP TABLE app.answer")
        if name in ("anonymize", "mdav"):
            output = "release.view" if name == "anonymize" else "release.p"
            yield output, run_sql(f"SELECT t::text FROM {output} AS t ORDER BY 1")
            columns = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid ="
            yield f"types of {output}", run_sql(f"{columns} '{output}'::regclass ORDER BY attnum")
    # As another session verifies this one's release.
    yield "verify later", run_sql("SELECT v.digest FROM dbanon.verify('release.p') AS v")
    session.execute(b"SELECT dbanon.drop('release.p')")


def test_every_function_answers_the_same(source: None, run_sql: Run, connect: Connect) -> None:
    functions = {
        name
        for (name,) in run_sql(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace"
            " AND prokind = 'f' AND left(proname, 1) <> '_'"
        )
    }
    assert functions - set(METHODS) == set(CALLS)
    plain = dict(ask(connect(), run_sql))
    assert "attached" in str(plain["repair"])
    values = [value for value in other_values(run_sql) if value[0] not in LEFT_OUT]
    # The same combinations in every build; campaigns try others.
    number = random.randrange(2**32) if CAMPAIGN else 20
    chance = random.Random(number)
    for _ in range(MIXES):
        mix = dict(chance.sample(values, len(values))) | ALWAYS
        mix = {name: mix[name] for name in mix if name in ALWAYS or chance.random() < 0.5}
        session = connect()
        for name, value in mix.items():
            session.execute(b"SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
        answers = dict(ask(session, run_sql))
        wrong = [name for name in plain if answers[name] != plain[name]]
        assert wrong == [], (number, mix, wrong)
        session.close()


def test_quoted_identifiers_change_no_release(
    source: None, run_sql: Run, connect: Connect, sql_url: str
) -> None:
    """The ledger stores column types as text, which that setting would quote."""
    quoting = f"{sql_url}?options=-cquote_all_identifiers%3Don"
    session = connect(quoting)
    verified = "SELECT v.unchanged, v.digest FROM dbanon.verify('{}') AS v"
    run_sql(METHOD)
    session.execute(METHOD.replace("release.p", "release.quoted").encode())
    dbanon.anonymize(
        quoting,
        table="app.p",
        output="release.client",
        quasi_identifiers=["a", "b"],
        k=5,
        keep=["mood", "bytes", "Name"],
    )
    for release in ("release.p", "release.quoted", "release.client"):
        query = verified.format(release)
        assert run_sql(query) == [(True, "unchanged")]
        assert session.execute(query.encode()).fetchall() == [(True, "unchanged")]
        assert verify(open_store(quoting), parse_relation(release)).unchanged


def plain_literals(sql: str) -> Iterator[str]:
    """Literals with a backslash that are not written as E'…', also in function bodies."""
    without_comments = re.sub(r"^\s*--.*$", "", sql, flags=re.M)
    for escaped, literal in re.findall(r"(\b[Ee])?('(?:[^']|'')*')", without_comments):
        if not escaped and "\\" in literal:
            yield literal


def test_no_plain_literal_has_a_backslash() -> None:
    """Pinning is one protection; not depending on the settings is the other."""
    assert [*plain_literals("SELECT 'a\\d', E'\\d', 'it''s \\', $$ '\\' $$")] == [
        "'a\\d'",
        "'it''s \\'",
        "'\\'",
    ]
    for text in (
        sql_script.install_script(None),
        foreign_code_query("1::oid"),
        PIN_STATEMENTS,
        CLIENT_STATEMENTS,
    ):
        assert [*plain_literals(text)] == []
    # SQL literals cannot be distinguished from Python's own.
    for file in (share_path("sql") / "python").glob("*.sql"):
        assert "\\" not in file.read_text()
