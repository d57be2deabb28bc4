"""Limits and states of jobs: running already (exit code 7), some failed (8), a limit (9)."""

from __future__ import annotations

from dbanon.errors.base import DbanonError

# Exit codes of runs that a signal ended, and of files of jobs that did nothing: the last one is
# Airflow's default for skipping a task.
INTERRUPTED, TERMINATED, NOTHING_TO_DO = 130, 143, 99


class MemoryLimit(DbanonError):
    """The job needs more memory than allowed."""

    code = "memory_limit"
    exit_code = 9
    sqlstate = "54000"

    @classmethod
    def over(cls, subject: str, limit: int, *, detail: str | None = None, hint: str) -> MemoryLimit:
        """Build the error that ``subject``, with its verb, needs more than ``limit`` bytes."""
        size, unit = limit, "bytes"
        for larger in ("KiB", "MiB"):
            if size >= 2**10:
                size, unit = size // 2**10, larger
        return cls(f"{subject} more than {size} {unit} of memory.", detail=detail, hint=hint)

    @classmethod
    def of_process(cls) -> MemoryLimit:
        """Build the error for a limit of the machine or its administrator."""
        return cls(
            "The process has run out of memory. An unfinished run is rolled back.",
            hint=(
                "Give it more memory, or anonymize in blocks. With a limit, the run refuses"
                " before it begins: `memory_limit`."
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
