"""Plans of job files: what would be made, replaced, dropped and exported, and rights that lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from tests.stores.databases import Database
from tests.stores.job_lines import call, job, job_results, write
from tests.stores.people import load_people

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

EXPORT = '[{format: csv, path: "out/{job}.csv"}, {format: parquet, path: "{release}.parquet"}]'


@pytest.fixture(autouse=True)
def _people(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEOPLE", database.url)


def planned(file: Path) -> Any:
    done = call("plan", file, "--format", "json")
    assert done.exit_code == 0, done.stderr
    [job_result] = job_results(done)
    return job_result


def test_a_schedule_is_a_hint(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job(schedule='"0 3 1 * *"'))
    assert planned(file)["schedule"] == "0 3 1 * *"
    assert "0 3 1 * *" in call("plan", file).stdout
    # The value of an option that stands first is no file.
    assert (
        call("plan", "--format", "json", file).stdout
        == call("plan", file, "--format", "json").stdout
    )
    assert call("run", file).exit_code == 0


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_run_does_what_the_plan_says(database: Database, tmp_path: Path, keep: int) -> None:
    load_people(database)
    database.make_schema("release")
    file = write(tmp_path, job(output=f"{{view: people, keep_last: {keep}}}", export=EXPORT))
    before = database.state()
    first = planned(file)["plan"]
    assert first["creates"][0] == "ledger"
    assert len(first["creates"]) == 3
    assert database.state() == before
    assert not (tmp_path / "out").exists(), "no directory is made"
    for _ in range(keep + 1):
        job_plan = planned(file)["plan"]
        [job_result] = job_results(call("run", file, "--format", "json"))
        assert sorted(job_plan["drops"]) == sorted(job_result["dropped"])
    assert len(job_plan["drops"]) == 1
    assert job_plan["creates"] == [f"a table for view {job_plan['output']}"]
    paths = [(Path(export["path"]).name, export["replaces"]) for export in job_plan["exports"]]
    assert paths == [("people.csv", True), ("{release}.parquet", False)]
    printed = call("plan", file).stdout
    assert all(word in printed for word in ("drops", "people.csv", "replaces a file"))


def test_a_place_of_something_else_is_refused_as_by_the_run(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    file = write(tmp_path, job(export="[{format: csv, path: mine.csv}]"))
    (tmp_path / "mine.csv").write_text("mine\n")
    for command in ("plan", "run"):
        done = call(command, file, "--format", "json")
        assert (done.exit_code, job_results(done)[0]["error"]["code"]) == (2, "output_exists")
    assert (tmp_path / "mine.csv").read_text() == "mine\n"


def test_a_plan_reports_the_memory_limit(database: Database, tmp_path: Path) -> None:
    load_people(database)
    job_plan = planned(write(tmp_path, job(memory_limit="1GiB")))["plan"]
    assert 0 < job_plan["memory"] < job_plan["memory_limit"] == 2**30
    done = call("plan", write(tmp_path, job(memory_limit="100")))
    assert (done.exit_code, "[memory_limit]" in done.stderr) == (9, True)
    assert json.loads(call("plan", tmp_path / "job.yaml", "--format", "json").stdout)


def test_hints_name_keys_of_the_file(database: Database, tmp_path: Path, monkeypatch: Any) -> None:
    """The owner of a job file uses no flags: hints for its plan, its run, and in Python."""
    load_people(database)
    database.execute(f"UPDATE {database.relation('people')} SET age = NULL WHERE id <= 3")
    monkeypatch.setenv("PEOPLE", database.url)
    file = tmp_path / "job.yaml"
    file.write_text(
        'version: 1\nsource: {url: "${PEOPLE}"}\ndefaults: {k: 3, on_new_column: drop}\njobs:\n'
        "  - name: people\n    table: people\n    columns: {age: {role: quasi_identifier}}\n"
        "    output: {table: release.people}\n"
    )
    for form in ("table", "json"):
        for command in ("plan", "run"):
            done = CliRunner().invoke(main, [command, str(file), "--format", form])
            assert done.exit_code == 2
            output = done.stdout + done.stderr
            assert "nulls: suppress" in output
            assert "--nulls" not in output
            assert "nulls=" not in output
    with pytest.raises(dbanon.DbanonError) as refused:
        dbanon.run_job(file)
    assert "`" not in str(refused.value.hint)
    assert str(refused.value.hint).startswith("Choose nulls: category (classes within each pattern")
