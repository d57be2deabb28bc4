"""Releases whose comment, name, schema, owner or database has changed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from sqlalchemy import make_url

import dbanon
from dbanon.doors import install
from dbanon.doors.cli.main import main
from dbanon.errors import InstallRefused
from tests.postgres_server import Server, find_server_binaries, libpq_environment

Run = Callable[..., list[tuple[Any, ...]]]
Role = Callable[..., str]
Connect = Callable[..., psycopg.Connection[Any]]

PEOPLE = "CREATE TABLE app.people AS SELECT g AS id, g % 9 AS a FROM generate_series(1, 90) AS g"
RELEASE = (
    "SELECT dbanon.mdav('app.people', 'release.v', '{a}', 5, if_exists => 'replace',"
    ' options => \'{"output_kind": "%s"}\')'
)
STATES = "SELECT output, state FROM dbanon.releases() ORDER BY created_at"
MATCHES = "its owner, columns and rows are those that were released"


def run_repair(url: str, *words: str) -> list[tuple[str, str, str]]:
    """The repairs that the command reports."""
    done = CliRunner().invoke(main, ["repair", url, "--format", "json", *words])
    assert done.exit_code == 0, done.output
    return [
        (repair["output"], repair["action"], repair["reason"])
        for repair in json.loads(done.stdout)["repairs"]
    ]


def restore(url: str, restored: str, tmp_path: Path, *words: str) -> None:
    """Restore a database into another one, as an administrator does."""
    programs, dump = find_server_binaries(), tmp_path / "dump"
    for arguments, of in (
        ([programs / "pg_dump", "--format=custom", f"--file={dump}"], url),
        (
            [
                programs / "pg_restore",
                "--exit-on-error",
                *words,
                f"--dbname={make_url(restored).database}",
                dump,
            ],
            restored,
        ),
    ):
        subprocess.run(
            list(map(str, arguments)),
            env={**os.environ, **libpq_environment(of)},
            check=True,
            capture_output=True,
        )


@pytest.mark.one_database
@pytest.mark.parametrize("kind", ["view", "table"])
@pytest.mark.parametrize("comment", ["'monthly'", "NULL"])
def test_a_comment_is_the_owners(run_sql: Run, sql_url: str, kind: str, comment: str) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE % kind)
    remark = f"COMMENT ON {kind} release.v IS {comment}; COMMENT ON TABLE release.v_summary IS NULL"
    run_sql(remark)
    assert run_sql(STATES) == [("release.v", "current")]
    assert run_sql("SELECT unchanged FROM dbanon.verify('release.v')") == [(True,)]
    assert dbanon.verify(sql_url, "release.v").unchanged
    assert run_sql("SELECT rows_in FROM dbanon.refresh('release.v')") == [(90,)]
    run_sql(remark)
    assert dbanon.refresh(sql_url, "release.v").rows_in == 90
    run_sql(remark)
    run_sql(RELEASE % kind)
    run_sql(remark)
    assert [release.state for release in dbanon.releases(sql_url)] == [
        "current",
        *["superseded"] * 3,
    ]
    for relation in run_sql("SELECT relation_name FROM dbanon.release WHERE output_kind = 'view'"):
        run_sql(f'COMMENT ON TABLE release."{relation[0]}" IS NULL')
    collected = run_sql("SELECT dbanon.gc(0)")
    assert len(collected) == (3 if kind == "view" else 0)
    dropped = run_sql("SELECT dropped FROM dbanon.drop('release.v')")
    assert (dropped[0], dropped[-1]) == (("release.v",), ("release.v_summary",))
    assert run_sql(
        "SELECT count(*) FROM pg_class WHERE relnamespace = 'release'::regnamespace"
        " AND relkind <> 'i'"
    ) == [(0,)]


@pytest.mark.one_database
@pytest.mark.parametrize("kind", ["view", "table"])
@pytest.mark.parametrize("change", ["SET SCHEMA archive", "RENAME TO w"])
def test_a_release_under_another_name(run_sql: Run, sql_url: str, kind: str, change: str) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE % kind)
    run_sql("CREATE SCHEMA archive")
    run_sql(f"ALTER {kind} release.v {change}")
    name = "archive.v" if "SCHEMA" in change else "release.w"
    assert run_sql(STATES) == [(name, "current")]
    assert [(release.output, release.state) for release in dbanon.releases(sql_url)] == [
        (name, "current")
    ]
    assert run_sql(f"SELECT unchanged FROM dbanon.verify('{name}')") == [(True,)]
    assert run_sql(f"SELECT dbanon.show('{name}') ->> 'state'") == [("current",)]
    assert dbanon.verify(sql_url, name).unchanged
    with pytest.raises(dbanon.errors.TableNotFound, match="dropped or renamed"):
        dbanon.verify(sql_url, "release.v")
    assert run_repair(sql_url) == [(name, "renamed", "its entry named it release.v")]
    assert run_repair(sql_url) == []
    assert run_sql("SELECT output_schema || '.' || output_name FROM dbanon.release") == [(name,)]
    assert run_sql(f"SELECT rows_in FROM dbanon.refresh('{name}')") == [(90,)]
    assert dbanon.refresh(sql_url, name).rows_in == 90
    assert run_sql(STATES) == [(name, "superseded")] * 2 + [(name, "current")]
    assert name in dbanon.drop(sql_url, name)


@pytest.mark.one_database
def test_a_renamed_view_is_replaced_before_its_entry_is_repaired(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE % "view")
    run_sql("ALTER VIEW release.v RENAME TO w")
    run_sql((RELEASE % "view").replace("release.v", "release.w"))
    assert run_sql(STATES) == [("release.v", "superseded"), ("release.w", "current")]
    assert len(run_sql("SELECT dbanon.gc(0)")) == 1


@pytest.mark.one_database
def test_another_owner_is_accepted_by_name(run_sql: Run, sql_role: Role, sql_url: str) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE % "table")
    sql_role("berta")
    run_sql("ALTER TABLE release.v OWNER TO berta")
    assert run_sql(STATES) == [("release.v", "untied")]
    [(output, action, reason)] = run_repair(sql_url)
    assert (output, action, "berta" in reason) == ("release.v", "left", True)
    assert run_repair(sql_url, "--accept-owner", "anna")[0][1] == "left"
    assert run_repair(sql_url, "--accept-owner", "berta") == [("release.v", "attached", MATCHES)]
    assert run_sql(STATES) == [("release.v", "current")]
    assert run_sql("SELECT published_by <> 'berta' FROM dbanon.release") == [(True,)]


def test_a_dump_without_comments(
    sql_url: str,
    run_sql: Run,
    sql_server: Server,
    tmp_path: Path,
    backend_path: Path,
    sql_role: Role,
    fresh: Callable[[], str],
) -> None:
    run_sql(PEOPLE)
    url = sql_role("anna")
    run_sql("GRANT SELECT ON app.people TO anna")
    for kind in ("view", "view"):
        run_sql(RELEASE % kind, url=url)
    run_sql((RELEASE % "table").replace("release.v", "release.t"))
    run_sql((RELEASE % "table").replace("release.v", "release.other"))
    restored = fresh()
    restore(sql_url, restored, tmp_path, "--no-comments")

    def run_restored(statement: str) -> list[tuple[Any, ...]]:
        return sql_server.execute(statement, url=restored)

    run_restored("UPDATE release.other SET a = a + 1")
    assert [state for _, state in run_restored(STATES)] == ["superseded", *["untied"] * 3]
    with pytest.raises(psycopg.errors.UndefinedTable, match="not the table"):
        run_restored("SELECT dbanon.verify('release.v')")
    done = dict(install.upgrade(restored, python_paths=[str(backend_path)]))
    assert done["release release.v"] == f"attached: {MATCHES}"
    assert done["release release.t"] == f"attached: {MATCHES}"
    assert done["release release.other"] == "left: its rows are not those that were released"
    assert run_restored(STATES) == [
        ("release.v", "superseded"),
        ("release.v", "current"),
        ("release.t", "current"),
        ("release.other", "untied"),
    ]
    assert run_restored("SELECT unchanged FROM dbanon.verify('release.v')") == [(True,)]
    assert len(run_restored("SELECT dbanon.gc(0)")) == 1
    assert run_restored("SELECT dropped FROM dbanon.drop('release.t')") == [
        ("release.t",),
        ("release.t_summary",),
    ]
    anna = make_url(restored).set(username="anna", password=make_url(url).password)
    as_anna = anna.render_as_string(hide_password=False)
    again = sql_server.execute(
        "SELECT rows_in FROM dbanon.refresh('release.v', '{source}')", url=as_anna
    )
    assert again == [(90,)]


def test_a_dump_without_owners_and_without_functions(
    sql_server: Server, tmp_path: Path, fresh: Callable[[], str]
) -> None:
    """A client's ledger, restored by another role."""
    url, restored = fresh(), fresh()
    sql_server.execute("CREATE SCHEMA app", url=url)
    sql_server.execute(PEOPLE, url=url)
    arguments: dict[str, Any] = {"table": "app.people", "quasi_identifiers": ["a"], "k": 5}
    dbanon.anonymize(url, output="release.p", **arguments)
    dbanon.anonymize(url, output="release.v", output_kind="view", **arguments)
    sql_server.execute("UPDATE dbanon.release SET published_by = 'clinic'", url=url)
    restore(url, restored, tmp_path, "--no-comments")
    assert {release.state for release in dbanon.releases(restored)} == {"dropped"}
    repairs = run_repair(restored)
    assert [(name, action) for name, action, _ in repairs] == [
        ("release.p", "left"),
        ("release.v", "left"),
    ]
    owner = make_url(restored).username
    assert owner is not None
    assert run_repair(restored, "--accept-owner", owner) == [
        ("release.p", "attached", MATCHES),
        ("release.v", "attached", MATCHES),
    ]
    assert run_repair(restored) == []
    for name in ("release.p", "release.v"):
        assert dbanon.verify(restored, name).unchanged
    assert len(dbanon.drop(restored, "release.v")) == 2


