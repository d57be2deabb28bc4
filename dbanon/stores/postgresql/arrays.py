"""Pass classes and released values as arrays that one statement looks up.

The address or key of a row is the index of an element, which holds the row's class and random
position; the class is the index of the released values. So no row is staged, nothing is joined, and
a single sort orders the rows. An element is one number, ``class << shift | position``, with classes
from 1; -1 marks rows that are not released.

A column of texts is a ``jsonb`` array, since PostgreSQL scans text arrays from the start. If rows
have no numeric keys, the release is written from staging.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.words import json_text
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, shuffled_classes
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import dialect as types
from dbanon.stores.postgresql import packed_rows
from dbanon.stores.postgresql.settings import SORT_MEM, WORK_MEM

PLACES = "dbanon_places"

# Maximum elements of an array; the server needs about 24 bytes for each while reading.
MOST = 2**23
# Maximum elements per released row if keys have gaps; small tables may have more.
_SPARSE, _FEW = 4, 2**16
# jsonb holds less than 256 MiB.
_LONGEST_TEXT = 2**27

_ELEMENTS = {
    "bigint": (20, ">i8"),
    "integer": (23, ">i4"),
    "double precision": (701, ">f8"),
    "boolean": (16, "?"),
}
_PIECE = 65_536


@dataclass(frozen=True, eq=False)
class ArrayColumn:
    """An array: name, SQL type of its elements or ``jsonb``, and values of shape (m,)."""

    name: str
    kind: str
    values: NDArray[Any]

    @property
    def sql_type(self) -> str:
        """The type of the array."""
        return self.kind if self.kind == "jsonb" else f"{self.kind}[]"

    @property
    def nothing(self) -> str:
        """SQL of an empty array of this type."""
        return f"'{'[]' if self.kind == 'jsonb' else '{}'}'::{self.sql_type}"

    def element(self, array: str, number: str) -> str:
        """SQL of an element, from SQL of the array and of its index (integer, from 1)."""
        return f"{array} ->> ({number} - 1)" if self.kind == "jsonb" else f"({array})[{number}]"

    def as_json(self) -> str:
        """Return an array of texts as JSON."""
        texts = [None if value is None else str(value) for value in self.values.tolist()]
        return json_text(texts, separators=(",", ":"))


@dataclass(frozen=True, eq=False)
class Slots:
    """The mapping from rows to array elements.

    Parameters
    ----------
    n : number of elements.
    key : SQL of the key of a row, over the alias s.
    number : SQL of the index of a row's element, from 1, or NULL; a template with ``{key}`` and
        ``{ends}``.
    condition : SQL condition, over the alias s, that rows with an element fulfil.
    ends : int64 (2,), smallest and largest key, if ``number`` needs them.
    """

    n: int
    key: str
    number: str
    condition: str = "true"
    ends: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Arrays:
    """The arrays for an INSERT.

    Parameters
    ----------
    slots : the mapping from rows to elements.
    order : int32 or int64 (slots.n,), class and random position of each released row, -1 elsewhere.
    shift : bits of a position within a class.
    values : released values in the order of class numbers.
    """

    slots: Slots
    order: NDArray[np.int32] | NDArray[np.int64]
    shift: int
    values: tuple[ArrayColumn, ...]

    def without_order(self) -> Arrays:
        """Return a copy without the largest array, which is not needed once it was sent."""
        return replace(self, order=self.order[:0])

    @property
    def columns(self) -> tuple[ArrayColumn, ...]:
        """All arrays, the order first."""
        ends = self.slots.ends
        kind = "integer" if self.order.dtype == np.int32 else "bigint"
        arrays = (ArrayColumn("place", kind, self.order), *self.values)
        return arrays if ends is None else (*arrays, ArrayColumn("ends", "bigint", ends))


def slots_of(source: Relation, keys: NDArray[np.int64]) -> tuple[Slots, NDArray[np.int64]] | None:
    """Return the mapping and the element of each record from 0, int64 (n,).

    None if keys are not numbers, or are too sparse.

    Parameters
    ----------
    keys : int64 (n, m), the keys of the records.
    """
    locator = source.required_locator
    if not len(keys) or locator.mapped_columns:
        return None
    key, expression = keys[:, 0], locator.expressions[0]
    limit = min(MOST, max(_SPARSE * len(keys), _FEW))
    if locator.types == ("tid",):
        block, row = key >> 16, key & 0xFFFF
        # One element per block is reserved for rows that were not read.
        blocks, width = int(block.max()) + 1, int(row.max()) + 1
        if blocks * width > limit:
            return None
        return slots_of_addresses(expression, blocks, width), block * width + row - 1
    if locator.types == ("bigint",):
        low, high = int(key.min()), int(key.max())
        if high - low >= limit:
            return None
        number = (
            "CASE WHEN {key} BETWEEN ({ends})[1] AND ({ends})[2]"
            " THEN ({key} - ({ends})[1] + 1)::integer END"
        )
        return Slots(high - low + 1, expression, number, ends=np.array([low, high])), key - low
    return None


def slots_of_addresses(address: str, blocks: int, width: int) -> Slots:
    """Return the mapping for row addresses in blocks of fewer rows than ``width``.

    Rows that were not read may have any address. Those in later blocks are excluded; others share
    the last element of their block, which belongs to no record.
    """
    # Four bytes of block and two of row; with few blocks the leading bytes are 0.
    byte = [f"get_byte({{key}}, {at})" for at in range(6)]
    used = max((blocks - 1).bit_length() + 7, 8) // 8
    parts = [f"{byte[at]} << {8 * (3 - at)}" for at in range(4 - used, 3)]
    block = " | ".join([*(f"({part})" for part in parts), byte[3]])
    number = f"({block}) * {width} + least(({byte[4]} << 8) | {byte[5]}, {width})"
    # IS TRUE prevents a TID range scan, which would evict other pages from the buffer cache.
    condition = f"({address} < '({blocks},0)'::tid) IS TRUE"
    return Slots(blocks * width, f"tidsend({address})", number, condition)


def columns_of(staged: Sequence[tuple[str, str, NDArray[Any]]]) -> tuple[ArrayColumn, ...] | None:
    """Return arrays for the columns of class values; None if texts are too long."""
    columns = []
    for name, kind, values in staged:
        if kind == "text" and sum(len(str(value).encode()) + 8 for value in values) > _LONGEST_TEXT:
            return None
        columns.append(ArrayColumn(name, "jsonb" if kind == "text" else kind, values))
    return tuple(columns)


def order_of(
    n: int,
    elements: NDArray[np.int64],
    partition: Partition,
    classes: NDArray[np.int64],
) -> tuple[NDArray[np.int32] | NDArray[np.int64], int]:
    """Return class and random position of each element, (n,), and the bits of a position.

    Elements without a released row are -1. The type is int32 if it suffices, else int64. Classes
    are given by their random numbers, here from 1.

    Parameters
    ----------
    elements : int64 (m,), the element of each record.
    classes : int64 (n_classes,), the class of each number.
    """
    sizes = partition.sizes
    shift = int(sizes.max(initial=1) - 1).bit_length()
    kind: Any = np.int32 if len(sizes) + 1 << shift < 2**31 else np.int64
    order: NDArray[Any] = np.full(n, -1, kind)
    for numbers, records in shuffled_classes(partition, classes):
        # Positions count from the first record of each class; classes are contiguous.
        begins = np.flatnonzero(np.diff(numbers, prepend=-1))
        of_class = np.diff(begins, append=len(numbers))
        places = np.arange(len(numbers)) - np.repeat(begins, of_class)
        order[elements[records]] = numbers + 1 << shift | places
    return order, shift


def insert(
    target: RelationName,
    values: Mapping[str, str],
    source: Relation,
    reads: Sequence[str],
    arrays: Arrays,
    array: Callable[[int, ArrayColumn], str],
    joins: str,
) -> str:
    """Return the INSERT of all released rows, as ``statements.write_from_source`` does.

    Parameters
    ----------
    values : SQL expression by column, over the aliases s and c.
    reads : source columns that expressions and joins use.
    array : returns SQL of the array at an index, which is evaluated once.
    """
    columns = arrays.columns
    key, position = (quote(_unused(name, reads)) for name in ("key", "place"))
    names = [quote(name) for name in reads]
    ends = array(len(columns) - 1, columns[-1]) if arrays.slots.ends is not None else ""
    number = arrays.slots.number.format(key=key, ends=ends)
    # OFFSET 0 computes the key once per row, and class values only after sorting.
    keyed = ", ".join([f"{arrays.slots.key} AS {key}", *(f"s.{name}" for name in names)])
    placed = ", ".join([f"({array(0, columns[0])})[{number}] AS {position}", *names])
    number = f"(s.{position} >> {arrays.shift})::integer"
    of_class = ", ".join(
        f"{column.element(array(at, column), number)} AS {column.name}"
        for at, column in enumerate(arrays.values, 1)
    )
    # Without value columns, select the class itself.
    of_class = of_class or f"{number} - 1 AS class"
    return (
        f"INSERT INTO {target.quoted} ({quote_list(values)}) SELECT {', '.join(values.values())}"
        f" FROM (SELECT {placed} FROM (SELECT {keyed} FROM {source.from_clause}"
        f" WHERE {arrays.slots.condition}{source.and_condition} OFFSET 0) AS s"
        f" ORDER BY {position} OFFSET 0) AS s CROSS JOIN LATERAL (SELECT {of_class}) AS c{joins}"
        f" WHERE s.{position} >= 0"
    )


def _unused(name: str, names: Sequence[str]) -> str:
    """Append underscores to a name until it is unused."""
    while name in names:
        name += "_"
    return name


def create(arrays: Arrays, suffix: str) -> list[str]:
    """Return statements that create a table with uncompressed columns for these arrays."""
    columns = [(column.name, column.sql_type) for column in arrays.columns]
    plain = ", ".join(f"ALTER {quote(name)} SET STORAGE EXTERNAL" for name, _ in columns)
    return [
        statements.create_staging(PLACES, columns, suffix),
        f"ALTER TABLE {quote(PLACES)} {plain}",
    ]


def array_query(column: ArrayColumn) -> str:
    """SQL of an array of that table; it is read once and stays in memory."""
    return f"(SELECT {quote(column.name)} || {column.nothing} FROM {quote(PLACES)})"


def copy_data(arrays: Arrays) -> Iterator[bytes]:
    """Yield the bytes of COPY … FROM STDIN (FORMAT binary) for that table's only row."""
    columns = arrays.columns
    yield packed_rows.HEAD + np.array([len(columns)], ">i2").tobytes()
    for column in columns:
        if column.kind == "jsonb":
            # The binary form begins with its version.
            text = b"\x01" + column.as_json().encode()
            yield np.array([len(text)], ">i4").tobytes() + text
            continue
        oid, code = _ELEMENTS[column.kind]
        record = np.dtype([("length", ">i4"), ("value", code)])
        n = len(column.values)
        # Length, dimensions, no NULLs, element type, number of elements, first index.
        head = [20 + n * record.itemsize, 1, 0, oid, n, 1]
        yield np.array(head, ">i4").tobytes()
        for start in range(0, n, _PIECE):
            piece = np.empty(min(_PIECE, n - start), record)
            piece["length"] = record.itemsize - 4
            piece["value"] = column.values[start : start + _PIECE]
            yield piece.tobytes()
    yield packed_rows.END


