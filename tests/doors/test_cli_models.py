"""Privacy models on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.cli.options import parse_model
from dbanon.errors import InvalidParameter
from tests.stores.databases import DuckdbDatabase


@pytest.fixture
def database(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    rows = [(i, i * 37 % 60, ["hushed", "secret", None][i % 3], i % 4) for i in range(60)]
    columns = {"id": "INTEGER", "age": "INTEGER", "ill": "VARCHAR", "grade": "INTEGER"}
    database.load("people", columns, rows)
    return database


def anonymize(url: str, *more: str) -> Result:
    options = ["--table", "people", "--quasi-identifiers", "age", "--sensitive", "ill,grade"]
    options += ["--k", "3", "--output", "release.people", *more]
    return CliRunner().invoke(main, ["anonymize", url, *options], env={"COLUMNS": "200"})


def test_models_are_named_and_reported(database: DuckdbDatabase) -> None:
    model_options = [
        "--model",
        "ill=distinct_l:3",
        "--model",
        "grade=t_closeness:0.2:distance=ordered",
    ]
    done = anonymize(database.url, *model_options, "--format", "json")
    assert done.exit_code == 0
    models = json.loads(done.stdout)["models"]
    assert [level["model"] for level in models] == [
        'distinct_l 3 of "ill"',
        't_closeness 0.2 of "grade", ordered',
    ]
    assert models[0]["achieved"] == 3
    assert models[1]["achieved"] <= 0.2
    done = anonymize(database.url, *model_options, "--if-exists", "replace")
    assert 'distinct_l 3 of "ill"' in done.stdout
    assert "counted 3" in done.stdout


def test_out_of_reach_writes_nothing(database: DuckdbDatabase) -> None:
    before = database.state()
    done = anonymize(database.url, "--model", "ill=distinct_l:4")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "model_infeasible" in done.stderr
    assert 'distinct_l of "ill" is feasible up to 3' in done.stderr
    assert "hushed" not in done.stderr
    assert database.state() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ill=distinct_l:3", dbanon.Model("distinct_l", "ill", 3)),
        ("a:b=entropy_l:2.5", dbanon.Model("entropy_l", "a:b", 2.5)),
        ("ill=recursive_cl:3:l=4", dbanon.Model("recursive_cl", "ill", 3, l=4)),
        ("x=t_closeness:0.1", dbanon.Model("t_closeness", "x", 0.1)),
        ("x=t_closeness:0.1:distance=equal", dbanon.Model("t_closeness", "x", 0.1)),
    ],
)
def test_forms(text: str, expected: dbanon.Model) -> None:
    assert parse_model(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("ill", "ill=distinct_l", "ill=distinct_l:x", "ill=distinct_l:", "ill=l_diversity:2"),
        *("ill=distinct_l:2:l=2", "ill=recursive_cl:2:l=x", "ill=recursive_cl:2:l"),
        *("ill=t_closeness:0.2:ordered", "ill=t_closeness:0.2:distance=/nowhere.csv"),
        *("ill=distinct_l:0", "ill=distinct_l:inf", "=distinct_l:2"),
    ],
)
def test_other_forms_are_refused(database: DuckdbDatabase, text: str) -> None:
    with pytest.raises(InvalidParameter):
        parse_model(text)
    done = anonymize(database.url, "--model", text)
    assert done.exit_code == 2


def test_a_hierarchy_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tree.csv"
    path.write_text("flu;lungs;*\ncough;lungs;*\n", encoding="utf-8")
    assert parse_model(f"ill=t_closeness:0.2:distance={path}").distance == dbanon.Hierarchy.load(
        path
    )
