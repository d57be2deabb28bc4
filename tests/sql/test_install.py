"""Four ways to the same catalog; adoption, upgrade, removal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.doors import extension as extension_module
from dbanon.doors import install, sql_script
from dbanon.doors.cli.main import main
from dbanon.errors import InsufficientRights, PythonNotUsable
from dbanon.kernels import _kernels
from dbanon.ledger.migrate import migrate
from dbanon.methods import METHODS
from dbanon.run.open import open_store
from tests.postgres_server import Server

# Installation checks whether the server's Python finds its packages.
pytestmark = pytest.mark.own_python

Execute = Callable[..., list[tuple[Any, ...]]]

TABLES = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
       row_number() OVER (PARTITION BY c.relname ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = 'dbanon'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
  AND NOT a.attisdropped
ORDER BY 1, 5"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'dbanon'::regnamespace ORDER BY 1, 2"""
FUNCTIONS = """
SELECT p.oid::regprocedure::text, md5(pg_get_functiondef(p.oid)), d.description,
       array(SELECT (a).grantee::regrole::text || (a).privilege_type
             FROM (SELECT aclexplode(p.proacl) AS a) AS acl ORDER BY 1)
FROM pg_proc p LEFT JOIN pg_description d ON d.objoid = p.oid
WHERE p.pronamespace = 'dbanon'::regnamespace ORDER BY 1"""
TYPES = """
SELECT t.typname, a.attname, format_type(a.atttypid, a.atttypmod)
FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid JOIN pg_class c ON c.oid = t.typrelid
WHERE t.typnamespace = 'dbanon'::regnamespace AND c.relkind = 'c' ORDER BY 1, a.attnum"""
GRANTS = """
SELECT c.relname, (a).grantee::regrole::text, (a).privilege_type
FROM (SELECT relname, aclexplode(relacl) AS a FROM pg_class
      WHERE relnamespace = 'dbanon'::regnamespace AND relkind = 'r') AS c ORDER BY 1, 2, 3"""


def _migrated(url: str, revision: str = "head") -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        migrate(connection, revision)


def test_four_ways_give_the_same_catalog(
    sql_server: Server, backend_path: Path, fresh: Callable[[], str], extension_files: Path
) -> None:
    paths = [str(backend_path)]
    by_script, by_extension, by_alembic, by_client = fresh(), fresh(), fresh(), fresh()
    install.install(by_script, python_paths=paths)
    install.install(by_extension, python_paths=paths, extension=True)
    _migrated(by_alembic)
    with open_store(by_client).session(write=True) as session:
        session.ledger.ensure_current()

    def catalog(url: str, *queries: str) -> list[Any]:
        return [sql_server.execute(query, url=url) for query in queries]

    of_ledger = (TABLES, CONSTRAINTS, GRANTS)
    assert catalog(by_script, *of_ledger[:2]) == catalog(by_alembic, *of_ledger[:2])
    assert catalog(by_client, *of_ledger) == catalog(by_alembic, *of_ledger)
    everything = (TABLES, CONSTRAINTS, FUNCTIONS, TYPES, GRANTS)
    assert catalog(by_script, *everything) == catalog(by_extension, *everything)
    # A client accepts either ledger.
    for url in (by_script, by_extension, by_client):
        _migrated(url)


def test_every_method_has_its_function_and_manual(sql_server: Server, sql_url: str) -> None:
    for name in METHODS:
        [(signature, comment)] = sql_server.execute(
            "SELECT pg_get_function_identity_arguments(oid), obj_description(oid, 'pg_proc')"
            " FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace AND proname = %s",
            name,
            url=sql_url,
        )
        assert signature.startswith("source regclass, output text, quasi_identifiers text[], k int")
        assert sql_script.to_ascii(METHODS[name].reference) in comment
        for option in METHODS[name].options:
            assert f"  {option.name}: " in comment


def test_every_function_has_a_comment_and_no_public_right(sql_server: Server, sql_url: str) -> None:
    assert (
        sql_server.execute(
            "SELECT p.proname FROM pg_proc p WHERE p.pronamespace = 'dbanon'::regnamespace AND"
            " (obj_description(p.oid, 'pg_proc') IS NULL OR p.proacl IS NULL"
            "  OR p.prosecdef <> (p.proname IN"
            "      ('_record_release', '_record_run', '_spend', '_hold_job', '_write_rules',"
            "       '_record_persons', '_joint_histories'))"
            "  OR p.prosecdef AND p.proowner <> 'dbanon_ledger'::regrole"
            "  OR p.provolatile = 'i' OR EXISTS (SELECT 1 FROM aclexplode(p.proacl) a"
            "  WHERE a.grantee = 0)"
            "  OR NOT 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig))",
            url=sql_url,
        )
        == []
    )


