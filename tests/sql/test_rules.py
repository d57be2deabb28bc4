"""Rules stored in SQL: declared once, used by calls without a list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dbanon.doors import install
from dbanon.job.rules import ROLES

SQL = Path(__file__).resolve().parents[2] / "sql" / "functions"
Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

pytestmark = pytest.mark.one_database

PERSON = (
    "CREATE TABLE app.person AS SELECT g AS person_id, 'n' || g AS name, 20 + g % 40 AS age,"
    " (ARRAY['flu', 'cold', 'none'])[1 + g % 3] AS diagnosis FROM generate_series(1, 120) AS g"
)
RULES = (
    '{"age": "quasi_identifier", "person_id": "entity", "name": "identifier",'
    ' "diagnosis": {"role": "sensitive", "model": {"distinct_l": 2}}}'
)
DECLARE = f"SELECT column_name, role FROM dbanon.declare('app.person', '{RULES}')"


def test_declared_once_and_released_without_a_list(run_sql: Run) -> None:
    run_sql(PERSON)
    assert run_sql(DECLARE) == [
        ("person_id", "entity"),
        ("name", "identifier"),
        ("age", "quasi_identifier"),
        ("diagnosis", "sensitive"),
    ]
    [(rows, smallest)] = run_sql(
        "SELECT rows_out, k_achieved FROM dbanon.mdav('app.person', 'release.person', k => 5)"
    )
    assert (rows, smallest >= 5) == (120, True)
    named = run_sql(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'release.person'::regclass"
        " AND attnum > 0 ORDER BY attnum"
    )
    assert named == [("age",), ("diagnosis",)]
    [(digest, model, entity)] = run_sql(
        "SELECT arguments ->> 'declared', arguments #>> '{models,0,kind}', arguments ->> 'entity'"
        " FROM dbanon.release"
    )
    assert (len(digest), model, entity) == (64, "distinct_l", "person_id")


def test_each_key_of_a_rule_can_be_declared(run_sql: Run) -> None:
    """The function that writes rules lists the keys itself, so it must know all of them."""
    listed = (SQL / "_write_rules.sql").read_text(encoding="utf-8")
    [roles] = re.findall(r"roles constant jsonb := '(.*?)';", listed, re.S)
    assert json.loads(roles) == {role: ["role", *keys] for role, keys in ROLES.items()}
    run_sql(PERSON)
    rules = (
        '{"age": {"role": "quasi_identifier", "kind": "nominal"},'
        ' "person_id": {"role": "entity", "normalize": "trim"}}'
    )
    declared = run_sql(f"SELECT column_name FROM dbanon.declare('app.person', '{rules}')")
    assert sorted(declared) == [("age",), ("person_id",)]


def test_a_column_without_a_rule_halts_and_a_rule_without_a_column_too(run_sql: Run) -> None:
    run_sql(PERSON)
    run_sql(DECLARE)
    run_sql("ALTER TABLE app.person ADD COLUMN note text")
    call = "SELECT * FROM dbanon.mdav('app.person', 'release.person', k => 5)"
    with pytest.raises(psycopg.Error, match="columns without a rule") as refused:
        run_sql(call)
    assert refused.value.sqlstate == "ZK005"
    assert refused.value.diag.message_detail == 'Without a rule: "note".'
    run_sql("""SELECT * FROM dbanon.declare('app.person', '{"note": "drop"}')""")
    run_sql("ALTER TABLE app.person DROP COLUMN note")
    assert run_sql("SELECT state FROM dbanon.rules('app.person') WHERE column_name = 'note'") == [
        ("no column",)
    ]
    with pytest.raises(
        psycopg.Error, match="does not have all columns that have a rule"
    ) as failure:
        run_sql(call)
    assert failure.value.sqlstate == "ZK005"
    assert run_sql("SELECT dbanon.undeclare('app.person', '{note}')") == [(4,)]
    run_sql(call)


def test_without_rules_a_list_is_needed(run_sql: Run) -> None:
    run_sql(PERSON)
    with pytest.raises(psycopg.Error, match="No rules are declared") as refused:
        run_sql("SELECT * FROM dbanon.mdav('app.person', 'release.person', k => 5)")
    assert refused.value.sqlstate == "42704"
    run_sql(DECLARE)
    with pytest.raises(psycopg.Error, match="keep cannot be combined with rules"):
        run_sql("SELECT * FROM dbanon.mdav('app.person', 'release.p', k => 5, keep => '{name}')")
    with pytest.raises(psycopg.Error, match="k must be") as missing:
        run_sql("SELECT * FROM dbanon.mdav('app.person', 'release.p')")
    assert missing.value.sqlstate == "22023"


def test_rules_go_with_their_table(
    run_sql: Run, connect: Connect, sql_url: str, backend_path: Path
) -> None:
    """Later they apply to the next table of the name; those of another owner's table are listed."""
    run_sql(PERSON)
    run_sql(DECLARE)
    run_sql("ALTER TABLE app.person RENAME TO people")
    run_sql("SELECT * FROM dbanon.mdav('app.people', 'release.p', k => 5)")
    assert run_sql("SELECT DISTINCT source_name, state FROM dbanon.rules()") == [
        ("app.people", "current")
    ]
    run_sql("DROP TABLE app.people")
    assert run_sql("SELECT DISTINCT source_name, state FROM dbanon.rules()") == [
        ("app.person", "no table")
    ]
    run_sql(PERSON)
    assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.person')") == [("current",)]
    # Declared by a member of the current owner, for a table that is gone.
    run_sql("CREATE ROLE clinic NOLOGIN")
    run_sql("CREATE ROLE nurse NOLOGIN IN ROLE clinic")
    run_sql("ALTER TABLE app.person OWNER TO nurse")
    run_sql(DECLARE)
    run_sql("DROP TABLE app.person")
    run_sql(PERSON)
    run_sql("ALTER TABLE app.person OWNER TO clinic")
    assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.person')") == [("another table",)]
    session, heard = connect(), []
    session.add_notice_handler(lambda notice: heard.append(notice.message_primary))
    session.execute("SELECT dbanon.mdav('app.person', 'release.q', k => 5)")
    assert any("another table of this name" in str(message) for message in heard)
    # Only the owner can confirm that they apply to this table.
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    run_sql("""SELECT dbanon.declare('app.person', '{"age": "quasi_identifier"}')""")
    assert run_sql("SELECT count(*) FROM dbanon.rules('app.person') WHERE state = 'current'") == [
        (1,)
    ]
    run_sql(DECLARE)
    assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.person')") == [("current",)]
    run_sql("DROP TABLE app.person")
    run_sql("DROP ROLE nurse, clinic")


