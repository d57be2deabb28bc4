"""Attacks with rules that outlive their table or author; owners keep their own rules.

Mallory may create tables in schema app. Anna owns app.person, then and later.
"""

from __future__ import annotations

import psycopg
import pytest

import dbanon
from dbanon.errors import RulesNotFound
from tests.sql.rule_owners import (
    AGAIN,
    LEAKING,
    RELEASE,
    STATES,
    Connect,
    Run,
    not_trusted,
    released_columns,
    roles,
)
from tests.sql.test_rules import DECLARE, PERSON

__all__ = ["roles"]

pytestmark = pytest.mark.one_database


def test_rules_of_a_dropped_table_do_not_count_for_the_next_owner(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """Mallory leaves rules under an unused name; anna's release would then expose all names."""
    mallory, anna = connect(roles["mallory"]), connect(roles["anna"])
    mallory.execute(PERSON)
    mallory.execute(LEAKING.encode())
    mallory.execute("DROP TABLE app.person")
    anna.execute(PERSON)
    for session in (anna, connect()):
        with not_trusted("name", "person_id", "age"):
            session.execute(RELEASE.encode())
    assert run_sql(STATES) == [("not trusted",)]
    assert run_sql("SELECT to_regclass('release.p')") == [(None,)]
    # Her own rules replace his, which have no effect now or later.
    anna.execute(DECLARE)
    anna.execute(RELEASE.encode())
    assert released_columns(run_sql) == {"age", "diagnosis"}
    assert run_sql(STATES) == [("current",)]
    anna.execute("SELECT dbanon.undeclare('app.person')")
    with not_trusted("name"):
        anna.execute(RELEASE.replace("release.p", "release.q").encode())


def test_rules_of_missing_columns_block_no_release(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """Rules declared for a different table of that name do not block the owner."""
    mallory, anna = connect(roles["mallory"]), connect(roles["anna"])
    mallory.execute("CREATE TABLE app.person (other integer, age integer)")
    mallory.execute('SELECT dbanon.declare(\'app.person\', \'{"other": "entity", "age": "drop"}\')')
    mallory.execute("DROP TABLE app.person")
    anna.execute(PERSON)
    anna.execute(DECLARE)
    anna.execute(RELEASE.encode())
    assert run_sql("SELECT count(*) FROM dbanon.rules('app.person')") == [(4,)]


def test_rules_cannot_be_overwritten_while_the_name_is_unused(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """During a nightly rebuild the name is unused for a moment."""
    mallory, anna = connect(roles["mallory"]), connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    stored_rules = "SELECT name, rule, declared_at FROM dbanon.rule WHERE owner = 'anna' ORDER BY 1"
    before = run_sql(stored_rules)
    anna.execute("DROP TABLE app.person")
    mallory.execute(PERSON)
    with not_trusted("age"):
        mallory.execute(RELEASE.encode())
    mallory.execute(LEAKING.encode())
    mallory.execute("SELECT dbanon.undeclare('app.person')")
    mallory.execute(LEAKING.encode())
    # He may decide about his own table.
    assert mallory.execute(RELEASE.encode()).fetchall() == [(5,)]
    mallory.execute("DROP TABLE app.person")
    assert run_sql(stored_rules) == before
    anna.execute(PERSON)
    anna.execute("SELECT * FROM dbanon.mdav('app.person', 'release.r', k => 5)")
    visible_columns = run_sql(
        "SELECT attname::text FROM pg_attribute WHERE attnum > 0"
        " AND attrelid = 'release.r'::regclass ORDER BY attnum"
    )
    assert visible_columns == [("age",), ("diagnosis",)]


def test_a_rebuilt_table_of_the_same_owner_keeps_its_rules_without_a_notice(
    roles: dict[str, str], connect: Connect
) -> None:
    anna, heard = connect(roles["anna"]), []
    anna.execute(PERSON)
    anna.execute(DECLARE)
    for build in (
        "DROP TABLE app.person; " + PERSON,
        # As dbt does.
        PERSON.replace("app.person", "app.person_tmp")
        + "; ALTER TABLE app.person RENAME TO person_backup;"
        " ALTER TABLE app.person_tmp RENAME TO person; DROP TABLE app.person_backup",
    ):
        anna.execute(build.encode())
        anna.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
        anna.execute("DROP TABLE IF EXISTS release.p, release.p_summary")
        assert anna.execute(AGAIN.format("p").encode()).fetchall() == [(5,)]
        assert anna.execute(STATES).fetchall() == [("current",)]
    assert not [text for text in heard if "another table" in text]


def test_rules_follow_a_renamed_table_and_leave_its_name(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    anna, mallory = connect(roles["anna"]), connect(roles["mallory"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    anna.execute("ALTER TABLE app.person RENAME TO people")
    again = AGAIN.replace("app.person", "{}")
    anna.execute(again.format("app.people", "one").encode())
    # Neither her next table with the old name nor anybody else's gets them; the error says why.
    for owner in (mallory, anna):
        owner.execute(PERSON)
        with pytest.raises(psycopg.Error, match="No rules are declared") as refused:
            owner.execute(RELEASE.encode())
        assert "app.people" in str(refused.value.diag.message_hint)
        with pytest.raises(RulesNotFound, match=r"app\.people"):
            dbanon.anonymize(
                roles["anna"], table="app.person", declared=True, k=5, output="release.q"
            )
        owner.execute("DROP TABLE app.person")
    run_sql("ALTER SCHEMA app RENAME TO clinic")
    anna.execute(again.format("clinic.people", "two").encode())
    # After the next declaration the ledger has the new name, and keeps it longer than the table.
    anna.execute("""SELECT dbanon.declare('clinic.people', '{"age": "quasi_identifier"}')""")
    assert run_sql("SELECT DISTINCT source FROM dbanon.rule") == [("clinic.people",)]
    anna.execute("DROP TABLE clinic.people")
    anna.execute(PERSON.replace("app.person", "clinic.people"))
    anna.execute(again.format("clinic.people", "three").encode())


def test_two_tables_exchange_their_names_with_their_rules(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    anna = connect(roles["anna"])
    for name, role in (("a", "drop"), ("b", "identifier")):
        anna.execute(f"CREATE TABLE app.{name} (x integer, y integer)")
        anna.execute(f"SELECT dbanon.declare('app.{name}', '{{\"x\": \"{role}\"}}')")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        anna.execute(f"ALTER TABLE app.{old} RENAME TO {new}")
    anna.execute("""SELECT dbanon.declare('app.a', '{"y": "quasi_identifier"}')""")
    rules_query = "SELECT column_name, role FROM dbanon.rules('app.{}') ORDER BY 1"
    assert run_sql(rules_query.format("a")) == [("x", "identifier"), ("y", "quasi_identifier")]
    assert run_sql(rules_query.format("b")) == [("x", "drop"), ("y", None)]
    assert run_sql("SELECT source, name FROM dbanon.rule ORDER BY 1, 2") == [
        ("app.a", "x"),
        ("app.a", "y"),
        ("app.b", "x"),
    ]


def test_a_former_owners_rules_wait_for_the_new_owner(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    anna, bob = connect(roles["anna"]), connect(roles["bob"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("ALTER TABLE app.person OWNER TO bob")
    for refused in (anna, bob, connect()):
        if refused is anna:
            run_sql("GRANT SELECT ON app.person TO anna")
        with not_trusted("age", "diagnosis", "name", "person_id"):
            refused.execute(RELEASE.encode())
    with pytest.raises(psycopg.Error, match="declared by its owner"):
        anna.execute(DECLARE)
    # Declaring some anew leaves the others unchanged.
    bob.execute("""SELECT dbanon.declare('app.person', '{"age": "quasi_identifier"}')""")
    with pytest.raises(psycopg.Error) as waiting:
        bob.execute(RELEASE.encode())
    assert '"age"' not in str(waiting.value.diag.message_detail)
    hint = str(waiting.value.diag.message_hint)
    statement = hint[hint.index("SELECT dbanon.declare") :]
    bob.execute(statement.encode())
    assert bob.execute(RELEASE.encode()).fetchall() == [(5,)]
    assert run_sql("SELECT count(*), min(owner) FROM dbanon.rule") == [(4, "bob")]


def test_the_new_owner_may_remove_former_rules(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    anna, bob = connect(roles["anna"]), connect(roles["bob"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("ALTER TABLE app.person OWNER TO bob")
    assert bob.execute("SELECT dbanon.undeclare('app.person', '{name}')").fetchall() == [(0,)]
    assert bob.execute("SELECT dbanon.undeclare('app.person')").fetchall() == [(0,)]
    assert run_sql("SELECT count(*) FROM dbanon.rule") == [(0,)]


KINDS = {
    "view": "CREATE VIEW app.p AS SELECT * FROM app.person",
    "materialized view": "CREATE MATERIALIZED VIEW app.p AS SELECT * FROM app.person",
    "partitioned table": (
        "CREATE TABLE app.p (LIKE app.person) PARTITION BY LIST (diagnosis);"
        " CREATE TABLE app.p_all PARTITION OF app.p DEFAULT;"
        " INSERT INTO app.p SELECT * FROM app.person"
    ),
}
DROP = (
    "DO $$ BEGIN EXECUTE (SELECT format('DROP %s app.p CASCADE', CASE relkind WHEN 'v' THEN 'VIEW'"
    " WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END) FROM pg_class"
    " WHERE oid = 'app.p'::regclass); END $$"
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_relation(
    roles: dict[str, str], run_sql: Run, connect: Connect, kind: str
) -> None:
    """Left by mallory, recreated by anna, and given to bob."""
    anna, mallory = connect(roles["anna"]), connect(roles["mallory"])
    anna.execute(PERSON)
    run_sql("GRANT SELECT ON app.person TO mallory, bob")
    options = "" if kind == "partitioned table" else """, options => '{"key": ["person_id"]}'"""
    call = f"SELECT k_achieved FROM dbanon.mdav('app.p', 'release.p', k => 5{options})"
    mallory.execute(KINDS[kind].encode())
    mallory.execute(LEAKING.replace("app.person", "app.p").encode())
    mallory.execute(DROP)
    anna.execute(KINDS[kind].encode())
    with not_trusted("name"):
        anna.execute(call.encode())
    anna.execute(DECLARE.replace("app.person", "app.p"))
    anna.execute(call.encode())
    assert released_columns(run_sql) == {"age", "diagnosis"}
    anna.execute("ALTER TABLE app.p RENAME TO q")
    assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.q')") == [("current",)]
    anna.execute("ALTER TABLE app.q RENAME TO p")
    if kind == "partitioned table":
        # A partition is its own relation.
        assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.p_all')") == [("no rule",)]
    run_sql("ALTER TABLE app.p OWNER TO bob")
    with not_trusted("name"):
        run_sql(call.replace("release.p", "release.q"))


def test_rules_are_only_written_through_the_function(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """Nor a member of dbanon_admin, who may only delete some."""
    anna = connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("GRANT dbanon_admin TO mallory")
    mallory = connect(roles["mallory"])
    for statement in (
        "UPDATE dbanon.rule SET owner_oid = 10",
        'UPDATE dbanon.rule SET rule = \'{"role": "drop"}\'',
        "INSERT INTO dbanon.rule SELECT source, name, rule, declared_at, declared_by, 1, owner_oid,"
        " owner, declarer_oid, ledger_oid FROM dbanon.rule",
        "TRUNCATE dbanon.rule",
    ):
        with pytest.raises(psycopg.Error) as refused:
            mallory.execute(statement.encode())
        assert refused.value.sqlstate == "42501"
    assert mallory.execute("DELETE FROM dbanon.rule WHERE name = 'name'").rowcount == 1
    with pytest.raises(psycopg.Error, match="columns without a rule"):
        anna.execute(RELEASE.encode())