def test_the_extension_adopts_a_ledger_of_the_client(
    sql_server: Server, backend_path: Path, fresh: Callable[[], str], extension_files: Path
) -> None:
    url = fresh()
    sql_server.execute("CREATE SCHEMA app", url=url)
    sql_server.execute(
        "CREATE TABLE app.t AS SELECT g AS id, sin(g) AS a FROM generate_series(1, 99) AS g",
        url=url,
    )
    _migrated(url, "0001")
    extension_module.write_extension(extension_files, [str(backend_path)])
    engine = create_engine(url, poolclass=NullPool)
    dbanon.anonymize(engine, table="app.t", output="release.t", quasi_identifiers=["a"], k=3)
    before = sql_server.execute("SELECT * FROM dbanon.release", url=url)
    sql_server.execute("CREATE EXTENSION dbanon CASCADE", url=url)
    assert sql_server.execute("SELECT * FROM dbanon.release", url=url) == before
    assert sql_server.execute("SELECT k_achieved FROM dbanon.verify('release.t')", url=url) == [
        (3,)
    ]
    sql_server.execute("SELECT dbanon.mdav('app.t', 'release.u', '{a}', 3)", url=url)
    # Removal keeps the ledger, and the client continues to use it.
    install.uninstall(url)
    assert sql_server.execute("SELECT count(*) FROM dbanon.release", url=url) == [(2,)]
    dbanon.anonymize(engine, table="app.t", output="release.w", quasi_identifiers=["a"], k=3)
    install.install(url, python_paths=[str(backend_path)])
    assert sql_server.execute("SELECT count(*) FROM dbanon.releases()", url=url) == [(3,)]


def test_a_client_with_a_runners_rights_uses_the_same_ledger(
    sql_server: Server, sql_url: str
) -> None:
    sql_server.execute("CREATE TABLE app.t AS SELECT generate_series(1, 9) AS a", url=sql_url)
    anna = sql_server.create_role("anna", url=sql_url, options="IN ROLE dbanon_runner")
    for statement in (
        "GRANT USAGE ON SCHEMA app TO anna",
        "GRANT SELECT ON app.t TO anna",
        "GRANT USAGE, CREATE ON SCHEMA release TO anna",
    ):
        sql_server.execute(statement, url=sql_url)
    engine = create_engine(anna, poolclass=NullPool)
    dbanon.anonymize(engine, table="app.t", output="release.t", quasi_identifiers=["a"], k=3)
    sql_server.execute("SELECT dbanon.mdav('app.t', 'release.u', '{a}', 3)", url=anna)
    assert sql_server.execute("SELECT count(*) FROM dbanon.releases()", url=anna) == [(2,)]


@pytest.mark.parametrize("extension", [False, True], ids=["script", "extension"])
def test_upgrade_keeps_ledger_hierarchies_and_grants(
    sql_server: Server,
    backend_path: Path,
    fresh: Callable[[], str],
    extension_files: Path,
    monkeypatch: pytest.MonkeyPatch,
    extension: bool,
) -> None:
    url, paths = fresh(), [str(backend_path)]
    with monkeypatch.context() as older:
        older.setattr(sql_script, "version", lambda: "0.0.9")
        older.setattr(install, "version", lambda: "0.0.9")
        older.setattr(extension_module, "version", lambda: "0.0.9")
        older.setattr(install, "require_python", lambda connection, paths, owners: None)
        older.setattr(install, "_run_check", lambda connection: [])
        sql_server.execute("CREATE EXTENSION plpython3u", url=url)
        install.install(url, python_paths=paths, extension=extension)
    sql_server.execute("CREATE TABLE public.t AS SELECT generate_series(1, 9) AS a", url=url)
    with pytest.raises(Exception, match=r"version 0\.0\.9") as failure:
        sql_server.execute("SELECT dbanon.mdav('public.t', 'public.u', '{a}', 3)", url=url)
    assert failure.value.sqlstate == "55000"  # type: ignore[attr-defined]
    sql_server.execute(
        "INSERT INTO dbanon.hierarchy VALUES ('education', 'tree', NULL, now(), 'me')", url=url
    )
    sql_server.execute(
        "INSERT INTO dbanon.hierarchy_node VALUES ('education', 0, NULL, '*')", url=url
    )
    sql_server.create_role("clerk", url=url)
    sql_server.execute(
        "GRANT EXECUTE ON FUNCTION dbanon.k_anonymity(regclass, text[]) TO clerk", url=url
    )
    install.upgrade(url, python_paths=paths)
    sql_server.execute("SELECT dbanon.mdav('public.t', 'public.u', '{a}', 3)", url=url)
    assert sql_server.execute(
        "SELECT (SELECT count(*) FROM dbanon.hierarchy),"
        " (SELECT count(*) FROM dbanon.hierarchy_node), (SELECT count(*) FROM dbanon.release),"
        " has_function_privilege('clerk', 'dbanon.k_anonymity(regclass, text[])', 'EXECUTE')",
        url=url,
    ) == [(1, 1, 1, True)]
    sql_server.execute("DROP OWNED BY clerk", url=url)
    sql_server.execute("DROP ROLE clerk", url=url)


