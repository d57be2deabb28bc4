"""Build and run jobs from options in Python's form, for Python and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbanon.data.types import KeywordArguments
from dbanon.doors.dispatch import run_any_job
from dbanon.doors.progress import progress_callback
from dbanon.hierarchy.spec import parse_all
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob, build_job, build_option_refusal, build_private_job
from dbanon.job.synthesis import PRIVATE_METHODS
from dbanon.run.open import open_stores

if TYPE_CHECKING:
    from dbanon.doors.progress import ProgressOption
    from dbanon.release.private_report import PrivateReport
    from dbanon.release.report import Report
    from dbanon.sessions.base import OnSql


def run_arguments(
    database: object,
    arguments: KeywordArguments,
    *,
    target: object,
    progress: ProgressOption,
    on_sql: OnSql | None,
) -> Report | PrivateReport:
    """Build a job from options in Python's form, and run it; see ``dbanon.anonymize``.

    Raises
    ------
    DbanonError : its class says what went wrong.
    """
    with progress_callback(progress) as callback:
        if arguments.get("method") in PRIVATE_METHODS:
            job: Job | PrivateJob = _build_private_job(arguments, target)
        else:
            job = job_of(arguments)
        source, target_store = open_stores(job, database, target, on_sql, callback)
        return run_any_job(job, source, target_store, callback)


def job_of(arguments: KeywordArguments) -> Job:
    """Build a job from options in Python's form.

    Options of methods for synthetic rows may only have their default values, and are left out.

    Raises
    ------
    DbanonError : an option is invalid.
    """
    # Callers may pass None in place of these defaults.
    options = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in ("chunk_rows", "run_id")
    }
    # The run replaces this value after it has read the rules of the table.
    options["declared"] = RULES_NOT_READ if options.get("declared") else None
    if isinstance(options.get("exports"), (list, tuple)):
        options["exports"] = [Export.from_path(export) for export in options["exports"]]
    options["hierarchies"] = parse_all(options["hierarchies"], files=True)
    return build_job(options)


def _build_private_job(arguments: KeywordArguments, target: object) -> PrivateJob:
    """Build a job of a method for synthetic rows from options in Python's form.

    Parameters
    ----------
    target : only passed on to be refused, as the release is made in the source database.
    """
    options = dict(arguments) | {"target": target}
    if options.pop("declared"):
        raise build_option_refusal("declared")
    if options["run_id"] is None:
        del options["run_id"]
    options["hierarchies"] = parse_all(options["hierarchies"], files=True)
    return build_private_job(options)
