"""Attacks by rules that outlive their table or their author, and what legitimate owners keep.

Mallory may create tables in schema app. Anna is the owner of app.person, then and later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.doors import install
from dbanon.doors.cli.main import main
from dbanon.errors import RulesNotFound, RulesNotTrusted
from tests.postgres_server import Server
from tests.sql.test_rules import DECLARE, PERSON

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

pytestmark = pytest.mark.one_database

# Everything that a table's owner should not have released.
LEAK = (
    '{"age": "quasi_identifier", "person_id": {"role": "keep", "reason": "x"},'
    ' "name": {"role": "keep", "reason": "x"}, "diagnosis": {"role": "keep", "reason": "x"}}'
)
LEAKING = f"SELECT * FROM dbanon.declare('app.person', '{LEAK}')"
RELEASE = "SELECT k_achieved FROM dbanon.mdav('app.person', 'release.p', k => 5)"
STATES = "SELECT DISTINCT state FROM dbanon.rules('app.person')"


@pytest.fixture
def roles(run_sql: Run, sql_role: Role) -> dict[str, str]:
    """URLs of anna, bob and mallory, who run dbanon and may create tables in app."""
    urls = {name: sql_role(name) for name in ("anna", "bob", "mallory")}
    for name in urls:
        run_sql(f"GRANT CREATE ON SCHEMA app TO {name}")
    return urls


@contextmanager
def not_trusted(*columns: str) -> Iterator[None]:
    """A statement that is refused because rules are not trusted, of these columns."""
    with pytest.raises(psycopg.Error, match="not declared by its owner of today") as refused:
        yield
    assert refused.value.sqlstate == "42501"
    detail = str(refused.value.diag.message_detail)
    assert all(f'"{name}"' in detail for name in columns)


def released_columns(run_sql: Run) -> set[str]:
    return {
        name
        for (name,) in run_sql(
            "SELECT attname::text FROM pg_attribute WHERE attrelid = 'release.p'::regclass"
            " AND attnum > 0"
        )
    }


def test_rules_of_a_dropped_table_do_not_count_for_the_next_owner(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """Mallory leaves rules behind under a free name; anna's release would show all names."""
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
    # Her own rules take their place, and all that he left has no effect, now and later.
    anna.execute(DECLARE)
    anna.execute(RELEASE.encode())
    assert released_columns(run_sql) == {"age", "diagnosis"}
    assert run_sql(STATES) == [("current",)]
    anna.execute("SELECT dbanon.undeclare('app.person')")
    with not_trusted("name"):
        anna.execute(RELEASE.replace("release.p", "release.q").encode())