def test_comments_are_read_where_wanted(run_sql: Run) -> None:
    run_sql(PERSON)
    run_sql("COMMENT ON COLUMN app.person.age IS 'In years.\n dbanon: quasi_identifier '")
    run_sql(
        "COMMENT ON COLUMN app.person.diagnosis IS"
        ' \'dbanon: {"role": "sensitive", "model": {"distinct_l": 2}}\''
    )
    run_sql("COMMENT ON COLUMN app.person.person_id IS 'as dbanon: sees it'")
    rows = run_sql(
        "SELECT column_name, rule::text FROM dbanon.declare('app.person', from_comments => true)"
    )
    assert rows == [
        ("age", '{"role": "quasi_identifier"}'),
        ("diagnosis", '{"role": "sensitive", "model": {"distinct_l": 2}}'),
    ]
    comment_query = "SELECT col_description('app.person'::regclass, 1)"
    assert run_sql(comment_query) == [("as dbanon: sees it",)]
    run_sql("SELECT dbanon.undeclare('app.person')")
    assert run_sql("SELECT * FROM dbanon.rules()") == []


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ('{"age": "quasi"}', "an unknown role"),
        ('{"age": {"role": "keep"}}', "kept without a reason"),
        ('{"age": {"role": "drop", "key": 1}}', "has a key that the role"),
        ('{"age": {"role": "quasi_identifier", "hierarchy": {"file": "x"}}}', "one key that says"),
        ('{"age": {"role": "sensitive", "model": {"l": 2}}}', "an unknown privacy model"),
        ('{"age": "entity", "name": "entity"}', "More than one column has the role entity"),
        ('{"agee": "drop"}', "no column agee"),
        ("[1]", "must be an object"),
        ("{}", "no rule to declare"),
    ],
)
def test_wrong_rules_are_refused(run_sql: Run, rules: str, words: str) -> None:
    run_sql(PERSON)
    with pytest.raises(psycopg.Error, match=words):
        run_sql(f"SELECT * FROM dbanon.declare('app.person', '{rules}')")
    assert run_sql("SELECT count(*) FROM dbanon.rule") == [(0,)]


def test_the_general_call_is_that_of_the_method(run_sql: Run) -> None:
    run_sql(PERSON)
    run_sql(DECLARE)
    options = '{{"seed": 3, "releases": "independent"}}'
    template = f"'app.person', 'release.{{}}', k => 5, options => '{options}'"
    run_sql(f"SELECT dbanon.anonymize({template.format('one')}, method => 'mondrian')")
    run_sql(f"SELECT dbanon.mondrian({template.format('other')})")
    [(methods, arguments)] = run_sql(
        "SELECT array_agg(DISTINCT method), count(DISTINCT arguments - 'joint_histories')"
        " FROM dbanon.release"
    )
    assert (methods, arguments) == (["mondrian"], 1)
    run_sql("SELECT dbanon.anonymize('app.person', 'release.third', '{age}', 5)")
    for wrong, state in (("'mdaw'", "22023"), ("NULL", "22004"), ("'dp_ranks'", "22023")):
        with pytest.raises(psycopg.Error) as failure:
            run_sql(f"SELECT dbanon.anonymize({template.format('no')}, method => {wrong})")
        assert failure.value.sqlstate == state
