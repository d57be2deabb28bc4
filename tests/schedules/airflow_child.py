"""Runs in Airflow's environment: parses the DAGs, and runs each task as a worker would.

``airflow_child.py FILE DIRECTORY`` prints the result of each task as JSON on the last line.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import util
from pathlib import Path
from typing import Any

from airflow.exceptions import AirflowSkipException
from airflow.sdk.exceptions import AirflowException, AirflowFailException


def became(task: Any) -> Any:
    """The state that a worker would record for a run of the task, and its XCom value."""
    try:
        return ["done", task.execute({"params": {}})]
    except AirflowSkipException:
        return ["skipped", None]
    except AirflowFailException:
        return ["failed", None]
    except AirflowException as error:
        return ["tried again", str(error)]
    except Exception as error:
        return ["tried again", f"{type(error).__name__}: {error}"]


def main(file: Path, programs: Path) -> None:
    """Import the file once, then run its tasks with each program ``dbanon``."""
    described = util.spec_from_file_location("dags", file)
    assert described is not None
    assert described.loader is not None
    dags = util.module_from_spec(described)
    described.loader.exec_module(dags)
    results: dict[str, Any] = {}
    for dag in (dags.by_command, dags.in_python):
        results[dag.dag_id] = {
            "schedule": dag.schedule,
            "catchup": dag.catchup,
            "tasks": [[task.task_id, task.retries] for task in dag.tasks],
        }
    path = os.environ["PATH"]
    [command] = dags.by_command.tasks
    for folder in sorted(programs.iterdir()):
        os.environ["PATH"] = f"{folder}:{path}"
        results[folder.name] = became(command)
    [called] = dags.in_python.tasks
    results["python"] = became(called)
    os.environ["DBANON_SOURCE"] = "duckdb:////nowhere/clinic.duckdb"
    results["python, a wrong source"] = became(called)
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
