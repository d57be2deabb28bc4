"""Attacks through a ledger with a foreign owner, and by the role that owns an installed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.doors import install
from dbanon.errors import InsufficientRights, LedgerNotTrusted
from dbanon.ledger import tables as ledger_tables
from dbanon.run.gc import collect_garbage
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.postgres_server import Server
from tests.sql.ledger_entries import PEOPLE, anonymize

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

SUPER = "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"


# --- a ledger of another owner, in a database used by clients -------------------------------------


@pytest.fixture
def client_url(sql_server: Server) -> Iterator[str]:
    """A database without dbanon's functions, with app.people and a role mallory, as superuser."""
    with sql_server.database() as url:
        sql_server.execute("CREATE SCHEMA app", url=url)
        sql_server.execute(PEOPLE, url=url)
        yield url


def mallorys_ledger(server: Server, url: str) -> str:
    """Let mallory make the first release of a database, and so own its ledger; returns her URL."""
    mallory = server.create_role("mallory", url=url)
    database = url.rpartition("/")[2]
    for statement in (
        f'GRANT CREATE ON DATABASE "{database}" TO mallory',
        "GRANT USAGE ON SCHEMA app TO mallory",
        "CREATE TABLE app.hers AS TABLE app.people",
        "ALTER TABLE app.hers OWNER TO mallory",
    ):
        server.execute(statement, url=url)
    anonymize(mallory, table="app.hers", output="hers.p")
    server.execute(
        "CREATE FUNCTION hers.climb() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        " ALTER ROLE mallory SUPERUSER; RETURN true; EXCEPTION WHEN insufficient_privilege THEN"
        " RETURN true; END $$",
        url=mallory,
    )
    server.execute(
        "CREATE FUNCTION hers.climbing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM hers.climb(); RETURN coalesce(NEW, OLD); END $$",
        url=mallory,
    )
    return mallory


TRAPS = {
    "nothing yet": [],
    "trigger": [
        "CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON dbanon.release FOR EACH STATEMENT"
        " EXECUTE FUNCTION hers.climbing()"
    ],
    "rule": [
        "CREATE RULE trap AS ON INSERT TO dbanon.release_column WHERE hers.climb() DO ALSO NOTHING"
    ],
    "default": ["ALTER TABLE dbanon.release ADD COLUMN trap boolean DEFAULT hers.climb()"],
    "check": ["ALTER TABLE dbanon.release ADD CHECK (hers.climb())"],
    "policy": [
        "ALTER TABLE dbanon.release ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY trap ON dbanon.release USING (hers.climb())",
    ],
    "type": [
        "CREATE DOMAIN hers.trap AS text CHECK (hers.climb())",
        "ALTER TABLE dbanon.release ALTER COLUMN method TYPE hers.trap",
    ],
    "view": [
        "ALTER TABLE dbanon.release RENAME TO hers",
        "CREATE VIEW dbanon.release AS SELECT * FROM dbanon.hers WHERE hers.climb()",
    ],
}


def doors(url: str) -> list[Callable[[], Any]]:
    """All calls by which a client reads or writes a ledger."""
    store = open_store(create_engine(url, poolclass=NullPool))
    engine = create_engine(url, poolclass=NullPool)
    return [
        lambda: anonymize(url),
        lambda: anonymize(url, "hers.p", if_exists="replace"),
        lambda: verify(store, parse_relation("hers.p")),
        lambda: collect_garbage(store, 0),
        lambda: dbanon.store_hierarchy(engine, "places", {"tree": {"*": ["a"]}}),
        lambda: dbanon.list_hierarchies(engine),
        lambda: dbanon.load_hierarchy(engine, "name:places"),
        lambda: dbanon.drop_hierarchy(engine, "places"),
        lambda: install.upgrade(url),
    ]


@pytest.mark.parametrize("trap", TRAPS)
def test_a_ledger_of_somebody_else_is_not_touched(
    sql_server: Server, client_url: str, trap: str
) -> None:
    """A superuser's release would run triggers that the ledger's owner attached."""
    mallory = mallorys_ledger(sql_server, client_url)
    for statement in TRAPS[trap]:
        sql_server.execute(statement, url=mallory)
    for door in doors(client_url):
        with pytest.raises(LedgerNotTrusted, match="mallory") as refused:
            door()
        assert (refused.value.exit_code, refused.value.sqlstate) == (5, "42501")
    assert sql_server.execute(SUPER) == [(False,)]
    assert sql_server.execute("SELECT to_regclass('release.p')::text", url=client_url) == [(None,)]
    with pytest.raises(InsufficientRights):
        install.install(client_url, sql_only=True)
    # Changing the owner is not enough: attached objects are checked, too.
    for statement in (
        "ALTER SCHEMA dbanon OWNER TO postgres",
        *(
            f"ALTER TABLE dbanon.{table} OWNER TO postgres"
            for table in (*ledger_tables.TABLES, "alembic_version")
        ),
        *(["ALTER TABLE dbanon.hers OWNER TO postgres"] if trap == "view" else []),
    ):
        sql_server.execute(statement, url=client_url)
    if TRAPS[trap]:
        with pytest.raises(LedgerNotTrusted):
            anonymize(client_url)
        with pytest.raises(InsufficientRights):
            install.install(client_url, sql_only=True)
    else:
        install.install(client_url, sql_only=True)
        anonymize(client_url)
    assert sql_server.execute(SUPER) == [(False,)]


