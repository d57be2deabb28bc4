"""Run work in tasks on Arrow rows, and return rows, facts and errors.

A traceback can carry values into the logs of driver and executors. So dbanon's errors travel as
class, message, detail and hint, and other errors only as their type and block: as data among the
rows of a stage or, if rows cannot carry them, as JSON in the message of a ``_TaskError``.
"""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
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
from dbanon.errors import DbanonError, SparkFailed, WorkersDiffer
from dbanon.spark.layout import CLASSES, FACTS, ROWS, SCHEMA, TASK, Packet, unpack, unpack_column


@dataclass(frozen=True)
class TaskFailure:
    """The error of a task.

    Parameters
    ----------
    kind : the class of the error.
    ours : whether it is a ``DbanonError``.
    where : a description of the work.
    """

    kind: str
    ours: bool
    message: str = ""
    detail: str | None = None
    hint: str | None = None
    where: str = ""

    @classmethod
    def of(cls, error: Exception, where: str) -> TaskFailure:
        """Describe an exception that a task raised."""
        if isinstance(error, DbanonError):
            return cls(type(error).__name__, True, error.message, error.detail, error._hint, where)
        return cls(type(error).__name__, False, where=where)

    def to_exception(self) -> DbanonError:
        """Return the exception for the driver to raise."""
        kind = getattr(dbanon.errors, self.kind, None) if self.ours else None
        if isinstance(kind, type) and issubclass(kind, DbanonError):
            return kind(self.message, detail=self.detail, hint=self.hint)
        return SparkFailed(
            f"{self.where} failed on a worker; nothing was published.", detail=self.kind
        )


@dataclass(frozen=True)
class PartitionTask:
    """The work on the rows of a partition, in the form that ``mapInArrow`` calls.

    Parameters
    ----------
    work : turns rows into results: tables and packets, or facts of any other type.
    schema : of the tables, with a column for facts.
    at_once : number of rows to process together; None for the whole partition.
    packet_column : the column of packets to unpack; None if rows are not packed.
    where : a description of the work.
    """

    work: Callable[[pa.Table], Iterable[Any]]
    schema: pa.Schema
    at_once: int | None = None
    packet_column: str | None = None
    where: str = "A piece"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of the results: tables, packets as their rows, and facts."""
        # Each task has one core.
        pa.set_cpu_count(1)
        if self.packet_column is not None:
            batches = unpack_column(batches, self.packet_column)
        try:
            for rows in _group_batches(batches, self.at_once):
                for result in self.work(rows):
                    if isinstance(result, Packet):
                        yield from result.batches()
                        continue
                    table = result if isinstance(result, pa.Table) else self._as_facts(result)
                    yield from table.combine_chunks().to_batches()
        except Exception as error:
            yield from self._as_facts(TaskFailure.of(error, self.where)).to_batches()

    def _as_facts(self, result: Any) -> pa.Table:
        pickled = pa.array([pickle.dumps(result)], pa.binary())
        columns = [
            pickled if field.name == FACTS else pa.nulls(1, field.type) for field in self.schema
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _group_batches(batches: Iterable[pa.RecordBatch], at_once: int | None) -> Iterator[pa.Table]:
    buffer: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        buffer.append(batch)
        count += batch.num_rows
        if at_once is not None and count >= at_once:
            yield pa.Table.from_batches(buffer)
            buffer, count = [], 0
    if count:
        yield pa.Table.from_batches(buffer)


def read_facts(rows: Iterable[Any]) -> list[Any]:
    """Unpickle the facts in collected columns.

    Raises
    ------
    DbanonError : a task failed. Of several errors, the first one in alphabetical order, so that the
        choice does not depend on timing.
    """
    facts = [pickle.loads(row[0]) for row in rows]
    failures = [fact for fact in facts if isinstance(fact, TaskFailure)]
    if failures:
        raise min(
            failures,
            key=lambda failure: (not failure.ours, failure.kind, failure.message, failure.where),
        ).to_exception()
    return facts


_MARK = "dbanon-told:"
_ERROR_PATTERN = re.compile(re.escape(_MARK) + r"(\{.*?\}):end")


class _TaskError(Exception):
    """A worker's error, as JSON."""


