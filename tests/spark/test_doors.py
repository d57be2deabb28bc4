"""A cluster on the command line and in job files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.file import read_job_file
from dbanon.errors import InvalidParameter, JobFileInvalid
from dbanon.spark import anonymize, anonymize_table
from tests.spark.cluster import SMALL
from tests.spark.statements import execute

LINE = [
    "--table",
    "people",
    "--output",
    "release.people",
    "-q",
    "age",
    "-q",
    "pay",
    "--k",
    "5",
    "--keep",
    "id",
    "--block-size",
    "500",
    "--format",
    "json",
]
JOBS = """
version: 1
source: {url: "${PEOPLE}"}
target: {schema: release}
defaults:
  k: 5
  block_size: 500
  engine: {name: spark, master: "${MASTER}", tasks: 3, conf: {
    spark.ui.enabled: "${UI:-false}", spark.sql.shuffle.partitions: "4"}}
jobs:
  - name: people-monthly
    table: people
    columns:
      id: {role: keep, reason: public}
      age: {role: quasi_identifier}
      pay: {role: quasi_identifier}
    output: {table: people}
"""


@pytest.fixture
def people(pg_url: str) -> str:
    execute(
        pg_url,
        "CREATE TABLE people AS SELECT i AS id, 18 + i * 7 % 70 AS age, 1000 * sin(i) AS pay"
        " FROM generate_series(1, 2000) AS i; ALTER TABLE people ADD PRIMARY KEY (id)",
    )
    return pg_url


def run(*words: str) -> Any:
    return CliRunner().invoke(main, list(words), env={"DBANON_URL": None})


def test_the_command_line(sessions: Any, people: str) -> None:
    sessions.stop()
    assert run("anonymize", people, *LINE).exit_code == 0
    rows = "SELECT id, age, pay FROM release.people ORDER BY id"
    expected = execute(people, rows)
    cluster = [
        "--engine",
        "spark",
        "--master",
        "local[2]",
        "--tasks",
        "3",
        *(f"--conf={name}={value}" for name, value in SMALL.items()),
    ]
    refused_run = run("anonymize", people, *LINE, *cluster)
    assert refused_run.exit_code == 2
    assert "output_exists" in refused_run.output
    done = run("anonymize", people, *LINE, *cluster, "--if-exists", "replace")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["rows_out"] == 2000
    assert report["output"] == "release.people"
    assert execute(people, rows) == expected
    ran = "SELECT door, state, error_code FROM dbanon.run ORDER BY finished_at"
    assert execute(people, ran) == [
        ("cli", "done", None),
        ("cli", "failed", "output_exists"),
        ("cli", "done", None),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--master", "local[1]"], "--engine spark"),
        (["--conf", "spark.ui.enabled=false"], "--engine spark"),
        (["--tasks", "2"], "--engine spark"),
        (["--engine", "spark"], "--master"),
        (["--engine", "dask", "--master", "x"], "dask"),
        (["--engine", "spark", "--master", "local[1]", "--conf", "master=x"], "spark."),
        (["--engine", "spark", "--master", "local[1]", "--tasks", "0"], "tasks"),
    ],
)
def test_lines_that_are_wrong(words: list[str], message: str) -> None:
    done = run("anonymize", "postgresql://localhost/nothing", *LINE, *words)
    assert done.exit_code == 2
    assert message in done.output


def test_other_databases_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dbanon.extensions.spark.interface.open_session", lambda *_: pytest.fail("it was opened")
    )
    words = ["--engine", "spark", "--master", "local[1]"]
    done = run("anonymize", f"duckdb:///{tmp_path}/x.duckdb", *LINE, *words)
    assert done.exit_code == 2
    assert "PostgreSQL and Parquet" in done.output


def test_dp_ranks_is_refused_by_name(tmp_path: Path) -> None:
    line = [*LINE, "--method", "dp_ranks", "--engine", "spark", "--master", "local[1]"]
    for more in ([], ["--epsilon", "1", "--budget", "b", "--bounds", "age=0:120"]):
        done = run("anonymize", "postgresql://localhost/nothing", *line, *more)
        assert done.exit_code == 2
        assert "Method dp_ranks takes no engine." in done.output
        assert "Spark cannot run this method" in done.output
    options: Any = {"quasi_identifiers": ["age"], "k": 5, "method": "dp_ranks"}
    for call in (
        lambda: anonymize_table(cast(Any, None), "/a", str(tmp_path / "b"), **options),
        lambda: anonymize(cast(Any, None), **options),
    ):
        with pytest.raises(InvalidParameter, match="dp_ranks takes no engine"):
            call()


def test_a_job_file(
    sessions: Any, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.stop()
    monkeypatch.setenv("PEOPLE", people)
    monkeypatch.setenv("MASTER", "local[2]")
    file = tmp_path / "job.yaml"
    file.write_text(JOBS)
    report = dbanon.run_job(file)
    assert report is not None
    assert report.rows_out == 2000
    ran = "SELECT door, job, state FROM dbanon.run"
    assert execute(people, ran) == [("job", "people-monthly", "done")]
    assert dbanon.verify(people, "release.people").digest == "unchanged"
    with pytest.raises(InvalidParameter, match="never skipped"):
        dbanon.run_job(file, skip_unchanged=True)
    # A column without a role stops the job, as does one of another type.
    execute(people, "ALTER TABLE people ADD COLUMN name text")
    with pytest.raises(dbanon.DbanonError) as caught:
        dbanon.run_job(file)
    assert caught.value.code == "column_unclassified"
    execute(people, "ALTER TABLE people DROP COLUMN name, ALTER age TYPE float8")
    with pytest.raises(dbanon.DbanonError) as caught:
        dbanon.run_job(file)
    assert caught.value.code == "table_changed"
    assert dbanon.verify(people, "release.people").release_id == report.release_id
    failed = "SELECT error_code FROM dbanon.run WHERE state = 'failed' ORDER BY finished_at"
    assert execute(people, failed) == [("column_unclassified",), ("table_changed",)]


def test_the_engine_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEOPLE", "postgresql://db/clinic")
    file = tmp_path / "job.yaml"
    file.write_text(JOBS)
    [job] = read_job_file(file).jobs
    assert job.engine is not None
    assert (job.engine.name, job.engine.master, job.engine.tasks) == ("spark", "${MASTER}", 3)
    with pytest.raises(JobFileInvalid, match="1 problem"):
        read_job_file(file).with_variables({"PEOPLE": "postgresql://db/clinic"})
    environment = {"PEOPLE": "postgresql://db/clinic", "MASTER": "yarn", "UI": "hush"}
    [job] = read_job_file(file).with_variables(environment).jobs
    assert job.engine is not None
    assert job.engine.master == "yarn"
    assert dict(job.engine.conf) == {
        "spark.ui.enabled": "hush",
        "spark.sql.shuffle.partitions": "4",
    }
    # It may be a secret.
    assert "hush" not in repr(job)