@pytest.mark.parametrize("installed", [False, True])
def test_the_trigger_right_is_refused_for_any_owner(
    sql_server: Server, client_url: str, installed: bool
) -> None:
    anonymize(client_url, "release.first")
    if installed:
        install.install(client_url, sql_only=True)
    mallory = sql_server.create_role("mallory", url=client_url)
    for statement in (
        "GRANT USAGE ON SCHEMA dbanon TO mallory",
        "CREATE SCHEMA hers AUTHORIZATION mallory",
        "GRANT ALL ON dbanon.run TO mallory",
    ):
        sql_server.execute(statement, url=client_url)
    for _ in range(2):
        with pytest.raises(LedgerNotTrusted, match=r"dbanon\.run, of role mallory"):
            anonymize(client_url)
        sql_server.execute(
            "CREATE OR REPLACE FUNCTION hers.climbing() RETURNS trigger LANGUAGE plpgsql AS $$"
            " BEGIN ALTER ROLE mallory SUPERUSER; RETURN NEW; END $$",
            url=mallory,
        )
        sql_server.execute(
            "CREATE OR REPLACE TRIGGER trap BEFORE INSERT ON dbanon.run"
            " FOR EACH ROW EXECUTE FUNCTION hers.climbing()",
            url=mallory,
        )
    # Installation revokes such rights, but keeps the objects created with them.
    with pytest.raises(InsufficientRights, match="trigger trap"):
        install.install(client_url, sql_only=True)
    sql_server.execute("DROP TRIGGER trap ON dbanon.run", url=client_url)
    install.install(client_url, sql_only=True)
    anonymize(client_url)
    assert sql_server.execute(SUPER) == [(False,)]
    # Of all rights in this server version, such as MAINTAIN from 17 on, only reading remains.
    left = sql_server.execute(
        "SELECT a.privilege_type FROM pg_class AS c CROSS JOIN aclexplode(c.relacl) AS a"
        " WHERE c.oid = 'dbanon.run'::regclass AND a.grantee = 'mallory'::regrole",
        url=client_url,
    )
    assert left == [("SELECT",)]


def test_the_ledger_role_has_no_members(
    run_sql: Run,
    connect: Connect,
    sql_role: Role,
    sql_server: Server,
    sql_url: str,
    backend_path: Path,
) -> None:
    run_sql(PEOPLE)
    call = "SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5, if_exists => 'replace')"
    run_sql(call)
    mallory = sql_role("mallory")
    reads = (
        "SELECT dbanon.verify('release.p')",
        "SELECT * FROM dbanon.releases()",
        "SELECT dbanon.gc(0)",
        "SELECT dbanon.information_loss('release.p')",
        "SELECT dbanon.evaluate('release.p')",
        "SELECT dbanon.disclosure_risk('release.p')",
        "SELECT * FROM dbanon.hierarchies()",
        "SELECT dbanon.drop_hierarchy('x')",
        'SELECT dbanon.store_hierarchy(\'x\', \'{"tree": {"*": ["a"]}}\')',
    )
    run_sql("GRANT dbanon_ledger TO mallory")
    try:
        for statement in (call, *reads):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not trusted"):
                run_sql(statement)
        with pytest.raises(LedgerNotTrusted, match="dbanon_ledger"):
            anonymize(sql_url, "release.q")
        with pytest.raises(InsufficientRights, match="member"):
            install.upgrade(sql_url, python_paths=[str(backend_path)])
    finally:
        run_sql("REVOKE dbanon_ledger FROM mallory")
    run_sql("ALTER ROLE dbanon_ledger LOGIN")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="not trusted"):
            run_sql(call)
        with sql_server.database() as other, pytest.raises(InsufficientRights, match="log in"):
            install.install(other, sql_only=True)
    finally:
        run_sql("ALTER ROLE dbanon_ledger NOLOGIN")
    run_sql(call)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connect(mallory).execute("SET ROLE dbanon_ledger")
