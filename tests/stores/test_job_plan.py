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
from tests.stores.job_lines import call, job, told, write
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
    [one] = told(done)
    return one


def test_a_schedule_is_a_hint(database: Database, tmp_path: Path) -> None:
    load_people(database)
    file = write(tmp_path, job(schedule='"0 3 1 * *"'))
    assert planned(file)["schedule"] == "0 3 1 * *"
    assert "0 3 1 * *" in call("plan", file).stdout
    assert call("run", file).exit_code == 0


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_what_is_said_is_what_is_done(database: Database, tmp_path: Path, keep: int) -> None:
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
        said = planned(file)["plan"]
        [one] = told(call("run", file, "--format", "json"))
        assert sorted(said["drops"]) == sorted(one["dropped"])
    assert len(said["drops"]) == 1
    assert said["creates"] == [f"a table for view {said['output']}"]
    paths = [(Path(one["path"]).name, one["replaces"]) for one in said["exports"]]
    assert paths == [("people.csv", True), ("{release}.parquet", False)]
    shown = call("plan", file).stdout
    assert all(word in shown for word in ("drops", "people.csv", "replaces a file"))


def test_a_place_of_something_else_is_refused_as_by_the_run(
    database: Database, tmp_path: Path
) -> None:
    load_people(database)
    file = write(tmp_path, job(export="[{format: csv, path: mine.csv}]"))
    (tmp_path / "mine.csv").write_text("mine\n")
    for command in ("plan", "run"):
        done = call(command, file, "--format", "json")
        assert (done.exit_code, told(done)[0]["error"]["code"]) == (2, "output_exists")
    assert (tmp_path / "mine.csv").read_text() == "mine\n"


def test_a_memory_limit_is_told(database: Database, tmp_path: Path) -> None:
    load_people(database)
    found = planned(write(tmp_path, job(memory_limit="1GiB")))["plan"]
    assert 0 < found["memory"] < found["memory_limit"] == 2**30
    done = call("plan", write(tmp_path, job(memory_limit="100")))
    assert (done.exit_code, "[memory_limit]" in done.stderr) == (9, True)
    assert json.loads(call("plan", tmp_path / "job.yaml", "--format", "json").stdout)


def test_hints_name_keys_of_the_file(database: Database, tmp_path: Path, monkeypatch: Any) -> None:
    """Who has a job file has no flags: of its plan, its run, and in Python."""
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
            said = done.stdout + done.stderr
            assert "nulls: suppress" in said
            assert "--nulls" not in said
            assert "nulls=" not in said
    with pytest.raises(dbanon.DbanonError) as refused:
        dbanon.run_job(file)
    assert "`" not in str(refused.value.hint)
    assert str(refused.value.hint).startswith("Choose nulls: category (classes within each pattern")
