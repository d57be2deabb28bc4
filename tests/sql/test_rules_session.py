"""The session of docs/rules.md, from CREATE EXTENSION to a release; rules survive a dump."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import dbanon
from dbanon.doors import extension as extension_module
from dbanon.doors import install
from dbanon.errors import RulesOfAnotherTable
from tests.postgres_server import Server, find_server_binaries, libpq_environment

ROOT = Path(__file__).resolve().parents[2]


def test_the_session_of_the_page_and_its_dump(
    sql_server: Server,
    backend_path: Path,
    fresh: Callable[[], str],
    extension_files: Path,
    tmp_path: Path,
) -> None:
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    [session] = re.findall(r"```sql\n(CREATE EXTENSION dbanon CASCADE;.*?)```", text, re.S)
    extension_module.write_extension(extension_files, [str(backend_path)])
    url, restored = fresh(), fresh()
    outputs = []
    for statement in filter(str.strip, session.split(";\n")):
        outputs.append(sql_server.execute(statement, url=url))
    declared, released, verified = outputs[3:]
    assert ("age", "quasi_identifier") in declared
    assert (released[0][0], released[0][1] >= 5) == (1000, True)
    assert verified == [(released[0][1], True)]
    rules = "SELECT source, name, rule, declared_at, declared_by FROM dbanon.rule ORDER BY name"
    before = sql_server.execute(rules, url=url)
    assert len(before) == 4
    restore(url, restored, tmp_path / "dump")
    assert sql_server.execute(rules, url=restored) == before
    # Before the upgrade rules are matched by name.
    with pytest.warns(RulesOfAnotherTable):
        dbanon.plan(
            restored,
            table="person",
            declared=True,
            k=5,
            output="release.q",
            releases="independent",
        )
    install.upgrade(restored, python_paths=[str(backend_path)])
    assert sql_server.execute("SELECT DISTINCT state FROM dbanon.rules()", url=restored) == [
        ("current",)
    ]
    # Its oid has changed, too, which has to be accepted once.
    again = dbanon.refresh(restored, "release.person", accept=["source", "independent"])
    assert again.rows_in == 1000
    assert dbanon.refresh(restored, "release.person", accept=["independent"]).rows_in == 1000


def restore(url: str, restored: str, dump: Path) -> None:
    """Copy a database with pg_dump's custom format and pg_restore, as an administrator does."""
    programs = find_server_binaries()
    for line, where in (
        ([programs / "pg_dump", "--format=custom", f"--file={dump}"], url),
        (
            [programs / "pg_restore", "--exit-on-error", f"--dbname={Path(restored).name}", dump],
            restored,
        ),
    ):
        done = subprocess.run(
            list(map(str, line)),
            env={**os.environ, **libpq_environment(where)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
