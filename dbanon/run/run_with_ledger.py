"""Runs of jobs by clients; a failed run leaves a row in the ledger of its target."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from dbanon.data.pieces import Disk
from dbanon.errors import (
    AccessRefused,
    DatabaseNotFound,
    DatabaseUnreachable,
    MemoryLimit,
    OutcomeUnknown,
    TlsFailed,
    error_code,
    lacks_memory,
)
from dbanon.job.job import Job
from dbanon.ledger import entries
from dbanon.release.report import Report
from dbanon.run.files import files_of, require_place
from dbanon.run.run import PhaseProgress, run
from dbanon.run.time_limit import limit_time
from dbanon.sessions.ending import ending
from dbanon.sessions.names import parse_relation
from dbanon.sessions.store import Store
from dbanon.stores.postgresql.summary import target_beside
from dbanon.stores.scratch import scratch_in
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import run_of


@contextmanager
def spill_space(job: Job, *stores: Store | None) -> Iterator[Disk | None]:
    """Provide spill space for values during the block; None if the job names no directory.

    Databases opened for the run use at most half of the memory limit and spill there.

    Raises
    ------
    InvalidParameter, InsufficientRights, JobRunning : others can access or use the directory.
    """
    if job.spill is None:
        yield None
        return
    with scratch_in(job.spill) as scratch:
        opened = [store for store in stores if store is not None]
        for store in opened:
            store.spill(scratch.path, job.memory_limit and job.memory_limit // 2)
        try:
            yield scratch
        finally:
            for store in opened:
                store.spill(None, None)


Runner = Callable[[Job, Store, "Store | None", "PhaseProgress | None"], Report]

# After these errors no row is written: the database is unreachable, or the run may have succeeded.
NOT_ASKED = (AccessRefused, DatabaseNotFound, DatabaseUnreachable, OutcomeUnknown, TlsFailed)


def run_with_ledger(
    job: Job,
    source: Store,
    target: Store | None = None,
    progress: PhaseProgress | None = None,
    between: Runner | None = None,
) -> Report:
    """Run a job; when it fails, leave a row in the ledger of its target.

    The row has a transaction of its own. Inside a database a call that fails takes all with it.

    Parameters
    ----------
    between : what runs it; ``run_between`` when None.

    Raises
    ------
    DbanonError : what the run raised, whether or not the row could be written.
    """
    started = time.perf_counter()
    for name in (job.table, job.output):
        parse_relation(name)
    # A run asked to stop has little time left, which must include writing this row.
    with ending().scope():
        try:
            with limit_time(job.time_limit, progress) as timed_progress:
                return _within_memory(between or run_between, job, source, target, timed_progress)
        except (Exception, KeyboardInterrupt) as error:
            if not isinstance(error, NOT_ASKED):
                failed = run_of(job, time.perf_counter() - started, error_code(error))
                entries.note_failure(target or source, failed)
            raise


def run_between(
    job: Job, source: Store, target: Store | None = None, progress: PhaseProgress | None = None
) -> Report:
    """Run a job in one transaction, or in one on each of two databases.

    Parameters
    ----------
    target : the database that is written to; the same one when None.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    require_place(job, source, target)
    # Outermost, so that databases remove their spilled files before the directory is deleted.
    with (
        spill_space(job, source, target) as disk,
        files_of(job, target or source) as exporter,
        ExitStack() as stack,
    ):
        if target is None or target.same_database(source):
            writes = stack.enter_context(source.session(write=True))
            reads = writes
        else:
            # Sessions end in reverse order, so the target's commit is the last step that can fail.
            writes = stack.enter_context(target.session(write=True, create=True))
            reads = stack.enter_context(source.session(write=False))
        started = time.perf_counter()
        if exporter is not None:
            exporter.require_places(writes)
        report = run(job, SqlSource(reads, disk), target_beside(writes, job), progress, exporter)
        before_commit = time.perf_counter()
        if exporter is not None:
            exporter.committing = True
        stack.close()
        spent = dict(report.seconds)
        spent["write"] += time.perf_counter() - before_commit
        return report.with_provenance(seconds=spent | {"total": time.perf_counter() - started})


def _within_memory(
    between: Runner, job: Job, source: Store, target: Store | None, progress: PhaseProgress | None
) -> Report:
    try:
        return between(job, source, target, progress)
    except (MemoryError, ImportError) as error:
        if not lacks_memory(error):
            raise
        raise MemoryLimit.of_process() from None
