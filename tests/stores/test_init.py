"""Job files to begin with: what ``dbanon init`` proposes is checked, planned and run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.file import read_job_file
from dbanon.doors.jobfile.init import render_job_file
from tests.stores.databases import Database
from tests.stores.people import COLUMNS, load_people


@pytest.fixture(autouse=True)
def _url(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    # A URL with a password is no text of a file.
    monkeypatch.setenv("DBANON_URL", database.url)


def call(*words: Any) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200"})


@pytest.mark.in_turn(of="file")
def test_init_gives_a_file_to_edit(database: Database, tmp_path: Path) -> None:
    load_people(database)
    done = call("init", database.url, "--table", "people", "--k", "4")
    assert done.exit_code == 0
    file = tmp_path / "job.yaml"
    file.write_text(done.stdout)
    assert call("check", file).exit_code == 0
    [job] = read_job_file(file).jobs
    proposed = {
        column.column.name: column.role.role
        for column in dbanon.advise(database.url, "people", k=[4]).columns
    }
    assert list(proposed) == list(COLUMNS)
    for name, role in proposed.items():
        assert (name in job.job.quasi_identifiers) == (role == "quasi_identifier")
        assert (name in job.job.sensitive) == (role == "sensitive")
        assert name not in job.job.keep
    assert call("plan", file).exit_code in (0, 2)


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize(("kind", "method"), [("text", "gaa_cp"), ("integer", "mdav")])
def test_what_init_gives_runs_as_it_is(
    database: Database, tmp_path: Path, kind: str, method: str
) -> None:
    """Its method takes the columns that are proposed, by advise's own choice of methods."""
    # A region of numbers would be taken for a code.
    where = "region" if kind == "text" else "visits"
    columns = {"age": "integer", where: kind}
    rows = [[20 + i % 7, f"region {i % 3}" if kind == "text" else i % 5] for i in range(60)]
    database.load(
        "people",
        {name: database.types[logical_type] for name, logical_type in columns.items()},
        rows,
    )
    file = tmp_path / "job.yaml"
    file.write_text(call("init", database.url, "--table", "people").stdout)
    for command in ("check", "plan", "run"):
        done = call(command, file)
        assert done.exit_code == 0, done.stderr
    [job_entry] = read_job_file(file).jobs
    assert {*job_entry.job.quasi_identifiers} == {*columns}
    assert job_entry.job.policy.method == method
    advised = dbanon.advise(database.url, "people", k=[5], sample=100)
    assert advised.sweep.points[0].method == method
    [(smallest,)] = database.rows(
        "SELECT min(n) FROM (SELECT count(*) AS n FROM"
        f" {database.relation('release.people')} GROUP BY age, {where}) AS classes"
    )
    assert smallest >= 5


@pytest.mark.in_turn(of="file")
def test_a_table_of_the_proposed_name_is_in_nobodys_way(database: Database, tmp_path: Path) -> None:
    """The demonstration leaves a table release.person: a job of a view would be refused."""
    load_people(database)
    run = {"quasi_identifiers": ["age"], "k": 4, "output": "release.people"}
    dbanon.anonymize(database.url, table="people", **run)
    file = tmp_path / "job.yaml"
    text = call("init", database.url, "--table", "people", "--k", "4").stdout
    file.write_text(text)
    takes_views = "view:" in text
    assert ("view: people_released" in text) == takes_views
    done = call("plan", file)
    assert "output_exists" not in done.stderr
    if takes_views:
        assert call("run", file).exit_code == 0
        again = call("init", database.url, "--table", "people", "--k", "4").stdout
        assert "view: people_released" in again


def test_init_says_nothing_of_a_table_without_rows(database: Database, tmp_path: Path) -> None:
    database.load("people", {"age": database.types["integer"]}, [])
    done = call("init", database.url, "--table", "people")
    assert done.exit_code == 0
    assert "age: {role: drop}" in done.stdout
    assert "method:" not in done.stdout
    file = tmp_path / "job.yaml"
    file.write_text(done.stdout)
    done = call("check", file)
    assert done.exit_code == 2
    assert "columns must have a quasi_identifier" in done.stderr
    assert len(done.stderr.splitlines()) == 4


def test_names_travel_from_a_table_to_a_file_and_back(database: Database, tmp_path: Path) -> None:
    long = "x" * 63
    names = ["Peo ple", "a.b", 'say "x"', "it's", "on", "true", "#", "é: 1", long]
    if database.url.startswith("sqlite"):
        # Its views call such a column otherwise, and so are refused.
        names.remove("true")
    columns = dict.fromkeys(names, database.types["integer"])
    rows = [[i + j for j in range(len(names))] for i in range(12)]
    database.load("T #1", columns, rows)
    text = render_job_file(database.url, '"T #1"')
    text = text.replace("role: drop", "role: quasi_identifier")
    file = tmp_path / "job.yaml"
    file.write_text(text)
    report = dbanon.run_job(file)
    assert sorted(report.quasi_identifiers) == sorted(names)
    assert report.rows_out == 12
