"""Invalid job files: exit code 2, with the line and path of the problem, and without values."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.document import MAX_BYTES
from dbanon.doors.jobfile.file import read_job_file
from dbanon.errors import JobFileInvalid
from tests.doors.jobs.wrong_file import RIGHT, SECRET, Wrong
from tests.doors.jobs.wrong_files import WRONG


def check(tmp_path: Path, text: str | bytes, *more: str) -> Result:
    file = tmp_path / "job.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return CliRunner().invoke(main, ["check", str(file), *more])


def test_the_right_file_is_right(tmp_path: Path) -> None:
    done = check(tmp_path, RIGHT)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_file_is_refused_at_its_line_and_path(tmp_path: Path, wrong: Wrong) -> None:
    done = check(tmp_path, wrong.text, "--format", "json")
    assert done.exit_code == 2
    assert isinstance(done.exception, SystemExit)
    assert SECRET not in done.stdout + done.stderr
    with pytest.raises(JobFileInvalid) as refused:
        read_job_file(tmp_path / "job.yaml")
    problems = refused.value.problems
    location = (wrong.expected_line, wrong.path)
    assert [(problem.line, problem.path) for problem in problems] == [location]  # type: ignore[attr-defined]
    assert wrong.message in str(problems[0])
    assert SECRET not in str(refused.value)
    # The other commands for job files report the same.
    for command in ("run", "plan"):
        other = CliRunner().invoke(main, [command, str(tmp_path / "job.yaml"), "--format", "json"])
        assert (other.exit_code, other.stdout) == (2, done.stdout)


def test_there_are_many() -> None:
    assert len(WRONG) >= 60
    assert len({wrong.text for wrong in WRONG}) == len(WRONG)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = RIGHT
    for old, new in (
        ("version: 1", "version: 9"),
        ("k: 3", "k: 010"),
        ("table: people", f"table: people\n    colums: {SECRET}"),
        ("id: {role: drop}", f"id: {{role: {SECRET}}}"),
        ("keep_last: 2", "keep_last: -2"),
        ('"age > 1"', f'"age > 1; {SECRET}"'),
    ):
        text = text.replace(old, new, 1)
    done = check(tmp_path, text)
    assert done.exit_code == 2
    assert "has 6 problems" in done.stderr
    for location in (
        "line 1: version",
        "line 7: defaults.k",
        "line 12: jobs.0.colums",
        "line 13",
        "line 16: jobs.0.columns.id",
        "line 27: jobs.0.output.keep_last",
    ):
        assert location in done.stderr
    assert SECRET not in done.stderr


# Two jobs, each with its own mistakes: URLs, lists and steps, misfits, unsupported options.
ALL_WRONG = """\
version: 1
source: {url: clinic.duckdb}
target: {url: "file:rows.csv"}
defaults: {k: 5}
jobs:
  - name: one
    table: app.people
    key: [1, "", nowhere]
    entity: somebody
    columns:
      age: {role: quasi_identifier, step: wide}
      size: {role: quasi_identifier, step: 0, order: [small, 2]}
      city: {role: quasi_identifier, order: [a, b, a]}
      illness: {role: sensitive, models: [{kind: distinct_l, level: many},
                                          {kind: t_closeness, level: 3}]}
    export: [{format: csv, path: "a.csv", keep_last: 3}, {format: pdf, path: "b"}]
    notify: [{on: [never], command: ["x"]}]
    output: {view: people}
  - name: two
    table: app.others
    columns:
      age: {role: quasi_identifier, hierarchy: {intervals: [5, 7]}}
      born: {role: quasi_identifier, hierarchy: {dates: [month, fortnight]}}
      code: {role: quasi_identifier, hierarchy: {mask: [1, 3]}}
    output: {table: others}
  - name: three
    table: app.others
    columns:
      age: {role: quasi_identifier}
    weights_of: 3
    output: {table: others}
  - name: four
    table: app.others
    columns:
      age: {role: quasi_identifier}
    withhold_failing: true
    output: {table: others}
