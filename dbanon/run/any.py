"""Runs of jobs, whatever they make: each kind of job has one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dbanon.job.job import Job
from dbanon.job.private import PrivateJob
from dbanon.release.private_report import PrivateReport
from dbanon.release.report import Report
from dbanon.run.noted import run_noted
from dbanon.run.private import run_private
from dbanon.run.run import PhaseProgress
from dbanon.stores.store import Store

_RUNS: dict[type[Any], Callable[..., Report | PrivateReport]] = {
    Job: run_noted,
    # The budget is in the database that is read, and so is the release.
    PrivateJob: lambda job, source, target, progress: run_private(job, source, progress),
}


def run_any(
    job: Job | PrivateJob,
    source: Store,
    target: Store | None = None,
    progress: PhaseProgress | None = None,
) -> Report | PrivateReport:
    """Run a job; when it fails, leave a row in the ledger of its target.

    Raises
    ------
    DbanonError : of the class that says what went wrong.
    """
    return _RUNS[type(job)](job, source, target, progress)
