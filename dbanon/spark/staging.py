"""Publish a cluster's release: many tasks stage it, it is recounted as a whole, then published.

Each task writes its own piece, and replaces it completely when it is repeated. Before anyone sees
the result, GROUP BY recounts it. It must match what Spark counted: the same number of rows and the
same class sizes. Then it is published in one step, or else removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions

from dbanon.data.counts import Recount
from dbanon.data.schema import Attribute
from dbanon.errors import RecountFailed
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.sessions.base import Relation
from dbanon.spark.dataframe import column
from dbanon.spark.tasks import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ReleaseTarget(Protocol):
    """Where a release is published."""

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Check the destination before anything is read.

        Parameters
        ----------
        attributes : of the source.
        relation : the source, if it is in a database.

        Raises
        ------
        DbanonError : the destination cannot be used, of the class that describes why.
        """

    def publish(self, rows: DataFrame, report: Report, elapsed: Callable[[], float]) -> Report:
        """Stage, recount and publish the rows; return the updated report.

        Parameters
        ----------
        report : with the counts of these rows in Spark.
        elapsed : seconds since the start of the run.

        Raises
        ------
        RecountFailed : other rows or classes were written; nothing was published.
        """

    def failed(self, elapsed: float, error: BaseException) -> None:
        """Record the failed run, if there is a ledger."""


def counted_in(rows: DataFrame, columns: Sequence[str], may_be_null: Sequence[str]) -> Recount:
    """Count in Spark the rows that share each combination of values of some columns.

    Parameters
    ----------
    may_be_null : the columns whose NULL is reported.
    """
    has_null = functions.lit(False)
    for name in may_be_null:
        has_null = has_null | column(name).isNull()
    # Numbered aliases, because a column could be named like the count.
    classes = rows.groupBy(*(column(name).alias(f"c{i}") for i, name in enumerate(columns))).agg(
        functions.count(functions.lit(1)).alias("size"), functions.max(has_null).alias("has_null")
    )
    with translated("the release was counted"):
        return Recount.of_sizes(classes.groupBy("size", "has_null").count().collect())


def require_staged(
    job: Job,
    rows: DataFrame,
    report: Report,
    recount_columns: Callable[[Sequence[str], Sequence[str]], Recount],
) -> Recount:
    """Check the staged rows by their counts, and return the counts of their classes.

    Parameters
    ----------
    rows : the rows to stage, as cached and counted by Spark.
    recount_columns : counts the staged rows as ``counted_in`` does.

    Raises
    ------
    RecountFailed : the staged rows differ.
    """
    names = [name for name, _ in released_columns_of(job, rows.columns)]
    columns = [*names, *job.by]
    recount = recount_columns(columns, names)
    require_same(recount, report.counts.rows, report.k_requested)
    for name in dict.fromkeys(model.attribute for model in job.policy.models):
        # Privacy models depend on the counts of each value in each class.
        expected = counted_in(rows, [*columns, name], [*columns, name])
        require_same(recount_columns([*columns, name], [*columns, name]), expected)
    return recount


def require_same(written: Recount, expected: Recount, k: int = 1) -> None:
    """Check that the written classes are those that were counted before, and satisfy k.

    Raises
    ------
    RecountFailed : they are not.
    """
    hint = "The earlier release stays as it was. Nothing but this run may write to its staging."
    if written.rows != expected.rows:
        raise RecountFailed(
            f"{expected.rows} rows were to be released, and {written.rows} were written; nothing"
            " was published.",
            hint=hint,
        )
    if (
        dict(written.histogram) != dict(expected.histogram)
        or written.null_rows != expected.null_rows
    ):
        raise RecountFailed(
            "The written classes differ from those that were counted before; nothing was"
            " published.",
            hint=hint,
        )
    if written.smallest < k:
        raise RecountFailed("A class that was written is too small; nothing was published.")


def released_columns_of(job: Job, names: Sequence[str]) -> list[tuple[str, str]]:
    """Pair the released columns with their quasi-identifiers; bounds are two columns of one."""
    pairs = []
    for name in names:
        if name in job.quasi_identifiers:
            pairs.append((name, name))
        elif name not in job.retained_columns:
            pairs.append((name, name.rpartition("_")[0]))
    return pairs