@pytest.mark.parametrize("owner", ["same", "renamed"])
def test_a_ledger_of_before(
    sql_url: str, run_sql: Run, sql_role: Role, backend_path: Path, owner: str
) -> None:
    """Its releases are those with the recorded oid, name and owner, whatever the entries claim."""
    run_sql(PEOPLE)
    url = sql_role("anna")
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql(RELEASE % "view", url=url)
    run_sql((RELEASE % "table").replace("release.v", "release.t"), url=url)
    run_sql((RELEASE % "table").replace("release.v", "release.u"), url=url)
    run_sql("COMMENT ON VIEW release.v IS 'monthly'")
    run_sql("COMMENT ON TABLE release.t IS NULL")
    # Neither its oid nor its mark is the recorded one.
    run_sql("UPDATE dbanon.release SET output_oid = 1, relation_oid = 1 WHERE output_name = 'u'")
    run_sql("COMMENT ON TABLE release.u IS NULL")
    run_sql("UPDATE release.u SET a = a + 1")
    if owner == "renamed":
        run_sql("ALTER ROLE anna RENAME TO anna_smith")
    run_sql("DROP TABLE dbanon.release_internal CASCADE")
    for column in ("owner_oid", "publisher_oid", "ledger_oid"):
        run_sql(f"ALTER TABLE dbanon.release DROP COLUMN {column}")
    run_sql("ALTER TABLE dbanon.chain_member DROP COLUMN excluded_rows")
    run_sql("UPDATE dbanon.alembic_version SET version_num = '0012'")
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    states = dict(run_sql(STATES))
    assert states.pop("release.u") == ("untied" if owner == "same" else "dropped")
    assert states == {"release.v": "current", "release.t": "current"}
    numbered = run_sql(
        "SELECT DISTINCT owner_oid = publisher_oid, pg_get_userbyid(publisher_oid::oid)::text"
        " FROM dbanon.release WHERE ledger_oid = 'dbanon.release'::regclass::oid::bigint"
    )
    assert numbered == [(True, "anna" if owner == "same" else "anna_smith")]


@pytest.mark.one_database
def test_the_servers_words_about_a_value_are_not_repeated(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE % "view")
    [(table, kind)] = run_sql(
        "SELECT r.relation_name, format_type(a.atttypid, a.atttypmod) FROM dbanon.release AS r"
        " JOIN pg_attribute AS a ON a.attrelid = 'release.v'::regclass AND a.attname = 'a'"
    )
    run_sql(
        f"CREATE OR REPLACE VIEW release.v AS SELECT ('qzmark' || a)::{kind} AS a"
        f' FROM release."{table}"'
    )
    run_sql("UPDATE dbanon.release SET ledger_oid = 1")
    [(action, reason)] = run_sql("SELECT action, reason FROM dbanon.repair()")
    assert (action, reason) == ("left", "its rows could not be compared (SQLSTATE 22P02)")


def test_other_databases_have_nothing_to_repair(tmp_path: Path) -> None:
    with pytest.raises(InstallRefused, match="Only a ledger on PostgreSQL"):
        install.repair(f"sqlite:///{tmp_path / 'a.db'}")


def test_there_must_be_a_ledger(fresh: Callable[[], str]) -> None:
    with pytest.raises(InstallRefused):
        install.repair(fresh())
