"""Anonymize a table on a cluster: read it consistently, and stage, recount and publish it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from dbanon.data.option import build_options
from dbanon.errors import InvalidParameter, SourceChanged
from dbanon.extensions.spark.anonymize import BLOCK_SIZE, release_frame
from dbanon.extensions.spark.into_files import ParquetTarget
from dbanon.extensions.spark.refusals import check_job, check_method
from dbanon.extensions.spark.session import (
    require_session,
    restoring_shuffle_partitions,
    warn_unless_private,
)
from dbanon.extensions.spark.source import PinnedSource, pin_frame, pin_parquet, pin_postgresql
from dbanon.extensions.spark.staging import ReleaseTarget
from dbanon.extensions.spark.tasks import translate_spark_errors
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.run.open import open_postgresql_store
from dbanon.sessions.names import parse_relation
from dbanon.stores.files import read_url

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import SparkSession
    from sqlalchemy import URL

    from dbanon.job.options import JobOptions

# Schemes of URLs of PostgreSQL, and of other databases, which workers cannot share.
_POSTGRESQL = ("postgresql", "postgres")
_DATABASES = (*_POSTGRESQL, "duckdb", "sqlite", "mysql", "mariadb", "oracle", "mssql")
# Number of tasks per core that read a PostgreSQL table.
_TASKS_PER_CORE = 4


def anonymize_table(
    session: SparkSession,
    source: object,
    target: str,
    *,
    quasi_identifiers: Sequence[str],
    k: int,
    table: str = "",
    output: str = "",
    sensitive: Sequence[str] = (),
    keep: Sequence[str] = (),
    by: Sequence[str] = (),
    entity: str | None = None,
    key: Sequence[str] = (),
    hierarchies: Mapping[str, HierarchySource] | None = None,
    tasks: int | None = None,
    **options: Unpack[JobOptions],
) -> Report:
    """Anonymize a table on a cluster, and recount the result before it becomes visible.

    Parameters
    ----------
    session : a session of the cluster, from ``dbanon.spark.open_session`` or the caller.
    source : the URL of a PostgreSQL database, a directory of Parquet files in Spark's notation, or
        a DataFrame that always gives the same rows.
    target : the URL of a PostgreSQL database, or a directory to create.
    table, output : for databases, the relations to read and to create; files have no other name.
    key : columns that identify each row; a table's primary key by default.
    tasks : number of tasks that work on blocks; None for at least one per core of the cluster.
    quasi_identifiers, k, sensitive, keep, by, entity, hierarchies, options : see
        ``dbanon.anonymize``; ``block_size`` defaults to 50,000.

    Raises
    ------
    DbanonError : its class says what went wrong. Nothing was published, unless it is an
        OutcomeUnknown.
    """
    check_method(options)
    roles = {
        "quasi_identifiers": quasi_identifiers,
        "k": k,
        "sensitive": sensitive,
        "keep": keep,
        "by": by,
        "entity": entity,
        "key": key,
    }
    # A job needs both names. Those of files and DataFrames are placeholders, which are not used.
    relation_names = {"table": table or "source", "output": output or "release"}
    for option, name, location in (("table", table, source), ("output", output, target)):
        # A name without a database, or a database without a name.
        if bool(name) != (_postgresql_url(location) is not None):
            raise InvalidParameter(
                f"{option} names a table of a database. Use it for databases, and only for them.",
                hint="Name table and output where source and target are URLs of PostgreSQL.",
            )
    job = build_options(
        Job,
        {
            **options,
            **roles,
            **relation_names,
            "hierarchies": parse_all(hierarchies, files=True),
        },
    )
    return run_on_spark(session, with_default_blocks(job, source, target), source, target, tasks)


def run_on_spark(
    session: SparkSession, job: Job, source: object, target: str, tasks: int | None = None
) -> Report:
    """Run a job on a cluster; a failure is recorded in the target's ledger.

    Parameters
    ----------
    job : the job, with a block size; see ``with_default_blocks``.
    source, target : see ``anonymize_table``.

    Raises
    ------
    DbanonError : its class says what went wrong. Nothing was published, unless it is an
        OutcomeUnknown.
    """
    start_seconds = time.perf_counter()
    require_session(session)
    warn_unless_private(session)
    release_id = str(uuid.uuid4())
    url = _postgresql_url(target)
    release_target: ReleaseTarget
    if url is None:
        release_target = ParquetTarget(session, str(target), job, release_id)
    else:
        # Both are called only for their errors: a malformed name, or a missing driver.
        parse_relation(job.output)
        open_postgresql_store(url)
        # Import lazily: only this target needs psycopg.
        from dbanon.extensions.spark.into_postgresql import PostgresqlTarget

        release_target = PostgresqlTarget(url, job, release_id)
    try:
        with (
            restoring_shuffle_partitions(session),
            _pin_source(session, job, source, tasks) as pinned_source,
        ):
            release_target.prepare(pinned_source.attributes, pinned_source.relation)
            return _release(job, pinned_source, release_target, tasks, start_seconds)
    except (Exception, KeyboardInterrupt) as error:
        with suppress(Exception):
            release_target.record_failure(time.perf_counter() - start_seconds, error)
        raise


def with_default_blocks(job: Job, source: object, target: str) -> Job:
    """Set the job's block size, and check that a cluster can run it; needs no session.

    Parameters
    ----------
    source, target : see ``anonymize_table``.

    Raises
    ------
    InvalidParameter : Spark does not support an option, or cannot use a location.
    """
    if job.policy.block_size is None:
        job = replace(job, policy=replace(job.policy, block_size=BLOCK_SIZE))
    # Ignore `where`, which the source applies before Spark reads its rows.
    check_job(replace(job, where=None))
    for location in (source, target):
        # Raises InvalidParameter.
        _postgresql_url(location)
    return job


def _release(
    job: Job,
    pinned_source: PinnedSource,
    release_target: ReleaseTarget,
    tasks: int | None,
    start_seconds: float,
) -> Report:
    """Compute, check and publish a release of a pinned source.

    For the parameters see ``run_on_spark``; ``start_seconds`` is when the run began.
    """
    # The pinned source has applied the condition. A memory limit applies to a single process, not
    # to workers.
    spark_job = replace(job, key=pinned_source.key, where=None, memory_limit=None)
    with translate_spark_errors("computing the release"):
        rows, report, disk_cache = release_frame(
            spark_job,
            pinned_source.frame,
            tasks,
            pinned_source.findings,
            is_rereadable=pinned_source.is_rereadable,
        )
    try:
        pinned_source.require_unchanged()
        with translate_spark_errors("counting the source's rows"):
            n_rows = pinned_source.count_rows()
        if n_rows != report.rows_in:
            raise SourceChanged(
                f"The source has {n_rows} rows, and {report.rows_in} were read; nothing was"
                " published.",
                hint="A DataFrame has to give the same rows each time: write it to files first.",
            )
        # The columns of which the release has no values. The report lists them.
        not_copied = tuple(
            a.name for a in pinned_source.attributes if a.name not in job.named_columns
        )
        report = report.with_request(source=pinned_source.name, not_copied=not_copied)
        if job.where is not None:
            report = report.with_arguments(where=job.where)
        if job.reading.non_default_options:
            report = report.with_arguments(reading=job.reading.to_dict())
        return release_target.publish(rows, report, lambda: time.perf_counter() - start_seconds)
    finally:
        with suppress(Exception):
            disk_cache.release()


@contextmanager
def _pin_source(
    session: SparkSession, job: Job, source: object, tasks: int | None
) -> Iterator[PinnedSource]:
    """Open the source such that its rows cannot change during the block."""
    if isinstance(source, DataFrame):
        job.reading.require_no_file_options()
        yield pin_frame(source, job)
        return
    url = _postgresql_url(source)
    if url is not None:
        job.reading.require_no_file_options()
    if url is None:
        yield pin_parquet(session, str(source), job)
        return
    cores = max(int(session.sparkContext.defaultParallelism), 1)
    with pin_postgresql(session, url, job, tasks or _TASKS_PER_CORE * cores) as pinned_source:
        yield pinned_source


def _postgresql_url(location: object) -> URL | None:
    """Parse the URL of a PostgreSQL database; None for a DataFrame or files.

    Raises
    ------
    InvalidParameter : the location is of another kind.
    """
    if isinstance(location, DataFrame):
        return None
    if not isinstance(location, str) or not location:
        raise InvalidParameter(
            "Spark reads and writes PostgreSQL and Parquet files.",
            hint=(
                "Give the URL of a PostgreSQL database or the name of a directory. A source may"
                " also be a DataFrame."
            ),
        )
    kind = location.partition(":")[0].partition("+")[0]
    if kind in _POSTGRESQL:
        return read_url(location)
    if kind in _DATABASES:
        raise InvalidParameter(
            f"The workers of a cluster cannot share a {kind} database.",
            hint="Spark reads and writes PostgreSQL and Parquet files.",
        )
    return None
