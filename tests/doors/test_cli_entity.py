"""Several rows per person on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from tests.stores.databases import DuckdbDatabase


@pytest.fixture
def database(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    rows = [(i, f"hushed {i % 20}", i * 37 % 60) for i in range(60)]
    database.load("people", {"id": "INTEGER", "who": "VARCHAR", "age": "INTEGER"}, rows)
    return database


def anonymize(url: str, *more: str) -> Result:
    options = ["--table", "people", "--quasi-identifiers", "age", "--output", "release.people"]
    return CliRunner().invoke(main, ["anonymize", url, *options, *more], env={"COLUMNS": "200"})


def test_persons_are_counted(database: DuckdbDatabase) -> None:
    done = anonymize(database.url, "--k", "5", "--entity", "who", "--format", "json")
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert (report["k_achieved"], report["smallest_class"], report["persons"]) == (5, 15, 20)
    assert "hushed" not in done.output
    again = CliRunner().invoke(
        main, ["verify", database.url, "release.people"], env={"COLUMNS": "200"}
    )
    assert '5 / 15 (rows; the release counted persons by "who"' in again.stdout


def test_too_few_persons(database: DuckdbDatabase) -> None:
    before = database.state()
    done = anonymize(database.url, "--k", "21", "--entity", "who")
    assert done.exit_code == 3
    assert "There are 20 persons" in done.stderr
    assert "hushed" not in done.output
    assert database.state() == before
