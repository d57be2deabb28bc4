"""Releases per attribute on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from tests.stores.databases import DuckdbDatabase


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})


def test_only_with_the_word_and_loudly(tmp_path: Path) -> None:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    rows = [(i, i * 37 % 61, i * 17 % 53) for i in range(60)]
    database.load("people", {"id": "INTEGER", "age": "INTEGER", "size": "INTEGER"}, rows)
    command_line = [
        "anonymize",
        database.url,
        "--table",
        "people",
        "--quasi-identifiers",
        "age,size",
    ]
    command_line += ["--k", "3", "--output", "release.people", "--method", "individual_ranking"]
    done = run(*command_line)
    assert done.exit_code == 2
    assert "--guarantee per_attribute" in done.stderr
    done = run(*command_line, "--guarantee", "per_attribute")
    assert done.exit_code == 0, done.output
    assert "Warning: rows are NOT k-anonymous; the rarest combination" in done.stderr
    assert "ROWS ARE NOT k-ANONYMOUS" in done.stdout
    done = run("verify", database.url, "release.people")
    assert done.exit_code == 0, done.output
    assert "of each attribute by itself; ROWS ARE NOT k-ANONYMOUS" in done.stdout
    verification = json.loads(
        run("verify", database.url, "release.people", "--format", "json").stdout
    )
    table = database.relation("release.people")
    smallest = database.rows(
        f"SELECT min(n) FROM (SELECT count(*) AS n FROM {table} GROUP BY age, size)"
    )
    assert verification["k_rows"] == smallest[0][0] < 3 <= verification["k_achieved"]
