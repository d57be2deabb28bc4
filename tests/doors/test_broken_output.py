"""Broken stdout: published releases are no failure, and other commands keep their exit code."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.prerequisites import only_where
from tests.stores import kept_duckdb
from tests.stores.databases import DuckdbDatabase

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from dbanon.doors.cli.main import main; main()"]
# Reads a command and its streams from each line, and prints the exit code. Each command has a fork,
# which ends as an interpreter does: it flushes its streams last, and exits with 120 if that fails.
# It does not free what it has imported, which takes longer than most commands.
FORKS = """
import atexit, json, os, sys, traceback
import duckdb, alembic.command
import dbanon.doors.python, dbanon.doors.dispatch, dbanon.doors.cli.anonymize
import dbanon.doors.cli.render, dbanon.ledger.migrate, dbanon.run.run_with_ledger
import dbanon.stores.duckdb.store
from dbanon.doors.cli.main import main

def open_stream(name):
    if name == "pipe":
        reading, writing = os.pipe()
        os.close(reading)
        return writing
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        words, stdout, stderr = json.loads(line)
        os.dup2(open_stream(stdout), 1)
        os.dup2(1 if stderr == stdout else open_stream(stderr), 2)
        sys.argv = ["dbanon", *words]
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                code = 120
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
OPTIONS = ["--table", "people", "--quasi-identifiers", "größe", "--k", "3", "--output", "release.p"]
FULL = only_where(Path("/dev/full").exists(), "no /dev/full")


@pytest.fixture
def people(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    database.load("people", {"größe": "integer", "id": "integer"}, [(i, i) for i in range(30)])
    # Creating a schema is a warning.
    database.make_schema("release")
    return database


class Forks:
    """Runs commands, each in a fork of a process that has imported what they need."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, *words: str, stdout: str = "stdout", stderr: str = "stderr"
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command whose streams are files, a `pipe` that nobody reads, or `/dev/full`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        names = [str(self._folder / n) if n.startswith("std") else n for n in (stdout, stderr)]
        # Another process uses the database now.
        kept_duckdb.close_kept()
        self._process.stdin.write(json.dumps([words, *names]) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], 120)[0], words
        code = int(self._process.stdout.readline())
        printed = [Path(n).read_bytes() if n.endswith(("stdout", "stderr")) else b"" for n in names]
        return subprocess.CompletedProcess(words, code, *printed)

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    with closing(Forks(tmp_path_factory.mktemp("forks"))) as forks:
        yield forks


def releases(database: DuckdbDatabase) -> int:
    [(count,)] = database.rows("SELECT count(*) FROM dbanon.release")
    return int(count)


@pytest.mark.parametrize(
    ("how", "form", "both"),
    [
        pytest.param("/dev/full", "table", False, marks=FULL),
        pytest.param("/dev/full", "json", True, marks=FULL),
        ("pipe", "json", False),
        ("pipe", "table", True),
    ],
)
def test_a_published_release_is_no_failure(
    people: DuckdbDatabase, forks: Forks, form: str, how: str, both: bool
) -> None:
    done = forks.run(
        "anonymize",
        people.url,
        *OPTIONS,
        "--format",
        form,
        stdout=how,
        stderr=how if both else "stderr",
    )
    assert done.returncode == 0, done.stderr
    assert releases(people) == 1
    if not both:
        warning = b"Warning: the command succeeded, but its result could not be shown"
        assert done.stderr.startswith(warning)


def test_a_report_that_cannot_be_written_after_all(
    people: DuckdbDatabase, forks: Forks, tmp_path: Path
) -> None:
    """The directory existed when the command started; the file name exceeds the limit."""
    path = tmp_path / ("x" * 300 + ".json")
    done = forks.run("anonymize", people.url, *OPTIONS, "--report", str(path))
    assert done.returncode == 0
    assert b"Warning: " in done.stderr or path.exists()
    assert releases(people) == 1


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_terminal_that_knows_ascii_only(people: DuckdbDatabase, form: str) -> None:
    done = subprocess.run(
        [*COMMAND, "anonymize", people.url, *OPTIONS, "--format", form],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
        timeout=120,
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
    ("how", "form"), [pytest.param("/dev/full", "json", marks=FULL), ("pipe", "table")]
)
def test_a_refusal_keeps_its_exit_code(
    people: DuckdbDatabase, forks: Forks, how: str, form: str
) -> None:
    words = ["anonymize", people.url, *OPTIONS, "--k", "31", "--format", form]
    done = forks.run(*words, stdout=how)
    assert done.returncode == 3
    assert b"[too_few_records]" in done.stderr
    assert forks.run(*words, stdout=how, stderr=how).returncode == 3


def test_a_verification_without_output_fails(people: DuckdbDatabase, forks: Forks) -> None:
    """The command changes nothing: not displaying its result is a failure, and it can be
    repeated.
    """
    assert forks.run("anonymize", people.url, *OPTIONS).returncode == 0
    assert forks.run("verify", people.url, "release.p", stdout="pipe").returncode == 1


def test_other_changes_are_no_failures_either(
    people: DuckdbDatabase, forks: Forks, tmp_path: Path
) -> None:
    tree = tmp_path / "tree.csv"
    tree.write_text("a;all\nb;all\n")
    for arguments in (
        ["hierarchy", "store", people.url, "t", str(tree)],
        ["gc", people.url],
        ["hierarchy", "drop", people.url, "t"],
    ):
        done = forks.run(*arguments, stdout="pipe")
        assert done.returncode == 0, done.stderr
        assert b"Warning: the command succeeded" in done.stderr