"""
MESSAGES = (
    "line 2: source.url: must be a URL with its scheme",
    "line 3: target.url: must be a database",
    "line 6: jobs.0: entity must be a column of role identifier",
    "line 6: jobs.0: key must name columns of the job",
    "line 8: jobs.0.key.0: must be text",
    "line 8: jobs.0.key.1: must not be empty",
    "line 11: jobs.0.columns.age.step: must be a number above 0",
    "line 12: jobs.0.columns.size.step: must be a number above 0",
    "line 12: jobs.0.columns.size.order.1: must be text",
    "line 13: jobs.0.columns.city.order: must not contain a value twice",
    "line 14: jobs.0.columns.illness.models.0.level: must be a number above 0",
    "line 15: jobs.0.columns.illness.models.1: the level of t_closeness must be 1 or less",
    "line 16: jobs.0.export.0: keep_last of an export needs {release} in its path",
    "line 16: jobs.0.export.1.format: must be 'parquet', 'csv', 'sav', 'dta' or 'xpt'",
    "line 17: jobs.0.notify.0.on.0: must be",
    "line 22: jobs.1.columns.age.hierarchy: steps must be positive, and each a multiple",
    "line 23: jobs.1.columns.born.hierarchy: steps of dates are, in this order: day, week",
    "line 24: jobs.1.columns.code.hierarchy: the numbers of kept characters must decrease",
    "line 30: jobs.2.weights_of: unknown key",
    "line 32: jobs.3: withhold_failing needs models",
)


def test_all_problems_of_two_jobs_are_reported_at_once(tmp_path: Path) -> None:
    done = check(tmp_path, ALL_WRONG)
    assert done.exit_code == 2
    assert [text for text in MESSAGES if text not in done.stderr] == []
    assert f"has {len(MESSAGES)} problems" in done.stderr, done.stderr
    assert "clinic" not in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@h/d",
        "postgres://h/d",
        "postgresql+psycopg://h/d",
        "duckdb:///a.duckdb",
        "sqlite:///a.db",
        "file:rows.csv",
        "${URL}",
        "duckdb:///${DIR}/a.duckdb",
        "${A}${B}",
    ],
)
def test_urls_that_are_right(tmp_path: Path, url: str) -> None:
    done = check(tmp_path, RIGHT.replace("duckdb:///people.duckdb", url))
    assert done.exit_code == 0, done.stderr


def test_two_jobs_with_the_same_name(tmp_path: Path) -> None:
    job = RIGHT[RIGHT.index("  - name") :]
    done = check(tmp_path, RIGHT + job)
    assert done.exit_code == 2
    assert "line 27: jobs.1.name: jobs.0 already has this name" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty"),
        (b"# nothing\n", "is empty"),
        (b"7\n", "must be keys with values"),
        (b"- a\n", "must be keys with values"),
        (b"version: \xff\n", "not UTF-8"),
        (b"a: " + b"x" * MAX_BYTES, "larger than 1 MiB"),
        (b"[" * 50_000, "is not YAML"),
        (b"a: " + b"9" * 5000, "unknown key"),
    ],
    ids=["empty", "comment", "scalar", "list", "encoding", "large", "deep", "digits"],
)
def test_files_that_are_no_job_file(tmp_path: Path, text: bytes, message: str) -> None:
    done = check(tmp_path, text)
    assert done.exit_code == 2
    assert message in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_a_missing_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["check", str(tmp_path / "no.yaml")])
    assert done.exit_code == 2
    assert "cannot be read" in done.stderr


def test_a_password_may_be_allowed(tmp_path: Path) -> None:
    text = RIGHT.replace("duckdb:///people.duckdb", f"postgresql://me:{SECRET}@host/db")
    assert check(tmp_path, text).exit_code == 2
    assert check(tmp_path, text, "--allow-inline-password").exit_code == 0


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    names = [
        "on",
        '"true"',
        '"a.b"',
        "'it''s'",
        '"say \\"x\\""',
        "Ärger",
        '"' + "x" * 63 + '"',
        "y",
    ]
    more = "".join(f"      {name}: {{role: drop}}\n" for name in names)
    text = RIGHT.replace("      id: {role: drop}\n", more)
    assert check(tmp_path, text).exit_code == 0
    [job] = read_job_file(tmp_path / "job.yaml").jobs
    assert job.job.roles is not None
    assert job.job.roles[: len(names)] == (
        "on",
        "true",
        "a.b",
        "it's",
        'say "x"',
        "Ärger",
        "x" * 63,
        "y",
    )
    wrong = text.replace('"a.b": {role: drop}', '"a.b": {role: drp}')
    assert f'{"jobs.0.columns"}."a.b": role must be one of' in check(tmp_path, wrong).stderr


def test_each_problem_has_a_line_of_its_own_on_stderr(tmp_path: Path) -> None:
    done = check(tmp_path, RIGHT.replace("version: 1", "version: 2\nnone: such"))
    assert done.exit_code == 2
    assert sum("line " in line for line in done.stderr.splitlines()) == 2
    assert "\\u000a" not in done.stderr
