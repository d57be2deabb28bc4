"""Run work on Arrow rows in Spark's tasks, and return rows, facts and errors.

Facts are whatever a task returns besides rows: pickled objects in a column of their own. A piece is
some rows that one task has in memory together. A packet is many rows in one binary value, in which
rows travel between stages (``layout``).

A traceback can carry values into the logs of the driver and the executors. So a task returns an
error of dbanon as its class, message, detail and hint, and any other error only as its class and
the piece or block it occurred in. Errors are returned as data among the rows of a stage or, where
rows cannot carry them, as JSON in the message of a ``_TaskError``.
"""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

import dbanon.errors
from dbanon.data.memory import limit_threads
from dbanon.errors import DbanonError, SparkFailed, WorkersDiffer
from dbanon.extensions.spark.layout import (
    CLASSES,
    FACTS,
    PACKET_SCHEMA,
    ROWS,
    TASK,
    Packet,
    unpack,
    unpack_column,
)


@dataclass(frozen=True)
class TaskFailure:
    """The error of a task.

    Parameters
    ----------
    class_name : the name of the exception's class.
    is_dbanon_error : whether it is a ``DbanonError``; other exceptions have no message here.
    work_name : names the work, such as ``Block 3``; the subject of a sentence.
    """

    class_name: str
    is_dbanon_error: bool
    message: str = ""
    detail: str | None = None
    hint: str | None = None
    work_name: str = ""

    @classmethod
    def of(cls, error: Exception, work_name: str) -> TaskFailure:
        """Describe an exception that a task raised."""
        if isinstance(error, DbanonError):
            return cls(
                type(error).__name__,
                is_dbanon_error=True,
                message=error.message,
                detail=error.detail,
                # ``error.hint`` would have options as Python writes them. The driver writes them as
                # its own interface does, so it needs the hint as it was given.
                hint=error._hint,
                work_name=work_name,
            )
        return cls(type(error).__name__, is_dbanon_error=False, work_name=work_name)

    def to_exception(self) -> DbanonError:
        """Return the exception for the driver to raise."""
        error_class = None
        if self.is_dbanon_error:
            error_class = getattr(dbanon.errors, self.class_name, None)
        if isinstance(error_class, type) and issubclass(error_class, DbanonError):
            return error_class(self.message, detail=self.detail, hint=self.hint)
        return SparkFailed(
            f"{self.work_name} failed on a worker; nothing was published.", detail=self.class_name
        )


@dataclass(frozen=True)
class PartitionTask:
    """The work on the rows of a partition, in the form that ``mapInArrow`` calls.

    Parameters
    ----------
    work : turns rows into results: tables and packets, or facts of any other type.
    schema : the schema of the resulting tables, with a column for facts.
    rows_per_piece : least number of rows to process together; None for the whole partition.
    packet_column : the column of packets to unpack; None if rows are not packed.
    work_name : names the work in errors; the subject of a sentence.
    """

    work: Callable[[pa.Table], Iterable[object]]
    schema: pa.Schema
    rows_per_piece: int | None = None
    packet_column: str | None = None
    work_name: str = "A piece"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the results: tables, packets as their rows, and facts."""
        # Each task has one core.
        pa.set_cpu_count(1)
        limit_threads(1)
        if self.packet_column is not None:
            batches = unpack_column(batches, self.packet_column)
        try:
            for rows in _group_batches(batches, self.rows_per_piece):
                for result in self.work(rows):
                    if isinstance(result, Packet):
                        yield from result.batches()
                        continue
                    table = result if isinstance(result, pa.Table) else self._wrap_as_facts(result)
                    yield from table.combine_chunks().to_batches()
        except Exception as error:
            yield from self._wrap_as_facts(TaskFailure.of(error, self.work_name)).to_batches()

    def _wrap_as_facts(self, result: object) -> pa.Table:
        pickled = pa.array([pickle.dumps(result)], pa.binary())
        columns = [
            pickled if field.name == FACTS else pa.nulls(1, field.type) for field in self.schema
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _group_batches(
    batches: Iterable[pa.RecordBatch], rows_per_piece: int | None
) -> Iterator[pa.Table]:
    """Concatenate batches to tables of ``rows_per_piece`` rows or more; the last may have fewer."""
    buffered: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        buffered.append(batch)
        n_rows += batch.num_rows
        if rows_per_piece is not None and n_rows >= rows_per_piece:
            yield pa.Table.from_batches(buffered)
            buffered, n_rows = [], 0
    if n_rows:
        yield pa.Table.from_batches(buffered)


def read_facts(rows: Iterable[Sequence[bytes]]) -> list[Any]:
    """Unpickle the facts in collected rows, which have one column.

    Raises
    ------
    DbanonError : a task failed. If several did, the first error in alphabetical order, so that the
        choice does not depend on timing.
    """
    facts = [pickle.loads(pickled_fact) for (pickled_fact,) in rows]
    failures = [fact for fact in facts if isinstance(fact, TaskFailure)]
    if failures:
        raise min(
            failures,
            key=lambda failure: (
                not failure.is_dbanon_error,
                failure.class_name,
                failure.message,
                failure.work_name,
            ),
        ).to_exception()
    return facts


_ERROR_MARK = "dbanon-error:"
_ERROR_PATTERN = re.compile(re.escape(_ERROR_MARK) + r"(\{.*?\}):end")


class _TaskError(Exception):
    """A worker's error, whose message is a ``TaskFailure`` as JSON."""


