"""Output fits into a terminal with 80 columns, without breaking names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter
from dbanon.methods import METHODS
from tests.stores.databases import DuckdbDatabase


def run(*words: str, columns: str | None = "80") -> Result:
    return CliRunner().invoke(main, list(words), env={"COLUMNS": columns})


@pytest.fixture
def people(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    columns = {"age": "INTEGER", "size": "INTEGER", "illness": "VARCHAR"}
    rows = [(20 + i % 60, 150 + i * 7 % 50, "abc"[i % 3]) for i in range(3000)]
    database.load("people", columns, rows)
    return database


def width(text: str) -> int:
    # The command to copy is never broken.
    lines = [line for line in text.splitlines() if not line.startswith("dbanon anonymize")]
    return max(map(len, lines))


@pytest.mark.parametrize("columns", ["80", None])
def test_methods(columns: str | None) -> None:
    done = run("methods", columns=columns)
    assert width(done.stdout) <= 80
    assert re.findall(r"^(\w+): ", done.stdout, re.M) == list(METHODS)
    assert METHODS["mdav"].reference in done.stdout


def test_a_report(people: DuckdbDatabase) -> None:
    done = run(
        "anonymize",
        people.url,
        "--table",
        "people",
        "--output",
        "released",
        "-q",
        "age,size",
        "--k",
        "5",
        "--evaluate",
        "--no-progress",
    )
    assert done.exit_code == 0, done.output
    assert width(done.stdout) <= 80
    # The release identifier, for copying.
    assert re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", done.stdout)


def test_advice(people: DuckdbDatabase) -> None:
    done = run("advise", people.url, "--table", "people", "-q", "age", "-q", "size", "--k", "3,5")
    assert done.exit_code == 0, done.output
    assert width(done.stdout) <= 80
    assert "frontier" in done.stdout
    trials = done.stdout.partition("Simulated only")[2]
    assert re.search(r"^ *\w+\+fast +3 ", trials, re.M)


def test_no_line_is_broken_without_a_terminal(people: DuckdbDatabase) -> None:
    line = ("releases", people.url)
    run("anonymize", people.url, "--table", "people", "--output", "r" * 60, "-q", "age", "--k", "5")
    assert "r" * 60 in run(*line, columns=None).stdout


def test_lists_of_the_ledger(people: DuckdbDatabase, tmp_path: Path) -> None:
    """Identifiers, times and names stay on one line, however many columns a list has."""
    name = "a_long_name_of_a_release_of_people"
    columns = 'SELECT range AS id, age, "size", illness FROM people, range(3000)'
    people.execute(f"CREATE TABLE numbered AS {columns} WHERE range = rowid")
    create = [
        "chain",
        "create",
        people.url,
        name,
        "--table",
        "numbered",
        "--entity",
        "id",
        "--changes",
        "freeze",
        "--key-out",
        str(tmp_path / "key"),
    ]
    assert run(*create).exit_code == 0
    for output in ("released", name):
        done = run(
            "anonymize",
            people.url,
            "--table",
            "people",
            "--output",
            output,
            "-q",
            "age,size",
            "--k",
            "5",
            "--no-progress",
        )
        assert done.exit_code == 0, done.output
    for words, parts in (
        (("releases", people.url), 2),
        (("chain", "list", people.url), 1),
    ):
        narrow, wide = run(*words), run(*words, columns="250")
        assert width(narrow.stdout) <= 80
        assert len(re.findall(r"^ +created_at +\S+ \S+$", narrow.stdout, re.M)) == parts
        # If there is room, it is a table.
        assert len(re.findall(rf"^ +\S*{name} .*20\d\d-\d\d-\d\d", wide.stdout, re.M)) == 1
    identifier = re.compile(r" [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.M)
    assert len(identifier.findall(run("releases", people.url).stdout)) == 2


def test_no_code_stands_in_prose(people: DuckdbDatabase) -> None:
    done = run(
        "advise",
        people.url,
        "--table",
        "people",
        "-q",
        "age",
        "-q",
        "illness",
        "--k",
        "3",
        "--methods",
        "mdav,gaa_cp",
        columns=None,
    )
    assert "was left out: " in done.stdout
    assert f"({InvalidParameter.code})" not in done.stdout
    assert not re.search(r"\([a-z]+(_[a-z]+)+\)", done.stdout)
