"""Work that is handed to tasks as Arrow has rows, and what they give: rows, facts and errors.

A traceback carries what was passed around, values too, into the logs of driver and executors. So an
error of ours travels as its class, message, detail and hint, and of any other no more than its type
and the block: as data among the rows of a stage, or, where no row can carry it, as JSON in the
message of a ``_TaskError``.
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
from dbanon.spark.layout import CLASSES, FACTS, ROWS, SCHEMA, TASK, Packet, opened, unpacked


@dataclass(frozen=True)
class Failed:
    """An error of a task.

    Parameters
    ----------
    kind : the class of a ``DbanonError``; of another error its type.
    ours : whether it is a ``DbanonError``.
    where : what was worked on, in words.
    """

    kind: str
    ours: bool
    message: str = ""
    detail: str | None = None
    hint: str | None = None
    where: str = ""

    @classmethod
    def of(cls, error: Exception, where: str) -> Failed:
        """Of an error that a task met."""
        if isinstance(error, DbanonError):
            return cls(type(error).__name__, True, error.message, error.detail, error._hint, where)
        return cls(type(error).__name__, False, where=where)

    def raised(self) -> DbanonError:
        """The error as the driver raises it."""
        kind = getattr(dbanon.errors, self.kind, None) if self.ours else None
        if isinstance(kind, type) and issubclass(kind, DbanonError):
            return kind(self.message, detail=self.detail, hint=self.hint)
        return SparkFailed(
            f"{self.where} failed on a worker; nothing was published.", detail=self.kind
        )


@dataclass(frozen=True)
class Task:
    """What is done to the rows of a partition, as ``mapInArrow`` calls it.

    Parameters
    ----------
    work : of some rows, what it gives: tables, and facts as anything else.
    schema : of the tables, with a column for facts.
    at_once : rows that are worked on together; None for all of the partition.
    packed : the column of packets whose rows these are; None where they come as they are.
    where : what is worked on, in words.
    """

    work: Callable[[pa.Table], Iterable[Any]]
    schema: pa.Schema
    at_once: int | None = None
    packed: str | None = None
    where: str = "A piece"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of what the work gives, packets as rows of theirs, and of what it says."""
        # One core a task.
        pa.set_cpu_count(1)
        if self.packed is not None:
            batches = opened(batches, self.packed)
        try:
            for rows in _gathered(batches, self.at_once):
                for found in self.work(rows):
                    if isinstance(found, Packet):
                        yield from found.batches()
                        continue
                    made = found if isinstance(found, pa.Table) else self._telling(found)
                    yield from made.combine_chunks().to_batches()
        except Exception as error:
            yield from self._telling(Failed.of(error, self.where)).to_batches()

    def _telling(self, found: Any) -> pa.Table:
        told = pa.array([pickle.dumps(found)], pa.binary())
        columns = [told if one.name == FACTS else pa.nulls(1, one.type) for one in self.schema]
        return pa.Table.from_arrays(columns, schema=self.schema)


def _gathered(batches: Iterable[pa.RecordBatch], at_once: int | None) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if at_once is not None and count >= at_once:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


def read_facts(rows: Iterable[Any]) -> list[Any]:
    """The facts in the columns of facts that were collected.

    Raises
    ------
    DbanonError : a task says that it failed; of several errors the first by their words, so that
        it does not depend on which task was first.
    """
    found = [pickle.loads(row[0]) for row in rows]
    failed = [one for one in found if isinstance(one, Failed)]
    if failed:
        raise min(failed, key=lambda one: (not one.ours, one.kind, one.message, one.where)).raised()
    return found


_MARK = "dbanon-told:"
_FOUND = re.compile(re.escape(_MARK) + r"(\{.*?\}):end")


class _TaskError(Exception):
    """What a worker tells of an error."""


@contextmanager
def errors_without_values(where: str) -> Iterator[None]:
    """On a worker: let an error leave the block as words without values.

    Parameters
    ----------
    where : what is worked on, in words: ``Piece 3 of the source``.
    """
    try:
        yield
    except Exception as error:
        words = json.dumps(asdict(Failed.of(error, where)), separators=(",", ":"))
        raise _TaskError(f"{_MARK}{words}:end") from None


@contextmanager
def translated(what: str) -> Iterator[None]:
    """On the driver: raise what Spark raises as an error of ours, with none of Spark's own words.

    Parameters
    ----------
    what : the step, in words.

    Raises
    ------
    DbanonError : what a worker told; SparkFailed for anything else of Spark's.
    """
    try:
        with warnings.catch_warnings():
            # Of pandas nothing is used: what passes between Java and Python is Arrow's.
            warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
            yield
    except Exception as error:
        kind = type(error)
        if kind.__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise translation(error, what) from None


def translation(error: BaseException, what: str) -> DbanonError:
    """The error of ours for one of Spark's."""
    text = str(error)
    found = _FOUND.search(text)
    if found is not None:
        try:
            # Java may have written it once more as text.
            return Failed(**json.loads(found[1])).raised()
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
            "A worker has no Python of the name that this driver gives it.",
            hint="Set PYSPARK_PYTHON to the path that it has on the workers:"
            " docs/scale-out.md#workers.",
        )
    return SparkFailed(f"Spark failed: {what}; nothing was published.", detail=type(error).__name__)


FACTS_FIELD = StructField(FACTS, BinaryType())
PACKETS = from_arrow_schema(SCHEMA)


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


def collect_from(
    rows: DataFrame,
    work: Callable[[pa.Table], Iterable[Any]],
    at_once: int | None,
    packed: str | None = None,
) -> list[Any]:
    """What pieces tell; arguments as of ``mapped``.

    Raises
    ------
    DbanonError : as ``read_facts``.
    """
    found = mapped(rows, work, StructType([FACTS_FIELD]), at_once, packed)
    return read_facts(found.collect())


def collect_facts(kept: DataFrame) -> list[Any]:
    """What was told among the rows of a stage; it is worked on where it was not yet.

    Raises
    ------
    DbanonError : as ``read_facts``.
    """
    return read_facts(kept.where(sql.col(FACTS).isNotNull()).select(FACTS).collect())


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
