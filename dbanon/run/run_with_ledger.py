"""Run jobs from a client, and record failed runs in the ledger of their target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dbanon.data.pieces import Disk
from dbanon.errors import (
    AccessRefused,
    DatabaseNotFound,
    DatabaseUnreachable,
    MemoryLimit,
    OutcomeUnknown,
    TlsFailed,
    error_code,
    is_out_of_memory,
)
from dbanon.job.job import Job
from dbanon.ledger import entries
from dbanon.release.report import Report
from dbanon.run.files import open_exporter, require_destination
from dbanon.run.memory import count_databases, share_memory
from dbanon.run.run import PhaseProgress, run
from dbanon.run.time_limit import limit_time
from dbanon.sessions.names import parse_relation
from dbanon.sessions.session import Session
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.sql_source import SqlSource
from dbanon.stores.sql_target import SqlTarget, build_run_record

if TYPE_CHECKING:
    from dbanon.job.private import PrivateJob
    from dbanon.sessions.store import Store


@contextmanager
def provide_spill_space(job: Job, source: Store, target: Store | None) -> Iterator[Disk | None]:
    """Yield space on disk for values that exceed memory; None if the job names no directory.

    During the block, the databases that were opened for the run use their share of the memory limit
    at most, and spill to the same directory.

    Raises
    ------
    InvalidParameter, InsufficientRights : the directory cannot be used, or others have access.
    JobRunning : another run uses the directory.
    """
    if job.spill is None:
        with share_memory(job, source, target):
            yield None
        return
    from dbanon.stores.scratch import open_scratch

    with open_scratch(job.spill) as scratch, share_memory(job, source, target, scratch.path):
        yield scratch


# Errors that are not recorded: the database is unreachable, or the run may have succeeded.
UNRECORDED_ERRORS = (
    AccessRefused,
    DatabaseNotFound,
    DatabaseUnreachable,
    OutcomeUnknown,
    TlsFailed,
)


@contextmanager
def _memory_limit_errors() -> Iterator[None]:
    """Raise MemoryLimit if the process runs out of memory during the block."""
    try:
        yield
    # A library that does not fit into memory may fail to load with an ImportError.
    except (MemoryError, ImportError) as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryLimit.of_process() from None


@contextmanager
def recording_failures(
    job: Job | PrivateJob, store: Store, progress: PhaseProgress | None
) -> Iterator[PhaseProgress | None]:
    """Limit the time of a run, and record its failure in a separate transaction.

    SQL calls cannot do this: when they fail, their own transaction is rolled back. Yields the
    progress function to pass to the run, which also enforces the job's time limit.

    Parameters
    ----------
    store : the database whose ledger records the run.

    Raises
    ------
    DbanonError : the run failed. It is raised even if the failure could not be recorded.
    InvalidName : the job's table or output is not the name of a relation.
    """
    started = time.perf_counter()
    for name in (job.table, job.output):
        parse_relation(name)
    # A run that is asked to stop has little time, and must still record its failure. The scope lets
    # other threads and signal handlers cut this thread's connections when that time is over.
    with thread_connections().scope():
        try:
            with limit_time(job.time_limit, progress) as timed_progress, _memory_limit_errors():
                yield timed_progress
        except (Exception, KeyboardInterrupt) as error:
            if not isinstance(error, UNRECORDED_ERRORS):
                failed_run = build_run_record(job, time.perf_counter() - started, error_code(error))
                entries.record_failure(store, failed_run)
            raise


def run_in_transactions(
    job: Job, source: Store, target: Store | None = None, progress: PhaseProgress | None = None
) -> Report:
    """Run a job in one transaction, or in one on each database if source and target differ.

    Parameters
    ----------
    target : the database to write to; None for the database of the source.

    Raises
    ------
    DbanonError : its class says what went wrong. Nothing was published, unless it is an
        OutcomeUnknown, or only some of several files could be moved to their destinations.
    """
    require_destination(job, source, target)
    # Provide spill space first, so that databases remove their spilled files before the directory
    # is deleted.
    with (
        provide_spill_space(job, source, target) as disk,
        open_exporter(job, target or source) as exporter,
        ExitStack() as stack,
    ):
        if target is None or target.is_same_database(source):
            write_session = stack.enter_context(source.session(write=True))
            read_session = write_session
        else:
            # Sessions end in reverse order, so the target's commit is the last step that can fail.
            # ``create`` makes the file of a target that does not exist yet, such as SQLite.
            write_session = stack.enter_context(target.session(write=True, create=True))
            read_session = stack.enter_context(source.session(write=False))
        started = time.perf_counter()
        if exporter is not None:
            exporter.label_codes = read_session.label_codes
            exporter.require_destinations(write_session)
        read_session.n_databases = count_databases(source, target)
        sql_source = SqlSource(read_session, disk)
        sql_target = _open_target(write_session, job)
        measure_risk = None
        if job.risk is not None:
            from dbanon.run.risk import build_risk_measure

            measure_risk = build_risk_measure(job.risk, sql_source, sql_target)
        report = run(job, sql_source, sql_target, progress, exporter, measure_risk)
        before_commit = time.perf_counter()
        if exporter is not None:
            exporter.is_committing = True
        # Ends the sessions: the target commits.
        stack.close()
        seconds = dict(report.seconds)
        seconds["write"] += time.perf_counter() - before_commit
        return report.with_provenance(seconds=seconds | {"total": time.perf_counter() - started})


def _open_target(session: Session, job: Job) -> SqlTarget:
    """Return the target of a job, which also renews the summary of a release that it replaces.

    A release by a SQL function has a summary, a table of aggregates for its readers.
    """
    if job.if_exists != "replace":
        return SqlTarget(session)
    from dbanon.stores.postgresql.summary import target_with_summary

    return target_with_summary(session, job)
