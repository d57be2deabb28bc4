"""Where a cluster puts a release: staged by many tasks, counted again as a whole, then published.

Each task writes a piece by itself, and all of it anew when it runs again. What was written is
counted by GROUP BY before anybody sees it, and has to be what was counted in Spark: the same rows,
as many classes of each size. It gets its place in one step, or is taken away.
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


class Target(Protocol):
    """Where a release goes."""

    def prepare(self, attributes: Sequence[Attribute], relation: Relation | None) -> None:
        """Check that it may go there, before anything is read.

        Parameters
        ----------
        attributes : of the source.
        relation : the source, where it is one of a database.

        Raises
        ------
        DbanonError : it may not, of the class that says why.
        """

    def publish(self, rows: DataFrame, report: Report, elapsed: Callable[[], float]) -> Report:
        """Stage the rows, count them again, and give them their place; the report with it.

        Parameters
        ----------
        report : of what was counted in Spark, on these rows.
        elapsed : seconds since the run began.

        Raises
        ------
        RecountFailed : other rows or classes were written; nothing was published.
        """

    def failed(self, elapsed: float, error: BaseException) -> None:
        """Note that the run failed, where there is a ledger."""


def counted_in(rows: DataFrame, columns: Sequence[str], may_be_null: Sequence[str]) -> Recount:
    """The rows that share each combination of values of some columns, counted in Spark.

    Parameters
    ----------
    may_be_null : those of them whose NULL is counted.
    """
    has_null = functions.lit(False)
    for name in may_be_null:
        has_null = has_null | column(name).isNull()
    # By numbers: a column may have any name, that of a count, too.
    classes = rows.groupBy(*(column(name).alias(f"c{i}") for i, name in enumerate(columns))).agg(
        functions.count(functions.lit(1)).alias("size"), functions.max(has_null).alias("has_null")
    )
    with translated("the release was counted"):
        return Recount.of_sizes(classes.groupBy("size", "has_null").count().collect())


def require_staged(
    job: Job,
    rows: DataFrame,
    report: Report,
    counted: Callable[[Sequence[str], Sequence[str]], Recount],
) -> Recount:
    """Check what was staged by its counts; those of its classes.

    Parameters
    ----------
    rows : what was to be staged, as Spark keeps and counted it.
    counted : as ``counted_in``, of what was staged.

    Raises
    ------
    RecountFailed : it is not what was to be staged.
    """
    names = [name for name, _ in released_of(job, rows.columns)]
    columns = [*names, *job.by]
    recount = counted(columns, names)
    require_same(recount, report.counts.rows, report.k_requested)
    for name in dict.fromkeys(model.attribute for model in job.policy.models):
        # What a privacy model looks at: how often each value stands in each class.
        known = counted_in(rows, [*columns, name], [*columns, name])
        require_same(counted([*columns, name], [*columns, name]), known)
    return recount


def require_same(written: Recount, kept: Recount, k: int = 1) -> None:
    """Check that what was written is what was counted before, class for class, and k holds.

    Raises
    ------
    RecountFailed : it is not.
    """
    hint = "The earlier release stays as it was. Nothing but this run may write to its staging."
    if written.rows != kept.rows:
        raise RecountFailed(
            f"{kept.rows} rows were to be released, and {written.rows} were written; nothing was"
            " published.",
            hint=hint,
        )
    if dict(written.histogram) != dict(kept.histogram) or written.null_rows != kept.null_rows:
        raise RecountFailed(
            "The classes that were written are not those that were counted before; nothing was"
            " published.",
            hint=hint,
        )
    if written.smallest < k:
        raise RecountFailed("A class that was written is too small; nothing was published.")


def released_of(job: Job, names: Sequence[str]) -> list[tuple[str, str]]:
    """The released quasi-identifiers with the column that each stands for: a bound has two."""
    found = []
    for name in names:
        if name in job.quasi_identifiers:
            found.append((name, name))
        elif name not in job.kept:
            found.append((name, name.rpartition("_")[0]))
    return found
