"""The commands on generalization trees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from tests.stores.databases import DuckdbDatabase, SqliteDatabase

GOOD = "flu;lungs;*\ncough;lungs;*\n"


@pytest.fixture
def database(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    columns = {"ill": "VARCHAR", "zip": "VARCHAR", "cost": "DECIMAL(6,2)", "seen": "TIMESTAMP"}
    rows = [("flu", "23208", 1, None), ("gout", "23119", 2.5, None), (None, None, None, None)]
    database.load("people", columns, [*rows, ("sprain", "23208", 2.5, None)])
    return database


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["hierarchy", *arguments], env={"COLUMNS": "200"})


def tree(tmp_path: Path, text: str, name: str = "tree.csv") -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_good_tree(tmp_path: Path) -> None:
    done = run("check", tree(tmp_path, GOOD))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "2 leaves, height 2: no problem found" in done.stdout
    done = run("check", tree(tmp_path, GOOD), "--format", "json")
    assert json.loads(done.stdout) == {"leaves": 2, "height": 2, "problems": []}


def test_every_problem_is_listed(tmp_path: Path) -> None:
    file = tree(tmp_path, "flu;lungs;*\nflu;belly;*\ngout;joints\ncough;lungs;*\ncough;skin;*\n")
    done = run("check", file)
    assert done.exit_code == 2
    for line, label in ((2, "flu"), (5, "cough")):
        assert any(
            str(line) in row and "second parent" in row and label in row
            for row in done.stdout.splitlines()
        )
    assert "second root" in done.stdout
    assert "hierarchy_broken" in done.stderr
    assert not any(label in done.stderr for label in ("flu", "cough", "joints"))
    output = json.loads(run("check", file, "--format", "json").stdout)
    assert output["error"]["exit_code"] == 2
    assert {"line": 2, "kind": "second parent", "label": "flu"} in output["problems"]


def test_values_that_are_no_leaf(tmp_path: Path, database: DuckdbDatabase) -> None:
    column_options = ["--table", "people", "--column", "ill"]
    before = database.state()
    done = run("check", tree(tmp_path, GOOD), database.url, *column_options)
    assert done.exit_code == 2
    assert all(label in done.stdout for label in ("gout", "sprain"))
    assert "gout" not in done.stderr
    more = GOOD + "gout;joints;*\nsprain;joints;*\n"
    assert run("check", tree(tmp_path, more), database.url, *column_options).exit_code == 0
    costs = tree(tmp_path, "1.00;*\n2.50;*\n", "costs.csv")
    column_options[-1] = "cost"
    assert run("check", costs, database.url, *column_options).exit_code == 0
    assert database.state() == before


@pytest.mark.parametrize("text", ["[1, 2]", "[", '["ab"', "7", '{"a": 7}'])
def test_files_of_another_form(tmp_path: Path, text: str) -> None:
    done = run("check", tree(tmp_path, text, "tree.json"))
    assert done.exit_code == 2
    assert "unexpected" not in done.stderr


def test_refusals(tmp_path: Path, database: DuckdbDatabase) -> None:
    file = tree(tmp_path, GOOD)
    assert run("check", str(tmp_path / "nowhere.csv")).exit_code == 2
    assert run("check", file, "--table", "people", "--column", "ill").exit_code == 2
    assert run("check", file, database.url, "--table", "people").exit_code == 2
    for column in ("nowhere", "seen"):
        column_options = ["--table", "people", "--column", column]
        assert run("check", file, database.url, *column_options).exit_code == 2
        assert run("suggest", database.url, *column_options).exit_code == 2


def test_a_proposal_covers_the_column(tmp_path: Path, database: DuckdbDatabase) -> None:
    for column in ("zip", "ill", "cost"):
        done = run("suggest", database.url, "--table", "people", "--column", column)
        assert done.exit_code == 0
        file = tree(tmp_path, done.stdout, f"{column}.csv")
        assert dbanon.Hierarchy.load(file).height >= 1
        column_options = ["--table", "people", "--column", column]
        assert run("check", file, database.url, *column_options).exit_code == 0


def test_sql_is_shown(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "x.db")
    database.load("people", {"age": "INTEGER"}, [(1,), (20,), (None,)])
    done = run("suggest", database.url, "--table", "people", "--column", "age", "--print-sql")
    assert done.exit_code == 0
    assert "SELECT DISTINCT" in done.stderr
    assert done.stdout.startswith("1;")


def test_a_missing_file_of_a_release(database: DuckdbDatabase) -> None:
    options = ["--table", "people", "-q", "ill", "--k", "2", "--output", "x", "--method", "gaa_cp"]
    done = CliRunner().invoke(
        main, ["anonymize", database.url, *options, "--hierarchy", "ill=/nowhere.csv"]
    )
    assert done.exit_code == 2
