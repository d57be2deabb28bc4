"""Job files that read files: how CSV is written, names of months in paths, and names of jobs."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.file import read_job_file
from dbanon.errors import JobFileInvalid
from dbanon.job.job import Job
from dbanon.job.reading import Reading
from tests.stays import COLUMNS, LATIN_1, write_stays

ROLES = {"Geburtsdatum": "quasi_identifier", "Aufnahme": "quasi_identifier"}
JOB = """\
version: 1
source: {path: "in/stays_${year}-${month}.csv"}
target: {url: "duckdb:///%(place)s/out.duckdb"}
defaults: {k: 5, dates: dmy, decimal: ",", encoding: latin-1}
jobs:
  - name: Fälle
    table: stays
    null_words: ["k.A."]
    columns:
%(columns)s
    output: {table: release.stays}
    export: [{format: parquet, path: "out/{job}-${year}.parquet"}]
metrics: m.prom
"""


def call(*words: Any, **env: str) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "200", **env})


def job_file(tmp_path: Path, text: str = JOB) -> Path:
    columns = "\n".join(f"      {name}: {{role: {ROLES.get(name, 'drop')}}}" for name in COLUMNS)
    path = tmp_path / "job.yaml"
    path.write_text(text % {"place": tmp_path, "columns": columns}, encoding="utf-8")
    return path


@pytest.fixture
def month(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return write_stays(tmp_path / "in" / "stays_2025-03.csv", 1, 300, 120, encoding=LATIN_1)


@pytest.mark.usefixtures("month")
def test_a_job_reads_a_file_from_its_own_folder(tmp_path: Path) -> None:
    path = job_file(tmp_path)
    of_march = {"year": "2025", "month": "03"}
    assert call("check", path).exit_code == 0
    planned = call("plan", path, **of_march)
    assert planned.exit_code == 0, planned.stderr
    assert "date; dates: dmy" in planned.stdout
    for again in range(2):
        done = call("run", path, "--format", "json", **of_march)
        assert done.exit_code == (2 if again else 0), done.stderr
        text = path.read_text(encoding="utf-8")
        once = text.replace("{table: release.stays}", "{table: release.stays, if_exists: error}")
        path.write_text(once, encoding="utf-8")
    with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as clinic:
        [(rows,)] = clinic.execute("SELECT count(*) FROM release.stays").fetchall()
        [(arguments, source)] = clinic.execute(
            "SELECT arguments, source FROM dbanon.release"
        ).fetchall()
    assert rows == 300
    assert source.split(".")[-1] == "stays"
    assert json.loads(arguments)["reading"] == {
        "dates": "dmy",
        "decimal": ",",
        "encoding": "latin-1",
        "null_words": ["k.A."],
    }
    assert parquet.read_metadata(tmp_path / "out" / "Fälle-2025.parquet").num_rows == 300
    assert 'job="Fälle"' in (tmp_path / "m.prom").read_text(encoding="utf-8")


@pytest.mark.usefixtures("month")
def test_year_and_month_are_those_of_the_run_where_nothing_else_is_said(tmp_path: Path) -> None:
    job_file_read = read_job_file(job_file(tmp_path))
    prefix = f"file:{tmp_path.resolve()}/in/stays_"
    [job] = job_file_read.with_variables({}, date(2026, 2, 9)).jobs
    assert job.source == f"{prefix}2026-02.csv"
    [job] = job_file_read.with_variables({"month": "12"}, date(2026, 2, 9)).jobs
    assert job.source == f"{prefix}2026-12.csv"
    [job] = job_file_read.with_variables({}).jobs
    assert job.source.startswith(prefix + "20")
    assert job_file_read.with_variables({}).jobs == job_file_read.with_variables({}).jobs


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '{path: "in/stays_${year}-${month}.csv"}',
            '{path: a.csv, url: "file:a.csv"}',
            "source: must have exactly one of url and path",
        ),
        (
            '{path: "in/stays_${year}-${month}.csv"}',
            "{}",
            "source: must have exactly one of url and path",
        ),
        ("dates: dmy", "dates: ddmm", "defaults.dates: must be dmy, mdy, ymd or a pattern"),
        ("latin-1", "ebcdic", "defaults.encoding: must be one of utf-8, latin-1"),
        ('["k.A."]', "k.A.", "jobs.0.null_words: must be a list of texts"),
        ("name: Fälle", "name: a/b", "jobs.0.name: must be 1 to 63 letters"),
        ("name: Fälle", "name: _a", "jobs.0.name: must be 1 to 63 letters"),
        ("name: Fälle", f"name: {'ä' * 64}", "jobs.0.name: must be 1 to 63 letters"),
        ("name: Fälle", f"name: {'語' * 60}", "jobs.0.name: must be 1 to 63 letters"),
    ],
)
def test_what_is_wrong_is_said_by_check(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in JOB
    path = job_file(tmp_path, JOB.replace(old, new))
    with pytest.raises(JobFileInvalid) as refused:
        read_job_file(path)
    assert message in str(refused.value.detail)


def test_names_that_differ_in_case_only_are_one(tmp_path: Path) -> None:
    jobs = JOB.partition("  - name")
    text = jobs[0] + "".join(
        f"  - {{name: {name}, table: t, columns: {{a: {{role: quasi_identifier}}}},"
        f" output: {{table: {name}}}}}\n"
        for name in ("Fälle", "fÄlle")
    )
    with pytest.raises(JobFileInvalid) as refused:
        read_job_file(job_file(tmp_path, text))
    assert "jobs.1.name: jobs.0 already has this name" in str(refused.value.detail)


def test_init_keeps_letters_and_how_the_file_is_written(tmp_path: Path, month: Path) -> None:
    done = call(
        "init",
        f"file:{month}",
        "--table",
        "Fälle",
        "--dates",
        "dmy",
        "--decimal",
        ",",
        "--encoding",
        "latin-1",
        "--null-words",
        "k.A.,?",
    )
    assert done.exit_code == 0, done.stderr
    path = tmp_path / "job.yaml"
    export = "    export: [{format: parquet, path: a.parquet}]\n    output:"
    path.write_text(done.stdout.replace("    output:", export), encoding="utf-8")
    [job] = read_job_file(path).jobs
    assert job.name == "Fälle"
    assert isinstance(job.job, Job)
    types = dict.fromkeys(COLUMNS, "text")
    types |= {"Patienten-Nr": "integer", "Fallnr": "integer", "Kosten": "decimal"}
    types |= dict.fromkeys(("Geburtsdatum", "Aufnahme", "Entlassung"), "date")
    assert job.job.reading == Reading(
        dates="dmy", decimal=",", encoding="latin-1", null_words=("k.A.", "?"), types=types
    )
    assert "Geburtsdatum: {role: quasi_identifier}  # DATE" in done.stdout
    planned = call("plan", path)
    assert planned.exit_code == 0, planned.stderr