def test_sql_only_needs_no_python(sql_server: Server, fresh: Callable[[], str]) -> None:
    url = fresh()
    done = CliRunner().invoke(main, ["install", url, "--sql-only"])
    assert done.exit_code == 0, done.output
    assert sql_server.execute("SELECT 1 FROM pg_extension WHERE extname ~ 'python'", url=url) == []
    sql_server.execute(
        "CREATE TABLE public.t AS SELECT g % 3 AS a FROM generate_series(1, 9) g", url=url
    )
    assert sql_server.execute("SELECT dbanon.k_anonymity('public.t', '{a}')", url=url) == [(3,)]
    assert sql_server.execute(
        "SELECT * FROM dbanon.equivalence_classes('public.t', '{a}', 4)", url=url
    ) == [(1, 3, 3, 9)]
    # The client's releases are verified here.
    engine = create_engine(url, poolclass=NullPool)
    dbanon.anonymize(engine, table="public.t", output="public.r", quasi_identifiers=["a"], k=3)
    assert sql_server.execute("SELECT unchanged FROM dbanon.verify('public.r')", url=url) == [
        (True,)
    ]
    sql_server.execute("UPDATE public.r SET a = 7 WHERE a = 1", url=url)
    sql_server.execute("UPDATE public.r SET a = 7 WHERE a = 2", url=url)
    with pytest.raises(Exception, match=r"class sizes, rows \(digest\) differ") as failure:
        sql_server.execute("SELECT dbanon.verify('public.r')", url=url)
    assert failure.value.sqlstate == "ZK007"  # type: ignore[attr-defined]
    sql_server.execute(
        "UPDATE public.r SET a = 1 WHERE ctid = (SELECT min(ctid) FROM public.r)", url=url
    )
    with pytest.raises(Exception, match="smallest class") as failure:
        sql_server.execute("SELECT dbanon.verify('public.r')", url=url)
    assert failure.value.sqlstate == "ZK001"  # type: ignore[attr-defined]
    done = CliRunner().invoke(main, ["uninstall", url, "--ledger"])
    assert done.exit_code == 0, done.output
    assert sql_server.execute("SELECT to_regnamespace('dbanon')::text", url=url) == [(None,)]


def test_the_commands_install_and_upgrade(
    sql_server: Server, fresh: Callable[[], str], backend_path: Path
) -> None:
    url, path = fresh(), ["--python-path", str(backend_path)]
    refused = CliRunner().invoke(main, ["upgrade", url, *path])
    assert refused.exit_code == 2
    for command in ("install", "upgrade", "install"):
        done = CliRunner().invoke(main, [command, url, *path])
        assert done.exit_code == 0, done.output
        assert "numpy" in done.output
    assert CliRunner().invoke(main, ["uninstall", url]).exit_code == 0
    assert sql_server.execute("SELECT count(*) FROM dbanon.release", url=url) == [(0,)]
    both = CliRunner().invoke(main, ["install", url, "--extension", "--sql-only"])
    assert both.exit_code == 2


