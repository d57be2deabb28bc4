"""A release on the first of each month by Airflow 3: as a command, and in Python.

Both do the same job, so have one of them. Code 99, nothing new, skips the task; 4, the database is
away, and 7, the job runs already, are tried again; all others are for a person, at once.
"""

# Airflow is not where dbanon's types are checked.
# pyright: reportMissingImports=false

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook, SubprocessResult
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

FILE = "/srv/dbanon/job.yaml"
DONE, SKIPPED, TRIED_AGAIN = 0, 99, (4, 7)
SCHEDULE: dict[str, Any] = {
    "schedule": "0 3 1 * *",
    "start_date": datetime(2026, 1, 1),
    "catchup": False,
    "max_active_runs": 1,
    "default_args": {"retries": 2, "retry_delay": timedelta(minutes=10)},
}


class _FailsForGood(SubprocessHook):
    """Runs a command, whose other codes end the task without another attempt."""

    def run_command(self, *words: Any, **given: Any) -> SubprocessResult:
        result = super().run_command(*words, **given)
        if result.exit_code not in (DONE, SKIPPED, *TRIED_AGAIN):
            raise AirflowFailException(f"dbanon ended with code {result.exit_code}.")
        return result


class DbanonOperator(BashOperator):
    """A command of dbanon."""

    @cached_property
    def subprocess_hook(self) -> SubprocessHook:
        return _FailsForGood()


def release(file: str, job: str) -> dict[str, Any]:
    """Run a job of a file; its report, which holds no values of the table, goes to XCom."""
    import dbanon

    try:
        report = dbanon.run_job(file, job=job)
        return {} if report is None else report.to_dict()
    except dbanon.DbanonError as error:
        if error.exit_code in TRIED_AGAIN:
            raise
        raise AirflowFailException(str(error)) from error


with DAG("dbanon_command", **SCHEDULE) as by_command:
    DbanonOperator(
        task_id="release",
        # The worker's environment has DBANON_SOURCE.
        bash_command=f"exec dbanon run {FILE} --skip-unchanged --log-format json --no-progress",
        skip_on_exit_code=SKIPPED,
    )

with DAG("dbanon_python", **SCHEDULE) as in_python:
    PythonOperator(
        task_id="release",
        python_callable=release,
        op_kwargs={"file": FILE, "job": "patients"},
    )
