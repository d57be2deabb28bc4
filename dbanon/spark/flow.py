"""Rows from stage to stage: handed to tasks as Arrow has them, and what tasks tell."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from dbanon.spark.layout import FACTS, TASK
from dbanon.spark.told import Task, read

TOLD = StructField(FACTS, BinaryType())


@dataclass(frozen=True, eq=False)
class Through:
    """Work on rows; what a stage before told of is handed on, and ends it."""

    work: Callable[[pa.Table], Iterable[Any]]

    def __call__(self, rows: pa.Table) -> Iterable[Any]:
        column = rows[FACTS]
        if column.null_count < len(column):
            return [pickle.loads(one) for one in column.drop_null().to_pylist()]
        return self.work(rows)


def shuffle(rows: DataFrame, tasks: int) -> DataFrame:
    """Rows to their tasks; what a failed stage told goes to the first."""
    task = sql.coalesce(sql.col(TASK), sql.lit(0))
    return rows.repartitionById(tasks, task)


def told_by(rows: DataFrame, work: Callable[[pa.Table], Iterable[Any]], at_once: int | None) -> Any:
    """What pieces tell.

    Raises
    ------
    DbanonError : as ``told.read``.
    """
    found = mapped(rows, work, StructType([TOLD]), at_once)
    return read(found.collect())


def mapped(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[Any]],
    schema: StructType,
    at_once: int | None,
) -> DataFrame:
    """What work gives of all pieces; lazy.

    Parameters
    ----------
    at_once : as of ``Task``.
    """
    task = Task(work, to_arrow_schema(schema), at_once)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    with warnings.catch_warnings():
        # Of the version of pandas, of which nothing is handed to Spark.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return rows.mapInArrow(run, schema)
