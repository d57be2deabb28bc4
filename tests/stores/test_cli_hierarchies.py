"""The commands on hierarchies, on every database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.hierarchy.tree import Hierarchy
from tests.stores.databases import Database
from tests.stores.trees import PAIRS, check_release, load, load_pairs

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})


def command(*arguments: str) -> Result:
    return run("hierarchy", *arguments)


def test_stored_listed_shown_and_dropped(database: Database, tmp_path: Path) -> None:
    load(database)
    load_pairs(database)
    url = database.url
    assert command("list", url, "--format", "json").stdout == "[]\n"
    done = command("store", url, "places", "--from", "table:ref.tree", "--description", "of ref")
    assert (done.exit_code, done.stdout) == (0, "places: 6 leaves, height 3, stored\n")
    text = command("show", url, "places").stdout
    assert Hierarchy.from_csv(text) == Hierarchy.from_parents(
        json.loads(command("show", url, "places", "--format", "json").stdout)
    )
    file = tmp_path / "places.csv"
    file.write_text(text)
    done = command("store", url, "places", str(file))
    assert done.exit_code == 2
    assert "[hierarchy_exists]" in done.stderr
    done = command("store", url, "places", str(file), "--replace", "--format", "json")
    assert json.loads(done.stdout) == {
        "name": "places",
        "leaves": 6,
        "height": 3,
        "sha256": Hierarchy.from_csv(text).sha256,
    }
    [stored] = json.loads(command("list", url, "--format", "json").stdout)
    assert (stored["name"], stored["leaves"], stored["nodes"]) == ("places", 6, 12)
    assert "places" in command("list", url).stdout
    assert command("drop", url, "places").stdout == "places: dropped\n"
    for completed in (command("drop", url, "places"), command("show", url, "places")):
        assert completed.exit_code == 2
        assert "[hierarchy_not_found]" in completed.stderr
    for wrong in (["store", url, "x"], ["store", url, "x", str(file), "--from", "name:y"]):
        assert command(*wrong).exit_code == 2
    assert command("store", url, "x", "--from", '{"intervals": [5]}').exit_code == 2


def test_checked_where_it_stands(database: Database) -> None:
    load(database)
    load_pairs(database)
    column = ["--table", "people", "--column", "place"]
    done = command("check", "table:ref.tree", database.url, *column)
    assert "6 leaves, height 3: no problem found" in done.stdout
    assert command("check", "table:ref.tree").exit_code == 2
    tree = database.relation("ref.tree")
    database.execute(f"DELETE FROM {tree} WHERE child IN ('Oslo', 'Bari')")
    done = command("check", "table:ref.tree", database.url, *column)
    assert done.exit_code == 2
    assert all(label in done.stdout for label in ("Oslo", "Bari"))
    assert "Oslo" not in done.stderr
    database.execute(f"INSERT INTO {tree} VALUES ('Rome', 'Norway'), ('Oslo', 'Sweden')")
    done = command("check", "table:ref.tree", database.url, "--format", "json")
    problems = json.loads(done.stdout)["problems"]
    assert {(p["kind"], p["label"], p["line"]) for p in problems} == {
        ("second parent", "Rome", 0),
        ("second root", "Sweden", 0),
    }


def test_a_proposal_from_a_column(database: Database) -> None:
    load(database)
    done = command("suggest", database.url, "--table", "people", "--column", "age")
    assert done.exit_code == 0
    assert Hierarchy.from_csv(done.stdout).height == 3


def test_a_proposal_for_codes_is_released_with(database: Database, tmp_path: Path) -> None:
    codes = ["B24.1", "B24.2", "B20.0", "E11.90", "E11.9", "I10"]
    text = database.types["text"]
    database.load("people", {"code": text, "ill": text}, [(codes[i % 6], "x") for i in range(24)])
    done = command("suggest", database.url, "--table", "people", "--column", "code")
    assert done.exit_code == 0
    assert "B24.1;B24.1;B24;B2*;B*;*" in done.stdout.splitlines()
    assert '"code": codes: letters and digits, most of them as A99.9' in done.stderr
    assert not any(code in done.stderr for code in codes)
    file = tmp_path / "codes.csv"
    file.write_text(done.stdout)
    done = run(
        "anonymize",
        database.url,
        "--table",
        "people",
        "--quasi-identifiers",
        "code",
        "--k",
        "8",
        "--method",
        "gaa_cp",
        "--output",
        "release.people",
        "--hierarchy",
        f"code={file}",
        "--sensitive",
        "ill",
        "--no-progress",
        "--format",
        "json",
    )
    assert done.exit_code == 0, done.stderr
    released = {
        code
        for (code,) in database.rows(
            f"SELECT DISTINCT code FROM {database.relation('release.people')}"
        )
    }
    assert "B24" in released
    assert "E11*" in released or "E11.9*" in released


@pytest.mark.parametrize(
    "tree",
    [
        "place=table:ref.tree",
        "place=name:places",
        'place={"table": "ref.tree"}',
        "place=" + json.dumps({"tree": [list(pair) for pair in PAIRS]}),
        "FILE",
    ],
)
def test_named_in_a_release(database: Database, tmp_path: Path, tree: str) -> None:
    load(database)
    load_pairs(database)
    command("store", database.url, "places", "--from", "table:ref.tree")
    if tree == "FILE":
        file = tmp_path / "places.csv"
        file.write_text(command("show", database.url, "places").stdout)
        tree = f"place={file}"
    done = run(
        "anonymize",
        database.url,
        "--table",
        "people",
        "--quasi-identifiers",
        "age,place",
        "--k",
        "4",
        "--method",
        "gaa_cp",
        "--output",
        "release.people",
        "--hierarchy",
        tree,
        "--hierarchy",
        'age={"intervals": [5, 10]}',
        "--sensitive",
        "ill",
        "--model",
        'ill=t_closeness:0.4:distance={"levels": [["a", "x", "*"], ["b", "x", "*"], ["c", "*"]]}',
        "--no-progress",
        "--format",
        "json",
    )
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["models"][0]["model"].endswith("hierarchical")
    check_release(database, "release.people", PAIRS, 4)


@pytest.mark.parametrize(
    ("tree", "code", "message"),
    [
        ("place=table:ref.nowhere", 2, "table_not_found"),
        ("place=name:nowhere", 2, "hierarchy_not_found"),
        ("place=nowhere.csv", 2, "does not exist"),
        ('place={"mask": 3}', 2, '"mask" must be'),
        ('place={"masks": true}', 2, 'Did you mean "mask"'),
        ("place={", 2, "not valid JSON"),
        ("ill=table:ref.tree", 2, "does not name a quasi-identifier"),
        ('place={"levels": [["Oslo", "*"]]}', 2, "hierarchy_broken"),
    ],
)
def test_refused(database: Database, tree: str, code: int, message: str) -> None:
    load(database)
    load_pairs(database)
    before = database.state()
    done = run(
        "anonymize",
        database.url,
        "--table",
        "people",
        "--quasi-identifiers",
        "age,place",
        "--k",
        "4",
        "--method",
        "gaa_cp",
        "--output",
        "release.people",
        "--hierarchy",
        tree,
    )
    assert done.exit_code == code
    assert message in done.stderr
    assert database.state() == before