@contextmanager
def hide_values_in_errors(work_name: str) -> Iterator[None]:
    """On a worker, replace exceptions by a ``_TaskError``, whose message contains no values.

    Parameters
    ----------
    work_name : names the work, such as ``Piece 3 of the source``.
    """
    try:
        yield
    except Exception as error:
        failure_json = json.dumps(asdict(TaskFailure.of(error, work_name)), separators=(",", ":"))
        raise _TaskError(f"{_ERROR_MARK}{failure_json}:end") from None


@contextmanager
def translate_spark_errors(activity: str) -> Iterator[None]:
    """On the driver, replace Spark's exceptions by dbanon's, without Spark's messages.

    Parameters
    ----------
    activity : what the driver is doing, such as ``reading the first rows``.

    Raises
    ------
    DbanonError : the error that a worker reported, or SparkFailed for other exceptions of Spark.
    """
    try:
        with warnings.catch_warnings():
            # Java and Python exchange Arrow data, so the version of pandas is irrelevant.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
            yield
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        if package not in ("pyspark", "py4j"):
            raise
        raise translate_error(error, activity) from None


def translate_error(error: BaseException, activity: str) -> DbanonError:
    """Return dbanon's error for an exception of Spark; see ``translate_spark_errors``."""
    text = str(error)
    match = _ERROR_PATTERN.search(text)
    if match is not None:
        try:
            # If Java has escaped the JSON once more, it cannot be parsed.
            return TaskFailure(**json.loads(match[1])).to_exception()
        except (TypeError, ValueError):
            pass
    if "No module named 'dbanon" in text or "PYTHON_VERSION_MISMATCH" in text:
        return WorkersDiffer(
            "The workers' Python has another version, or no dbanon.",
            hint="Install the driver's dbanon, numpy and pyarrow on each worker, or ship them:"
            " docs/scale-out.md#workers.",
        )
    if "Cannot run program" in text:
        return WorkersDiffer(
            "A worker has no Python of the name that this driver uses.",
            hint="Set PYSPARK_PYTHON to the path that it has on the workers:"
            " docs/scale-out.md#workers.",
        )
    return SparkFailed(
        f"Spark failed while {activity}; nothing was published.", detail=type(error).__name__
    )


# The column of facts, and the schema of packets, as Spark's types.
FACTS_FIELD = StructField(FACTS, BinaryType())
PACKETS = from_arrow_schema(PACKET_SCHEMA)


@dataclass(frozen=True, eq=False)
class UnpackPackets:
    """Unpack packets and process their rows; if the previous stage failed, pass on its failures.

    Parameters
    ----------
    work : a function of the unpacked rows or, if ``has_classes``, of the rows and the rows of their
        classes.
    has_classes : whether packets also contain rows of classes.
    """

    work: Callable[..., Iterable[object]]
    has_classes: bool = False

    def __call__(self, packets: pa.Table) -> Iterable[object]:
        failures = packets[FACTS]
        if failures.null_count < len(failures):
            return [pickle.loads(failure) for failure in failures.drop_null().to_pylist()]
        names = (ROWS, CLASSES) if self.has_classes else (ROWS,)
        return self.work(*(pa.Table.from_batches(unpack(packets[name])) for name in names))


@dataclass
class DiskCache:
    """DataFrames that a run caches on the executors' disks."""

    frames: list[DataFrame] = field(default_factory=list)

    def keep(self, rows: DataFrame) -> DataFrame:
        """Return rows that are cached on disk as soon as they are computed."""
        self.frames.append(rows.persist(StorageLevel.DISK_ONLY))
        return self.frames[-1]

    def release(self, keep_last: bool = False) -> None:
        """Drop the caches, except the last one if ``keep_last``."""
        dropped = self.frames[: len(self.frames) - keep_last]
        self.frames = self.frames[len(dropped) :]
        for frame in dropped:
            frame.unpersist()


def shuffle(packets: DataFrame, n_tasks: int) -> DataFrame:
    """Send packets to their tasks; failures of the previous stage go to the first task."""
    # Rows with failures name no task.
    task = sql.coalesce(sql.col(TASK), sql.lit(0))
    return packets.select(TASK, ROWS, FACTS).repartitionById(n_tasks, task)


def collect_from(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[object]],
    rows_per_piece: int | None,
    packet_column: str | None = None,
) -> list[Any]:
    """Apply work to all pieces and collect the resulting facts; see ``apply_to_pieces``.

    Raises
    ------
    DbanonError : a task failed; see ``read_facts``.
    """
    facts = apply_to_pieces(rows, work, StructType([FACTS_FIELD]), rows_per_piece, packet_column)
    return read_facts(facts.collect())


def collect_facts(rows: DataFrame) -> list[Any]:
    """Collect the facts among the rows of a stage, running it if necessary.

    Raises
    ------
    DbanonError : a task failed; see ``read_facts``.
    """
    return read_facts(rows.where(sql.col(FACTS).isNotNull()).select(FACTS).collect())


def apply_to_pieces(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[object]],
    schema: StructType,
    rows_per_piece: int | None,
    packet_column: str | None = None,
) -> DataFrame:
    """Apply work to all pieces of a table, lazily.

    Parameters
    ----------
    rows : the rows of the table, or packets of them.
    work, schema, rows_per_piece, packet_column : see ``PartitionTask``.
    """
    if packet_column is not None:
        rows = rows.select(packet_column).where(sql.col(packet_column).isNotNull())
    task = PartitionTask(work, to_arrow_schema(schema), rows_per_piece, packet_column)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    with warnings.catch_warnings():
        # pandas' version is irrelevant, since Spark receives nothing from it.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return rows.mapInArrow(run, schema)
