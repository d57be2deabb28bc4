"""How rows are stored while Spark moves them: columns by role, packed as Arrow bytes.

Java passes packets on without any cost per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dbanon.data.schema import Attribute

# Internal columns: row number, block, task, class in the block, class coordinates, class size,
# counts of sensitive values, and pickled worker results.
KEY, BLOCK, TASK, LABEL = "_key", "_block", "_task", "_label"
POINT, SIZE, VALUES, FACTS = "_place", "_size", "_values", "_facts"
# Columns for packed rows and classes on their way between stages.
ROWS, CLASSES = "_rows", "_classes"


@dataclass(frozen=True)
class Layout:
    """The columns to read, by role.

    Parameters
    ----------
    quasi_identifiers : with their kinds; named q0, q1, …
    by : the columns of strata, compared as text: b0, b1, …
    persons : whether a column has person identifiers, compared as text: e0.
    sensitive : the columns that privacy models need, as text: s0, s1, …
    retained : retained columns, unchanged: o0, o1, …
    numbers : columns that look like person identifiers and are counted in classes: p0, p1, …
    """

    quasi_identifiers: tuple[Attribute, ...]
    by: tuple[str, ...] = ()
    persons: bool = False
    sensitive: tuple[Attribute, ...] = ()
    retained: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()

    @property
    def class_inputs(self) -> list[str]:
        """Internal names of all columns that classes depend on."""
        return [
            KEY,
            *_numbered("q", len(self.quasi_identifiers)),
            *self.strata,
            *self.entity,
            *_numbered("s", len(self.sensitive)),
        ]

    @property
    def strata(self) -> list[str]:
        """Internal names of the strata columns."""
        return _numbered("b", len(self.by))

    @property
    def entity(self) -> list[str]:
        """Internal name of the person column; empty if each record is a person."""
        return ["e0"] if self.persons else []

    @property
    def kept_columns(self) -> list[str]:
        """Internal names of the retained columns."""
        return _numbered("o", len(self.retained))

    @property
    def number_columns(self) -> list[str]:
        """Internal names of the columns that look like person identifiers."""
        return _numbered("p", len(self.numbers))

    def indices_of(self, matches: Callable[[Attribute], bool]) -> list[int]:
        """The indices of the matching quasi-identifiers."""
        return [i for i, attribute in enumerate(self.quasi_identifiers) if matches(attribute)]


def _numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


# Approximate size of a packet; Java copies packets whole and holds several at a time.
MAX_BYTES = 1 << 22

# The schema of packets: destination task, rows, classes, or a worker's result.
SCHEMA = pa.schema(
    [
        pa.field(TASK, pa.int32()),
        pa.field(ROWS, pa.binary()),
        pa.field(CLASSES, pa.binary()),
        pa.field(FACTS, pa.binary()),
    ]
)

# Alignment of Arrow message bodies, and so of a packet's length.
_ALIGNED = 8


@dataclass(frozen=True, eq=False)
class Packet:
    """Rows that are sent together.

    Parameters
    ----------
    rows : with any columns.
    task : the destination in a shuffle.
    column : their type: ``ROWS`` of a table, or ``CLASSES``.
    """

    rows: pa.Table
    task: int = 0
    column: str = ROWS

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield a row of ``SCHEMA`` per few megabytes; none if there are no rows."""
        count = self.rows.num_rows
        rows_per_packet = max(count // max(-(-self.rows.nbytes // MAX_BYTES), 1), 1)
        for start in range(0, count, rows_per_packet):
            sink = pa.BufferOutputStream()
            rows = self.rows.slice(start, rows_per_packet).combine_chunks()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            arrays_by_name = {
                TASK: pa.array([self.task], pa.int32()),
                self.column: _binary_array(sink.getvalue()),
            }
            arrays = [arrays_by_name.get(field.name, pa.nulls(1, field.type)) for field in SCHEMA]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _binary_array(buffer: pa.Buffer) -> pa.Array:
    """Wrap a buffer as an array of one value without copying."""
    offsets = np.array([0, buffer.size], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), buffer])


def unpack(column: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows in a column of packets."""
    for packet in column:
        if not packet.is_valid:
            continue
        buffer = packet.as_buffer()
        if buffer.address % _ALIGNED:
            buffer = pa.py_buffer(packet.as_py())
        with pa.ipc.open_stream(buffer) as stream:
            yield from stream


def unpack_column(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows in a packet column of several batches."""
    for batch in batches:
        yield from unpack(batch.column(name))
