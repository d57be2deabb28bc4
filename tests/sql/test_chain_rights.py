"""Who may see and run chains on PostgreSQL, and which objects their tables must not have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import dbanon
from dbanon.doors import install
from dbanon.errors import InsufficientRights, LedgerNotTrusted
from tests.postgres_server import Server, conninfo
from tests.stores.chain_cases import OPTIONS, Chained, Months, load
from tests.stores.databases import DuckdbDatabase, PostgresqlDatabase

pytestmark = pytest.mark.postgresql


@pytest.fixture
def chain_database(
    pg_server: Server, pg_url: str, tmp_path: Path
) -> tuple[PostgresqlDatabase, Chained]:
    """A database with the ledger installed, and an administrator's chain with a release."""
    install.install(pg_url, sql_only=True)
    database = PostgresqlDatabase(pg_url)
    load(database, Months(n=20).now)
    chained = Chained.create(database, tmp_path)
    chained.release()
    return database, chained


def tables(database: PostgresqlDatabase) -> list[str]:
    return [
        name
        for (name,) in database.rows(
            "SELECT relname FROM pg_class WHERE relnamespace = 'dbanon'::regnamespace"
            " AND relkind = 'r' AND relname LIKE 'chain%'"
        )
    ]


def test_only_the_owner_sees_a_chain(
    chain_database: tuple[PostgresqlDatabase, Chained], pg_role: Callable[..., str]
) -> None:
    database, chained = chain_database
    names = tables(database)
    assert len(names) == 8
    for role, options in (
        ("runner", "IN ROLE dbanon_runner"),
        ("admin", "IN ROLE dbanon_admin"),
        ("reader", "IN ROLE dbanon_reader"),
    ):
        url = pg_role(role, options)
        database.execute(f"GRANT SELECT ON people TO {role}")
        with psycopg.connect(conninfo(url), autocommit=True) as connection:
            for name in names:
                for statement in (
                    f"SELECT * FROM dbanon.{name}",
                    f"DELETE FROM dbanon.{name}",
                    f"TRUNCATE dbanon.{name}",
                ):
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        connection.execute(statement)
        with pytest.raises(InsufficientRights):
            dbanon.show_chain(url, "patients")
        with pytest.raises(InsufficientRights):
            dbanon.anonymize(
                url, table="people", output="public.mine", **OPTIONS | {"chain": chained.chain()}
            )
        with pytest.raises(InsufficientRights):
            dbanon.create_chain(
                url,
                "own",
                table="people",
                entity="id",
                changes="show",
                key_out=chained.key.with_name(f"{role}.key"),
            )


def test_a_role_that_was_let_in_goes_on(
    chain_database: tuple[PostgresqlDatabase, Chained], pg_role: Callable[..., str], pg_url: str
) -> None:
    """As docs/rights.md says; it survives a new installation of dbanon."""
    database, chained = chain_database
    url = pg_role("publisher", "IN ROLE dbanon_runner")
    shared = ", ".join(
        f"dbanon.{name}"
        for name in tables(database)
        if "_row_" not in name and "_value_" not in name
    )
    ledger_tables = ", ".join(
        f"dbanon.{name}" for name in tables(database) if "_row_" in name or "_value_" in name
    )
    database.execute(
        "GRANT SELECT ON people TO publisher",
        "CREATE SCHEMA theirs AUTHORIZATION publisher",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {shared} TO publisher",
        f"GRANT SELECT, INSERT, DELETE, TRUNCATE ON {ledger_tables} TO publisher",
    )
    install.install(pg_url, sql_only=True)
    arguments = OPTIONS | {"chain": chained.chain(), "table": "people", "output": "theirs.people"}
    report = dbanon.anonymize(url, **arguments)
    assert report.arguments["chain"]["sequence"] == 2
    assert chained.show().releases[-1]["confirmed"]


# Statements that attach something to a table, and those that remove it.
HUNG = (
    (
        "CREATE TRIGGER t BEFORE INSERT ON dbanon.{} FOR EACH ROW EXECUTE FUNCTION trap()",
        "DROP TRIGGER t ON dbanon.{}",
    ),
    ("CREATE RULE r AS ON INSERT TO dbanon.{} DO ALSO SELECT 1", "DROP RULE r ON dbanon.{}"),
    (
        "ALTER TABLE dbanon.{} ADD CONSTRAINT c CHECK (cell > -1)",
        "ALTER TABLE dbanon.{} DROP CONSTRAINT c",
    ),
    (
        "ALTER TABLE dbanon.{} ALTER COLUMN cell SET DEFAULT 1",
        "ALTER TABLE dbanon.{} ALTER COLUMN cell DROP DEFAULT",
    ),
)


def test_nothing_hangs_on_the_tables_of_a_chain(
    chain_database: tuple[PostgresqlDatabase, Chained],
) -> None:
    database, chained = chain_database
    names = {
        of: [name for name in tables(database) if name.startswith(of)]
        for of in ("chain_row_", "chain_value_", "chain_member")
    }
    assert [len(of_kind) for of_kind in names.values()] == [1, 1, 1]
    database.execute(
        "CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    )
    for [name] in names.values():
        for hung, taken_away in HUNG:
            database.execute(hung.format(name))
            with pytest.raises(LedgerNotTrusted, match=name):
                chained.release()
            database.execute(taken_away.format(name))
    chained.release()


def test_no_ledger_of_somebody_else_is_read(
    pg_url: str, pg_role: Callable[..., str], tmp_path: Path
) -> None:
    """Before the ledger is trusted, neither its version nor its chain is read."""
    mallory = PostgresqlDatabase(pg_role("mallory"))
    database = PostgresqlDatabase(pg_url)
    [(name,)] = database.rows("SELECT current_database()")
    database.execute(f'GRANT CREATE ON DATABASE "{name}" TO mallory')
    mallory.execute(
        "CREATE SCHEMA dbanon",
        "CREATE SEQUENCE dbanon.called",
        "CREATE FUNCTION dbanon.trap() RETURNS text LANGUAGE sql"
        " AS $$ SELECT nextval('dbanon.called')::text $$",
        "CREATE VIEW dbanon.alembic_version AS SELECT dbanon.trap() AS version_num",
    )
    load(database, Months(n=20).now)
    arguments = {"table": "people", "entity": "id", "changes": "show"}
    with pytest.raises(LedgerNotTrusted):
        dbanon.create_chain(pg_url, "patients", key_out=tmp_path / "chain.key", **arguments)
    mallory.execute(
        "CREATE VIEW dbanon.release AS SELECT 1 AS chain_sequence, dbanon.trap() AS chain_id"
    )
    source = DuckdbDatabase(tmp_path / "source.duckdb")
    load(source, Months(n=20).now)
    chained = Chained.create(source, tmp_path)
    with pytest.raises(LedgerNotTrusted):
        chained.release(target=pg_url, output="public.people_released")
    assert database.rows("SELECT is_called FROM dbanon.called") == [(False,)]
