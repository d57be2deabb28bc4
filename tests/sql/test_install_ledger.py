"""The ledger across dumps, dropped extensions, removal and changes of administrator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.doors import install
from dbanon.doors.cli.main import main
from dbanon.errors import InstallRefused
from dbanon.ledger import tables as ledger_tables
from tests.postgres_server import Server, find_server_binaries, libpq_environment


def test_a_dump_keeps_the_ledger_of_the_extension(
    sql_server: Server, backend_path: Path, fresh: Callable[[], str], extension_files: Path
) -> None:
    url, restored = fresh(), fresh()
    install.install(url, python_paths=[str(backend_path)], extension=True)
    sql_server.execute("CREATE TABLE public.t AS SELECT generate_series(1, 9) AS a", url=url)
    sql_server.execute("SELECT dbanon.mdav('public.t', 'public.u', '{a}', 3)", url=url)
    dump = subprocess.run(
        [str(find_server_binaries() / "pg_dump")],
        env={**os.environ, **libpq_environment(url)},
        capture_output=True,
        text=True,
        check=True,
    )
    sql_server.psql(dump.stdout, url=restored)
    # Another database has other oids: a mark alone does not make a release.
    with pytest.raises(Exception, match="dbanon upgrade") as failure:
        sql_server.execute("SELECT k_achieved FROM dbanon.verify('public.u')", url=restored)
    assert failure.value.sqlstate == "42P01"  # type: ignore[attr-defined]
    assert sql_server.execute("SELECT state FROM dbanon.releases()", url=restored) == [("untied",)]
    install.upgrade(restored, python_paths=[str(backend_path)])
    assert sql_server.execute("SELECT state FROM dbanon.releases()", url=restored) == [("current",)]
    assert sql_server.execute("SELECT k_achieved FROM dbanon.verify('public.u')", url=restored) == [
        (3,)
    ]
    assert sql_server.execute("SELECT count(*) FROM dbanon.run", url=restored) == [(1,)]
    assert sql_server.execute("SELECT * FROM dbanon.alembic_version", url=restored) == [("0017",)]


def test_dropping_the_extension_leaves_the_ledger(
    sql_server: Server, backend_path: Path, fresh: Callable[[], str], extension_files: Path
) -> None:
    url, paths = fresh(), [str(backend_path)]
    install.install(url, python_paths=paths, extension=True)
    sql_server.execute("CREATE TABLE public.t AS SELECT generate_series(1, 9) AS a", url=url)
    sql_server.execute("SELECT dbanon.mdav('public.t', 'public.u', '{a}', 3)", url=url)
    before = sql_server.execute("SELECT * FROM dbanon.release", url=url)
    sql_server.execute("DROP EXTENSION dbanon CASCADE", url=url)
    assert sql_server.execute("SELECT * FROM dbanon.release", url=url) == before
    # Its tables cannot be dropped singly by accident.
    with pytest.raises(Exception, match="extension dbanon_ledger requires it"):
        sql_server.execute("DROP TABLE dbanon.release", url=url)
    engine = create_engine(url, poolclass=NullPool)
    dbanon.anonymize(engine, table="t", output="public.v", quasi_identifiers=["a"], k=3)
    sql_server.execute("CREATE EXTENSION dbanon", url=url)
    assert sql_server.execute(
        "SELECT output, state, (dbanon.verify(output)).unchanged FROM dbanon.releases() ORDER BY 1",
        url=url,
    ) == [("public.u", "current", True), ("public.v", "current", True)]


LEDGER_OF_0_1_0 = """
ALTER EXTENSION dbanon_ledger DROP TABLE dbanon.{table};
ALTER EXTENSION dbanon ADD TABLE dbanon.{table};
ALTER TABLE dbanon.{table} OWNER TO postgres;"""


def test_an_extension_that_holds_the_ledger_itself_gives_it_up(
    sql_server: Server, backend_path: Path, fresh: Callable[[], str], extension_files: Path
) -> None:
    """As in version 0.1.0: functions and tables were one extension."""
    url, paths = fresh(), [str(backend_path)]
    install.install(url, python_paths=paths, extension=True)
    sql_server.execute("CREATE TABLE public.t AS SELECT generate_series(1, 9) AS a", url=url)
    sql_server.execute("SELECT dbanon.mdav('public.t', 'public.u', '{a}', 3)", url=url)
    sql_server.psql(
        "".join(
            LEDGER_OF_0_1_0.format(table=table)
            for table in (*ledger_tables.TABLES, "alembic_version")
        )
        + "DELETE FROM pg_depend WHERE refclassid = 'pg_extension'::regclass AND deptype = 'n'"
        " AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'dbanon_ledger');"
        "DROP EXTENSION dbanon_ledger;"
        "UPDATE pg_extension SET extversion = '0.1.0' WHERE extname = 'dbanon';"
        "ALTER SCHEMA dbanon OWNER TO postgres;"
        "ALTER TABLE dbanon.release DROP relation_oid, DROP output_oid, DROP digest;"
        "GRANT INSERT, UPDATE (superseded_at) ON dbanon.release TO dbanon_runner;",
        url=url,
    )
    (extension_files / "dbanon--0.1.0.sql").write_text("SELECT 1;")
    install.upgrade(url, python_paths=paths)
    assert sql_server.execute(
        "SELECT state, has_any_column_privilege('dbanon_runner', 'dbanon.release',"
        " 'INSERT, UPDATE')"
        " FROM dbanon.releases()",
        url=url,
    ) == [("current", False)]
    sql_server.execute("DROP EXTENSION dbanon", url=url)
    assert sql_server.execute("SELECT count(*) FROM dbanon.release", url=url) == [(1,)]


@pytest.mark.parametrize("extension", [False, True], ids=["script", "extension"])
def test_the_ledger_can_be_dropped_after_the_functions(
    sql_server: Server,
    backend_path: Path,
    fresh: Callable[[], str],
    extension_files: Path,
    extension: bool,
) -> None:
    url = fresh()
    install.install(url, python_paths=[str(backend_path)], extension=extension)
    install.uninstall(url)
    with pytest.raises(InstallRefused, match="not installed"):
        install.uninstall(url)
    done = CliRunner().invoke(main, ["uninstall", url, "--ledger"])
    assert done.exit_code == 0, done.output
    assert sql_server.execute("SELECT to_regnamespace('dbanon')::text", url=url) == [(None,)]
    with pytest.raises(InstallRefused):
        install.uninstall(url, ledger=True)


def test_an_administrator_who_is_no_superuser_installs(
    sql_server: Server, fresh: Callable[[], str]
) -> None:
    """As on managed servers: no role remains that could own the ledger."""
    url = fresh()
    chief = sql_server.create_role("chief", url=url, options="CREATEROLE")
    is_old = sql_server.execute("SHOW server_version_num")[0][0] < "16"
    of_roles = "" if is_old else "ADMIN TRUE, INHERIT FALSE, SET FALSE"
    for name in ("dbanon_admin", "dbanon_runner", "dbanon_reader", "dbanon_ledger"):
        if not sql_server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", name):
            sql_server.execute(f"CREATE ROLE {name} NOLOGIN")
        if of_roles:
            # As if it had created them, which allows granting them from version 16 on.
            sql_server.execute(f"GRANT {name} TO chief WITH {of_roles}")
    sql_server.execute(f'ALTER DATABASE "{url.rpartition("/")[2]}" OWNER TO chief')
    install.install(chief, sql_only=True)
    install.install(chief, sql_only=True)
    install.upgrade(chief)
    anna = sql_server.create_role("anna", url=url, options="IN ROLE dbanon_runner")
    sql_server.execute("CREATE SCHEMA hers AUTHORIZATION anna", url=url)
    sql_server.execute("CREATE TABLE hers.t AS SELECT generate_series(1, 9) AS a", url=anna)
    engine = create_engine(anna, poolclass=NullPool)
    dbanon.anonymize(engine, table="hers.t", output="hers.u", quasi_identifiers=["a"], k=3)
    assert sql_server.execute("SELECT (dbanon.verify('hers.u')).unchanged", url=anna) == [(True,)]
    could = "" if is_old else " AND (set_option OR inherit_option)"
    assert (
        sql_server.execute(
            "SELECT member::regrole::text FROM pg_auth_members"
            f" WHERE roleid = 'dbanon_ledger'::regrole{could}"
        )
        == []
    )
    install.uninstall(chief)
    install.uninstall(chief, ledger=True)
    assert sql_server.execute("SELECT to_regnamespace('dbanon')::text", url=url) == [(None,)]
    sql_server.drop_database(url.rpartition("/")[2])
    for name in ("dbanon_admin", "dbanon_runner", "dbanon_reader", "dbanon_ledger"):
        sql_server.execute(f"REVOKE {name} FROM chief CASCADE")
    for statement in ("DROP ROLE anna", "DROP ROLE chief"):
        sql_server.execute(statement)