@contextmanager
def errors_without_values(where: str) -> Iterator[None]:
    """On a worker: replace exceptions by messages that contain no values.

    Parameters
    ----------
    where : a description of the work, such as ``Piece 3 of the source``.
    """
    try:
        yield
    except Exception as error:
        words = json.dumps(asdict(TaskFailure.of(error, where)), separators=(",", ":"))
        raise _TaskError(f"{_MARK}{words}:end") from None


@contextmanager
def translated(step: str) -> Iterator[None]:
    """On the driver: replace Spark's exceptions by dbanon's, without Spark's messages.

    Parameters
    ----------
    step : a description of the step.

    Raises
    ------
    DbanonError : as reported by a worker, or SparkFailed for other exceptions of Spark.
    """
    try:
        with warnings.catch_warnings():
            # Data passes between Java and Python as Arrow, so pandas' version is irrelevant.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
            yield
    except Exception as error:
        kind = type(error)
        if kind.__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise translate_error(error, step) from None


def translate_error(error: BaseException, step: str) -> DbanonError:
    """Return dbanon's error for an exception of Spark."""
    text = str(error)
    match = _ERROR_PATTERN.search(text)
    if match is not None:
        try:
            # Java may have escaped the JSON once more.
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
    return SparkFailed(f"Spark failed: {step}; nothing was published.", detail=type(error).__name__)


FACTS_FIELD = StructField(FACTS, BinaryType())
PACKETS = from_arrow_schema(SCHEMA)


@dataclass(frozen=True, eq=False)
class UnpackPackets:
    """Unpack packets and process their rows; facts of the previous stage replace the work.

    Parameters
    ----------
    work : of rows, or of rows and of classes if ``classes``.
    """

    work: Callable[..., Iterable[Any]]
    classes: bool = False

    def __call__(self, packets: pa.Table) -> Iterable[Any]:
        column = packets[FACTS]
        if column.null_count < len(column):
            return [pickle.loads(fact) for fact in column.drop_null().to_pylist()]
        names = (ROWS, CLASSES) if self.classes else (ROWS,)
        return self.work(*(pa.Table.from_batches(unpack(packets[name])) for name in names))


@dataclass
class DiskCache:
    """DataFrames that a run caches on the executors' disks."""

    frames: list[DataFrame] = field(default_factory=list)

    def keep(self, rows: DataFrame) -> DataFrame:
        """Cache rows on disk when they are computed."""
        self.frames.append(rows.persist(StorageLevel.DISK_ONLY))
        return self.frames[-1]

    def release(self, keep_last: bool = False) -> None:
        """Release the caches; ``keep_last`` keeps the last one, which is the release."""
        released = self.frames[: len(self.frames) - keep_last]
        self.frames = self.frames[len(released) :]
        for frame in released:
            frame.unpersist()


def shuffle(rows: DataFrame, tasks: int) -> DataFrame:
    """Send packets to their tasks; facts of a failed stage go to the first task."""
    task = sql.coalesce(sql.col(TASK), sql.lit(0))
    return rows.select(TASK, ROWS, FACTS).repartitionById(tasks, task)


def collect_from(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[Any]],
    at_once: int | None,
    packet_column: str | None = None,
) -> list[Any]:
    """Collect the facts of pieces; parameters as of ``mapped``.

    Raises
    ------
    DbanonError : as ``read_facts``.
    """
    facts = mapped(rows, work, StructType([FACTS_FIELD]), at_once, packet_column)
    return read_facts(facts.collect())


def collect_facts(rows: DataFrame) -> list[Any]:
    """Collect the facts among the rows of a stage, running it if necessary.

    Raises
    ------
    DbanonError : as ``read_facts``.
    """
    return read_facts(rows.where(sql.col(FACTS).isNotNull()).select(FACTS).collect())


def mapped(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[Any]],
    schema: StructType,
    at_once: int | None,
    packet_column: str | None = None,
) -> DataFrame:
    """Apply work to all pieces, lazily.

    Parameters
    ----------
    at_once, packet_column : see ``PartitionTask``.
    """
    if packet_column is not None:
        rows = rows.select(packet_column).where(sql.col(packet_column).isNotNull())
    task = PartitionTask(work, to_arrow_schema(schema), at_once, packet_column)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    with warnings.catch_warnings():
        # pandas' version is irrelevant, since Spark receives nothing from it.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return rows.mapInArrow(run, schema)
