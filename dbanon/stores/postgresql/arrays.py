"""Send classes and released values to the server as arrays; one statement looks them up there.

A row's address or key determines an index into an array of class positions, its *slot*. The element
there has the row's class and its random position within the class, packed into one number: ``class
<< position_bits | position``. Classes have the random numbers that the session draws, since the
order of labels would reveal how the classes were found; here the numbers count from 1, and -1 marks
rows that are not released. The class number, in turn, is an index into the arrays of released
values. So no rows are staged or joined, and a single sort puts them in order.

The *locator* of a source has the SQL that identifies its rows: by row address (ctid), by an integer
column, or by their number in a *key map*, a staging table that numbers all other keys. A row
address consists of the number of a page, in PostgreSQL's terms a block, and a number in this page.

Texts are sent as a ``jsonb`` array, since PostgreSQL scans text arrays from the start. If rows have
no numeric keys, the release is written from staging tables instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.frozen import dataclass
from dbanon.data.partition import Partition
from dbanon.data.words import json_text
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, shuffled_classes
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.stores.postgresql import packed_rows

# Staging table with a single row, in which each column is one of the arrays.
RELEASE_ARRAYS = "dbanon_arrays"

# Maximum elements of an array; the server needs about 24 bytes per element while reading it.
MAX_ELEMENTS = 2**23
# Maximum elements per record: keys with gaps leave elements unused.
_MAX_ELEMENTS_PER_RECORD = 4
# Arrays up to this many elements may have more elements per record.
_MAX_SPARSE_ELEMENTS = 2**16
# Maximum bytes of an array of texts; a jsonb value is limited to 256 MiB.
_MAX_TEXT_BYTES = 2**27

# Oid and numpy dtype of each element type.
_ELEMENT_TYPES = {
    "bigint": (20, ">i8"),
    "integer": (23, ">i4"),
    "double precision": (701, ">f8"),
    "boolean": (16, "?"),
}
# Number of elements that are encoded at once.
_ELEMENTS_PER_WRITE = 65_536


@dataclass(frozen=True, eq=False)
class ArrayColumn:
    """An array that is sent to the server.

    Parameters
    ----------
    element_type : SQL type of the elements; ``jsonb`` for texts, which are sent as a JSON array.
    values : (m,), the elements.
    """

    name: str
    element_type: str
    values: AnyArray

    @property
    def sql_type(self) -> str:
        """The type of the array."""
        return "jsonb" if self.element_type == "jsonb" else f"{self.element_type}[]"

    @property
    def empty_array(self) -> str:
        """SQL of an empty array of this type."""
        return f"'{'[]' if self.element_type == 'jsonb' else '{}'}'::{self.sql_type}"

    def element(self, array: str, index: str) -> str:
        """SQL of an element, from SQL of the array and of the element's index (integer, from 1)."""
        if self.element_type == "jsonb":
            return f"{array} ->> ({index} - 1)"
        return f"({array})[{index}]"

    def as_json(self) -> str:
        """Return the values, which are texts, as a JSON array."""
        texts = [None if value is None else str(value) for value in self.values.tolist()]
        return json_text(texts, separators=(",", ":"))


@dataclass(frozen=True, eq=False)
class Slots:
    """Maps rows to the elements of an array.

    Rows have the alias s in SQL.

    Parameters
    ----------
    n_elements : number of elements of the array.
    key : SQL of the key of a row.
    index : SQL of the index of a row's element, from 1, or NULL; a template with ``{key}`` and
        ``{key_range}``, which stand for SQL of the row's key and of the array of ``key_range``.
    condition : SQL condition that is true for all rows with an element.
    key_range : int64 (2,), smallest and largest key, if ``index`` needs them.
    """

    n_elements: int
    key: str
    index: str
    condition: str = "true"
    key_range: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class ReleaseArrays:
    """The arrays that an INSERT of released rows needs.

    Parameters
    ----------
    slots : the mapping from rows to elements.
    class_positions : int32 or int64 (slots.n_elements,), class and random position of each released
        row, packed into one number; -1 elsewhere.
    position_bits : bits of a position within a class.
    values : arrays of released values; class number c has element c, from 1.
    """

    slots: Slots
    class_positions: NDArray[np.int32 | np.int64]
    position_bits: int
    values: tuple[ArrayColumn, ...]

    def without_class_positions(self) -> ReleaseArrays:
        """Return a copy without the largest array, which is not needed after it has been sent."""
        return replace(self, class_positions=self.class_positions[:0])

    @property
    def columns(self) -> tuple[ArrayColumn, ...]:
        """All arrays: class positions first, then the values, then the range of keys, if any."""
        key_range = self.slots.key_range
        element_type = "integer" if self.class_positions.dtype == np.int32 else "bigint"
        arrays = (ArrayColumn("class_position", element_type, self.class_positions), *self.values)
        if key_range is None:
            return arrays
        return (*arrays, ArrayColumn("key_range", "bigint", key_range))


