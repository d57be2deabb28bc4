"""How rows stand while Spark moves them: columns by role, packed as bytes of Arrow.

What Java only hands on costs it nothing for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dbanon.data.schema import Attribute

# Beside the columns of the table: the row's number, the block and the task that it is in, its class
# there, where the class stands, its size and sensitive values, and what a worker says, pickled.
KEY, BLOCK, TASK, LABEL = "_key", "_block", "_task", "_label"
PLACE, SIZE, VALUES, FACTS = "_place", "_size", "_values", "_facts"
# What rows and classes are packed in, on their way from stage to stage.
ROWS, CLASSES = "_rows", "_classes"


@dataclass(frozen=True)
class Layout:
    """The columns that are read, by role.

    Parameters
    ----------
    quasi_identifiers : with their kinds; they stand as q0, q1, …
    by : the columns of strata, told apart by their texts: b0, b1, …
    persons : whether a column says whose a row is, by its text: e0.
    sensitive : what privacy models ask for, as texts: s0, s1, …
    kept : what is released as it is, as it is: o0, o1, …
    numbers : what looks like numbers of persons and is counted in classes, as it is: p0, p1, …
    """

    quasi_identifiers: tuple[Attribute, ...]
    by: tuple[str, ...] = ()
    persons: bool = False
    sensitive: tuple[Attribute, ...] = ()
    kept: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    @property
    def looked_at(self) -> list[str]:
        """What classes depend on, as it stands."""
        return [
            KEY,
            *_numbered("q", len(self.quasi_identifiers)),
            *self.strata,
            *self.entity,
            *_numbered("s", len(self.sensitive)),
        ]

    @property
    def strata(self) -> list[str]:
        """The columns of strata, as they stand."""
        return _numbered("b", len(self.by))

    @property
    def entity(self) -> list[str]:
        """The column of persons, as it stands; none where records are one each."""
        return ["e0"] if self.persons else []

    @property
    def kept_columns(self) -> list[str]:
        """What is released as it is, as it stands."""
        return _numbered("o", len(self.kept))

    @property
    def number_columns(self) -> list[str]:
        """What looks like numbers of persons, as it stands."""
        return _numbered("p", len(self.numbers))

    def place(self, found: Callable[[Attribute], bool]) -> list[int]:
        """The positions of some of the quasi-identifiers."""
        return [i for i, attribute in enumerate(self.quasi_identifiers) if found(attribute)]


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


# About; Java copies a packet whole, and holds some of them at a time.
MOST_BYTES = 1 << 22

# What packets travel as: the task they are for, rows, classes, or what a worker tells.
SCHEMA = pa.schema(
    [
        pa.field(TASK, pa.int32()),
        pa.field(ROWS, pa.binary()),
        pa.field(CLASSES, pa.binary()),
        pa.field(FACTS, pa.binary()),
    ]
)

# As the bodies of Arrow's messages lie, which a packet's length keeps to, too.
_ALIGNED = 8


@dataclass(frozen=True, eq=False)
class Packet:
    """Rows that go on together.

    Parameters
    ----------
    rows : of any columns.
    task : that they go to, where they are shuffled.
    column : what they are: ``ROWS`` of a table, or ``CLASSES``.
    """

    rows: pa.Table
    task: int = 0
    column: str = ROWS

    def batches(self) -> Iterator[pa.RecordBatch]:
        """A row of ``SCHEMA`` for each few megabytes; none where there are no rows."""
        count = self.rows.num_rows
        each = max(count // max(-(-self.rows.nbytes // MOST_BYTES), 1), 1)
        for start in range(0, count, each):
            sink = pa.BufferOutputStream()
            part = self.rows.slice(start, each).combine_chunks()
            with pa.ipc.new_stream(sink, part.schema) as stream:
                stream.write_table(part)
            made = {
                TASK: pa.array([self.task], pa.int32()),
                self.column: _one(sink.getvalue()),
            }
            arrays = [made.get(one.name, pa.nulls(1, one.type)) for one in SCHEMA]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _one(held: pa.Buffer) -> pa.Array:
    """One value of these bytes, without a copy."""
    ends = np.array([0, held.size], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), held])


def unpacked(column: Any) -> Iterator[pa.RecordBatch]:
    """The rows in a column of packets."""
    for packet in column:
        if not packet.is_valid:
            continue
        held = packet.as_buffer()
        if held.address % _ALIGNED:
            held = pa.py_buffer(packet.as_py())
        with pa.ipc.open_stream(held) as stream:
            yield from stream


def opened(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """The rows in the packets of one column of some batches."""
    for batch in batches:
        yield from unpacked(batch.column(name))
