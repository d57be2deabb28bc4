"""The metrics file: valid for Prometheus' own parser, always complete, without small counts."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from dbanon.doors.jobfile.outcome import METRICS, Outcome, write_metrics
from dbanon.errors import NotTold, TooFewRecords
from dbanon.run.open import open_store
from tests.stores.databases import DuckdbDatabase
from tests.stores.job_lines import call, job, job_results, write
from tests.stores.people import load_people

ALERTS = Path(__file__).resolve().parents[3] / "examples" / "schedule" / "alerts.yaml"
RELEASE = "7d2b1a3e-0f61-4a5f-9b6c-7d3c2f1a9e11"


MOMENTS = ("last_begin_timestamp_seconds", "last_end_timestamp_seconds")
KILLED = (
    "import os, signal, sys\n"
    "from dbanon.doors.cli.main import main\n"
    "from dbanon.stores.duckdb.publication import DuckdbPublication\n"
    "number = int(sys.argv.pop(1))\n"
    "def end(*_): os.kill(os.getpid(), number)\n"
    "DuckdbPublication.create_table = end\n"
    "main()\n"
)


def gauges(path: Path) -> dict[tuple[str, str, str], float]:
    """The samples except the start and end times of jobs."""
    return {key: value for key, value in samples(path).items() if key[0] not in MOMENTS}


def samples(path: Path) -> dict[tuple[str, str, str], float]:
    """The samples by metric, job and phase, read by Prometheus' own parser."""
    return {
        (
            sample.name.removeprefix("dbanon_job_"),
            sample.labels["job"],
            sample.labels.get("phase", ""),
        ): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    load_people(database)
    monkeypatch.setenv("PEOPLE", database.url)
    return database


@pytest.mark.slow
def test_what_came_of_jobs(people: DuckdbDatabase, tmp_path: Path) -> None:
    head, path = "metrics: jobs.prom\n", tmp_path / "jobs.prom"
    jobs = [job(), job("other", output="{table: other}")]
    began = time.time()
    done = call("run", write(tmp_path, *jobs, head=head), "--format", "json")
    assert done.exit_code == 0, done.stderr
    report = job_results(done)[0]["report"]
    first = samples(path)
    assert {(name, job) for name, job, _ in first} == {
        (name, job) for name in METRICS for job in ("people", "other")
    }
    assert began <= first["last_success_timestamp_seconds", "people", ""] <= time.time() + 1
    assert first["last_exit_code", "people", ""] == 0
    assert first["rows", "people", ""] == report["rows_out"] == 40
    assert first["k_counted", "people", ""] == report["k_achieved"]
    loss = first["information_loss", "people", ""]
    assert loss == pytest.approx(report["information_loss"], rel=1e-8)
    assert first["suppressed_ratio", "people", ""] == 0
    phases = {phase for name, job, phase in first if phase and job == "people"}
    assert phases >= {"read", "cluster", "write", "verify", "total"}
    assert stat.S_IMODE(path.stat().st_mode) & 0o444 == 0o444 & ~current_umask()
    # One fails: the metrics of its last success stay.
    jobs = [job(k="41"), jobs[1]]
    assert call("run", write(tmp_path, *jobs, head=head)).exit_code == 8
    second = samples(path)
    failed = {key: value for key, value in gauges(path).items() if key[1] == "people"}
    before = {
        key: value for key, value in first.items() if key[1] == "people" and key[0] not in MOMENTS
    }
    assert failed == before | {("last_exit_code", "people", ""): 3}
    assert (
        second["last_success_timestamp_seconds", "other", ""]
        > (first["last_success_timestamp_seconds", "other", ""])
    )
    # Jobs that did not run keep their metrics; removed jobs lose them.
    assert call("run", write(tmp_path, *jobs, head=head), "--job", "other").exit_code == 0
    assert samples(path)["last_exit_code", "people", ""] == 3
    assert call("run", write(tmp_path, jobs[1], head=head)).exit_code == 0
    assert {job for _, job, _ in samples(path)} == {"other"}
    assert not list(tmp_path.glob(".jobs.prom*"))


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_nothing_to_do_is_a_success(people: DuckdbDatabase, tmp_path: Path) -> None:
    file, path = write(tmp_path, job()), tmp_path / "x.prom"
    arguments = ("--metrics", path, "--skip-unchanged")
    assert call("run", file, *arguments).exit_code == 0
    first = samples(path)
    assert call("run", file, *arguments).exit_code == 99
    second = samples(path)
    key = ("last_success_timestamp_seconds", "people", "")
    assert second[key] > first[key]
    for moment in MOMENTS:
        assert second[moment, "people", ""] > first[moment, "people", ""]
        first[moment, "people", ""] = second[moment, "people", ""]
    assert second == first | {key: second[key], ("last_exit_code", "people", ""): 99}


def test_a_first_run_that_fails_has_no_success(people: DuckdbDatabase, tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    assert call("run", write(tmp_path, job(k="41")), "--metrics", path).exit_code == 3
    assert gauges(path) == {("last_exit_code", "people", ""): 3}
    metrics = samples(path)
    assert metrics[MOMENTS[0], "people", ""] <= metrics[MOMENTS[1], "people", ""]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_unfinished_run_is_distinguished_from_others(
    people: DuckdbDatabase, tmp_path: Path, number: signal.Signals
) -> None:
    path, file = tmp_path / "x.prom", write(tmp_path, job())
    assert call("run", file, "--metrics", path).exit_code == 0
    before = samples(path)
    words = [sys.executable, "-c", KILLED, str(int(number)), "run", str(file), "--metrics", path]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == (-9 if number == signal.SIGKILL else 143), done.stderr
    began, ended = (samples(path)[moment, "people", ""] for moment in MOMENTS)
    assert began > before["last_end_timestamp_seconds", "people", ""]
    assert (ended < began) == (number == signal.SIGKILL)
    code = samples(path)["last_exit_code", "people", ""]
    assert code == (0 if number == signal.SIGKILL else 130)


def test_a_job_that_runs_already_is_no_failure(people: DuckdbDatabase, tmp_path: Path) -> None:
    path, notices = tmp_path / "x.prom", tmp_path / "told"
    command = f"command: [\"{sys.executable}\", \"-c\", \"open(r'{notices}', 'a').write('x')\"]"
    for on in ("failure", "job_running"):
        file = write(tmp_path, job(notify=f"[{{on: [{on}], {command}}}]"))
        with open_store(people.url).job_lock("people"):
            assert call("run", file, "--metrics", path).exit_code == 7
        assert notices.exists() == (on == "job_running")
    # The process that runs it reports how it ends.
    assert samples(path) == {}


@pytest.mark.slow
@pytest.mark.parametrize("nulls", [1, 2, 3])
def test_counts_below_k_are_withheld(people: DuckdbDatabase, tmp_path: Path, nulls: int) -> None:
    people.execute(f"UPDATE people SET age = NULL WHERE id <= {nulls}")
    path = tmp_path / "x.prom"
    file = write(tmp_path, job(), defaults="{k: 3, nulls: suppress, max_suppression: 0.2}")
    done = call("run", file, "--metrics", path, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert job_results(done)[0]["report"]["suppressed"] == nulls
    metrics = samples(path)
    rows = 40 - nulls
    assert metrics["rows", "people", ""] == rows
    # Whether 1 or 2 of the 40 are withheld, a reader of both figures computes 3.
    expected = 3 / (rows + 3) if nulls < 3 else 3 / 40
    assert metrics["suppressed_ratio", "people", ""] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0\xff",
        'dbanon_job_rows{job="people"} NaN\n',
        "dbanon_job_rows 3\n",
        "rubbish {",
        'dbanon_job_rows{job="people"} 1e\ndbanon_job_rows{job="people",phase="a"} 1\n',
        'dbanon_job_of_tomorrow{job="people"} 1\n',
        "x" * 100_000,
    ],
)
def test_an_old_file_is_read_leniently(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.prom"
    good = 'dbanon_job_last_success_timestamp_seconds{job="people"} 12.5\n'
    path.write_bytes((text + "\n" + good).encode("latin-1"))
    write_metrics(path, ["people"], [Outcome.failed("people", TooFewRecords())])
    assert gauges(path) == {
        ("last_success_timestamp_seconds", "people", ""): 12.5,
        ("last_exit_code", "people", ""): 3,
    }


@pytest.mark.slow
def test_runs_of_several_jobs_at_once_lose_nothing(tmp_path: Path) -> None:
    path, names = tmp_path / "x.prom", [f"job-{n}" for n in range(6)]
    script = (
        "import sys; from pathlib import Path\n"
        "from dbanon.doors.jobfile.outcome import write_metrics\n"
        "from dbanon.doors.jobfile.outcome import Outcome\n"
        f"for _ in range(20): write_metrics(Path({str(path)!r}), {names!r},"
        f" [Outcome.skipped(sys.argv[1], {RELEASE!r})])\n"
    )
    runs = [subprocess.Popen([sys.executable, "-c", script, name]) for name in names]
    while any(run.poll() is None for run in runs):
        # The file is complete at any moment.
        assert not path.exists() or path.read_text().endswith("\n")
        if path.exists():
            samples(path)
    assert [run.returncode for run in runs] == [0] * 6
    assert {job for _, job, _ in samples(path)} == set(names)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.prom"]


def test_metrics_that_cannot_be_written_are_a_warning(
    people: DuckdbDatabase, tmp_path: Path
) -> None:
    file = write(tmp_path, job())
    (tmp_path / "no").write_text("a file, where a folder would be made")
    done = call("run", file, "--metrics", tmp_path / "no" / "x.prom")
    assert done.exit_code == 0
    assert "Warning: The metrics" in done.stderr
    with pytest.warns(NotTold):
        write_metrics(tmp_path / "no" / "x.prom", ["people"], [])
    done = call("run", file, "--metrics", tmp_path / "x.txt")
    assert (done.exit_code, "must end in .prom" in done.stderr) == (2, True)


@pytest.mark.slow
def test_notices_of_runs(people: DuckdbDatabase, tmp_path: Path) -> None:
    tell = tmp_path / "tell.sh"
    tell.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n')
    tell.chmod(0o755)
    command = f'command: ["{tell}", "{{job}}", "{{code}}", "{{exit}}"]'
    notices = f"[{{on: [failure, success, skipped], {command}}}]"
    broken = '[{on: [success], command: ["/no/such/program"]}]'
    file = write(
        tmp_path,
        job(notify=notices),
        job("other", k="41", notify=notices),
        job("third", output="{table: third}", notify=broken),
    )
    done = call("run", file, "--skip-unchanged")
    assert done.exit_code == 8
    assert "Warning: The command of job third could not be notified" in done.stderr
    assert call("run", file, "--skip-unchanged", "--job", "people").exit_code == 99
    lines = (tmp_path / "told").read_text().splitlines()
    assert lines == ["people  0", "other too_few_records 3", "people  99"]


def test_a_webhook_is_of_the_environment(people: DuckdbDatabase, tmp_path: Path) -> None:
    hook = '[{on: [failure], webhook: "${HOOK}"}]'
    file = write(tmp_path, job(notify=hook))
    assert call("check", file).exit_code == 0
    done = call("run", file)
    assert (done.exit_code, "no HOOK" in done.stderr) == (2, True)
    done = call("run", file, HOOK="http://hush-hush-7311/")
    assert (done.exit_code, "must be an https URL" in done.stderr) == (2, True)
    assert "hush-hush" not in done.stderr
    assert call("run", file, HOOK="https://localhost/").exit_code == 0


def expressions() -> Sequence[Any]:
    document = yaml.safe_load(ALERTS.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def test_the_alerts_use_existing_metrics() -> None:
    rules = expressions()
    assert len(rules) >= 2
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        names = {
            word
            for word in rule["expr"].replace("{", " ").replace("(", " ").split()
            if word.startswith("dbanon_")
        }
        assert names
        assert {name.removeprefix("dbanon_job_") for name in names} <= set(METRICS)