def assign_slots(
    source: Relation, keys: NDArray[np.int64]
) -> tuple[Slots, NDArray[np.int64]] | None:
    """Map records to array elements; None if keys are not numbers, or have too many gaps.

    Returns the mapping, and the index of each record's element, from 0, int64 (n,).

    Parameters
    ----------
    source : the relation of the records; its locator has the SQL of the key that identifies a row.
    keys : int64 (n, m), the keys of the records. A row address is block * 65536 + row.
    """
    locator = source.required_locator
    # With a key map, the keys are ordinals in a staging table, which array statements do not join.
    if not len(keys) or locator.key_map_columns:
        return None
    record_keys = keys[:, 0]
    expression = locator.expressions[0]
    max_elements = min(
        MAX_ELEMENTS, max(_MAX_ELEMENTS_PER_RECORD * len(keys), _MAX_SPARSE_ELEMENTS)
    )
    if locator.types == ("tid",):
        block, row = record_keys >> 16, record_keys & 0xFFFF
        # The last element of each block (page) is for rows that were not read. The server counts
        # the rows of a block from 1.
        n_blocks, block_elements = int(block.max()) + 1, int(row.max()) + 1
        if n_blocks * block_elements > max_elements:
            return None
        slots = map_addresses(expression, n_blocks, block_elements)
        return slots, block * block_elements + row - 1
    if locator.types == ("bigint",):
        low, high = int(record_keys.min()), int(record_keys.max())
        if high - low >= max_elements:
            return None
        index = (
            "CASE WHEN {key} BETWEEN ({key_range})[1] AND ({key_range})[2]"
            " THEN ({key} - ({key_range})[1] + 1)::integer END"
        )
        n_elements = high - low + 1
        slots = Slots(n_elements, expression, index, key_range=np.array([low, high]))
        return slots, record_keys - low
    return None


def map_addresses(address: str, n_blocks: int, block_elements: int) -> Slots:
    """Return the mapping from row addresses to array elements.

    Rows that were not read may have any address. Those in later blocks are excluded by the
    condition; others share the last element of their block, which belongs to no record.

    Parameters
    ----------
    address : SQL of the address of a row.
    n_blocks : number of blocks with rows that were read.
    block_elements : array elements per block, more than the rows that were read from any block.
    """
    # ``tidsend`` returns the address as six bytes: four for the block and two for the row. With few
    # blocks the first bytes are always 0, so leave them out.
    address_bytes = [f"get_byte({{key}}, {i})" for i in range(6)]
    block_bytes = max((n_blocks - 1).bit_length() + 7, 8) // 8
    high_bytes = [f"({address_bytes[i]} << {8 * (3 - i)})" for i in range(4 - block_bytes, 3)]
    block = " | ".join([*high_bytes, address_bytes[3]])
    row = f"({address_bytes[4]} << 8) | {address_bytes[5]}"
    index = f"({block}) * {block_elements} + least({row}, {block_elements})"
    # IS TRUE prevents a TID range scan, which would evict other pages from the buffer cache.
    condition = f"({address} < '({n_blocks},0)'::tid) IS TRUE"
    return Slots(n_blocks * block_elements, f"tidsend({address})", index, condition)


def build_value_arrays(
    columns: Sequence[tuple[str, str, AnyArray]],
) -> tuple[ArrayColumn, ...] | None:
    """Return arrays for the columns of released values; None if their texts are too long.

    Parameters
    ----------
    columns : name, SQL type and values, (n_classes,), of each column.
    """
    arrays = []
    for name, sql_type, values in columns:
        if sql_type != "text":
            arrays.append(ArrayColumn(name, sql_type, values))
        elif sum(len(str(value).encode()) + 8 for value in values) <= _MAX_TEXT_BYTES:
            arrays.append(ArrayColumn(name, "jsonb", values))
        else:
            return None
    return tuple(arrays)


def pack_class_positions(
    n_elements: int,
    element_of_record: NDArray[np.int64],
    partition: Partition,
    classes: NDArray[np.int64],
) -> tuple[NDArray[np.int32 | np.int64], int]:
    """Pack the class and the random position of each released row into an array.

    Returns the array and the number of bits of a position. The array is int32 (n_elements,) if this
    suffices, else int64. Elements without a released row are -1. The class in an element is its
    random number, plus 1.

    Parameters
    ----------
    element_of_record : int64 (n,), the index of each record's element, from 0.
    classes : int64 (n_classes,), the class with each random class number.
    """
    class_sizes = partition.sizes
    position_bits = int(class_sizes.max(initial=1) - 1).bit_length()
    dtype: type[np.int32] | type[np.int64] = (
        np.int32 if len(class_sizes) + 1 << position_bits < 2**31 else np.int64
    )
    class_positions: NDArray[np.int32 | np.int64] = np.full(n_elements, -1, dtype)
    for class_numbers, records in shuffled_classes(partition, classes):
        # Each batch has the shuffled records of complete classes, one class after the other. So a
        # record's position is its distance from the first record of its class.
        class_starts = np.flatnonzero(np.diff(class_numbers, prepend=-1))
        sizes = np.diff(class_starts, append=len(class_numbers))
        positions = np.arange(len(class_numbers)) - np.repeat(class_starts, sizes)
        class_positions[element_of_record[records]] = class_numbers + 1 << position_bits | positions
    return class_positions, position_bits


