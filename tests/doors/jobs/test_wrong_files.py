"""Wrong job files: exit code 2, the line and the path of what is wrong, and never a value."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.document import MAX_BYTES
from dbanon.doors.jobfile.file import read_job_file
from dbanon.errors import JobFileInvalid
from tests.doors.jobs.wrong_files import RIGHT, SECRET, WRONG, Wrong


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
    found = refused.value.problems
    place = (wrong.expected_line, wrong.path)
    assert [(one.line, one.path) for one in found] == [place]  # type: ignore[attr-defined]
    assert wrong.said in str(found[0])
    assert SECRET not in str(refused.value)
    # The other commands on a file say the same.
    for command in ("run", "plan"):
        other = CliRunner().invoke(main, [command, str(tmp_path / "job.yaml"), "--format", "json"])
        assert (other.exit_code, other.stdout) == (2, done.stdout)


def test_there_are_many() -> None:
    assert len(WRONG) >= 60
    assert len({wrong.text for wrong in WRONG}) == len(WRONG)


def test_all_is_said_at_once(tmp_path: Path) -> None:
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
    for place in ("line 1: version", "line 7: defaults.k", "line 12: jobs.0.colums", "line 13",
                  "line 16: jobs.0.columns.id", "line 27: jobs.0.output.keep_last"):  # fmt: skip
        assert place in done.stderr
    assert SECRET not in done.stderr


def test_two_jobs_of_one_name(tmp_path: Path) -> None:
    job = RIGHT[RIGHT.index("  - name") :]
    done = check(tmp_path, RIGHT + job)
    assert done.exit_code == 2
    assert "line 27: jobs.1.name: jobs.0 has this name already" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"", "is empty"), (b"# nothing\n", "is empty"), (b"7\n", "must be keys with values"),
     (b"- a\n", "must be keys with values"), (b"version: \xff\n", "no UTF-8"),
     (b"a: " + b"x" * MAX_BYTES, "larger than 1 MiB"), (b"[" * 50_000, "is no YAML"),
     (b"a: " + b"9" * 5000, "unknown key")],
    ids=["empty", "comment", "scalar", "list", "encoding", "large", "deep", "digits"],
)  # fmt: skip
def test_what_is_no_job_file(tmp_path: Path, text: bytes, said: str) -> None:
    done = check(tmp_path, text)
    assert done.exit_code == 2
    assert said in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
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
        "on", "true", "a.b", "it's", 'say "x"', "Ärger", "x" * 63, "y"
    )  # fmt: skip
    wrong = text.replace('"a.b": {role: drop}', '"a.b": {role: drp}')
    assert f'{"jobs.0.columns"}."a.b": role must be one of' in check(tmp_path, wrong).stderr
