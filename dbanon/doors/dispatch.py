"""Runs and plans jobs of every kind: k-anonymous releases, releases of chains, synthetic rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from dbanon.data.extension import load_runner
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob
from dbanon.run.run_with_ledger import recording_failures, run_in_transactions

if TYPE_CHECKING:
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.run.job_runner import JobRunner
    from dbanon.run.outlook import Outlook
    from dbanon.run.run import PhaseProgress
    from dbanon.sessions.store import Store


@overload
def run_any_job(
    job: Job, source: Store, target: Store | None = None, progress: PhaseProgress | None = None
) -> Report: ...


@overload
def run_any_job(
    job: Job | PrivateJob,
    source: Store,
    target: Store | None = None,
    progress: PhaseProgress | None = None,
) -> Report | PrivateReport: ...


def run_any_job(
    job: Job | PrivateJob,
    source: Store,
    target: Store | None = None,
    progress: PhaseProgress | None = None,
) -> Report | PrivateReport:
    """Run a job; if it fails, record the failure in the target's ledger.

    If a job that groups rows into classes names a chain, make the chain's next release.

    Parameters
    ----------
    target : the database for the release; None for the source's.
    progress : called with a phase and its completed share, 0 to 1.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    if isinstance(job, PrivateJob):
        # Budget and release are in the source database.
        report: PrivateReport = load_runner("private").run(job, source, progress)
        return report
    chain_runner = _find_chain_runner(job)
    # Without a chain, a run is one transaction on each database.
    run = run_in_transactions if chain_runner is None else chain_runner.run
    with recording_failures(job, target or source, progress) as timed_progress:
        # The table's owner can store rules, such as column roles, in the database. They are applied
        # here, so that the ledger also records a failure to apply them.
        return run(_apply_rules(job, source), source, target, timed_progress)


def plan_anonymization(
    job: Job,
    source: Store,
    target: Store | None,
    *,
    cluster: bool = False,
    keep_last: int | None = None,
    progress: PhaseProgress | None = None,
) -> Outlook:
    """Plan a job that groups rows into classes.

    Parameters
    ----------
    target : the database for the release; None for the source's.
    cluster : whether to find the classes, too.
    keep_last : the number of replaced releases of the output view to keep; None to keep all.
    progress : called with a phase and its completed share, 0 to 1.
    """
    from dbanon.run.outlook import build_outlook

    return build_outlook(
        _apply_rules(job, source),
        source,
        target,
        cluster=cluster,
        keep_last=keep_last,
        progress=progress,
        runner=_find_chain_runner(job),
    )


def _apply_rules(job: Job, store: Store) -> Job:
    """Apply the rules of the job's table, if the job uses rules."""
    # Checked before the import, which few jobs need.
    if job.declared != RULES_NOT_READ:
        return job
    from dbanon.run.rules import apply_table_rules

    return apply_table_rules(job, store)


def _find_chain_runner(job: Job) -> JobRunner | None:
    """Return the object that plans and runs a job that names a chain; None for other jobs."""
    return None if job.chain is None else load_runner("chain")
