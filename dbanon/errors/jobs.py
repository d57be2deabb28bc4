"""Jobs of a file: one is running already (7), some failed (8), nothing was to be done (99)."""

from __future__ import annotations

from dbanon.errors.base import DbanonError


class JobRunning(DbanonError):
    """The job is running already."""

    code = "job_running"
    exit_code = 7
    sqlstate = "55006"


class JobsFailed(DbanonError):
    """Some of the jobs failed."""

    code = "jobs_failed"
    exit_code = 8