class PostgresqlArraySession(Session):
    """The part of a session that sends classes to the server and writes rows with them."""

    _arrays: Arrays | None = None

    def stage(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> None:
        self._arrays = None
        if self._staged_partition is not partition:
            self._arrays = self._arrays_of(source, microdata, partition, columns)
        if self._arrays is None:
            super().stage(source, microdata, partition, columns)
        else:
            self.load_arrays(self._arrays)

    def _arrays_of(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> Arrays | None:
        slots_and_elements = slots_of(source, microdata.keys)
        if slots_and_elements is None:
            return None
        slots, elements = slots_and_elements
        values = columns_of(types.staged_columns(self.parts_by_class(partition, columns)))
        if values is None:
            return None
        classes = self.classes_by_number(partition)
        return Arrays(slots, *order_of(slots.n, elements, partition, classes), values)

    @abstractmethod
    def load_arrays(self, loaded: Arrays) -> None:
        """Send arrays to where statements can read them."""

    @abstractmethod
    def array_sql(self, index: int, column: ArrayColumn) -> str:
        """SQL of the loaded array with this index in ``Arrays.columns``."""

    def run_with_arrays(self, sql: str) -> None:
        """Execute a statement that reads arrays."""
        self.run(sql)

    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        reads: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        if self._arrays is not None and source is not None:
            self.run(f"SET LOCAL work_mem = '{SORT_MEM}'")
            self.run_with_arrays(
                insert(table, values, source, reads, self._arrays, self.array_sql, joins)
            )
            self.run(f"SET LOCAL work_mem = '{WORK_MEM}'")
            return
        # Labels are stored in key order but needed in class order. Merge joins avoid the random
        # access of hash joins, and take a third less time.
        self.run("SET LOCAL enable_hashjoin = off")
        super().insert(table, values, source, reads, joins)
        self.run("SET LOCAL enable_hashjoin = on")

    @property
    def staging_tables(self) -> tuple[str, ...]:
        return (*super().staging_tables, PLACES)
