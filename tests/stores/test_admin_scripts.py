"""The scripts of examples/admin on PostgreSQL and DuckDB."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main as dbanon_main
from tests.conftest import CAMPAIGN
from tests.stores.databases import Database

ADMIN = Path(__file__).resolve().parents[2] / "examples" / "admin"


@pytest.fixture(params=["duckdb", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def hospital(request: pytest.FixtureRequest, make_database: object) -> Database:
    """Two tables that the rules fit, one with a new column, one without quasi-identifiers."""
    assert callable(make_database)
    database: Database = make_database(request.param)
    text, integer = database.types["text"], database.types["integer"]
    people = {
        "patient_id": integer,
        "full_name": text,
        "age": integer,
        "income": integer,
        "diagnosis": text,
    }
    patients = [[i, f"name {i}", 20 + i // 5, i // 5 * 1000 + i % 5, "flu"] for i in range(60)]
    database.load("app.patient", people, patients)
    stays = [[i, f"region {i % 3}", i % 7, f"ward {i % 2}"] for i in range(60)]
    stay = {"stay_id": integer, "region": text, "age": integer, "ward": text}
    database.load('app.Sta"y s', stay, stays)
    database.load("app.visitor", {"age": integer, "badge": integer}, [[i, i] for i in range(9)])
    database.load("app.word", {"ward": text}, [["a"], ["b"]])
    # The scripts run with warnings as errors.
    database.make_schema("release")
    return database


def command(words: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
    """A command of dbanon that a script starts, in this process."""
    program, *more = map(str, words)
    assert (Path(program).name, options) == (
        "dbanon",
        {"stdout": subprocess.PIPE, "text": True, "check": False},
    )
    done = CliRunner().invoke(dbanon_main, more)
    sys.stderr.write(done.stderr)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout)


def call(script: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script in this process, as starting one takes longer than what it does."""
    out, err = io.StringIO(), io.StringIO()
    main = import_module(f"examples.admin.{script}").main
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        patch.dict(os.environ, environment),
        patch.object(subprocess, "run", command),
    ):
        try:
            code = main([str(word) for word in words])
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def start(script: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A script as a program, whose exit code is its own."""
    return subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-W",
            "ignore:Column",
            "-m",
            f"examples.admin.{script}",
            *map(str, words),
        ],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def started(hospital: Database) -> Any:
    """How a script is run whose exit code counts: as a program, on one database."""
    return start if CAMPAIGN or hospital.name == "duckdb" else call


def release_all(hospital: Database, run: Any = call) -> subprocess.CompletedProcess[str]:
    rules = ADMIN / "rules.yaml"
    completed = run("release_schema", hospital.url, "--schema", "app", "--rules", rules)
    assert isinstance(completed, subprocess.CompletedProcess)
    return completed


def test_every_table_of_a_schema_by_its_rules(hospital: Database) -> None:
    for run in (started(hospital), call):
        done = release_all(hospital, run)
        assert done.returncode == 6, done.stderr
        printed = dict(line.split(": ", 1) for line in done.stdout.splitlines())
        assert printed["patient"].startswith("60 rows, k = ")
        assert printed['Sta"y s'].startswith("60 rows, k = ")
        assert printed["visitor"] == "not released: no rule for badge"
        assert printed["word"] == "not released: no quasi-identifier among its columns"
    released = {release.output: release.k_achieved for release in dbanon.releases(hospital.url)}
    assert set(released) == {"release.patient", 'release."Sta""y s"'}
    assert all(k >= 5 for k in released.values())
    hospital.execute("DROP TABLE app.visitor", "DROP TABLE app.word")
    assert release_all(hospital).returncode == 0


def test_an_audit_finds_what_was_changed(hospital: Database) -> None:
    release_all(hospital)
    release_all(hospital)
    done = call("audit_ledger", hospital.url, "--format", "csv")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["state"] for row in rows] == ["current"] * 2 + ["superseded"] * 2
    assert [row["verified"] for row in rows] == ["yes"] * 2 + [""] * 2
    assert all(int(row["k_achieved"]) >= int(row["k_requested"]) == 5 for row in rows)
    entry = dbanon.show(hospital.url, "release.patient")
    table = hospital.relation(f"release.{entry['relation_name']}")
    hospital.execute(f"UPDATE {table} SET diagnosis = 'gout'")
    done = started(hospital)("audit_ledger", hospital.url)
    assert done.returncode == 6
    [line] = [
        printed_line
        for printed_line in done.stdout.splitlines()
        if printed_line.startswith("release.patient: current")
    ]
    assert line.endswith("verified: release_changed")
    assert "4 releases, 1 not as released" in done.stderr


def test_a_release_a_month(hospital: Database, tmp_path: Path) -> None:
    # With few rows or columns all published losses are equal.
    columns = ("patient_id", "age", "income", "height", "weight")
    types = dict.fromkeys(columns, hospital.types["integer"])
    hospital.load(
        "app.patients", types, [(i, *(i // 5 * n for n in range(1, 5))) for i in range(1000)]
    )
    file = tmp_path / "job.yaml"
    roles = "".join(f"      {name}: {{role: quasi_identifier}}\n" for name in columns[1:])
    file.write_text(
        'version: 1\nsource: {url: "${HOSPITAL}"}\ntarget: {schema: release}\n'
        "defaults: {k: 5, method: mdav, releases: independent}\n"
        "jobs:\n  - name: patients\n    table: app.patients\n"
        f"    columns:\n      patient_id: {{role: identifier}}\n{roles}"
        "    output: {view: patient}\n"
    )

    def monthly() -> str:
        done = call("monthly", file, hospital.url, HOSPITAL=hospital.url)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert monthly().startswith("patients: 1000 rows, k = 5, verified")
    assert monthly().startswith("patients: released in ")
    assert len(dbanon.releases(hospital.url)) == 1
    # A month later the data are others.
    hospital.execute(f"UPDATE {hospital.ledger()} SET created_at = created_at - INTERVAL '40 days'")
    hospital.execute(
        "UPDATE app.patients SET age = patient_id * 37 % 61, income = patient_id * 79 % 997,"
        " height = patient_id * 7919 % 1009, weight = patient_id * 613 % 881"
    )
    output = monthly()
    assert "1000 rows" in output
    assert "look at the data" in output
    assert len(dbanon.releases(hospital.url)) == 2
    file.write_text(file.read_text().replace("k: 5", "k: 5000"))
    hospital.execute(f"UPDATE {hospital.ledger()} SET created_at = TIMESTAMP '2020-01-01 00:00:00'")
    done = started(hospital)("monthly", file, hospital.url, HOSPITAL=hospital.url)
    assert done.returncode == 3, done.stdout
    assert "[too_few_records]" in done.stdout
