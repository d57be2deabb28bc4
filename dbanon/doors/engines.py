"""Engines that run jobs outside this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from dbanon.data.extension import built_in_extensions, load
from dbanon.data.frozen import dataclass
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.job import Job

if TYPE_CHECKING:
    from dbanon.release.report import Report

# By engine name, the function that runs a job, as ``module:function``.
_RUN_FUNCTIONS = {
    name: location
    for extension in built_in_extensions()
    for name, location in extension.engines.items()
}
ENGINES = tuple(_RUN_FUNCTIONS)


@dataclass(frozen=True)
class Engine:
    """A cluster that runs jobs.

    Parameters
    ----------
    name : one of ``ENGINES``.
    master : URL of the cluster's master in Spark's form, such as ``spark://host:7077``.
    tasks : number of parallel tasks that anonymize blocks of rows; None to use at least as many as
        the cluster has cores.
    conf : Spark settings by name; values may be secrets.
    """

    name: str
    master: str
    tasks: int | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    def run(self, job: Job, source: str, target: str) -> Report:
        """Run a job in a new session of the cluster.

        Parameters
        ----------
        source, target : URLs of PostgreSQL, or directories of Parquet files.

        Raises
        ------
        DbanonError : its class says what went wrong. Nothing was published, unless it is an
            OutcomeUnknown.
        """
        # Load it first: if a package is missing, no database is read.
        run_job = load(_RUN_FUNCTIONS[self.name])
        # Such a job takes its column roles from rules in the database, which are still to be read.
        if job.declared == RULES_NOT_READ:
            from dbanon.run.open import open_store
            from dbanon.run.rules import apply_table_rules

            job = apply_table_rules(job, open_store(source))
        report: Report = run_job(job, source, target, self.master, self.tasks, self.conf)
        return report
