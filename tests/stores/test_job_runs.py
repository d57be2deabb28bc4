"""Runs of one job by several processes, and runs that receive a signal to stop."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dbanon.run.open import open_store
from tests.stores.databases import Database
from tests.stores.forked import Command
from tests.stores.people import load_people

pytestmark = [pytest.mark.own_backends, pytest.mark.in_turn(of="file")]

# A run that says when it began to read, and waits there until a file appears.
WAITING = """
import pathlib, sys, time
from dbanon.doors.jobfile import run
noted = run.run_any_job

def waiting(job, source, target, progress):
    def watched(phase, share):
        if phase == sys.argv[2]:
            print("waiting", file=sys.stderr, flush=True)
            while not pathlib.Path(sys.argv[1]).exists():
                time.sleep(0.02)
        progress(phase, share)
    return noted(job, source, target, watched)

run.run_any_job = waiting
from dbanon.doors.cli.main import main
main(sys.argv[3:])
"""


def job_file(tmp_path: Path, *names: str) -> Path:
    file = tmp_path / "job.yaml"
    dropped = ("id", "name", "income", "height", "born", "seen")
    file.write_text(
        'version: 1\nsource: {url: "${PEOPLE}"}\ndefaults: {k: 3}\njobs:\n'
        + "".join(
            f"  - name: {name}\n    table: people\n    columns:\n"
            "      age: {role: quasi_identifier}\n      site: {role: keep, reason: public}\n"
            + "".join(f"      {column}: {{role: drop}}\n" for column in dropped)
            + f"    output: {{table: release.{name}}}\n"
            f'    export: [{{format: csv, path: "out/{name}.csv"}}]\n'
            for name in names
        )
    )
    return file


def start(database: Database, go: Path, phase: str, *words: Any) -> Command:
    env = {**os.environ, "PEOPLE": database.url}
    return Command(WAITING, str(go), phase, *map(str, words), env=env)


def test_of_four_runs_of_one_job_one_is_done(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file, go = job_file(tmp_path, "people"), tmp_path / "go"
    with ExitStack() as stack:
        runs = [
            stack.enter_context(start(database, go, "read", "run", file, "--format", "json"))
            for _ in range(4)
        ]
        waited = time.monotonic()
        while sum(run.poll() is not None for run in runs) < 3:
            assert time.monotonic() - waited < 300, "some wait for the lock"
            time.sleep(0.1)
        go.touch()
        done = [(*run.communicate(), run.returncode) for run in runs]
    assert sorted(str(code) for *_, code in done) == ["0", *["7"] * 3], done
    for out, _, code in done:
        [job_result] = json.loads(out)["jobs"]
        assert ("report" in job_result) == (code == 0)
        assert code == 0 or job_result["error"]["code"] == "job_running"
    assert len(database.ledger_rows("release")) == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["people.csv"]


@pytest.mark.parametrize("phase", ["read", "verify"])
def test_a_run_that_is_stopped_leaves_nothing(
    database: Database, tmp_path: Path, phase: str
) -> None:
    load_people(database)
    file, before = job_file(tmp_path, "people", "other"), database.state()
    with start(database, tmp_path / "never", phase, "run", file, "--format", "json") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "waiting\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "rolled back" in err
    assert "Traceback" not in err
    # No other job is begun.
    assert json.loads(out) == {"jobs": []}
    assert database.state() == before
    assert not list(tmp_path.rglob("*.csv")) + list(tmp_path.rglob(".dbanon-*"))
    with open_store(database.url).job_lock("people"):
        pass
