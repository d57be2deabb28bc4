"""Rules of earlier versions, which recorded no table owner, stay valid or wait for the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.doors import install
from dbanon.errors import RulesNotTrusted
from dbanon.ledger.migrate import migrate
from tests.postgres.warm import close_warm, warm
from tests.postgres_server import Server
from tests.stores.databases import SqliteDatabase

PERSON = (
    "CREATE TABLE {} AS SELECT g AS id, 20 + g % 30 AS age, 'n' || g AS name"
    " FROM generate_series(1, 60) AS g"
)
RULES = {
    "id": '{"role": "entity"}',
    "age": '{"role": "quasi_identifier"}',
    "name": '{"role": "keep", "reason": "x"}',
}

# By table: its current owner, who declared, whether it is still the same table, and whether the
# rules are valid.
CASES = {
    "owners": ("anna", "anna", True, True),
    "rebuilt": ("anna", "anna", False, True),
    "left_behind": ("anna", "mallory", False, False),
    "given_away": ("anna", "mallory", True, False),
    "by_member": ("clinic", "anna", True, True),
    "rebuilt_by_member": ("clinic", "anna", False, False),
    "by_superuser": ("anna", "postgres", True, True),
    "rebuilt_by_superuser": ("anna", "postgres", False, False),
    "by_nobody": ("anna", None, True, False),
}


@pytest.fixture(scope="module")
def rules_templates(sql_server: Server) -> Iterator[Callable[[str], str]]:
    """`rules_templates("0011")`: the name of a database without connections, made once.

    A client of an earlier version created its ledger.
    """

    templates: dict[str, str] = {}

    def make(revision: str) -> str:
        if revision in templates:
            return templates[revision]
        url = sql_server.create_database()
        templates[revision] = url.rpartition("/")[2]
        with create_engine(url, poolclass=NullPool).begin() as connection:
            migrate(connection, revision)
        sql_server.execute("CREATE SCHEMA app", url=url)
        [(superuser,)] = sql_server.execute("SELECT current_user::text", url=url)
        for name, (owner, by, same, _) in CASES.items():
            declarer = superuser if by == "postgres" else by
            sql_server.execute(PERSON.format(f"app.{name}"), url=url)
            sql_server.execute(f"ALTER TABLE app.{name} OWNER TO {owner}", url=url)
            for column, rule in RULES.items():
                sql_server.execute(
                    "INSERT INTO dbanon.rule (source, name, rule, declared_at, declared_by,"
                    " relation_oid) SELECT %s, %s, %s, now(), %s, %s::regclass::oid::bigint + %s",
                    f"app.{name}",
                    column,
                    rule,
                    declarer,
                    f"app.{name}",
                    0 if same else 100_000,
                    url=url,
                )
        sql_server.execute(
            "INSERT INTO dbanon.rule (source, name, rule, declared_at, declared_by)"
            " VALUES ('app.gone', 'age', '{}', now(), 'anna')",
            url=url,
        )
        return templates[revision]

    with sql_server.roles_dropped():
        for role in ("anna", "mallory", "clinic"):
            sql_server.execute(f"CREATE ROLE {role} NOLOGIN", url=sql_server.url())
        sql_server.execute("GRANT clinic TO anna", url=sql_server.url())
        yield make
        for name in templates.values():
            sql_server.drop_database(name)


@pytest.fixture
def old_rules(
    sql_server: Server, rules_templates: Callable[[str], str]
) -> Iterator[Callable[[str], str]]:
    """A copy of a template: `old_rules("0011")`."""
    with ExitStack() as copies:
        # Before a copy is dropped.
        copies.callback(close_warm)
        yield lambda revision: copies.enter_context(
            sql_server.database(template=rules_templates(revision))
        )


def by_client(url: str, package: Path) -> None:
    """The first run that writes migrates a client's ledger."""
    dbanon.declare(url, "app.owners", {"age": "quasi_identifier"})


def by_script(url: str, package: Path) -> None:
    install.install(url, python_paths=[str(package)])


def by_upgrade(url: str, package: Path) -> None:
    install.upgrade(url)


def as_it_is(url: str, package: Path) -> None:
    """Reading rules does not change the ledger."""


@pytest.mark.postgresql
@pytest.mark.parametrize("revision", ["0010", "0011"])
@pytest.mark.parametrize("bring", [by_client, by_script, by_upgrade, as_it_is])
def test_rules_of_earlier_versions(
    old_rules: Callable[[str], str],
    sql_server: Server,
    backend_path: Path,
    revision: str,
    bring: Callable[[str, Path], None],
) -> None:
    url = old_rules(revision)
    bring(url, backend_path)
    with warm(url):
        require_states(sql_server, url, changed=bring is not as_it_is)


