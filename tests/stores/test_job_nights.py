"""Nights of jobs: paths relative to the job file, files and reports that are removed, and
messages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import skip_case
from tests.stores.databases import ALL_NAMES, Database, DuckdbDatabase
from tests.stores.job_lines import call, job, job_results, write
from tests.stores.people import load_people

DATABASES = ALL_NAMES
EXPORTS = '[{format: csv, path: "out/{release}.csv", keep_last: 3}]'


@pytest.mark.parametrize("scheme", ["duckdb", "sqlite"])
def test_urls_of_files_are_seen_from_the_job_file(
    duckdb_file: DuckdbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    load_people(duckdb_file)
    (tmp_path / "jobs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    source = Path(duckdb_file.url.removeprefix("duckdb:///"))
    monkeypatch.setenv("PEOPLE", f"duckdb:///../{source.relative_to(tmp_path)}")
    file = write(tmp_path / "jobs", job(output="{table: people}"))
    url = f"{scheme}:///released.db"
    file.write_text(file.read_text().replace("schema: release", f'url: "{url}"'))
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = call("run", file)
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "jobs" / "released.db").is_file()
    assert list(Path.cwd().iterdir()) == []


def test_a_file_as_a_url_is_seen_from_the_job_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    rows = "".join(f"{20 + n % 50}\n" for n in range(60))
    (tmp_path / "jobs" / "people.csv").write_text(f"age\n{rows}")
    monkeypatch.setenv("PEOPLE", "file:people.csv")
    named = job(roles={"age": "{role: quasi_identifier}"}, output="{table: people}")
    file = write(tmp_path / "jobs", named, head='metrics: "to/dbanon.prom"\n')
    file.write_text(
        file.read_text().replace("schema: release", f'url: "duckdb:///{tmp_path}/o.duckdb"')
    )
    monkeypatch.chdir(tmp_path)
    done = call("run", file)
    assert done.exit_code == 0, done.stderr
    # The folder of metrics is made.
    assert "Warning" not in "".join(line for line in done.stderr if "metrics" in line)
    assert (
        'dbanon_job_last_exit_code{job="people"} 0'
        in (tmp_path / "jobs" / "to" / "dbanon.prom").read_text()
    )


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("output", ["{table: people}", "{view: people, keep_last: 2}"])
def test_as_many_files_stay_as_are_asked_for_with_their_reports(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    if database.name == "mariadb" and "view" in output:
        skip_case("MariaDB releases no views")
    monkeypatch.setenv("PEOPLE", database.url)
    load_people(database)
    named = job(output=output, export=EXPORTS, report='"out/{job}-{release}.json"')
    file = write(tmp_path, named)
    somebodys = tmp_path / "out" / "people-00000000-0000-4000-8000-000000000000.json"
    release_ids = []
    for turn in range(5):
        done = call("run", file, "--format", "json")
        assert done.exit_code == 0, done.stderr
        release_ids.append(job_results(done)[0]["report"]["release_id"])
        if turn == 0:
            somebodys.write_text("{}")
    assert {path.stem for path in (tmp_path / "out").glob("*.csv")} == set(release_ids[2:])
    reports = {path.name for path in (tmp_path / "out").glob("*.json")}
    assert reports == {
        somebodys.name,
        *(f"people-{release_id}.json" for release_id in release_ids[2:]),
    }


@pytest.mark.in_turn(of="file")
def test_as_many_tables_stay_as_files(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One word has one meaning: of three releases the newest is one."""
    if database.name == "mariadb":
        skip_case("MariaDB releases no views")
    monkeypatch.setenv("PEOPLE", database.url)
    load_people(database)
    database.make_schema("release")
    file = write(tmp_path, job(output="{view: people, keep_last: 3}", export=EXPORTS))
    assert call("run", file).exit_code == 0
    before = len(database.relations())
    for _ in range(4):
        planned = call("plan", file, "--format", "json")
        drops = job_results(planned)[0]["plan"]["drops"]
        done = call("run", file, "--format", "json")
        assert done.exit_code == 0, done.stderr
        assert job_results(done)[0]["dropped"] == drops
    # The view, its table and two more.
    assert len(database.relations()) == before + 2
    assert len(list((tmp_path / "out").glob("*.csv"))) == 3
    wrong = write(tmp_path, job(output="{view: people, keep_last: 0}"))
    assert "output.keep_last" in call("check", wrong).stderr


def test_a_job_that_keeps_all_keeps_its_reports(
    duckdb_file: DuckdbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", duckdb_file.url)
    load_people(duckdb_file)
    file = write(tmp_path, job(output="{table: people}", report='"{release}.json"'))
    for _ in range(3):
        assert call("run", file).exit_code == 0
    assert len(list(tmp_path.glob("*-*.json"))) == 3


def test_a_skipped_run_ends_without_an_error_in_the_log(
    duckdb_file: DuckdbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", duckdb_file.url)
    load_people(duckdb_file)
    file = write(tmp_path, job(output="{table: people}"))
    words = ("run", file, "--skip-unchanged", "--log-format", "json")
    assert call(*words).exit_code == 0
    skipped = call(*words)
    assert skipped.exit_code == 99
    lines: list[dict[str, Any]] = [json.loads(line) for line in skipped.stderr.splitlines()]
    assert {line["level"] for line in lines} == {"info"}
    assert lines[-1]["exit_code"] == 99


def test_warnings_name_their_job(
    duckdb_file: DuckdbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEOPLE", duckdb_file.url)
    load_people(duckdb_file)
    roles = {
        "id": "{role: identifier}",
        "age": "{role: quasi_identifier}",
        "site": '{role: keep, reason: "known"}',
    }
    jobs = [job(name, roles, f"{{table: {name}}}") for name in ("first", "second")]
    done = call("run", write(tmp_path, *jobs, defaults="{k: 3, on_new_column: drop}"))
    assert done.exit_code == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert all(
        line.startswith(("Warning: job first: ", "Warning: job second: ")) for line in warnings
    ), warnings
    assert {line.split(":")[1].strip() for line in warnings} == {"job first", "job second"}