def test_a_schema_of_somebody_else_is_refused(
    sql_server: Server, fresh: Callable[[], str], backend_path: Path, extension_files: Path
) -> None:
    url = fresh()
    sql_server.create_role("mallory", url=url)
    sql_server.execute("CREATE SCHEMA dbanon AUTHORIZATION mallory", url=url)
    for extension in (False, True):
        with pytest.raises(InsufficientRights, match="belongs to another role"):
            install.install(url, python_paths=[str(backend_path)], extension=extension)
    sql_server.execute("ALTER SCHEMA dbanon OWNER TO postgres", url=url)
    sql_server.execute("CREATE FUNCTION dbanon.mdav() RETURNS integer RETURN 1", url=url)
    sql_server.execute("ALTER FUNCTION dbanon.mdav() OWNER TO mallory", url=url)
    with pytest.raises(InsufficientRights, match="belongs to another role"):
        install.install(url, python_paths=[str(backend_path)])
    sql_server.execute("DROP FUNCTION dbanon.mdav()", url=url)
    sql_server.execute("DROP ROLE mallory", url=url)


def test_a_python_that_the_server_cannot_use_is_refused(
    sql_server: Server, fresh: Callable[[], str], backend_path: Path, tmp_path: Path
) -> None:
    url = fresh()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "dbanon").symlink_to(backend_path / "dbanon")
    with pytest.raises(PythonNotUsable, match="cannot use dbanon") as failure:
        install.install(url, python_paths=[str(closed)])
    # The server's own, for example `python3.11`.
    assert re.search(
        r"sudo python3\.\d+ -m pip install --target \S+ \S+ && dbanon install",
        failure.value.hint or "",
    )
    assert (
        sql_server.execute("SELECT 1 FROM pg_extension WHERE extname = 'plpython3u'", url=url) == []
    )
    (backend_path / "dbanon").chmod(0o777)
    try:
        with pytest.raises(PythonNotUsable, match="Everyone may write"):
            install.install(url, python_paths=[str(backend_path)])
    finally:
        (backend_path / "dbanon").chmod(0o755)


def test_an_editable_install_reports_the_servers_python(
    fresh: Callable[[], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sql_server: Server
) -> None:
    url = fresh()
    monkeypatch.setattr(_kernels, "__file__", str(tmp_path / "dbanon" / "kernels" / "core.so"))
    with pytest.raises(PythonNotUsable, match="editable") as refused:
        install.install(url)
    checkout = Path(dbanon.__file__).parents[1]
    assert re.search(
        rf"sudo python3\.\d+ -m pip install --target \S+ {re.escape(str(checkout))} &&",
        refused.value.hint or "",
    )
    assert (
        sql_server.execute("SELECT 1 FROM pg_extension WHERE extname = 'plpython3u'", url=url) == []
    )


def test_the_backend_imports_only_numpy(sql_server: Server, sql_url: str) -> None:
    sql_server.execute(
        "CREATE FUNCTION app.imported() RETURNS text LANGUAGE plpython3u AS"
        " $$ import json, sys; return json.dumps(sorted({m.partition('.')[0] for m in"
        " sys.modules})) $$",
        url=sql_url,
    )
    sql_server.execute("CREATE TABLE app.t AS SELECT generate_series(1, 9) AS a", url=sql_url)
    [(_, modules)] = sql_server.execute(
        "SELECT dbanon.mdav('app.t', 'release.t', '{a}', 3)::text, app.imported()", url=sql_url
    )
    foreign = {"sqlalchemy", "pandas", "click", "rich", "duckdb", "pyarrow", "psycopg", "alembic"}
    # Uses OpenSSL, which adds milliseconds to a connection's first call.
    foreign.add("_hashlib")
    assert "numpy" in json.loads(modules)
    assert not foreign & set(json.loads(modules))


def test_the_server_reports_its_extension_directory(
    sql_server: Server,
    fresh: Callable[[], str],
    backend_path: Path,
    extension_files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first pg_config on PATH may belong to anybody."""
    (tmp_path / "share" / "extension").mkdir(parents=True)
    command = tmp_path / "pg_config"
    command.write_text(f'#!/bin/sh\ntouch "{tmp_path}/called"\necho "{tmp_path}/share"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    url = fresh()
    for call in (install.install, install.upgrade):
        more = {"extension": True} if call is install.install else {}
        call(url, python_paths=[str(backend_path)], **more)
    assert (extension_files / "dbanon.control").exists()
    assert not list((tmp_path / "share" / "extension").iterdir())
    assert not (tmp_path / "called").exists()
