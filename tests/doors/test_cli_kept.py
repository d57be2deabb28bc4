"""Kept columns that reveal too much, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from tests.stores.databases import DuckdbDatabase


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})


def test_a_warning_on_stderr_and_strict(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    rows = [(i * 37 % 61, i * 17 % 53, i * 37 % 61 * 2, i % 3) for i in range(600)]
    columns = dict.fromkeys(("age", "size", "twice", "third"), "INTEGER")
    database.load("people", columns, rows)
    database.make_schema("release")
    command_line = [
        "anonymize",
        database.url,
        "--table",
        "people",
        "--quasi-identifiers",
        "age,size",
    ]
    command_line += ["--k", "3", "--output", "release.people", "--releases", "independent"]
    done = run(*command_line, "--keep", "twice,third", "--strict")
    assert done.exit_code == 6
    assert "telling_column" in done.stderr
    assert '"twice" determines what "age" was' in done.stderr
    assert run("verify", database.url, "release.people").exit_code == 2
    done = run(*command_line, "--keep", "third", "--strict")
    assert (done.exit_code, done.stderr) == (0, "")
    done = run(*command_line, "--keep", "twice", "--if-exists", "replace", "--format", "json")
    assert done.exit_code == 0
    assert done.stderr.startswith('Warning: column "twice" determines what "age" was, in all')
    assert json.loads(done.stdout)["disclosive_columns"] == [
        {"name": "twice", "determines": "age", "share": 1.0}
    ]
    done = run(*command_line, "--keep", "twice", "--if-exists", "replace")
    assert "DISCLOSIVE COLUMN" in done.stdout
