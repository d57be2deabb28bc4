"""A table anonymized on a cluster: read in one state, staged, counted, published."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from dbanon.data.option import make
from dbanon.errors import InvalidParameter, SourceChanged
from dbanon.hierarchy.spec import HierarchySource, parse_all
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.run.open import open_postgresql
from dbanon.sessions.names import parse_relation
from dbanon.spark.anonymize import BLOCK_SIZE, released
from dbanon.spark.into_files import ParquetTarget
from dbanon.spark.refusals import check_job, check_method
from dbanon.spark.session import own_shuffle_partitions, require_session, warn_unless_private
from dbanon.spark.source import Pinned, of_frame, parquet, postgresql
from dbanon.spark.staging import Target
from dbanon.spark.tasks import translated
from dbanon.stores.files import read_url

if TYPE_CHECKING:
    from typing import Unpack

    from pyspark.sql import SparkSession
    from sqlalchemy import URL

    from dbanon.job.options import JobOptions

_POSTGRESQL = ("postgresql", "postgres")
_DATABASES = (*_POSTGRESQL, "duckdb", "sqlite", "mysql", "mariadb", "oracle", "mssql")
# Tasks that a table is read by, for each core that the cluster has.
_TASKS_A_CORE = 4


def anonymize_table(
    session: SparkSession,
    source: Any,
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
    """Anonymize a table on a cluster into one that was counted again before it is visible.

    Parameters
    ----------
    session : of the cluster: ``dbanon.spark.open_session``, or one of the caller's.
    source : the URL of a PostgreSQL database, a directory of Parquet files as Spark names it, or a
        DataFrame that gives the same rows each time.
    target : the URL of a PostgreSQL database, or a directory that is made.
    table, output : of databases: what is read, and what is made. Files have no names but their own.
    key : columns that tell every row from every other; a table's primary key where none are named.
    tasks : how many work on blocks; None for as many as the cluster has cores, or more.
    quasi_identifiers, k, sensitive, keep, by, entity, hierarchies, options : as of
        ``dbanon.anonymize``; ``block_size`` is 50,000 unless it is given.

    Raises
    ------
    DbanonError : its class says what went wrong; nothing was published.
    """
    check_method(options)
    given = {"quasi_identifiers": quasi_identifiers, "k": k, "sensitive": sensitive, "keep": keep,
             "by": by, "entity": entity, "key": key}  # fmt: skip
    named = {"table": table or "source", "output": output or "release"}
    for what, name, place in (("table", table, source), ("output", output, target)):
        if bool(name) != (_database(place) is not None):
            raise InvalidParameter(
                f"{what} names a relation of a database: it is needed for one, and for nothing"
                " else.",
                hint="Name table and output where source and target are URLs of PostgreSQL.",
            )
    job = make(
        Job, {**options, **given, **named, "hierarchies": parse_all(hierarchies, files=True)}
    )
    return run_on_spark(session, checked(job, source, target), source, target, tasks)


def run_on_spark(
    session: SparkSession, job: Job, source: Any, target: str, tasks: int | None = None
) -> Report:
    """Run a job on a cluster; when it fails, leave a row in the ledger of its target.

    Parameters
    ----------
    job : as ``checked`` gives it.
    source, target : as of ``anonymize_table``.

    Raises
    ------
    DbanonError : of the class that says what went wrong; nothing was published then.
    """
    started = time.perf_counter()
    require_session(session)
    warn_unless_private(session)
    release_id = str(uuid.uuid4())
    url = _database(target)
    to: Target
    if url is None:
        to = ParquetTarget(session, str(target), job, release_id)
    else:
        parse_relation(job.output)
        open_postgresql(url)
        # Needs psycopg, as other tables of Spark do not.
        from dbanon.spark.into_postgresql import PostgresqlTarget

        to = PostgresqlTarget(url, job, release_id)
    try:
        with own_shuffle_partitions(session), _pinned(session, job, source, tasks) as pinned:
            to.prepare(pinned.attributes, pinned.relation)
            return _made(job, pinned, to, tasks, started)
    except (Exception, KeyboardInterrupt) as error:
        with suppress(Exception):
            to.failed(time.perf_counter() - started, error)
        raise


def checked(job: Job, source: Any, target: str) -> Job:
    """The job with the size of its blocks, where a cluster can do it; no session is needed.

    Parameters
    ----------
    source, target : as of ``anonymize_table``.

    Raises
    ------
    InvalidParameter : it asks for what Spark does not do, or names a place that it cannot use.
    """
    if job.policy.block_size is None:
        job = replace(job, policy=replace(job.policy, block_size=BLOCK_SIZE))
    # What the source chooses of its rows is chosen before Spark sees them.
    check_job(replace(job, where=None))
    for place in (source, target):
        _database(place)
    return job


def _made(job: Job, pinned: Pinned, to: Target, tasks: int | None, started: float) -> Report:
    # The memory is the workers' own: a limit is of one process.
    wanted = replace(job, key=pinned.key, where=None, memory_limit=None)
    with translated("the release was made"):
        rows, report, disks = released(wanted, pinned.frame, tasks, pinned.findings)
    try:
        pinned.settled()
        with translated("the source's rows were counted"):
            count = pinned.count()
        if count != report.rows_in:
            raise SourceChanged(
                f"The source has {count} rows, and {report.rows_in} were read; nothing was"
                " published.",
                hint="A DataFrame has to give the same rows each time: write it to files first.",
            )
        not_copied = tuple(a.name for a in pinned.attributes if a.name not in job.named)
        report = report.requested(source=pinned.name, not_copied=not_copied)
        if job.where is not None:
            report = report.found(where=job.where)
        if job.reading.asked:
            report = report.found(reading=job.reading.to_dict())
        return to.publish(rows, report, lambda: time.perf_counter() - started)
    finally:
        with suppress(Exception):
            disks.done()


@contextmanager
def _pinned(session: SparkSession, job: Job, source: Any, tasks: int | None) -> Iterator[Pinned]:
    if isinstance(source, DataFrame):
        job.reading.require_none()
        yield of_frame(source, job)
        return
    url = _database(source)
    if url is not None:
        job.reading.require_none()
    if url is None:
        yield parquet(session, str(source), job)
        return
    cores = max(int(session.sparkContext.defaultParallelism), 1)
    with postgresql(session, url, job, tasks or _TASKS_A_CORE * cores) as pinned:
        yield pinned


def _database(place: Any) -> URL | None:
    """The URL of a PostgreSQL database; None for a DataFrame or files."""
    if isinstance(place, DataFrame):
        return None
    if not isinstance(place, str) or not place:
        raise InvalidParameter(
            "Spark reads and writes PostgreSQL and Parquet files.",
            hint=(
                "Give the URL of a PostgreSQL database or the name of a directory. A source may"
                " also be a DataFrame."
            ),
        )
    kind = place.partition(":")[0].partition("+")[0]
    if kind in _POSTGRESQL:
        return read_url(place)
    if kind in _DATABASES:
        raise InvalidParameter(
            f"Workers of a cluster cannot read or write {kind} together.",
            hint="Spark reads and writes PostgreSQL and Parquet files.",
        )
    return None
