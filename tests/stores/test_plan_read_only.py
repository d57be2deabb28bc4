"""A plan into a database that may only be read is refused, as the run is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import DbanonError, InsufficientRights, ReadOnly
from tests.stores.databases import DuckdbDatabase, MariadbDatabase, SqliteDatabase
from tests.stores.people import load_people

OPTIONS: dict[str, Any] = {
    "table": "people",
    "quasi_identifiers": ["age"],
    "k": 5,
    "output": "release.people",
}


def require_refusals(database: Any, error: type[DbanonError], **more: Any) -> None:
    """Check that a plan and a run are refused alike."""
    for call in (dbanon.plan, dbanon.anonymize):
        with pytest.raises(error, match=r"may only read|cannot be written"):
            call(database, **OPTIONS, **more)


def test_a_url_of_sqlite_that_only_reads(
    sqlite_file: SqliteDatabase, duckdb_file: DuckdbDatabase
) -> None:
    for database in (sqlite_file, duckdb_file):
        load_people(database)
    url = f"sqlite:///file:{sqlite_file.path}?mode=ro&uri=true"
    require_refusals(url, InsufficientRights)
    require_refusals(duckdb_file.url, InsufficientRights, target=url)
    # Read access to the source is sufficient.
    assert dbanon.plan(url, **OPTIONS, target=duckdb_file.url).rows == 40
    words = ["--table", "people", "-q", "age", "--k", "5", "--output", "release.people"]
    assert CliRunner().invoke(main, ["plan", url, *words]).exit_code == 5


@pytest.mark.parametrize("pragma", [False, True])
def test_a_connection_of_sqlite_that_only_reads(sqlite_file: SqliteDatabase, pragma: bool) -> None:
    load_people(sqlite_file)
    mode = "" if pragma else "?mode=ro"
    with closing(sqlite3.connect(f"file:{sqlite_file.path}{mode}", uri=True)) as connection:
        if pragma:
            connection.execute("PRAGMA query_only = ON")
        require_refusals(connection, InsufficientRights)


def test_a_plan_needs_no_other_writer_to_end(sqlite_file: SqliteDatabase) -> None:
    load_people(sqlite_file)
    with (
        closing(sqlite3.connect(sqlite_file.path, isolation_level=None)) as writer,
        closing(sqlite3.connect(sqlite_file.path, timeout=0)) as connection,
    ):
        writer.execute("BEGIN IMMEDIATE")
        assert dbanon.plan(connection, **OPTIONS).rows == 40


def test_a_connection_of_duckdb_that_only_reads(
    duckdb_file: DuckdbDatabase, sqlite_file: SqliteDatabase
) -> None:
    load_people(duckdb_file)
    with closing(duckdb.connect(str(duckdb_file.path), read_only=True)) as connection:
        require_refusals(connection, InsufficientRights)
    with closing(duckdb.connect(str(duckdb_file.path))) as connection:
        assert dbanon.plan(connection, **OPTIONS).rows == 40
    assert dbanon.plan(duckdb_file.url, **OPTIONS).rows == 40


@pytest.fixture
def account(mariadb: MariadbDatabase) -> Iterator[str]:
    """The URL of an account that may do what a run needs, and is no administrator."""
    load_people(mariadb)
    mariadb.make_schema("release")
    mariadb.server.execute(
        "CREATE USER IF NOT EXISTS runner@localhost",
        "GRANT ALL ON app.* TO runner@localhost",
        "GRANT ALL ON `release`.* TO runner@localhost",
        "GRANT ALL ON dbanon.* TO runner@localhost",
    )
    yield make_url(mariadb.url).set(username="runner").render_as_string(hide_password=False)
    mariadb.server.execute("SET GLOBAL read_only = 0", "DROP USER runner@localhost")


def test_a_server_of_mariadb_that_only_reads(mariadb: MariadbDatabase, account: str) -> None:
    assert dbanon.plan(account, **OPTIONS).rows == 40
    mariadb.server.execute("SET GLOBAL read_only = 1")
    require_refusals(account, ReadOnly)
    # An administrator can still write.
    assert dbanon.plan(mariadb.url, **OPTIONS).rows == 40
    mariadb.server.execute("SET GLOBAL read_only = 0")
    dbanon.anonymize(account, **OPTIONS)


def test_an_account_of_mariadb_without_rights(mariadb: MariadbDatabase, account: str) -> None:
    mariadb.server.execute(
        "REVOKE ALL ON `release`.* FROM runner@localhost",
        "GRANT SELECT ON `release`.* TO runner@localhost",
    )
    for call in (dbanon.plan, dbanon.anonymize):
        with pytest.raises(InsufficientRights, match="may not release into"):
            call(account, **OPTIONS)
