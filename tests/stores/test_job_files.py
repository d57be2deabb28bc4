"""Jobs of files on every database: checked, planned, run, refused."""

from __future__ import annotations

import json
import os
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dbanon
from dbanon.doors.jobfile import run as file_runs
from dbanon.errors import (
    ColumnUnclassified,
    DatabaseBusy,
    JobRunning,
    TablesLeft,
    TimeLimit,
    TooFewRecords,
)
from dbanon.run.open import open_store
from tests.stores.databases import Database
from tests.stores.job_lines import ROLES, call, job, write
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


@pytest.fixture(autouse=True)
def _people(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEOPLE", database.url)


def test_check_plan_run_and_run_again(database: Database, tmp_path: Path) -> None:
    rows = load_people(database)
    file = write(tmp_path, job(where='"age >= 30"'))
    before = database.state()
    assert call("check", file).exit_code == 0
    planned = call("plan", file, "--format", "json")
    assert planned.exit_code == 0, planned.stderr
    [job_result] = json.loads(planned.stdout)["jobs"]
    chosen = [row for row in rows if row[2] >= 30]
    assert job_result["plan"]["rows"] == len(chosen)
    assert database.state() == before
    for turn in range(3):
        done = call("run", file, "--format", "json")
        assert done.exit_code == 0, done.stderr
        [job_result] = json.loads(done.stdout)["jobs"]
        assert job_result["job"] == "people"
        assert job_result["report"]["rows_out"] == len(chosen)
        # keep_last: 2, with the one that is shown.
        assert len(job_result["dropped"]) == (1 if turn == 2 else 0)
    columns = "SELECT * FROM " + database.relation("release.people")
    assert len(database.rows(columns)) == len(chosen)
    doors = [door for (door,) in database.rows(f"SELECT door FROM {database.ledger('run')}")]
    assert doors == ["job"] * 3


def test_a_job_is_what_anonymize_makes_of_the_same_words(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    # A report says so where its schema was created.
    database.make_schema("release")
    file = write(tmp_path, job(output="{table: one}"))
    of_file = dbanon.run_job(file)
    by_hand = database.anonymize(
        quasi_identifiers=["age", "income"], keep=["site"], weights={"age": 2}, output="release.two"
    )
    parsed_job, two = (
        sorted(database.rows(f"SELECT * FROM {database.relation(f'release.{name}')}"), key=str)
        for name in ("one", "two")
    )
    assert parsed_job == two
    # Only the second one says that there was another before.
    first, second = of_file.arguments, dict(by_hand.arguments)
    assert second.pop("intersects")
    assert first == second


def test_a_new_column_halts_the_job_or_is_dropped_with_a_report(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    file = write(tmp_path, job())
    assert call("run", file).exit_code == 0
    kind = database.types["text"]
    database.execute(f"ALTER TABLE people ADD COLUMN diagnosis {kind}")
    before = database.state()
    for command in ("plan", "run"):
        done = call(command, file)
        assert done.exit_code == 6
        assert "[column_unclassified]" in done.stderr
        assert 'Without a role: "diagnosis"' in done.stderr
    assert database.state() == before
    file = write(tmp_path, job(on_new_column="drop"))
    done = call("run", file, "--format", "json")
    assert done.exit_code == 0
    assert 'column "diagnosis" has no role, and was not released' in done.stderr
    [job_result] = json.loads(done.stdout)["jobs"]
    assert job_result["unclassified"] == ["diagnosis"]
    assert "diagnosis" in job_result["report"]["not_copied"]


@pytest.mark.parametrize("column", ["income", "height"], ids=["read", "dropped"])
def test_a_column_that_is_gone_halts(database: Database, tmp_path: Path, column: str) -> None:
    load_people(database)
    file = write(tmp_path, job(on_new_column="drop"))
    database.execute(f"ALTER TABLE people DROP COLUMN {column}")
    for command in ("plan", "run"):
        done = call(command, file)
        assert done.exit_code == 6
        assert "[table_changed]" in done.stderr
        assert f'"{column}"' in done.stderr


def test_one_job_that_fails_stops_no_other(database: Database, tmp_path: Path) -> None:
    load_people(database)
    jobs = [
        job("one", output="{table: one}"),
        job("two", output="{table: two}", k="41"),
        job("three", output="{table: three}"),
    ]
    file = write(tmp_path, *jobs)
    done = call("run", file, "--format", "json")
    assert done.exit_code == 8
    job_results = json.loads(done.stdout)["jobs"]
    assert [job["job"] for job in job_results] == ["one", "two", "three"]
    assert [job.get("error", {}).get("code") for job in job_results] == [
        None,
        "too_few_records",
        None,
    ]
    assert job_results[1]["error"]["exit_code"] == 3
    assert "1 of 3 jobs failed" in done.stderr
    # A job by name has its own code.
    assert call("run", file, "--job", "two").exit_code == 3
    assert call("run", file, "--job", "no").exit_code == 2
    done = call("run", file, "--fail-fast", "--job", "two", "--job", "three", "--format", "json")
    assert done.exit_code == 8
    assert [job["job"] for job in json.loads(done.stdout)["jobs"]] == ["two"]


def test_a_job_that_runs_already(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job(), job("other", output="{table: other}"))
    store = open_store(database.url)
    with store.job_lock("people"):
        done = call("run", file, "--job", "people")
        assert done.exit_code == 7
        assert "[job_running]" in done.stderr
        message = " ".join(done.stderr.split())
        assert re.search(r'held by process \d+ of role "\w+", since [\d-]+ [\d:]+ UTC\.', message)
        assert database.name == "postgresql" or f"process {os.getpid()} of" in message
        assert call("run", file, "--job", "other").exit_code == 0
        with pytest.raises(JobRunning), store.job_lock("people"):
            pass
    assert call("run", file, "--job", "people").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".lock") == []


def test_lines_for_machines_name_the_job(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job(), job("other", output="{table: other}"))
    done = call("run", file, "--log-format", "json", "--format", "json")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert lines[0]["event"] == "start"
    assert lines[-1]["event"] == "end"
    assert "job" not in lines[-1]
    runs = {line["job"]: line["run_id"] for line in lines if line["event"] == "job"}
    assert set(runs) == {"people", "other"}
    run_ids = database.rows(f"SELECT CAST(run_id AS VARCHAR(36)) FROM {database.ledger('run')}")
    assert {run_id for (run_id,) in run_ids} == set(runs.values())


def test_a_report_is_written_in_directories_of_its_own(database: Database, tmp_path: Path) -> None:
    load_people(database)
    report = tmp_path / "out" / "{job}" / "{release}.json"
    file = write(tmp_path, job(report=f'"{report}"'))
    release = dbanon.run_job(file).release_id
    assert not (tmp_path / "out").exists()
    done = call("run", file, "--format", "json")
    release = json.loads(done.stdout)["jobs"][0]["report"]["release_id"]
    written = tmp_path / "out" / "people" / f"{release}.json"
    assert json.loads(written.read_text())["release_id"] == release
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_a_refused_job_writes_its_reason_next_to_the_report(
    database: Database, tmp_path: Path
) -> None:
    """The report of the release that readers still have stays; the exit code is the error's."""
    load_people(database)
    report = tmp_path / "report.html"
    file = write(tmp_path, job(report=f'"{report}"'))
    assert call("run", file).exit_code == 0
    before = report.read_bytes()
    refused = write(tmp_path, job(report=f'"{report}"', k="100000"))
    done = call("run", refused)
    assert done.exit_code == TooFewRecords.exit_code
    assert report.read_bytes() == before
    page = tmp_path / "report.refused.html"
    text = unescape(page.read_text(encoding="utf-8"))
    assert page.stat().st_mode & 0o777 == 0o600
    for words in ("Not released", "too_few_records", "fewer than k = 100000", "by job", "people"):
        assert words in text
    assert "published nothing" in text
    assert call("run", write(tmp_path, job(report=f'"{report}"'))).exit_code == 0
    assert not page.exists()
    # Of a report by release there is one file a run.
    refused = write(tmp_path, job(report=f'"{tmp_path}/out/{{release}}.json"', k="100000"))
    assert call("run", refused).exit_code == TooFewRecords.exit_code
    [report_path] = (tmp_path / "out").iterdir()
    refusal = json.loads(report_path.read_text(encoding="utf-8"))["refusal"]
    assert report_path.name == f"{refusal['run_id']}.refused.json"
    assert refusal["error"]["code"] == "too_few_records"


def test_a_page_of_a_job_has_its_evaluation(database: Database, tmp_path: Path) -> None:
    load_people(database)
    page = tmp_path / "{release}.html"
    file = write(tmp_path, job(report=f'"{page}"'))
    done = call("run", file, "--format", "json")
    assert done.exit_code == 0, done.stderr
    [job_result] = json.loads(done.stdout)["jobs"]
    assert job_result["report"]["evaluation"] is not None
    text = Path(str(page).format(release=job_result["report"]["release_id"])).read_text()
    assert "No further evaluation" not in text
    assert "lacks information about the release" not in done.stderr
    # Any other report needs none of it.
    file = write(tmp_path, job(report=f'"{tmp_path}/report.json"'))
    [job_result] = json.loads(call("run", file, "--format", "json").stdout)["jobs"]
    assert job_result["report"]["evaluation"] is None


def test_variables_are_of_the_environment(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job())
    file.write_text(file.read_text().replace("${PEOPLE}", "${OWN_URL?set OWN_URL first}"))
    assert call("check", file).exit_code == 0
    done = call("run", file)
    assert done.exit_code == 2
    assert "set OWN_URL first" in done.stderr
    assert call("run", file, OWN_URL=database.url).exit_code == 0


def test_a_limit_of_time(database: Database, tmp_path: Path) -> None:
    load_people(database)
    before = database.state()
    file = write(tmp_path, job(time_limit="0.000001"))
    done = call("run", file)
    assert done.exit_code == 9
    assert "[time_limit]" in done.stderr
    assert database.state()[0] == before[0]
    with pytest.raises(TimeLimit):
        database.anonymize(quasi_identifiers=["age"], time_limit=1e-6)
    assert database.anonymize(quasi_identifiers=["age"], time_limit=3600).rows_out == 40


def test_unclassified_columns_are_an_error_of_their_own_in_python(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    roles = {name: role for name, role in ROLES.items() if name != "height"}
    with pytest.raises(ColumnUnclassified, match="columns without a role"):
        dbanon.run_job(write(tmp_path, job(roles=roles)))


def test_a_job_between_two_databases(
    database: Database, tmp_path: Path, make_database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identifiers never reach the target; the lock and the ledger are its own."""
    load_people(database)
    other = make_database("sqlite" if database.name != "sqlite" else "duckdb")
    monkeypatch.setenv("OTHER", other.url)
    file = write(tmp_path, job(where='"age >= 30"'))
    text = file.read_text()
    file.write_text(text.replace("{schema: release}", '{url: "${OTHER}", schema: release}'))
    before = database.state()
    assert call("plan", file).exit_code == 0
    with open_store(other.url).job_lock("people"):
        assert call("run", file).exit_code == 7
    with open_store(database.url).job_lock("people"):
        assert call("run", file).exit_code == 0
    assert database.state() == before
    released = other.rows(f"SELECT * FROM {other.relation('release.people')}")
    assert 0 < len(released) < 40
    assert "name " not in str(released)
    assert len(other.ledger_rows("release")) == 1
    database.execute(f"ALTER TABLE people ADD COLUMN diagnosis {database.types['text']}")
    assert call("run", file).exit_code == 6
    assert len(other.ledger_rows("run")) == 2


def test_a_job_is_run_again_when_the_database_failed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    file = write(tmp_path, job(retries="2"))
    original_run, waits, runs = file_runs.run_any_job, list[float](), list[str]()

    def failing(of: Any, *stores: Any) -> Any:
        runs.append(of.run_id)
        if len(runs) < 3:
            raise DatabaseBusy
        return original_run(of, *stores)

    monkeypatch.setattr(file_runs, "run_any_job", failing)
    # Not the module's own: threads of others sleep, too.
    monkeypatch.setattr(file_runs, "time", SimpleNamespace(sleep=waits.append))
    done = call("run", file, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["jobs"][0]["attempts"] == 3
    assert waits == [1.0, 2.0]
    assert len(set(runs)) == 3
    assert "is run again in 1 seconds" in done.stderr
    # No more often than that, and only for what a retry may help.
    runs.clear()
    monkeypatch.setattr(file_runs, "run_any_job", lambda of, *stores: failing_always(runs, of))
    assert call("run", file).exit_code == 4
    assert len(runs) == 3
    file = write(tmp_path, job(retries="2", k="41"))
    waits.clear()
    monkeypatch.setattr(file_runs, "run_any_job", original_run)
    assert call("run", file).exit_code == 3
    assert waits == []


def test_old_tables_that_cannot_be_dropped_are_no_failure(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    jobs = [job(name, output=f"{{view: {name}, keep_last: 1}}", retries="2") for name in "ab"]
    file = write(tmp_path, *jobs)
    assert call("run", file).exit_code == 0
    tables = len(database.relations())

    def busy(*args: Any) -> list[str]:
        raise DatabaseBusy

    with monkeypatch.context() as patch:
        patch.setattr(file_runs, "collect_garbage", busy)
        done = call("run", file, "--format", "json")
        assert done.exit_code == 0, done.stderr
        assert [job["dropped"] for job in json.loads(done.stdout)["jobs"]] == [[], []]
        assert done.stderr.count("Tables of earlier releases were not dropped.") == 2
        with pytest.warns(TablesLeft):
            dbanon.run_job(file, job="a")
    assert len(database.ledger_rows("release")) == 5
    assert len(database.relations()) > tables
    done = call("run", file, "--format", "json")
    assert [len(job["dropped"]) for job in json.loads(done.stdout)["jobs"]] == [3, 2]
    assert len(database.relations()) == tables


def test_a_signal_after_the_commit_still_reports_the_release(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database)
    file = write(tmp_path, job(output="{view: people, keep_last: 1}"))

    def interrupted(*args: Any) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(file_runs, "collect_garbage", interrupted)
    done = call("run", file, "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert "the command succeeded" in done.stderr
    assert len(database.ledger_rows("release")) == 1


def failing_always(runs: list[str], of: Any) -> Any:
    runs.append(of.run_id)
    raise DatabaseBusy


def test_a_job_has_a_certificate_of_its_own_seconds(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job(certificate="30"))
    done = call("run", file, "--format", "json")
    assert done.exit_code == 0, done.stderr
    [job_result] = json.loads(done.stdout)["jobs"]
    certificate = job_result["report"]["arguments"]["certificate"]
    assert (certificate["limit"], certificate["records"], certificate["k"]) == (30, 40, 3)
    assert certificate["lower_bound"] is None
    assert 0 <= certificate["above"] == round(certificate["above"], 2)
    refused = call("run", write(tmp_path, job(certificate="0")), "--format", "json")
    assert refused.exit_code == 2
    assert "certificate" in refused.output
