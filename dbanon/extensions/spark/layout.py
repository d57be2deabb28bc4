"""The format of rows while Spark moves them: columns named by role, packed as Arrow bytes.

A packet is many rows in one binary value, which Java forwards without any cost per row. Rows of
classes have one class each; they travel beside the rows of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dbanon.data.schema import Attribute

# Internal columns of rows and classes: the row's unique integer key, the block, the task that the
# row is sent to, and the number of the class in its block.
KEY, BLOCK, TASK, LABEL = "_key", "_block", "_task", "_label"
# Internal columns of classes only: mean coordinates, number of clustered records or persons, and
# the count of each sensitive value.
COORDINATES, CLASS_SIZE, SENSITIVE_COUNTS = "_coordinates", "_size", "_sensitive_counts"
# Pickled results of workers: facts about a piece or a block, or an error.
FACTS = "_facts"
# Columns of packets: packed rows, and packed classes.
ROWS, CLASSES = "_rows", "_classes"


@dataclass(frozen=True)
class Layout:
    """The columns to read, by role.

    Parameters
    ----------
    quasi_identifiers : the quasi-identifiers; internal names q0, q1, …
    strata_columns : columns whose values, compared as text, define strata: b0, b1, …
    has_persons : whether a column identifies persons, so that k counts them: e0, as text.
    sensitive : the columns that privacy models need, as text: s0, s1, …
    retained_columns : columns released unchanged: o0, o1, …
    person_identifiers : columns that look like person identifiers, whose distinct values are
        counted in each class: p0, p1, …
    """

    quasi_identifiers: tuple[Attribute, ...]
    strata_columns: tuple[str, ...] = ()
    has_persons: bool = False
    sensitive: tuple[Attribute, ...] = ()
    retained_columns: tuple[str, ...] = ()
    person_identifiers: tuple[str, ...] = ()

    @property
    def class_inputs(self) -> list[str]:
        """Internal names of all columns that classes depend on."""
        return [
            KEY,
            *_numbered_names("q", len(self.quasi_identifiers)),
            *self.internal_strata,
            *self.internal_entity,
            *_numbered_names("s", len(self.sensitive)),
        ]

    @property
    def internal_strata(self) -> list[str]:
        """Internal names of the strata columns."""
        return _numbered_names("b", len(self.strata_columns))

    @property
    def internal_entity(self) -> list[str]:
        """Internal name of the person column; empty if each record is a person."""
        return ["e0"] if self.has_persons else []

    @property
    def internal_retained(self) -> list[str]:
        """Internal names of the retained columns."""
        return _numbered_names("o", len(self.retained_columns))

    @property
    def internal_person_identifiers(self) -> list[str]:
        """Internal names of the columns that look like person identifiers."""
        return _numbered_names("p", len(self.person_identifiers))

    def indices_of(self, matches: Callable[[Attribute], bool]) -> list[int]:
        """Return the indices of the quasi-identifiers for which ``matches`` is true."""
        return [i for i, attribute in enumerate(self.quasi_identifiers) if matches(attribute)]


def _numbered_names(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


# Approximate bytes per packet; Java copies packets whole and holds several at a time.
MAX_PACKET_BYTES = 1 << 22

# The columns of packets: destination task, packed rows, packed classes, a worker's result.
PACKET_SCHEMA = pa.schema(
    [
        pa.field(TASK, pa.int32()),
        pa.field(ROWS, pa.binary()),
        pa.field(CLASSES, pa.binary()),
        pa.field(FACTS, pa.binary()),
    ]
)

# Arrow aligns message bodies, so a packet in memory must be aligned as well.
_ALIGNMENT_BYTES = 8


@dataclass(frozen=True, eq=False)
class Packet:
    """Rows that are sent together.

    Parameters
    ----------
    rows : rows of the table or of its classes, with any columns.
    task : the number of the destination task in a shuffle.
    packet_column : the column of the packet to store them in, ``ROWS`` or ``CLASSES``.
    """

    rows: pa.Table
    task: int = 0
    packet_column: str = ROWS

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield batches with one packet of a few megabytes each; no batch if there are no rows."""
        n_rows = self.rows.num_rows
        n_packets = max(-(-self.rows.nbytes // MAX_PACKET_BYTES), 1)
        rows_per_packet = max(n_rows // n_packets, 1)
        for start in range(0, n_rows, rows_per_packet):
            sink = pa.BufferOutputStream()
            rows = self.rows.slice(start, rows_per_packet).combine_chunks()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            arrays_by_name = {
                TASK: pa.array([self.task], pa.int32()),
                self.packet_column: _binary_array(sink.getvalue()),
            }
            arrays = [
                arrays_by_name.get(field.name, pa.nulls(1, field.type)) for field in PACKET_SCHEMA
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=PACKET_SCHEMA)


def _binary_array(buffer: pa.Buffer) -> pa.Array:
    """Wrap a buffer as an array of one value without copying."""
    offsets = np.array([0, buffer.size], np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), buffer])


def unpack(column: pa.Array | pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    """Yield the batches of rows packed in a column of packets, an Arrow binary array."""
    for packet in column:
        if not packet.is_valid:
            continue
        buffer = packet.as_buffer()
        if buffer.address % _ALIGNMENT_BYTES:
            # The bytes object is a copy, which Python aligns.
            buffer = pa.py_buffer(packet.as_py())
        with pa.ipc.open_stream(buffer) as stream:
            yield from stream


def unpack_column(batches: Iterable[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """Yield the batches of rows packed in a column of several batches of packets."""
    for batch in batches:
        yield from unpack(batch.column(name))
