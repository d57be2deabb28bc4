"""The example's DAGs, parsed by Airflow, and their tasks run: `make schedules`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.schedules.commands import EXAMPLES, Site, answers, link_program

DAGS = "airflow_dag.py"


@pytest.fixture
def airflow(tmp_path: Path, scheduler: Path) -> dict[str, str]:
    """The environment of a worker with only the job file's variables."""
    return {
        "PATH": f"{scheduler}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
    }


@pytest.mark.scheduler("airflow")
def test_airflow_parses_the_dags_and_retries_when_useful(
    tmp_path: Path, scheduler: Path, airflow: dict[str, str], backend_path: Path
) -> None:
    site = Site.make(tmp_path / "srv")
    text = (EXAMPLES / DAGS).read_text()
    file = tmp_path / "dags" / DAGS
    file.parent.mkdir()
    file.write_text(text.replace("/srv/dbanon/", f"{site.folder}/"))
    programs = tmp_path / "programs"
    programs.mkdir()
    for code in (3, 4, 7, 8, 99):
        answers(programs / str(code), code)
    link_program(programs / "real")
    environment = airflow | {
        "DBANON_SOURCE": site.source,
        "DBANON_OUT": str(site.folder / "out"),
        "PYTHONPATH": str(backend_path),
    }
    child = Path(__file__).with_name("airflow_child.py")
    done = subprocess.run(
        [scheduler / "python", child, file, programs],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    for name in ("dbanon_command", "dbanon_python"):
        assert results[name] == {
            "schedule": "0 3 1 * *",
            "catchup": False,
            "tasks": [["release", 2]],
        }
    states = {code: results[str(code)][0] for code in (3, 4, 7, 8, 99)}
    assert states == {
        3: "failed",
        4: "tried again",
        7: "tried again",
        8: "failed",
        99: "skipped",
    }
    assert results["real"][0] == "done", results["real"]
    state, report = results["python"]
    assert state == "done", report
    assert report["k_achieved"] >= 5
    assert results["python, a wrong source"][0] == "failed"
    assert site.released() == 2


@pytest.mark.scheduler("airflow")
def test_airflow_lists_the_dags_without_an_error(
    tmp_path: Path, scheduler: Path, airflow: dict[str, str]
) -> None:
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / DAGS).write_text((EXAMPLES / DAGS).read_text())
    for words in (["db", "migrate"], ["dags", "list", "--local", "--output", "json"]):
        done = subprocess.run(
            [scheduler / "airflow", *words],
            env=airflow,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    listed = json.loads(done.stdout[done.stdout.index("[{") :])
    assert {dag["dag_id"] for dag in listed} == {"dbanon_command", "dbanon_python"}