def require_states(sql_server: Server, url: str, changed: bool) -> None:
    """Check the rules of each table, of a ledger that was changed or not."""
    arguments: dict[str, Any] = {"declared": True, "k": 5, "output": "release.p"}
    for name, (owner, _, _, counts) in CASES.items():
        states = {rule.state for rule in dbanon.rules(url, f"app.{name}")}
        if not changed and name == "rebuilt":
            assert states == {"another table"}
            continue
        assert states == {"current" if counts else "not trusted"}, name
        if counts:
            dbanon.plan(url, table=f"app.{name}", **arguments)
        else:
            with pytest.raises(RulesNotTrusted):
                dbanon.plan(url, table=f"app.{name}", **arguments)
        if changed:
            recorded = sql_server.execute(
                "SELECT DISTINCT owner FROM dbanon.rule WHERE source = %s", f"app.{name}", url=url
            )
            assert recorded == [(owner if counts else None,)], name
    assert [rule.state for rule in dbanon.rules(url) if rule.source == "app.gone"] == ["no table"]
    # The owner declares them again unchanged, which makes them valid.
    listed = dbanon.rules(url, "app.left_behind")
    assert {rule.state for rule in dbanon.declare(url, "app.left_behind", listed)} == {"current"}
    assert dbanon.plan(url, table="app.left_behind", **arguments)
    assert dbanon.undeclare(url, "app.given_away", ["name"])[-1].state == "no rule"


@pytest.mark.postgresql
def test_rules_of_an_earlier_version_follow_their_table_afterwards(
    old_rules: Callable[[str], str], sql_server: Server
) -> None:
    url = old_rules("0011")
    install.upgrade(url)
    sql_server.execute("ALTER TABLE app.rebuilt RENAME TO moved", url=url)
    assert {rule.state for rule in dbanon.rules(url, "app.moved")} == {"current"}
    install.upgrade(url)
    assert sql_server.execute(
        "SELECT count(*) FROM dbanon.rule WHERE source = 'app.moved'", url=url
    ) == [(3,)]


def test_rules_of_files_go_on(tmp_path: Path) -> None:
    """DuckDB and SQLite have no roles: anyone who may write the file may declare."""
    old = (
        "(source {t} NOT NULL, name {t} NOT NULL, rule {j} NOT NULL, declared_at {w} NOT NULL,"
        " declared_by {t}, relation_oid BIGINT, PRIMARY KEY (source, name))"
    )
    with duckdb.connect(tmp_path / "d.duckdb") as connection:
        connection.execute(
            "CREATE TABLE person AS SELECT 20 + range % 30 AS age, 'n' || range AS name"
            " FROM range(60)"
        )
    url = f"duckdb:///{tmp_path / 'd.duckdb'}"
    dbanon.declare(url, "person", {"age": "quasi_identifier"})
    with duckdb.connect(tmp_path / "d.duckdb") as connection:
        connection.execute("DROP TABLE dbanon.rule")
        connection.execute(
            "CREATE TABLE dbanon.rule " + old.format(t="VARCHAR", j="JSON", w="TIMESTAMPTZ")
        )
        connection.execute(
            "INSERT INTO dbanon.rule SELECT 'main.person', unnest(['age', 'name']),"
            ' unnest([\'{"role": "quasi_identifier"}\', \'{"role": "drop"}\'])::json, now(),'
            " NULL, NULL"
        )
    sqlite = SqliteDatabase(tmp_path / "d.sqlite")
    rows = [(20 + i % 30, f"n{i}") for i in range(60)]
    sqlite.load("person", {"age": "INTEGER", "name": "TEXT"}, rows)
    with closing(create_engine(sqlite.url).connect()) as connection:
        migrate(connection, "0011")
        connection.commit()
    sqlite.execute(
        "INSERT INTO dbanon_rule (source, name, rule, declared_at) VALUES"
        """ ('person', 'age', '{"role": "quasi_identifier"}', '2026-01-01'),"""
        """ ('person', 'name', '{"role": "drop"}', '2026-01-01')"""
    )
    for file in (url, sqlite.url):
        arguments = {"table": "person", "declared": True, "k": 5}
        assert dbanon.anonymize(file, output="release.one", **arguments).rows_out == 60
        rules = dbanon.declare(file, "person", {"name": "identifier"})
        assert [rule.role for rule in rules] == ["quasi_identifier", "identifier"]
        assert dbanon.anonymize(file, output="release.two", **arguments).rows_out == 60
        rules = dbanon.undeclare(file, "person", ["age"])
        assert [rule.state for rule in rules] == ["no rule", "current"]
