"""The command line: forms, exit codes, signals."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

import dbanon
from dbanon.doors.cli import render
from dbanon.doors.cli.main import main
from dbanon.doors.cli.support import format_pairs
from dbanon.methods import METHODS
from tests.stores.databases import DuckdbDatabase, SqliteDatabase
from tests.stores.people import load_people

SECRET = "hush-hush"


@pytest.fixture
def database(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    load_people(database)
    return database


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"COLUMNS": "200"})


def anonymize(url: str, *more: str, names: str = "age,height", k: str = "3") -> Result:
    options = ["--table", "people", "--output", "release.people", "--k", k]
    options += ["--quasi-identifiers", names] if names else []
    return run("anonymize", url, *options, *more)


def test_a_release_as_a_table_and_as_json(database: DuckdbDatabase) -> None:
    database.make_schema("release")
    done = anonymize(database.url, "--keep", "site")
    assert done.exit_code == 0
    assert "k requested / counted" in done.stdout
    assert "not checked against earlier releases" in done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith('Warning: column "site" is nearly unique')
    again = ("--if-exists", "replace", "--releases", "independent", "--format", "json")
    done = anonymize(database.url, *again)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert set(report) == set(dbanon.Report.names())
    assert (report["rows_out"], report["k_requested"], report["verified"]) == (40, 3, True)
    assert list(report["column_losses"]) == ["age", "height"]


def test_in_a_pipe_no_line_is_broken_or_padded(database: DuckdbDatabase) -> None:
    names = [f"column_{i:02}_of_a_wide_table" for i in range(40)]
    columns = ", ".join(f"CAST(row AS INTEGER) AS {name}" for name in names)
    database.execute(f"CREATE TABLE wide AS SELECT {columns} FROM range(20) AS r(row)")
    line = ["--table", "wide", "--output", "release.wide", "--k", "5"]
    line += ["--quasi-identifiers", ",".join(names)]
    done = CliRunner().invoke(main, ["anonymize", database.url, *line], env={"COLUMNS": None})
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.endswith(" ")]
    [printed] = [line for line in lines if line.lstrip().startswith("quasi-identifiers")]
    assert printed.endswith(", ".join(names))


@pytest.mark.parametrize(
    ("title", "pairs"),
    [
        ("Report", [("rows", "5"), ("k of (größe, 漢字, a:key:b)", "[bold]  3, tab\t\\[x]  ")]),
        ("T[i]tle", [("e\u0301tat", ":warning:"), ("empty", ""), ("line", "first\nsecond")]),
        ("Report", [("long", "word " * 400)]),
    ],
)
def test_a_pipe_gets_a_table_as_rich_prints_it(
    title: str,
    pairs: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    render.print_results(render.pairs_table(title, pairs))
    printed = capsys.readouterr().out
    assert f"{format_pairs(title, pairs)}\n" == printed
    # Neither is an emoji.
    assert all(name in printed for name in (":key:", ":warning:") if name in str(pairs))


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    terminal = Console(file=file, force_terminal=True, width=60, color_system=None)
    monkeypatch.setattr(render, "Console", lambda **_: terminal)
    render.print_results(render.pairs_table("Report", [("name", "word " * 40)]))
    assert max(map(len, file.getvalue().splitlines())) == 60


def test_names_are_literal_or_listed(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "x.db")
    columns = {"a,b": "INTEGER", " c ": "INTEGER", "d": "INTEGER", "e,f": "TEXT"}
    database.load("people", columns, [(i, i, i, "x") for i in range(9)])
    done = anonymize(
        database.url, "-q", '"a,b"', "-q", " c ", "-s", '"e,f"', "--format", "json", names="d"
    )
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["quasi_identifiers"] == ["d", "a,b", " c "]
    assert report["sensitive"] == ["e,f"]


def test_sql_is_printed_on_request_without_values(database: DuckdbDatabase) -> None:
    done = anonymize(database.url, "--print-sql", "--keep", "site")
    assert done.exit_code == 0
    for part in ("SELECT", 'INSERT INTO "release"', "GROUP BY", 'FROM "main"."people"'):
        assert part in done.stderr
    assert "site 3" not in done.stderr
    assert "SELECT" not in done.stdout


@pytest.mark.parametrize("ending", ["json", "html", "txt"])
def test_a_report_in_a_file_is_its_owners(
    database: DuckdbDatabase, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"report.{ending}"
    done = anonymize(database.url, "--report", str(path))
    assert done.exit_code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert "mdav" in path.read_text()
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["report.pdf", "missing/report.json"])
def test_a_report_that_cannot_be_written_is_refused_first(
    database: DuckdbDatabase, tmp_path: Path, name: str
) -> None:
    state = database.state()
    assert anonymize(database.url, "--report", str(tmp_path / name)).exit_code == 2
    assert database.state() == state


CASES: dict[str, tuple[int, str, Sequence[str]]] = {
    "usage": (2, "table_not_found", ["--table", "poeple"]),
    "privacy": (3, "too_few_records", ["--k", "41"]),
    "memory": (9, "memory_limit", ["--memory-limit", "1KB"]),
    "method": (2, "unknown_method", ["--method", "mdva"]),
    "option": (2, "unknown_option", ["--option", "x=1"]),
    "pair": (2, "invalid_parameter", ["--weight", "age"]),
    "weight": (2, "invalid_parameter", ["--weight", "age=heavy"]),
    "text": (2, "unsupported_type", ["-q", "name"]),
    "budget": (2, "invalid_parameter", ["--max-suppression", "2"]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("form", ["table", "json"])
def test_exit_codes(database: DuckdbDatabase, case: str, form: str) -> None:
    exit_code, code, more = CASES[case]
    done = anonymize(database.url, *more, "--format", form)
    assert done.exit_code == exit_code
    if form == "json":
        error = json.loads(done.stdout)["error"]
        assert (error["code"], error["exit_code"]) == (code, exit_code)
        assert set(error) == {"code", "sqlstate", "exit_code", "message", "detail", "hint"}
        assert done.stderr == ""
    else:
        assert done.stderr.startswith(f"Error [{code}]: ")
        assert done.stdout == ""


@pytest.mark.parametrize(
    "more",
    [
        ["--k", "many"],
        ["--nulls", "drop"],
        ["--output-kind", "file"],
        ["--memory-limit", "much"],
        ["--quasi-identifiers", "a,,b"],
        ["--no-such-option"],
        # More digits, and deeper JSON, than Python reads.
        ["--also-k", f"a={'9' * 5000}"],
        ["--shift-dates", f"a={'9' * 5000}"],
        ["--recode", 'a={"b":' + "[" * 100_000],
    ],
)
def test_what_click_refuses_is_usage(database: DuckdbDatabase, more: list[str]) -> None:
    assert anonymize(database.url, *more).exit_code == 2


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_unreachable_database_and_its_password(form: str) -> None:
    url = f"postgresql://anna:{SECRET}@127.0.0.1:1/people"
    done = anonymize(url, "--format", form, "--print-sql")
    assert done.exit_code == 4
    assert "127.0.0.1:1" in done.output
    assert SECRET not in done.output


def test_missing_rights_have_an_exit_code(pg_url: str, pg_role: Any) -> None:
    from tests.stores.databases import PostgresqlDatabase

    load_people(PostgresqlDatabase(pg_url))
    done = anonymize(pg_role("anna"))
    assert done.exit_code == 5
    assert "GRANT SELECT" in done.stderr


def test_the_url_may_come_from_the_environment(database: DuckdbDatabase) -> None:
    arguments = ["anonymize", "--table", "people", "--output", "o", "--k", "3", "-q", "age"]
    done = CliRunner().invoke(main, arguments, env={"DBANON_URL": database.url})
    assert done.exit_code == 0


def test_verify(database: DuckdbDatabase) -> None:
    anonymize(database.url)
    done = run("verify", database.url, "release.people", "--format", "json")
    assert done.exit_code == 0
    verification = json.loads(done.stdout)
    assert verification["unchanged"] is True
    assert verification["digest"] == "unchanged"
    assert verification["k_requested"] == 3
    [(smallest, classes, rows)] = database.rows(verification["recount_sql"])
    assert (smallest, classes, rows) == (verification["k_achieved"], verification["classes"], 40)
    verified = run("verify", database.url, "release.people").stdout
    assert "yes: columns, types, rows, class sizes" in verified

    assert run("verify", database.url, "release.people", "--k", "30").exit_code == 3
    assert run("verify", database.url, "release.people", "--k", "1").exit_code == 2
    assert run("verify", database.url, "release.unknown").exit_code == 2
    raw = run("verify", database.url, "people", "-q", "age", "--k", "2")
    assert raw.exit_code == 3
    # A source cannot be withdrawn.
    assert "ithdraw" not in raw.stderr
    assert "Release the table" in " ".join(raw.stderr.split())
    assert run("verify", database.url, "people", "-q", "age").exit_code == 2

    database.execute(
        "INSERT INTO release.people SELECT * FROM release.people"
        " WHERE age = (SELECT min(age) FROM release.people) LIMIT 1"
    )
    done = run("verify", database.url, "release.people")
    assert done.exit_code == 6
    assert "release_changed" in done.stderr
    database.execute("DROP TABLE release.people")
    assert run("verify", database.url, "release.people").exit_code == 2


def test_gc(database: DuckdbDatabase) -> None:
    for _ in range(3):
        anonymize(database.url, "--output-kind", "view", "--if-exists", "replace")
    done = run("gc", database.url, "--format", "json")
    assert done.exit_code == 0
    assert len(json.loads(done.stdout)["dropped"]) == 1
    assert "1 table dropped" in run("gc", database.url, "--keep-last", "0").stdout
    assert run("gc", database.url, "--keep-last", "-1").exit_code == 2
    assert run("gc", f"{database.url}.missing").exit_code == 2


def test_methods_lists_them_all() -> None:
    done = run("methods", "--format", "json")
    entries = {entry["method"]: entry for entry in json.loads(done.stdout)}
    assert set(entries) == set(METHODS)
    assert all(entry["reference"] and entry["class sizes"] for entry in entries.values())
    assert "mdav" in run("methods").stdout


def test_demo(tmp_path: Path) -> None:
    done = run("demo", "--rows", "2000", "--directory", str(tmp_path / "demo"))
    assert done.exit_code == 0, done.output
    assert "SELECT min(class_size) AS smallest_class" in done.stdout
    assert (tmp_path / "demo" / "persons.duckdb").exists()


def test_help_of_every_command() -> None:
    assert main.commands
    for name in main.commands:
        done = run(name, "--help")
        assert done.exit_code == 0
        assert done.stdout.startswith("Usage:")


def test_the_overview_repeats_each_commands_help() -> None:
    together = run("--help").stdout.partition("Commands:\n")[2]
    loaded = click.Group(commands=dict(main.commands))
    formatter = click.HelpFormatter(width=80)
    loaded.format_commands(click.Context(loaded), formatter)
    assert formatter.getvalue().partition("Commands:\n")[2] == together


SLOW = """
import sys
import numpy as np
import duckdb
from dbanon.doors.cli import main as cli
from dbanon.doors.cli.progress import ProgressDisplay

told = []

def tell(self, phase, share):
    if phase == "cluster" and not told:
        told.append(phase)
        print("clustering", file=sys.stderr, flush=True)

ProgressDisplay.__call__ = tell
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run(tmp_path: Path, number: signal.Signals, code: int) -> None:
    database = DuckdbDatabase(tmp_path / "large.duckdb")
    # So many dimensions that no index helps: this takes minutes.
    columns = ", ".join(f"random() AS c{i}" for i in range(12))
    database.execute(f"CREATE TABLE people AS SELECT {columns} FROM range(200000)")
    state = database.state()
    names = ",".join(f"c{i}" for i in range(12))
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            SLOW,
            "anonymize",
            database.url,
            "--table",
            "people",
            "--k",
            "3",
            "--quasi-identifiers",
            names,
            "--output",
            "release.people",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "clustering\n"
        process.send_signal(number)
        # The run itself would take longer.
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == ""
    assert "rolled back" in err
    assert "Traceback" not in err
    assert database.state() == state
