"""Stage a release from many tasks, recount it as a whole, and publish it.

Each task writes one piece, and replaces the piece completely if the task is repeated. Before the
result becomes visible, GROUP BY recounts it: the number of rows and the class sizes must be those
that Spark counted. The release is then published in one step, or removed if they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions

from dbanon.data.counts import Recount
from dbanon.data.schema import Attribute
from dbanon.errors import RecountFailed
from dbanon.extensions.spark.dataframe import quoted_column
from dbanon.extensions.spark.tasks import translate_spark_errors
from dbanon.job.job import Job
from dbanon.release.report import Report
from dbanon.sessions.base import Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ReleaseTarget(Protocol):
    """A destination at which a release is staged and published."""

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Check the destination before anything is read.

        Parameters
        ----------
        attributes : the columns of the source.
        relation : the source; None if it is not a table of a database.

        Raises
        ------
        DbanonError : the destination cannot be used; the class of the error says why.
        """

    def publish(
        self, rows: DataFrame, report: Report, elapsed_seconds: Callable[[], float]
    ) -> Report:
        """Stage, recount and publish the rows; return the updated report.

        Parameters
        ----------
        report : the report, with Spark's counts of these rows.
        elapsed_seconds : returns the seconds since the start of the run.

        Raises
        ------
        RecountFailed : the staged rows or classes differ from the report; nothing was published.
        """

    def record_failure(self, elapsed_seconds: float, error: BaseException) -> None:
        """Record the failed run, if there is a ledger."""


def count_combinations(rows: DataFrame, columns: Sequence[str]) -> Recount:
    """Count in Spark the rows with each combination of values of some columns, and with a NULL."""
    has_null = functions.lit(False)
    for name in columns:
        has_null = has_null | quoted_column(name).isNull()
    # Alias the columns, because one could have the name of a count.
    classes = rows.groupBy(
        *(quoted_column(name).alias(f"c{i}") for i, name in enumerate(columns))
    ).agg(
        functions.count(functions.lit(1)).alias("size"), functions.max(has_null).alias("has_null")
    )
    with translate_spark_errors("counting the release"):
        return Recount.of_sizes(classes.groupBy("size", "has_null").count().collect())


def require_staged_counts(
    job: Job,
    rows: DataFrame,
    report: Report,
    recount_columns: Callable[[Sequence[str]], Recount],
) -> Recount:
    """Recount the staged rows, compare them with Spark's counts, and return the recount.

    Parameters
    ----------
    rows : the released rows, as cached and counted by Spark.
    recount_columns : counts the staged rows as ``count_combinations`` does.

    Raises
    ------
    RecountFailed : the staged rows differ.
    """
    columns = [*(name for name, _ in pair_released_columns(job, rows.columns)), *job.by]
    recount = recount_columns(columns)
    # Spark's recount of the rows, as the report has it.
    spark_recount = report.counts.rows
    require_same_counts(recount, expected=spark_recount, k=report.k_requested)
    for name in dict.fromkeys(model.attribute for model in job.policy.models):
        # Privacy models depend on the count of each sensitive value in each class.
        model_columns = [*columns, name]
        expected = count_combinations(rows, model_columns)
        require_same_counts(recount_columns(model_columns), expected)
    return recount


def require_same_counts(written: Recount, expected: Recount, k: int = 1) -> None:
    """Check that the written classes have the expected sizes, and at least k rows each.

    Raises
    ------
    RecountFailed : they do not.
    """
    hint = (
        "An earlier release stays as it was. No other program may write to the tables or files in"
        " which this run stages its rows."
    )
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


def pair_released_columns(job: Job, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of a released column and its quasi-identifier.

    If intervals are released as bounds, a quasi-identifier has two columns: its name, ``_`` and a
    suffix.
    """
    pairs = []
    for name in names:
        if name in job.quasi_identifiers:
            pairs.append((name, name))
        elif name not in job.retained_columns:
            pairs.append((name, name.rpartition("_")[0]))
    return pairs
