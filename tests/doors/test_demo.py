"""The demonstration changes only its own files, and keeps those that a reader added."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})


def demo(directory: Path, *more: str) -> Result:
    return run("demo", "--rows", "300", "--directory", str(directory), *more)


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def release(path: Path, output: str, *more: str) -> None:
    done = run(
        "anonymize",
        f"duckdb:///{path}",
        "--table",
        "app.person",
        "--k",
        "5",
        "--quasi-identifiers",
        "income,weight_kg",
        "--output",
        output,
        *more,
    )
    assert done.exit_code == 0, done.output


@pytest.mark.slow
def test_twice_and_a_readers_releases_stay(tmp_path: Path) -> None:
    path = tmp_path / "persons.duckdb"
    assert demo(tmp_path).exit_code == 0
    release(path, "release.mine")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE app.notes AS SELECT 'mine' AS note")
    before = rows(path, "SELECT * FROM release.mine ORDER BY ALL")
    done = demo(tmp_path, "--seed", "2")
    assert done.exit_code == 0, done.output
    # The command's message, without a Python traceback.
    assert 'Warning: column "diagnosis" has one value in all rows of a class' in done.stderr
    page = tmp_path / "report.html"
    assert f"The report as a page: {page}" in done.stdout.replace("\n", "").replace(
        "page:/", "page: /"
    )
    assert "All measures of risk" in page.read_text(encoding="utf-8")
    assert rows(path, "SELECT * FROM release.mine ORDER BY ALL") == before
    assert rows(path, "SELECT * FROM app.notes") == [("mine",)]
    assert rows(path, "SELECT count(*) FROM dbanon.release") == [(3,)]
    assert run("verify", f"duckdb:///{path}", "release.mine").exit_code == 0
    assert run("verify", f"duckdb:///{path}", "release.person").exit_code == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["persons.duckdb", "report.html"]
    assert str(tmp_path / "report.html") in done.stdout
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "release.person" in page
    assert "birth_date" in page


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE mine AS SELECT 1 AS a"],
        ["CREATE SCHEMA app", "CREATE TABLE app.person AS SELECT 1 AS a"],
        [
            "CREATE SCHEMA app",
            "CREATE TABLE mine AS SELECT 1 AS a",
            "CREATE VIEW app.person AS SELECT * FROM mine",
        ],
    ],
    ids=["another", "the same name", "a view"],
)
def test_a_file_that_it_did_not_make(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "persons.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    before = path.read_bytes()
    done = demo(tmp_path)
    assert done.exit_code == 2
    assert "--directory" in done.stderr
    assert path.read_bytes() == before


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "persons.duckdb"
    path.write_text("my notes")
    done = demo(tmp_path)
    assert done.exit_code == 2
    assert path.read_text() == "my notes"
    done = demo(path)
    assert done.exit_code == 2
    assert path.read_text() == "my notes"


@pytest.mark.slow
def test_a_release_of_the_readers_under_its_name(tmp_path: Path) -> None:
    path = tmp_path / "persons.duckdb"
    assert demo(tmp_path).exit_code == 0
    release(path, "release.person", "--if-exists", "replace")
    before = rows(path, "SELECT * FROM release.person ORDER BY ALL")
    done = demo(tmp_path)
    assert done.exit_code == 2
    assert "release.person" in done.stderr
    assert rows(path, "SELECT * FROM release.person ORDER BY ALL") == before
    assert rows(path, "SELECT count(*) FROM app.person") == [(300,)]


def test_more_persons_than_fit_the_memory(tmp_path: Path) -> None:
    done = run("demo", "--rows", "1000000000000", "--directory", str(tmp_path / "new"))
    assert "memory_limit" in done.stderr
    assert "--rows" in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (Path("/proc/x"), tmp_path / "file" / "below"):
        done = demo(directory)
        assert done.exit_code in (2, 5), done.output
        assert "cannot be created" in done.stderr
        assert "--directory" in done.stderr
