"""Databases of version 0.1.0, created by its own package with every way of installation."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dbanon.doors import install
from tests.extension_files import extension_folder
from tests.postgres_server import Server
from tests.stores.databases import (
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)

FIXTURES = Path(__file__).resolve().parent / "fixtures"
WAYS = ("duckdb", "sqlite", "script", "extension")


def fixture_bytes(name: str) -> bytes:
    return gzip.decompress((FIXTURES / f"{name}.gz").read_bytes())


@pytest.fixture(scope="module")
def old_template(sql_server: Server) -> Iterator[Callable[[str], str]]:
    """`old_template("script")`: a restored dump as a template database without connections.

    Includes the roles in the dumps.
    """
    templates: dict[str, str] = {}
    with ExitStack() as left, sql_server.roles_dropped():
        for role in ("dbanon_admin", "dbanon_runner", "dbanon_reader"):
            # Roles belong to the server: another database's installation may have created them.
            sql_server.execute(
                f"DO $$ BEGIN CREATE ROLE {role} NOLOGIN;"
                " EXCEPTION WHEN duplicate_object THEN NULL; END $$"
            )
        for role, group in (("old_clerk", "dbanon_runner"), ("old_auditor", "dbanon_reader")):
            sql_server.create_role(role, url=sql_server.url(), options=f"IN ROLE {group}")
            sql_server.execute(f"ALTER ROLE {role} PASSWORD 'old'")

        def restore(name: str) -> str:
            if name not in templates:
                url = sql_server.create_database()
                templates[name] = url.rpartition("/")[2]
                left.callback(sql_server.drop_database, templates[name])
                sql_server.psql(fixture_bytes(f"{name}.sql").decode(), url=url)
            return templates[name]

        yield restore
        # Before the roles, which own objects in them.
        left.close()


@pytest.fixture
def old_postgresql(
    sql_server: Server, old_template: Callable[[str], str]
) -> Iterator[Callable[[str], PostgresqlDatabase]]:
    """`old_postgresql("script")`: a database restored from the dump, with its roles."""
    with ExitStack() as left:

        def restore(name: str) -> PostgresqlDatabase:
            if name == "extension":
                folder = left.enter_context(extension_folder())
                for file in ("dbanon.control", "dbanon--0.1.0.sql"):
                    (folder / file).write_bytes(fixture_bytes(file))
            return PostgresqlDatabase(
                left.enter_context(sql_server.database(template=old_template(name)))
            )

        yield restore


@pytest.fixture(params=WAYS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database of version 0.1.0 with its releases; tests run once on each."""
    if request.param == "duckdb":
        (tmp_path / "old.duckdb").write_bytes(fixture_bytes("old.duckdb"))
        return DuckdbDatabase(tmp_path / "old.duckdb")
    if request.param == "sqlite":
        (tmp_path / "old.db").write_bytes(fixture_bytes("old.db"))
        return SqliteDatabase(tmp_path / "old.db")
    restore: Callable[[str], PostgresqlDatabase] = request.getfixturevalue("old_postgresql")
    return restore(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        name = getattr(getattr(item, "callspec", None), "params", {}).get("old")
        if name in ("script", "extension"):
            item.add_marker("postgresql")


@pytest.fixture
def upgrade(request: pytest.FixtureRequest) -> Callable[[Database], None]:
    """Upgrade a database as the docs say, with the command if SQL is installed.

    The ledger in a file is migrated by the first run that writes.
    """

    def bring(database: Database) -> None:
        if isinstance(database, PostgresqlDatabase):
            package: Path = request.getfixturevalue("backend_path")
            install.upgrade(database.url, python_paths=[str(package)])

    return bring
