"""Errors of jobs: already running (exit code 7), some failed (8), a limit is reached (9)."""

from __future__ import annotations

from dbanon.errors.base import DbanonError

# Exit codes of runs ended by SIGINT or SIGTERM, and of job files with nothing to do. Airflow marks
# a task with the last of these codes as skipped, unless configured otherwise.
INTERRUPTED, TERMINATED, NOTHING_TO_DO = 130, 143, 99


class MemoryLimit(DbanonError):
    """The job needs more memory than allowed."""

    code = "memory_limit"
    exit_code = 9
    sqlstate = "54000"

    @classmethod
    def exceeded(
        cls, subject: str, limit_bytes: int, *, detail: str | None = None, hint: str
    ) -> MemoryLimit:
        """Build the error for a need of more memory than a limit.

        Parameters
        ----------
        subject : the start of the message: the subject and its verb, such as ``The run needs``.
        limit_bytes : the limit.
        """
        amount, unit = limit_bytes, "bytes"
        for larger_unit in ("KiB", "MiB"):
            if amount >= 2**10:
                amount, unit = amount // 2**10, larger_unit
        return cls(f"{subject} more than {amount} {unit} of memory.", detail=detail, hint=hint)

    @classmethod
    def of_process(cls) -> MemoryLimit:
        """Build the error for a process that has run out of memory."""
        return cls(
            "The process has run out of memory. An unfinished run is rolled back.",
            hint=(
                "Give it more memory, or anonymize in blocks. If you set `memory_limit`, a run that"
                " is estimated to need more is refused."
            ),
        )


class TimeLimit(DbanonError):
    """The run took longer than it may."""

    code = "time_limit"
    exit_code = 9
    sqlstate = "54000"


class JobRunning(DbanonError):
    """The job is already running."""

    code = "job_running"
    exit_code = 7
    sqlstate = "55006"


class JobsFailed(DbanonError):
    """Some of the jobs failed."""

    code = "jobs_failed"
    exit_code = 8
