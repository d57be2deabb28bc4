"""Authors of rules: members, superusers, and roles that were renamed, dropped or restored."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from dbanon.doors import install
from tests.sql.rule_owners import (
    AGAIN,
    LEAK,
    LEAKING,
    RELEASE,
    STATES,
    Connect,
    Role,
    Run,
    not_trusted,
    roles,
)
from tests.sql.test_rules import DECLARE, PERSON

__all__ = ["roles"]

pytestmark = pytest.mark.one_database


def test_a_member_declares_for_the_owner_while_it_is_a_member(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    run_sql("CREATE ROLE clinic NOLOGIN")
    run_sql("GRANT clinic TO anna, bob")
    run_sql(PERSON)
    run_sql("ALTER TABLE app.person OWNER TO clinic")
    anna, bob = connect(roles["anna"]), connect(roles["bob"])
    anna.execute(DECLARE)
    assert bob.execute(RELEASE.encode()).fetchall() == [(5,)]
    # Each member may change another member's rules.
    bob.execute("""SELECT dbanon.declare('app.person', '{"name": "drop"}')""")
    run_sql("REVOKE clinic FROM anna")
    with pytest.raises(psycopg.Error) as refused:
        bob.execute(RELEASE.encode())
    assert refused.value.sqlstate == "42501"
    assert '"name"' not in str(refused.value.diag.message_detail)
    # A role that owned the table as a member is now a member of the owner.
    run_sql("GRANT clinic TO anna")
    run_sql("ALTER TABLE app.person OWNER TO anna")
    anna.execute(DECLARE)
    run_sql("ALTER TABLE app.person OWNER TO clinic")
    bob.execute(AGAIN.format("q").encode())
    # Not vice versa: a group's rules do not apply to a member's own tables.
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


def test_the_session_user_is_not_the_author_of_a_functions_rules(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """A superuser who calls mallory's function does not declare with a superuser's authority."""
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


def test_superusers(roles: dict[str, str], run_sql: Run, connect: Connect) -> None:
    """A superuser acts as any owner, but its rules for its own table do not apply to others."""
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
    anna.execute(AGAIN.format("q").encode())
    # A former superuser's rules remain valid.
    run_sql("ALTER ROLE bob SUPERUSER")
    connect(roles["bob"]).execute(DECLARE)
    run_sql(AGAIN.format("r"))
    run_sql("ALTER ROLE bob NOSUPERUSER")
    with not_trusted("age"):
        run_sql(RELEASE.replace("release.p", "release.s"))


def test_a_role_of_the_same_name_is_another_role(
    roles: dict[str, str], run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    """Anna left; a new colleague with her name gets her table's name, but not her rules."""
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
        # In a database with other oids the current holder of the name could be meant.
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
    """As after pg_restore into another cluster, where mallory has the oid that anna had."""
    anna, mallory = connect(roles["anna"]), connect(roles["mallory"])
    anna.execute(PERSON)
    anna.execute(LEAKING.encode())
    run_sql(
        "UPDATE dbanon.rule SET ledger_oid = 1, owner_oid = 'mallory'::regrole::oid::bigint,"
        " declarer_oid = owner_oid, relation_oid = 2"
    )
    assert run_sql(STATES) == [("another table",)]
    assert anna.execute(RELEASE.encode()).fetchall() == [(5,)]
    # The oid belongs to another table here.
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
    # A second upgrade records the name, which applies once the table is gone.
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    assert run_sql("SELECT DISTINCT source, owner FROM dbanon.rule") == [("app.moved", "anna")]


def test_restored_rules_of_missing_roles(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """A dump without owners gives all tables to the role that restores it."""
    anna = connect(roles["anna"])
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("UPDATE dbanon.rule SET ledger_oid = 1, owner = 'somebody', relation_oid = 2")
    for owner in ("anna", "CURRENT_USER"):
        run_sql(f"ALTER TABLE app.person OWNER TO {owner}")
        with not_trusted("name"):
            run_sql(RELEASE)


def test_a_membership_without_rights_does_not_count(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """From version 16 on a membership may grant neither the owner's rights nor SET ROLE."""
    anna = connect(roles["anna"])
    run_sql("CREATE ROLE clinic NOLOGIN")
    run_sql("GRANT clinic TO anna")
    anna.execute(PERSON)
    anna.execute(DECLARE)
    run_sql("ALTER TABLE app.person OWNER TO clinic")
    assert run_sql(STATES) == [("current",)]
    if anna.info.server_version >= 160000:
        run_sql("GRANT clinic TO anna WITH INHERIT FALSE, SET TRUE")
        assert run_sql(STATES) == [("current",)]
        run_sql("GRANT clinic TO anna WITH INHERIT FALSE, SET FALSE")
    else:
        run_sql("REVOKE clinic FROM anna")
    assert run_sql(STATES) == [("not trusted",)]
    run_sql("DROP OWNED BY clinic")
    run_sql("DROP ROLE clinic")
