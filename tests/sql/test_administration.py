"""The instructions of docs/administration.md: roles, and restoring a database."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.doors import install
from dbanon.run.gc import clear_runs
from dbanon.run.open import open_store
from tests.postgres_server import Server, conninfo
from tests.sql.ledger_entries import PEOPLE, anonymize

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "examples" / "admin" / "roles.sql"
PAGE = ROOT / "docs" / "administration.md"

Run = Callable[..., list[tuple[Any, ...]]]


def test_the_template_of_roles(sql_server: Server, run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    for _ in range(2):
        run_sql(ROLES.read_text())
        install.install(sql_url, sql_only=True)
    dbanon.create_budget(sql_url, "people", source="app.people", epsilon=3)
    urls = {
        name: sql_server.create_role(f"{name}_one", url=sql_url, options=f"IN ROLE dbanon_{name}")
        for name in ("publisher", "operator", "auditor")
    }
    run_sql("GRANT USAGE ON SCHEMA app TO PUBLIC")
    run_sql("GRANT SELECT ON app.people TO dbanon_publisher")
    run_sql("GRANT USAGE, CREATE ON SCHEMA release TO dbanon_publisher")
    run_sql("GRANT USAGE ON SCHEMA release TO dbanon_auditor")
    anonymize(urls["publisher"])
    run_sql("GRANT SELECT ON release.p TO dbanon_auditor")
    auditor = urls["auditor"]
    assert [release.output for release in dbanon.releases(auditor)] == ["release.p"]
    assert dbanon.verify(auditor, "release.p").k_achieved == 5
    [budget] = dbanon.budgets(auditor)
    assert budget.name == "people"
    for query in (
        "SELECT * FROM dbanon.run",
        "SELECT * FROM dbanon.spending",
        "SELECT * FROM dbanon.usage()",
        "SELECT * FROM dbanon.releases()",
        "SELECT dbanon.show('release.p')",
        "SELECT dbanon.verify('release.p')",
    ):
        assert run_sql(query, url=auditor) or "spending" in query
    for statement in (
        "SELECT dbanon._spend('people', 0.1, gen_random_uuid())",
        "SELECT dbanon._hold_job('people')",
        "SELECT dbanon._record_run('{}')",
        "DELETE FROM dbanon.run",
        "UPDATE dbanon.budget SET spent = 0",
        "SELECT dbanon.mdav('app.people', 'release.q', '{a}', 5)",
        "SELECT dbanon.gc(0)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run_sql(statement, url=auditor)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_sql("DELETE FROM dbanon.run", url=urls["publisher"])
    failed = (
        '{"door": "cli", "method": "mdav", "error_code": "x", "source": "s", "output_name": "o"}'
    )
    run_sql("SELECT dbanon._record_run(%s::jsonb)", failed, url=urls["publisher"])
    assert clear_runs(open_store(urls["operator"]), 0) == 1
    with psycopg.connect(conninfo(urls["publisher"])) as hanging:
        [(ended,)] = run_sql(
            "SELECT pg_terminate_backend(%s)", hanging.info.backend_pid, url=urls["operator"]
        )
        assert ended


def test_the_runbook_of_a_restore(
    sql_server: Server, fresh: Callable[[], str], tmp_path: Path, programs: str
) -> None:
    old = fresh()
    for statement in ("CREATE SCHEMA app", "CREATE SCHEMA release", PEOPLE):
        sql_server.execute(statement, url=old)
    install.install(old, sql_only=True)
    dbanon.create_budget(old, "people", source="app.people", epsilon=3)
    anonymize(old)
    sql_server.execute("SELECT dbanon._spend('people', 1, gen_random_uuid())", url=old)
    [script] = re.findall(r"<!-- runbook -->\n```bash\n(.*?)```", PAGE.read_text(), re.S)
    plain = make_url(old).set(drivername="postgresql")
    name = f"{plain.database}_again"
    new = plain.set(database=name).render_as_string(hide_password=False)
    try:
        done = subprocess.run(
            ["bash", "-e", "-c", script.replace(" restored\n", f" {name}\n")],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "PATH": programs,
                "NEW": new,
                "COLUMNS": "200",
                "OLD": plain.render_as_string(hide_password=False),
                "SERVER": plain.set(database="postgres").render_as_string(hide_password=False),
            },
        )
        assert done.returncode == 0, done.stderr
        assert "release.p" in done.stdout
        assert [release.state for release in dbanon.releases(new)] == ["current"]
        assert dbanon.verify(new, "release.p").unchanged
        [budget] = dbanon.budgets(new)
        assert float(budget.spent) == 1.5
    finally:
        sql_server.drop_database(name)
