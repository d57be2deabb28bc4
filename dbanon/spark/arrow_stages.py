"""Rows from stage to stage: handed to tasks as Arrow has them, and what tasks tell."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from dbanon.spark.layout import CLASSES, FACTS, ROWS, TASK
from dbanon.spark.packets import unpacked
from dbanon.spark.task_results import Task, read

TOLD = StructField(FACTS, BinaryType())
# As ``packets.SCHEMA``.
PACKETS = StructType(
    [
        StructField(TASK, IntegerType()),
        StructField(ROWS, BinaryType()),
        StructField(CLASSES, BinaryType()),
        TOLD,
    ]
)


@dataclass(frozen=True, eq=False)
class Through:
    """Work on the rows of packets; what a stage before told of is handed on, and ends it.

    Parameters
    ----------
    work : of rows, or of rows and of classes where ``classes``.
    """

    work: Callable[..., Iterable[Any]]
    classes: bool = False

    def __call__(self, packets: pa.Table) -> Iterable[Any]:
        column = packets[FACTS]
        if column.null_count < len(column):
            return [pickle.loads(one) for one in column.drop_null().to_pylist()]
        names = (ROWS, CLASSES) if self.classes else (ROWS,)
        return self.work(*(pa.Table.from_batches(unpacked(packets[name])) for name in names))


@dataclass
class Disks:
    """What a run keeps on the disks of executors, until it ends or needs it no more."""

    kept: list[DataFrame] = field(default_factory=list)

    def keep(self, rows: DataFrame) -> DataFrame:
        """Keep rows once they were made."""
        self.kept.append(rows.persist(StorageLevel.DISK_ONLY))
        return self.kept[-1]

    def done(self, but: bool = False) -> None:
        """Forget what was kept; ``but`` the last of it, which is the release."""
        going = self.kept[: len(self.kept) - but]
        self.kept = self.kept[len(going) :]
        for one in going:
            one.unpersist()


def shuffle(rows: DataFrame, tasks: int) -> DataFrame:
    """Packets to their tasks; what a failed stage told goes to the first."""
    task = sql.coalesce(sql.col(TASK), sql.lit(0))
    return rows.select(TASK, ROWS, FACTS).repartitionById(tasks, task)


def told_by(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[Any]],
    at_once: int | None,
    packed: str | None = None,
) -> list[Any]:
    """What pieces tell; arguments as of ``mapped``.

    Raises
    ------
    DbanonError : as ``told.read``.
    """
    found = mapped(rows, work, StructType([TOLD]), at_once, packed)
    return read(found.collect())


def told_in(kept: DataFrame) -> list[Any]:
    """What was told among the rows of a stage; it is worked on where it was not yet.

    Raises
    ------
    DbanonError : as ``told.read``.
    """
    return read(kept.where(sql.col(FACTS).isNotNull()).select(FACTS).collect())


def mapped(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[Any]],
    schema: StructType,
    at_once: int | None,
    packed: str | None = None,
) -> DataFrame:
    """What work gives of all pieces; lazy.

    Parameters
    ----------
    at_once, packed : as of ``Task``.
    """
    if packed is not None:
        rows = rows.select(packed).where(sql.col(packed).isNotNull())
    task = Task(work, to_arrow_schema(schema), at_once, packed)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    with warnings.catch_warnings():
        # Of the version of pandas, of which nothing is handed to Spark.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return rows.mapInArrow(run, schema)
