"""The functions of the Spark extension for users, the command line and job files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dbanon.errors import MissingDependency
from dbanon.job.job import Job

if TYPE_CHECKING:
    from dbanon.release.report import Report

# The packages that dbanon's extra for Spark installs, by import name.
_PACKAGES = {
    "pyspark": "pyspark",
    "py4j": "pyspark",
    "pyarrow": "pyarrow",
    "sqlalchemy": "SQLAlchemy",
}

try:
    from dbanon.extensions.spark.anonymize import anonymize
    from dbanon.extensions.spark.session import open_session
    from dbanon.extensions.spark.table import anonymize_table, run_on_spark, with_default_blocks
except ModuleNotFoundError as error:
    package = _PACKAGES.get((error.name or "").partition(".")[0])
    if package is None:
        raise
    raise MissingDependency.of_spark(f"Spark needs the package {package}.") from None

__all__ = ["anonymize", "anonymize_table", "open_session", "run_job"]


def run_job(
    job: Job, source: str, target: str, master: str, tasks: int | None, conf: Mapping[str, str]
) -> Report:
    """Run a job in a new session of the cluster; see ``doors.engines.Engine``."""
    # Opening a session takes seconds, so first check that the cluster can run the job.
    job = with_default_blocks(job, source, target)
    session = open_session(master, conf)
    try:
        return run_on_spark(session, job, source, target, tasks)
    finally:
        session.stop()
