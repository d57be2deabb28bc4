"""Runs of jobs as clients make them: one that fails leaves a row in the ledger of its target."""

from __future__ import annotations

import time

from dbanon.errors import DatabaseUnreachable, MemoryLimit, OutcomeUnknown, error_code, lacks_memory
from dbanon.release.report import Report
from dbanon.run.run import Job, PhaseProgress, run
from dbanon.stores import ledger


def run_noted(job: Job, progress: PhaseProgress | None = None) -> Report:
    """Run a job as ``jobs.run`` does; when it fails, leave a row in the ledger of its target.

    The row has a transaction of its own. Inside a database a call that fails takes all with it.

    Raises
    ------
    DbanonError : what the run raised, whether or not the row could be written.
    """
    started = time.perf_counter()
    try:
        return _within_memory(job, progress)
    except (Exception, KeyboardInterrupt) as error:
        # Who cannot be reached is not asked again; what may have been done did not fail.
        if not isinstance(error, (DatabaseUnreachable, OutcomeUnknown)):
            described = job.described(time.perf_counter() - started, error_code(error))
            ledger.note_failure(job.target or job.source, described)
        raise


def _within_memory(job: Job, progress: PhaseProgress | None) -> Report:
    try:
        return run(job, progress)
    except (MemoryError, ImportError) as error:
        if not lacks_memory(error):
            raise
        raise MemoryLimit.of_process() from None
