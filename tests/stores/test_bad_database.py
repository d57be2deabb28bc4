"""Missing rights, and databases that cannot be reached, are busy or go away."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from threading import Timer
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon import errors
from dbanon.doors.install import install
from tests.postgres_server import conninfo
from tests.prerequisites import skip_case
from tests.stores.databases import (
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
)
from tests.stores.people import load_people
from tests.stores.refusal import anonymize, refuse

pytestmark = pytest.mark.own_backends


def as_role(database: PostgresqlDatabase, url: str, message: str, /, **options: Any) -> None:
    before = database.state()
    with pytest.raises(errors.InsufficientRights) as caught:
        database.anonymize(**({"database": url, "quasi_identifiers": ["age"]} | options))
    assert message in str(caught.value)
    assert caught.value.exit_code == 5
    arguments = {"table": "people", "output": "release.people", "k": 3, **options}
    with pytest.raises(errors.InsufficientRights) as planned:
        dbanon.plan(url, **({"quasi_identifiers": ["age"]} | arguments))
    assert planned.value.to_dict() == caught.value.to_dict()
    assert database.state() == before


def test_each_right_that_is_missing_is_named(pg_url: str, pg_role: Callable[..., str]) -> None:
    database = PostgresqlDatabase(pg_url)
    load_people(database)
    url = pg_role("anna")
    name = database.rows("SELECT quote_ident(current_database())")[0][0]
    database.execute(
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.people AS TABLE people",
        "GRANT SELECT ON hidden.people TO anna",
        f"REVOKE ALL ON DATABASE {name} FROM PUBLIC",
        f"GRANT CONNECT ON DATABASE {name} TO anna",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "CREATE SCHEMA release",
    )
    as_role(database, url, "GRANT SELECT ON", table="public.people")
    as_role(database, url, 'schema "hidden"', table="hidden.people", key=["id"])
    database.execute("GRANT USAGE ON SCHEMA public TO anna")
    as_role(database, url, '"age"', table="public.people")
    database.execute("GRANT SELECT (age, id) ON people TO anna")
    as_role(database, url, '"site"', keep=["site"])
    as_role(database, url, "temporary tables")
    database.execute(f"GRANT TEMPORARY ON DATABASE {name} TO anna")
    as_role(database, url, 'schema "release"')
    as_role(database, url, "may not create it", output="brand_new.people")
    database.execute("GRANT USAGE, CREATE ON SCHEMA release TO anna")
    as_role(database, url, "ledger")
    # These rights, with a ledger installed by an administrator, are the minimum.
    database.anonymize(quasi_identifiers=["age"], output="release.by_owner")
    as_role(database, url, "ledger")
    install(pg_url, sql_only=True)
    database.execute("GRANT dbanon_runner TO anna")
    report = database.anonymize(database=url, quasi_identifiers=["age"])
    assert report.k_achieved >= 3
    # Without rights to the entire table not even its row numbers may be read.
    database.execute("ALTER TABLE people DROP CONSTRAINT people_pkey")
    as_role(database, url, '"ctid"', output="release.other")


def test_row_level_security_is_not_fallen_for(pg_url: str, pg_role: Callable[..., str]) -> None:
    database = PostgresqlDatabase(pg_url)
    load_people(database)
    url = pg_role("anna")
    database.execute(
        "GRANT SELECT ON people TO anna",
        "GRANT CREATE, USAGE ON SCHEMA public TO anna",
        "ALTER TABLE people ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY half ON people TO anna USING (id % 2 = 0)",
        "CREATE VIEW through AS SELECT * FROM people",
        "GRANT SELECT ON through TO anna",
        "ALTER VIEW through OWNER TO anna",
    )
    as_role(database, url, "Row-level security", output="public.out")
    as_role(database, url, "", table="through", key=["id"], output="public.out")


def test_a_file_that_may_not_be_written(database: Database) -> None:
    if database.name == "postgresql":
        skip_case("PostgreSQL is no file")
    load_people(database)
    path = database.path  # type: ignore[attr-defined]
    path.chmod(0o400)
    if os.geteuid() == 0:
        # Root may write anything: only a directory in the way of the file stops it.
        path = path.parent / "directory"
        path.mkdir()
        with pytest.raises(errors.NotADatabase):
            database.anonymize(database=f"{database.name}:///{path}", quasi_identifiers=["age"])
        return
    with pytest.raises(errors.DbanonError) as caught:
        database.anonymize(quasi_identifiers=["age"])
    assert caught.value.exit_code in (4, 5)


# --- the database itself --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no url",
        "postgresql://h:port/x",
        "mysql+asyncmy://h/x",
        "oracle://h/x",
        "duckdb://",
        "duckdb:///:memory:",
        "://",
        "postgresql",
        "sqlit:///x.db",
        None,
        7,
    ],
)
def test_urls_that_are_none(url: Any) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        anonymize(url)
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize("name", ["missing.file", "missing/directory/file"])
def test_a_missing_file_is_not_made(tmp_path: Any, kind: str, name: str) -> None:
    with pytest.raises(errors.DatabaseNotFound) as caught:
        anonymize(f"{kind}:///{tmp_path / name}")
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_target_file_is_made_only_by_success(
    sqlite_file: SqliteDatabase, tmp_path: Any, kind: str
) -> None:
    load_people(sqlite_file)
    target = tmp_path / "new" / "file"
    target.parent.mkdir()
    refuse(sqlite_file, errors.TooFewRecords, k=41, target=f"{kind}:///{target}")
    assert list(target.parent.iterdir()) == []
    sqlite_file.anonymize(quasi_identifiers=["age"], target=f"{kind}:///{target}")
    assert target.exists()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_of_something_else(tmp_path: Any, kind: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("secret " * 1000)
    with pytest.raises(errors.NotADatabase) as caught:
        anonymize(f"{kind}:///{path}")
    assert "secret" not in str(caught.value)


def test_no_server_is_there() -> None:
    with pytest.raises(errors.DatabaseUnreachable) as caught:
        anonymize("postgresql://anna:hush@127.0.0.1:1/people?connect_timeout=2")
    assert "hush" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_a_wrong_password_and_a_missing_database(pg_server: Any, pg_url: str) -> None:
    for url, error in (
        (pg_server.url(password="wrong-one"), errors.AccessRefused),
        (pg_server.url("no_such_database"), errors.DatabaseNotFound),
    ):
        with pytest.raises(error) as caught:
            anonymize(url)
        assert "wrong-one" not in str(caught.value)
        assert pg_server.password not in str(caught.value)


def test_sqlite_locked_by_a_writer(sqlite_file: SqliteDatabase) -> None:
    load_people(sqlite_file)
    with closing(sqlite3.connect(sqlite_file.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refuse(
            sqlite_file,
            errors.DatabaseBusy,
            "run it again",
            database=f"{sqlite_file.url}?timeout=0.1",
        )
        other.execute("ROLLBACK")
    sqlite_file.anonymize(quasi_identifiers=["age"])


HOLD = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_duckdb_open_in_another_process(duckdb_file: DuckdbDatabase) -> None:
    load_people(duckdb_file)
    state = duckdb_file.state()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(duckdb_file.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(errors.DatabaseBusy, match="Another process") as caught:
            duckdb_file.anonymize(quasi_identifiers=["age"])
        assert caught.value.exit_code == 4
        other.communicate()
    assert duckdb_file.state() == state
    duckdb_file.anonymize(quasi_identifiers=["age"])


def test_a_lock_on_the_source(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    with postgresql.connect() as other:
        other.autocommit = False
        other.execute("LOCK TABLE people IN ACCESS EXCLUSIVE MODE")
        # A limit of the caller's role is kept when it is shorter than dbanon's own.
        url = f"{postgresql.url}?options=-c%20statement_timeout%3D300"
        refuse(postgresql, errors.Cancelled, "time limit", database=url)
    postgresql.anonymize(quasi_identifiers=["age"])


@pytest.mark.parametrize("phase", ["read", "cluster", "write", "verify"])
def test_a_connection_lost_midway(postgresql: PostgresqlDatabase, phase: str) -> None:
    load_people(postgresql)

    def cut(now: str, share: float) -> None:
        if now == phase:
            postgresql.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    error = refuse(postgresql, errors.ConnectionLost, progress=cut, chunk_rows=7)
    assert error.exit_code == 4
    postgresql.anonymize(quasi_identifiers=["age"])


@pytest.mark.parametrize("moment", ["made since", "being made"])
def test_another_makes_the_schema_meanwhile(postgresql: PostgresqlDatabase, moment: str) -> None:
    """After the snapshot, which does not show it; or at the same time, where the index waits."""
    load_people(postgresql)
    other = psycopg.connect(conninfo(postgresql.url))
    timer = Timer(0.5, other.commit)

    def meanwhile(phase: str, share: float) -> None:
        if (phase, share) == ("write", 0.0):
            other.execute("CREATE SCHEMA release")
            (other.commit if moment == "made since" else timer.start)()

    with other, pytest.raises(errors.SourceChanged, match='the schema "release" in the meantime'):
        postgresql.anonymize(quasi_identifiers=["age"], progress=meanwhile)
    timer.cancel()
    assert {name for schema, name in postgresql.relations() if schema == "release"} == {""}
    postgresql.anonymize(quasi_identifiers=["age"])