def insert_statement(
    target: RelationName,
    values: Mapping[str, str],
    source: Relation,
    source_columns: Sequence[str],
    arrays: ReleaseArrays,
    array_sql: Callable[[int, ArrayColumn], str],
    joins: str,
) -> str:
    """Build the INSERT of all released rows, which looks up classes and values in the arrays.

    Parameters
    ----------
    values : SQL of each released column, by name; source rows have the alias s, and the released
        values of their class the alias c.
    source_columns : columns of the source that expressions and joins use.
    array_sql : returns the SQL of an array, from its index in ``arrays.columns`` and the array.
    joins : JOIN clauses that the expressions need, with a leading space; empty for none.
    """
    columns, slots = arrays.columns, arrays.slots
    key, class_position = (
        quote(_make_unused(name, source_columns)) for name in ("key", "class_position")
    )
    names = [quote(name) for name in source_columns]
    key_range = array_sql(len(columns) - 1, columns[-1]) if slots.key_range is not None else ""
    index = slots.index.format(key=key, key_range=key_range)
    # OFFSET 0 keeps the planner from merging subqueries. So the key is computed once per row, and
    # class values after sorting.
    with_key = ", ".join([f"{slots.key} AS {key}", *(f"s.{name}" for name in names)])
    class_positions = array_sql(0, columns[0])
    with_position = ", ".join([f"({class_positions})[{index}] AS {class_position}", *names])
    class_number = f"(s.{class_position} >> {arrays.position_bits})::integer"
    class_values = ", ".join(
        f"{column.element(array_sql(i, column), class_number)} AS {column.name}"
        for i, column in enumerate(arrays.values, 1)
    )
    # A chain sends no released values: it stores the class itself, which there counts from 0.
    class_values = class_values or f"{class_number} - 1 AS class"
    return (
        f"INSERT INTO {target.quoted} ({quote_list(values)}) SELECT {', '.join(values.values())}"
        f" FROM (SELECT {with_position} FROM (SELECT {with_key} FROM {source.from_clause}"
        f" WHERE {slots.condition}{source.and_not_null_condition} OFFSET 0) AS s"
        f" ORDER BY {class_position} OFFSET 0) AS s"
        f" CROSS JOIN LATERAL (SELECT {class_values}) AS c{joins}"
        f" WHERE s.{class_position} >= 0"
    )


def _make_unused(name: str, names: Sequence[str]) -> str:
    """Append underscores to a name until none of ``names`` equals it."""
    while name in names:
        name += "_"
    return name


def create_statements(arrays: ReleaseArrays, suffix: str) -> list[str]:
    """Build statements that create the staging table, with uncompressed columns."""
    columns = [(column.name, column.sql_type) for column in arrays.columns]
    uncompressed = ", ".join(f"ALTER {quote(name)} SET STORAGE EXTERNAL" for name, _ in columns)
    return [
        statements.create_staging(RELEASE_ARRAYS, columns, suffix),
        f"ALTER TABLE {quote(RELEASE_ARRAYS)} {uncompressed}",
    ]


def array_query(column: ArrayColumn) -> str:
    """SQL of an array in the staging table.

    Appending an empty array makes the server read the stored array once, not once per element.
    """
    return f"(SELECT {quote(column.name)} || {column.empty_array} FROM {quote(RELEASE_ARRAYS)})"


def encode_copy_row(arrays: ReleaseArrays) -> Iterator[bytes]:
    """Yield the bytes of COPY … FROM STDIN (FORMAT binary) for the staging table's only row."""
    columns = arrays.columns
    yield packed_rows.COPY_HEADER + np.array([len(columns)], ">i2").tobytes()
    for column in columns:
        if column.element_type == "jsonb":
            # The binary form of jsonb begins with a version byte.
            text = b"\x01" + column.as_json().encode()
            yield np.array([len(text)], ">i4").tobytes() + text
            continue
        element_oid, value_dtype = _ELEMENT_TYPES[column.element_type]
        element_dtype = np.dtype([("length", ">i4"), ("value", value_dtype)])
        n = len(column.values)
        # Bytes that follow, number of dimensions, whether there are NULLs, element type, number of
        # elements, first index.
        header = [20 + n * element_dtype.itemsize, 1, 0, element_oid, n, 1]
        yield np.array(header, ">i4").tobytes()
        for start in range(0, n, _ELEMENTS_PER_WRITE):
            elements = np.empty(min(_ELEMENTS_PER_WRITE, n - start), element_dtype)
            elements["length"] = element_dtype.itemsize - 4
            elements["value"] = column.values[start : start + _ELEMENTS_PER_WRITE]
            yield elements.tobytes()
    yield packed_rows.COPY_TRAILER
