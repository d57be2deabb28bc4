"""The log for machines on stderr: one object per line, from a start to an end."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dbanon.doors.cli.log import Log
from dbanon.doors.cli.main import main
from dbanon.doors.cli.progress import ProgressDisplay
from tests.stores.databases import DuckdbDatabase
from tests.stores.people import load_people

FIELDS = ["ts", "level", "event", "run_id", "release_id", "phase", "seconds", "code"]


@pytest.fixture
def database(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "clinic.duckdb")
    load_people(database)
    return database


def call(*words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, the objects on stderr, and stdout."""
    done = CliRunner().invoke(main, [*words, "--log-format", "json"])
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    for line in lines:
        assert list(line)[: len(FIELDS)] == FIELDS
        assert datetime.fromisoformat(line["ts"]).utcoffset() is not None
        assert line["level"] in {"info", "warning", "error"}
        assert line["seconds"] >= 0
    assert lines[0]["event"] == "start"
    assert lines[-1]["event"] == "end"
    assert lines[-1]["exit_code"] == done.exit_code
    assert len({line["run_id"] for line in lines}) == 1
    assert [line["event"] for line in lines].count("start") == 1
    assert [line["event"] for line in lines].count("end") == 1
    return done.exit_code, lines, done.stdout


def anonymize(database: DuckdbDatabase, *more: str) -> tuple[int, list[dict[str, Any]], str]:
    return call(
        *("anonymize", database.url, "--table", "people", "--output", "release.people"),
        *("--quasi-identifiers", "age,height", "--k", "3", *more),
    )


@pytest.mark.parametrize("silent", [[], ["--no-progress"]])
def test_a_run_is_logged_from_start_to_end(database: DuckdbDatabase, silent: list[str]) -> None:
    code, lines, out = anonymize(database, "--format", "json", *silent)
    report = json.loads(out)
    assert code == 0
    assert lines[-1]["release_id"] == report["release_id"]
    assert lines[-1]["code"] is None
    phases = [line["phase"] for line in lines if line["event"] == "phase"]
    expected = ["read", "cluster", "write", "verify"]
    assert list(dict.fromkeys(phases)) == ([] if silent else expected)
    # It identifies the ledger entry.
    runs = database.rows("SELECT run_id, release_id, state FROM dbanon.run")
    assert [tuple(map(str, row)) for row in runs] == [
        (lines[0]["run_id"], report["release_id"], "done")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_refusal_is_reported(database: DuckdbDatabase, form: str) -> None:
    assert anonymize(database)[0] == 0
    again = ["--if-exists", "replace", "--format", form]
    code, lines, _ = anonymize(database, "--k", "100000", *again)
    assert (code, lines[-1]["code"], lines[-1]["level"]) == (3, "too_few_records", "error")
    [error] = [line for line in lines if line["event"] == "error"]
    assert error["code"] == "too_few_records"
    assert error["message"]
    failed = database.rows("SELECT run_id FROM dbanon.run WHERE state = 'failed'")
    assert [str(run) for (run,) in failed] == [lines[0]["run_id"]]


def test_unreadable_options_are_reported(database: DuckdbDatabase) -> None:
    for words in (["--k", "many"], ["--no-such-option"]):
        code, lines, out = anonymize(database, *words)
        assert (code, out, lines[-1]["code"]) == (2, "", "usage")
    assert call("hierarchy", "list", database.url, "--format", "xml")[0] == 2


@pytest.mark.slow
def test_every_database_command_has_a_log(database: DuckdbDatabase) -> None:
    assert anonymize(database, "--print-sql", "--keep", "id")[0] == 0
    lines = anonymize(database, "--print-sql", "--if-exists", "replace", "--keep", "id")[1]
    assert {"sql", "warning"} <= {line["event"] for line in lines}
    release_id = lines[-1]["release_id"]
    for command in ("verify", "show"):
        code, events, _ = call(command, database.url, "release.people")
        assert (code, events[-1]["release_id"]) == (0, release_id)
    assert call("releases", database.url)[0] == 0
    assert call("verify", database.url, "release.nothing")[1][-1]["code"] == "release_not_found"
    assert call("gc", database.url)[0] == 0
    assert call("drop", database.url, "release.people")[0] == 0
    assert call("hierarchy", "list", database.url)[0] == 0
    assert call("hierarchy", "drop", database.url, "none")[1][-1]["code"] == "hierarchy_not_found"


@pytest.mark.slow
def test_a_signal_is_reported(database: DuckdbDatabase) -> None:
    code = (
        "import os, signal, sys\n"
        "from dbanon.doors.cli import progress\n"
        "def tell(self, phase, share):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "progress.ProgressDisplay.__call__ = tell\n"
        "from dbanon.doors.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    words = [
        *("anonymize", database.url, "--table", "people", "--output", "release.people"),
        *("-q", "age", "--k", "3", "--log-format", "json"),
    ]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    end = json.loads(done.stderr.splitlines()[-1])
    assert (done.returncode, end["event"], end["code"]) == (143, "end", "terminated")


def test_words_are_for_people(database: DuckdbDatabase, capsys: Any) -> None:
    log = Log()
    display = ProgressDisplay(True, log)
    display("read", 0.5)
    assert capsys.readouterr().err == ""
    log.progress("read", 0.5)
    assert capsys.readouterr().err == f"run {log.run_id[:8]}: read 50%\n"


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_error_ends_with_the_command_that_explains_it(
    database: DuckdbDatabase, form: str
) -> None:
    words = ["verify", database.url, "release.nothing"]
    refused = CliRunner().invoke(main, words)
    assert refused.stderr.splitlines()[-1] == "More: dbanon explain release_not_found"
    explained = CliRunner().invoke(main, ["explain", "release_not_found", "--format", form])
    assert (explained.exit_code, "release_not_found" in explained.stdout) == (0, True)
    # Machines have the code already.
    assert "dbanon explain" not in CliRunner().invoke(main, [*words, "--format", "json"]).stdout
    assert "dbanon explain" not in str(call(*words)[1])
