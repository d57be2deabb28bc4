"""Broken stdout: published releases are no failure, and other commands keep their exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from tests.prerequisites import only_where
from tests.stores.databases import DuckdbDatabase

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from dbanon.doors.cli.main import main; main()"]
OPTIONS = ["--table", "people", "--quasi-identifiers", "größe", "--k", "3", "--output", "release.p"]
FULL = only_where(Path("/dev/full").exists(), "no /dev/full")


@pytest.fixture
def people(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    database.load("people", {"größe": "integer", "id": "integer"}, [(i, i) for i in range(30)])
    # Creating a schema is a warning.
    database.make_schema("release")
    return database


def dbanon(*arguments: str, environment: dict[str, str] | None = None, **how: Any) -> Any:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    return subprocess.run(
        [*COMMAND, *arguments],
        env={**os.environ, **(environment or {})},
        check=False,
        timeout=120,
        **streams,
    )


def broken(how: str) -> IO[bytes]:
    """A stream that cannot be written."""
    if how == "full":
        return open("/dev/full", "wb")
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "wb")


def releases(database: DuckdbDatabase) -> int:
    [(count,)] = database.rows("SELECT count(*) FROM dbanon.release")
    return int(count)


@pytest.mark.parametrize(
    ("how", "form", "both"),
    [
        pytest.param("full", "table", False, marks=FULL),
        pytest.param("full", "json", True, marks=FULL),
        ("pipe", "json", False),
        ("pipe", "table", True),
    ],
)
def test_a_published_release_is_no_failure(
    people: DuckdbDatabase, form: str, how: str, both: bool
) -> None:
    with broken(how) as stdout:
        stderr = stdout if both else subprocess.PIPE
        done = dbanon(
            "anonymize", people.url, *OPTIONS, "--format", form, stdout=stdout, stderr=stderr
        )
    assert done.returncode == 0, done.stderr
    assert releases(people) == 1
    if not both:
        warning = b"Warning: the command succeeded, but its result could not be shown"
        assert done.stderr.startswith(warning)


def test_a_report_that_cannot_be_written_after_all(people: DuckdbDatabase, tmp_path: Path) -> None:
    """The directory existed when the command started; the file name exceeds the limit."""
    path = tmp_path / ("x" * 300 + ".json")
    done = dbanon("anonymize", people.url, *OPTIONS, "--report", str(path))
    assert done.returncode == 0
    assert b"Warning: " in done.stderr or path.exists()
    assert releases(people) == 1


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_terminal_that_knows_ascii_only(people: DuckdbDatabase, form: str) -> None:
    done = dbanon(
        "anonymize",
        people.url,
        *OPTIONS,
        "--format",
        form,
        environment={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert done.returncode == 0
    assert b"Warning" not in done.stderr
    # The name is printed as well as possible.
    output = done.stdout.decode("ascii")
    if form == "json":
        assert json.loads(output)["quasi_identifiers"] == ["größe"]
    else:
        assert "gr\\xf6\\xdfe" in output


@pytest.mark.parametrize(
    ("how", "form"), [pytest.param("full", "json", marks=FULL), ("pipe", "table")]
)
def test_a_refusal_keeps_its_exit_code(people: DuckdbDatabase, how: str, form: str) -> None:
    with broken(how) as stdout:
        done = dbanon(
            "anonymize", people.url, *OPTIONS, "--k", "31", "--format", form, stdout=stdout
        )
    assert done.returncode == 3
    assert b"[too_few_records]" in done.stderr
    with broken(how) as stdout:
        done = dbanon(
            "anonymize",
            people.url,
            *OPTIONS,
            "--k",
            "31",
            "--format",
            form,
            stdout=stdout,
            stderr=stdout,
        )
    assert done.returncode == 3


def test_a_verification_without_output_fails(people: DuckdbDatabase) -> None:
    """The command changes nothing: not displaying its result is a failure, and it can be
    repeated.
    """
    assert dbanon("anonymize", people.url, *OPTIONS).returncode == 0
    with broken("pipe") as stdout:
        assert dbanon("verify", people.url, "release.p", stdout=stdout).returncode == 1


def test_other_changes_are_no_failures_either(people: DuckdbDatabase, tmp_path: Path) -> None:
    tree = tmp_path / "tree.csv"
    tree.write_text("a;all\nb;all\n")
    for arguments in (
        ["hierarchy", "store", people.url, "t", str(tree)],
        ["gc", people.url],
        ["hierarchy", "drop", people.url, "t"],
    ):
        with broken("pipe") as stdout:
            done = dbanon(*arguments, stdout=stdout)
        assert done.returncode == 0, done.stderr
        assert b"Warning: the command succeeded" in done.stderr
