"""What tasks say of their work: facts and errors, as data among the rows that they give.

A traceback carries what was passed around, values too, into the logs of driver and executors. So an
error of ours travels as its class, message, detail and hint, and of any other no more than its type
and the block.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import dbanon.errors
from dbanon.errors import DbanonError, SparkFailed
from dbanon.spark.layout import FACTS
from dbanon.spark.packets import Packet, opened


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


def read(rows: Iterable[Any]) -> list[Any]:
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