def test_rules_of_columns_that_are_not_there_stop_nobody(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """What others declared under the name of a table of another form hinders no owner."""
    mallory, anna = connect(roles["mallory"]), connect(roles["anna"])
    mallory.execute("CREATE TABLE app.person (other integer, age integer)")
    mallory.execute(
        "SELECT dbanon.declare('app.person', '{\"other\": \"entity\", \"age\": \"drop\"}')"
    )
    mallory.execute("DROP TABLE app.person")
    anna.execute(PERSON)
    anna.execute(DECLARE)
    anna.execute(RELEASE.encode())
    assert run_sql("SELECT count(*) FROM dbanon.rules('app.person')") == [(4,)]


def test_nobody_overwrites_rules_while_the_name_is_free(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """In a nightly rebuild the name is free for a moment."""
    mallory, anna = connect(roles["mallory"]), connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    kept = "SELECT name, rule, declared_at FROM dbanon.rule WHERE owner = 'anna' ORDER BY 1"
    before = run_sql(kept)
    anna.execute("DROP TABLE app.person")
    mallory.execute(PERSON)
    with not_trusted("age"):
        mallory.execute(RELEASE.encode())
    mallory.execute(LEAKING.encode())
    mallory.execute("SELECT dbanon.undeclare('app.person')")
    mallory.execute(LEAKING.encode())
    # Of his own table he decides.
    assert mallory.execute(RELEASE.encode()).fetchall() == [(5,)]
    mallory.execute("DROP TABLE app.person")
    assert run_sql(kept) == before
    anna.execute(PERSON)
    anna.execute("SELECT * FROM dbanon.mdav('app.person', 'release.r', k => 5)")
    shown = run_sql("SELECT attname::text FROM pg_attribute WHERE attnum > 0"
                    " AND attrelid = 'release.r'::regclass ORDER BY attnum")  # fmt: skip
    assert shown == [("age",), ("diagnosis",)]


def test_a_rebuilt_table_of_the_same_owner_keeps_its_rules_without_a_notice(
    roles: dict[str, str], connect: Connect
) -> None:
    anna, heard = connect(roles["anna"]), []
    anna.execute(PERSON)
    anna.execute(DECLARE)
    for build in (
        "DROP TABLE app.person; " + PERSON,
        # As dbt does it.
        PERSON.replace("app.person", "app.person_tmp")
        + "; ALTER TABLE app.person RENAME TO person_backup;"
        " ALTER TABLE app.person_tmp RENAME TO person; DROP TABLE app.person_backup",
    ):
        anna.execute(build.encode())
        anna.add_notice_handler(lambda found: heard.append(str(found.message_primary)))
        anna.execute("DROP TABLE IF EXISTS release.p, release.p_summary")
        assert anna.execute(RELEASE.encode()).fetchall() == [(5,)]
        assert anna.execute(STATES).fetchall() == [("current",)]
    assert not [text for text in heard if "another table" in text]


def test_rules_follow_a_renamed_table_and_leave_its_name(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    anna, mallory = connect(roles["anna"]), connect(roles["mallory"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    anna.execute("ALTER TABLE app.person RENAME TO people")
    call = "SELECT k_achieved FROM dbanon.mdav('{}', 'release.{}', k => 5)"
    anna.execute(call.format("app.people", "one"))
    # Neither her next table of the old name nor anybody's has them, and the error says why.
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
    anna.execute(call.format("clinic.people", "two"))
    # From the next declaration on the new name is in the ledger: it outlives the table.
    anna.execute("""SELECT dbanon.declare('clinic.people', '{"age": "quasi_identifier"}')""")
    assert run_sql("SELECT DISTINCT source FROM dbanon.rule") == [("clinic.people",)]
    anna.execute("DROP TABLE clinic.people")
    anna.execute(PERSON.replace("app.person", "clinic.people"))
    anna.execute(call.format("clinic.people", "three"))


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
    found = "SELECT column_name, role FROM dbanon.rules('app.{}') ORDER BY 1"
    assert run_sql(found.format("a")) == [("x", "identifier"), ("y", "quasi_identifier")]
    assert run_sql(found.format("b")) == [("x", "drop"), ("y", None)]
    assert run_sql("SELECT source, name FROM dbanon.rule ORDER BY 1, 2") == [
        ("app.a", "x"), ("app.a", "y"), ("app.b", "x"),
    ]  # fmt: skip


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
    # Some declared anew leave the others as they are.
    bob.execute("""SELECT dbanon.declare('app.person', '{"age": "quasi_identifier"}')""")
    with pytest.raises(psycopg.Error) as waiting:
        bob.execute(RELEASE.encode())
    assert '"age"' not in str(waiting.value.diag.message_detail)
    hint = str(waiting.value.diag.message_hint)
    statement = hint[hint.index("SELECT dbanon.declare") :]
    bob.execute(statement.encode())
    assert bob.execute(RELEASE.encode()).fetchall() == [(5,)]
    assert run_sql("SELECT count(*), min(owner) FROM dbanon.rule") == [(4, "bob")]


def test_the_new_owner_may_remove_what_the_former_declared(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    anna, bob = connect(roles["anna"]), connect(roles["bob"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("ALTER TABLE app.person OWNER TO bob")
    assert bob.execute("SELECT dbanon.undeclare('app.person', '{name}')").fetchall() == [(0,)]
    assert bob.execute("SELECT dbanon.undeclare('app.person')").fetchall() == [(0,)]
    assert run_sql("SELECT count(*) FROM dbanon.rule") == [(0,)]


def test_a_member_declares_for_the_owner_as_long_as_it_is_one(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    run_sql("CREATE ROLE clinic NOLOGIN")
    run_sql("GRANT clinic TO anna, bob")
    run_sql(PERSON)
    run_sql("ALTER TABLE app.person OWNER TO clinic")
    anna, bob = connect(roles["anna"]), connect(roles["bob"])
    anna.execute(DECLARE)
    assert bob.execute(RELEASE.encode()).fetchall() == [(5,)]
    # Each member may change what another declared.
    bob.execute("""SELECT dbanon.declare('app.person', '{"name": "drop"}')""")
    run_sql("REVOKE clinic FROM anna")
    with pytest.raises(psycopg.Error) as refused:
        bob.execute(RELEASE.encode())
    assert refused.value.sqlstate == "42501"
    assert '"name"' not in str(refused.value.diag.message_detail)
    # Who owned the table as a member is a member of the owner now.
    run_sql("GRANT clinic TO anna")
    run_sql("ALTER TABLE app.person OWNER TO anna")
    anna.execute(DECLARE)
    run_sql("ALTER TABLE app.person OWNER TO clinic")
    bob.execute("SELECT * FROM dbanon.mdav('app.person', 'release.q', k => 5)")
    # Not the other way: what belongs to the group says nothing of its member's own tables.
    bob.execute(DECLARE)
    run_sql("ALTER TABLE app.person OWNER TO anna")
    with not_trusted("age", "name"):
        run_sql(RELEASE.replace("release.p", "release.r"))
    run_sql("DROP OWNED BY clinic")
    run_sql("DROP ROLE clinic")


def test_a_member_without_inheritance_declares_after_set_role(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    run_sql("ALTER ROLE bob NOINHERIT")
    run_sql("GRANT anna TO bob")
    connect(roles["anna"]).execute(PERSON)
    bob = connect(roles["bob"])
    bob.execute("SET ROLE anna")
    bob.execute(DECLARE)
    assert run_sql("SELECT DISTINCT declared_by, owner FROM dbanon.rule") == [("bob", "anna")]
    assert bob.execute(RELEASE.encode()).fetchall() == [(5,)]


def test_who_logged_in_is_not_credited_with_rules_of_a_function(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """A superuser who calls mallory's function declares nothing with a superuser's authority."""
    mallory = connect(roles["mallory"])
    mallory.execute(PERSON)
    mallory.execute(
        "CREATE FUNCTION app.helpful() RETURNS integer LANGUAGE plpgsql SECURITY DEFINER AS $$"
        f" BEGIN PERFORM dbanon.declare('app.person', '{LEAK}'); RETURN 1; END $$".encode()
    )
    run_sql("GRANT EXECUTE ON FUNCTION app.helpful() TO PUBLIC")
    run_sql("SELECT app.helpful()")
    connect(roles["anna"]).execute("SELECT app.helpful()")
    mallory.execute("DROP TABLE app.person")
    connect(roles["anna"]).execute(PERSON)
    with not_trusted("name"):
        run_sql(RELEASE)
    assert run_sql("SELECT DISTINCT declared_by, owner FROM dbanon.rule") == [
        ("mallory", "mallory")
    ]


def test_superusers(
    roles: dict[str, str], run_sql: Run, connect: Connect, sql_server: Server
) -> None:
    """A superuser acts as each owner. What it declared of a table of its own is not for others."""
    anna = connect(roles["anna"])
    run_sql(PERSON)
    run_sql(LEAKING)
    run_sql("DROP TABLE app.person")
    anna.execute(PERSON)
    with not_trusted("name"):
        anna.execute(RELEASE.encode())
    run_sql(DECLARE)
    assert anna.execute(RELEASE.encode()).fetchall() == [(5,)]
    anna.execute("DROP TABLE app.person")
    anna.execute(PERSON)
    anna.execute("SELECT * FROM dbanon.mdav('app.person', 'release.q', k => 5)")
    # One that is none any more had its say.
    run_sql("ALTER ROLE bob SUPERUSER")
    connect(roles["bob"]).execute(DECLARE)
    run_sql(RELEASE.replace("release.p", "release.r"))
    run_sql("ALTER ROLE bob NOSUPERUSER")
    with not_trusted("age"):
        run_sql(RELEASE.replace("release.p", "release.s"))


def test_a_role_of_the_same_name_is_another_role(
    roles: dict[str, str], run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    """Anna left; a new colleague of this name gets her table's name, and not her rules."""
    anna = connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(LEAKING.encode())
    anna.close()
    run_sql("DROP OWNED BY anna")
    run_sql("DROP ROLE anna")
    url = sql_role("anna")
    run_sql("GRANT CREATE ON SCHEMA app TO anna")
    another = connect(url)
    another.execute(PERSON)
    with not_trusted("name"):
        another.execute(RELEASE.encode())


def test_a_renamed_role_keeps_its_rules(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    connect(roles["bob"]).execute(PERSON)
    connect(roles["bob"]).execute(DECLARE)
    try:
        run_sql("ALTER ROLE bob RENAME TO robert")
        run_sql(RELEASE)
        # Whoever has the old name now could be meant, in a database that has other oids.
        run_sql("ALTER ROLE mallory RENAME TO bob")
        with not_trusted("name"):
            run_sql(RELEASE.replace("release.p", "release.q"))
    finally:
        for now, then in (("bob", "mallory"), ("robert", "bob")):
            if run_sql(f"SELECT to_regrole('{now}') IS NOT NULL") == [(True,)]:
                run_sql(f"ALTER ROLE {now} RENAME TO {then}")


def test_restored_rules_go_by_names_until_an_upgrade(
    roles: dict[str, str], run_sql: Run, connect: Connect, sql_url: str, backend_path: Path
) -> None:
    """As after pg_restore in another cluster, where mallory has the oid that anna had before."""
    anna, mallory = connect(roles["anna"]), connect(roles["mallory"])
    anna.execute(PERSON)
    anna.execute(LEAKING.encode())
    run_sql(
        "UPDATE dbanon.rule SET ledger_oid = 1, owner_oid = 'mallory'::regrole::oid::bigint,"
        " declarer_oid = owner_oid, relation_oid = 2"
    )
    assert run_sql(STATES) == [("another table",)]
    assert anna.execute(RELEASE.encode()).fetchall() == [(5,)]
    # The table of that oid is another one here.
    mallory.execute(PERSON.replace("app.person", "app.other"))
    run_sql("UPDATE dbanon.rule SET relation_oid = 'app.other'::regclass::oid::bigint")
    assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.other')") == [("no rule",)]
    anna.execute("DROP TABLE app.person")
    mallory.execute(PERSON)
    with not_trusted("name"):
        mallory.execute(RELEASE.replace("release.p", "release.q").encode())
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    assert run_sql("SELECT DISTINCT ledger_oid FROM dbanon.rule") == [(1,)]
    mallory.execute("DROP TABLE app.person")
    anna.execute(PERSON)
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    assert run_sql(STATES) == [("current",)]
    anna.execute("ALTER TABLE app.person RENAME TO moved")
    assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.moved')") == [("current",)]
    # A second upgrade writes the name, by which they go once the table is gone.
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    assert run_sql("SELECT DISTINCT source, owner FROM dbanon.rule") == [("app.moved", "anna")]


def test_restored_rules_of_roles_that_are_not_there(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """A dump without owners gives all tables to whoever restores it."""
    anna = connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("UPDATE dbanon.rule SET ledger_oid = 1, owner = 'somebody', relation_oid = 2")
    for owner in ("anna", "CURRENT_USER"):
        run_sql(f"ALTER TABLE app.person OWNER TO {owner}")
        with not_trusted("name"):
            run_sql(RELEASE)


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
    """Left behind by mallory, made anew by anna, and given to bob."""
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
        # A part is a relation of its own.
        assert run_sql("SELECT DISTINCT state FROM dbanon.rules('app.p_all')") == [("no rule",)]
    run_sql("ALTER TABLE app.p OWNER TO bob")
    with not_trusted("name"):
        run_sql(call.replace("release.p", "release.q"))


def test_at_every_door(roles: dict[str, str], run_sql: Run, connect: Connect, tmp_path: Any) -> None:
    """Python, command line, job files, plans, clusters and refreshes refuse alike."""
    from click.testing import CliRunner

    from dbanon.doors.engines import Engine
    from dbanon.job.job import Job
    from dbanon.job.rules import BY_RULES

    anna = connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    anna.execute(RELEASE.encode())
    run_sql("GRANT USAGE ON SCHEMA release TO PUBLIC")
    run_sql("ALTER TABLE app.person OWNER TO bob")
    run_sql("GRANT SELECT ON app.person TO anna")
    url = roles["anna"]
    wanted: dict[str, Any] = {"table": "app.person", "declared": True, "k": 5,
                              "output": "release.q"}  # fmt: skip
    for call in (
        lambda: dbanon.anonymize(url, **wanted),
        lambda: dbanon.plan(url, **wanted),
        lambda: dbanon.refresh(url, "release.p"),
        lambda: dbanon.refresh(url, "release.p", accept=["rules", "source"]),
        lambda: Engine("spark", "local[1]").run(
            Job(table="app.person", output="release.q", quasi_identifiers=(), declared=BY_RULES,
                policy=dbanon.Policy(k=5)), url, url,
        ),
    ):  # fmt: skip
        with pytest.raises(RulesNotTrusted) as refused:
            call()
        assert (refused.value.exit_code, refused.value.sqlstate) == (5, "42501")
        assert "dbanon.declare(database" in str(refused.value.hint)
    for statement in ("SELECT dbanon.refresh('release.p')",
                      "SELECT dbanon.refresh('release.p', '{rules,source}')",
                      "SELECT dbanon.anonymize('app.person', 'release.q', k => 5)"):  # fmt: skip
        with not_trusted("name"):
            anna.execute(statement.encode())
    job = tmp_path / "job.yaml"
    job.write_text(
        f"version: 1\nsource: {{url: '{url}'}}\njobs:\n  - {{name: person, table: app.person, k: 5,"
        " columns: declared, output: {table: release.q}}\n"
    )
    asked = ["--table", "app.person", "--k", "5", "--declared", "--output", "release.q"]
    for line in (
        ["anonymize", url, *asked], ["plan", url, *asked], ["refresh", url, "release.p"],
        ["run", str(job), "--allow-inline-password"],
        ["plan", str(job), "--allow-inline-password"],
    ):  # fmt: skip
        done = CliRunner().invoke(main, line)
        assert (done.exit_code, "rules_not_trusted" in done.output) == (5, True), (line, done.output)
    assert run_sql("SELECT to_regclass('release.q')") == [(None,)]


def test_hints_work_as_they_are(
    roles: dict[str, str], run_sql: Run, connect: Connect, tmp_path: Any, monkeypatch: Any
) -> None:
    """The command line's and Python's, of a table whose name needs every kind of care."""
    from click.testing import CliRunner

    monkeypatch.chdir(tmp_path)
    table = "app.\"Per`s'on\""
    sql = "'" + table.replace("'", "''") + "'"
    for door in ("python", "cli"):
        connect(roles["anna"]).execute(PERSON.replace("app.person", table).encode())
        connect(roles["anna"]).execute(DECLARE.replace("'app.person'", sql).encode())
        run_sql(f"ALTER TABLE {table} OWNER TO bob")
        url = roles["bob"]
        wanted = {"table": "app.Per`s'on", "declared": True, "k": 5, "output": f"release.{door}"}
        with pytest.raises(RulesNotTrusted) as refused:
            dbanon.anonymize(url, **wanted)
        hint = str(refused.value.hint)
        if door == "python":
            exec(hint[hint.index("dbanon.declare") :], {"dbanon": dbanon, "database": url})
        else:
            from dbanon.doors.spelling import on_command_line

            import shlex

            line = str(refused.value.hint_by(on_command_line))
            show, _, declare = line[line.index("dbanon rules") :].partition("; ")
            words = shlex.split(show)
            done = CliRunner().invoke(
                main, [url if word == "URL" else word for word in words[1 : words.index(">")]]
            )
            assert done.exit_code == 0, done.output
            (tmp_path / "rules.json").write_text(done.stdout)
            words = shlex.split(declare)[1:]
            done = CliRunner().invoke(main, [url if word == "URL" else word for word in words])
            assert done.exit_code == 0, done.output
        assert dbanon.anonymize(url, **wanted).k_achieved == 5
        run_sql(f"DROP TABLE {table}")
        run_sql("DELETE FROM dbanon.rule")


def test_advice_does_not_take_rules_of_others_for_decisions(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    from click.testing import CliRunner

    mallory = connect(roles["mallory"])
    mallory.execute(PERSON)
    mallory.execute(LEAKING.encode())
    mallory.execute("DROP TABLE app.person")
    connect(roles["anna"]).execute(PERSON)
    url = roles["anna"]
    line = ["advise", url, "--table", "app.person", "--k", "3", "--declare", "--yes"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert "Declared by others than the owner of today" in done.stderr
    found = dict(run_sql("SELECT column_name, role FROM dbanon.rules('app.person')"
                         " WHERE state = 'current'"))  # fmt: skip
    assert found["name"] == "identifier"


def test_nobody_writes_rules_but_through_the_function(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """Also not a member of dbanon_admin, who may only delete some."""
    anna = connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("GRANT dbanon_admin TO mallory")
    mallory = connect(roles["mallory"])
    for statement in (
        "UPDATE dbanon.rule SET owner_oid = 10",
        "UPDATE dbanon.rule SET rule = '{\"role\": \"drop\"}'",
        "INSERT INTO dbanon.rule SELECT source, name, rule, declared_at, declared_by, 1, owner_oid,"
        " owner, declarer_oid, ledger_oid FROM dbanon.rule",
        "TRUNCATE dbanon.rule",
    ):  # fmt: skip
        with pytest.raises(psycopg.Error) as refused:
            mallory.execute(statement.encode())
        assert refused.value.sqlstate == "42501"
    assert mallory.execute("DELETE FROM dbanon.rule WHERE name = 'name'").rowcount == 1
    with pytest.raises(psycopg.Error, match="columns without a rule"):
        anna.execute(RELEASE.encode())


