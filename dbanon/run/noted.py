"""Runs of jobs as clients make them: one that fails leaves a row in the ledger of its target."""

from __future__ import annotations

import time

from dbanon.errors import DatabaseUnreachable, MemoryLimit, OutcomeUnknown, error_code, lacks_memory
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.run.run import PhaseProgress, described, run
from dbanon.stores import ledger
from dbanon.stores.names import parse_relation
from dbanon.stores.store import Store


def run_noted(
    job: Job, source: Store, target: Store | None = None, progress: PhaseProgress | None = None
) -> Report:
    """Run a job as ``run`` does; when it fails, leave a row in the ledger of its target.

    The row has a transaction of its own. Inside a database a call that fails takes all with it.

    Raises
    ------
    DbanonError : what the run raised, whether or not the row could be written.
    """
    started = time.perf_counter()
    for name in (job.table, job.output):
        parse_relation(name)
    try:
        return _within_memory(job, source, target, progress)
    except (Exception, KeyboardInterrupt) as error:
        # Who cannot be reached is not asked again; what may have been done did not fail.
        if not isinstance(error, (DatabaseUnreachable, OutcomeUnknown)):
            failed = described(job, time.perf_counter() - started, error_code(error))
            ledger.note_failure(target or source, failed)
        raise


def _within_memory(
    job: Job, source: Store, target: Store | None, progress: PhaseProgress | None
) -> Report:
    try:
        return run(job, source, target, progress)
    except (MemoryError, ImportError) as error:
        if not lacks_memory(error):
            raise
        raise MemoryLimit.of_process() from None
