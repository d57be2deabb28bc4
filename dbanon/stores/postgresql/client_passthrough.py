"""Pass retained columns through the client: read them with the quasi-identifiers, write them back.

One COPY reads keys, quasi-identifiers and retained columns; another one writes the finished rows in
random order. So the server neither looks up nor sorts rows. Retained values pass through as bytes
that the client never interprets. The released values of each class are encoded once: here if
possible, otherwise by the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import Chunk
from dbanon.data.microdata import Microdata, find_records
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DatabaseFailure, MemoryLimit, RecountFailed, UnsupportedType
from dbanon.partitioning.record_memory import RecordMemory
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, shuffled_classes
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.passthrough import ClassStaging, ColumnPassthrough
from dbanon.stores.postgresql import catalog, packed_rows
from dbanon.stores.postgresql.client_connection import PsycopgConnection

# Number of rows per write.
_ROWS_PER_WRITE = 32_768
# Bytes of the length that precedes each value in COPY's binary format.
_LENGTH_BYTES = 4
# By SQL type, the numpy types of values in memory and in COPY, for types that can be encoded
# without the server.
_COPY_DTYPES = {
    "double precision": (np.float64, ">f8"),
    "bigint": (np.int64, ">i8"),
    "integer": (np.int64, ">i4"),
    "smallint": (np.int64, ">i2"),
    "date": (np.int64, ">i4"),
}
_ENCODABLE_KINDS = (Kind.FLOAT, Kind.INTEGER, Kind.DATE)
# Errors for values that violate NOT NULL or a check of a domain. A stored value can violate a check
# that was added later as NOT VALID.
_CHECK_VIOLATIONS = ("SQLSTATE 23502", "SQLSTATE 23514")


@dataclass(eq=False)
class Passthrough:
    """Values of retained columns in the order they were read.

    Parameters
    ----------
    n_columns : number of retained columns.
    values : the fields of all rows in COPY's binary format, each with its length.
    ends : one int64 (c,) per chunk of c rows: the end offset of each row in ``values``.
    keys : one int64 (c, m) per chunk: the row keys; empty if rows were read in the order of
        records.
    n_rows : number of rows read so far.
    """

    n_columns: int
    values: bytearray = field(default_factory=bytearray, repr=False)
    ends: list[NDArray[np.int64]] = field(default_factory=list, repr=False)
    keys: list[NDArray[np.int64]] = field(default_factory=list, repr=False)
    n_rows: int = 0

    def add(
        self, keys: NDArray[np.int64], values: NDArray[np.uint8], ends: NDArray[np.int64]
    ) -> None:
        """Append the fields of a chunk of rows.

        Parameters
        ----------
        keys : int64 (c, m), the row keys.
        values : the fields of all rows, in COPY's binary format.
        ends : int64 (c,), the end offset of each row in ``values``.
        """
        self.ends.append(ends + len(self.values))
        self.keys.append(keys)
        self.values += values.data
        self.n_rows += len(keys)

    def drop_ascending_keys(self) -> None:
        """If the keys ascend, drop them to save memory: rows are then in the order of records."""
        if not self.keys or self.keys[0].shape[1] != 1:
            return
        keys = np.concatenate(self.keys)[:, 0]
        if bool((keys[1:] > keys[:-1]).all()):
            self.keys.clear()

    def require_memory(self, memory: RecordMemory) -> None:
        """Check that values and records fit a memory limit; raises MemoryLimit."""
        needed = memory.needed_limit(self.n_rows, retained_bytes=len(self.values))
        if memory.limit is not None and needed > memory.limit:
            raise MemoryLimit.exceeded(
                "With kept columns in the client's memory the job needs",
                memory.limit,
                detail=f"{self.n_rows} records were read so far, with {len(self.values)} bytes of"
                " kept columns.",
                hint="Raise the limit (`memory_limit`), or leave out `kept_columns`, so that they"
                " stay in the database.",
            )

    def find_rows(self, keys: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the index of each record's row in the order of reading, int64 (n,).

        None if the rows were read in the order of the records.

        Parameters
        ----------
        keys : int64 (n, m), the keys of the records.

        Raises
        ------
        SourceChanged, RecountFailed : the records are not those that were read.
        """
        if self.n_rows != len(keys):
            raise RecountFailed(
                f"{self.n_rows} rows were read, but {len(keys)} are to be written; nothing was"
                " published.",
                hint="This is an error in dbanon: please report it.",
            )
        if not self.keys:
            return None
        row_of_record = np.empty(len(keys), np.int64)
        row_of_record[find_records(keys, np.concatenate(self.keys))] = np.arange(len(keys))
        return row_of_record


class PostgresqlPassthrough(ColumnPassthrough):
    """Reads retained columns and writes finished rows through a client of PostgreSQL.

    Parameters
    ----------
    connection : executes the statements.
    oid_of : returns the oid of a source that the session has looked up.
    """

    def __init__(
        self, connection: PsycopgConnection, oid_of: Callable[[RelationName], int]
    ) -> None:
        self._connection, self._oid_of = connection, oid_of
        # The retained values, from ``read_chunks`` until ``insert`` writes them.
        self._retained_rows: Passthrough | None = None

    def require(self, source: Relation, columns: Sequence[Attribute]) -> None:
        oid = self._oid_of(source.name)
        # Only check columns that are read unconverted; others are read as text.
        names = [
            a.name
            for a in columns
            if self._connection.dialect.retained_value(a) == f"s.{quote(a.name)}"
        ]
        for name, sql_type, is_domain in self._connection.rows(
            catalog.TYPES_WITHOUT_PASSTHROUGH, (oid, names)
        ):
            reason = "is a domain within another type" if is_domain else "has no binary form"
            raise UnsupportedType(
                f'Column "{name}" cannot pass through the client: {sql_type} {reason}.',
                hint="Leave out `kept_columns`, so that its values stay in the database.",
            )

    def estimate_value_bytes(self, source: Relation, columns: Sequence[Attribute]) -> int:
        widths = self._connection.rows(
            catalog.COLUMN_WIDTHS, (self._oid_of(source.name), [column.name for column in columns])
        )
        return len(columns) * _LENGTH_BYTES + sum(int(width) for (width,) in widths)

    def read_chunks(
        self,
        source: Relation,
        attributes: Sequence[Attribute],
        passthrough: Sequence[Attribute],
        chunk_rows: int,
        memory: RecordMemory | None,
    ) -> Iterator[Chunk]:
        locator = source.required_locator
        dialect = self._connection.dialect
        joins = dialect.value_joins(attributes)
        from_clause = f"{source.from_clause}{joins}{source.where_clause}"
        values = [dialect.retained_value(a) for a in passthrough]
        query = packed_rows.build_copy_query(
            locator.expressions, locator.types, attributes, values, from_clause
        )
        retained_rows = self._retained_rows = Passthrough(len(passthrough))
        self._use_stored_encoding(enabled=True)
        for buffer in self._connection.copy_chunks(query, chunk_rows):
            chunk, retained_values, ends = packed_rows.unpack_copy_rows(
                buffer, locator.types, attributes, len(passthrough)
            )
            retained_rows.add(chunk.keys, retained_values, ends)
            if memory is not None:
                retained_rows.require_memory(memory)
            yield chunk
        retained_rows.drop_ascending_keys()
        self._use_stored_encoding(enabled=False)

    def _use_stored_encoding(self, *, enabled: bool) -> None:
        """Switch the client encoding to that of the database, or back to UTF-8.

        In the encoding of the database, texts are written back unchanged, even if invalid.
        """
        [(encoding,)] = self._connection.rows("SELECT current_setting('server_encoding')")
        if encoding != "UTF8":
            self._connection.run(f"SET LOCAL client_encoding = '{encoding if enabled else 'UTF8'}'")

    def insert(
        self,
        staging: ClassStaging,
        table: RelationName,
        class_columns: Sequence[tuple[str, str, str]],
        columns: Sequence[ReleasedColumn],
        passthrough: Sequence[str],
        microdata: Microdata,
        partition: Partition,
    ) -> None:
        retained_rows, self._retained_rows = self._retained_rows, None
        assert retained_rows is not None
        assert retained_rows.n_columns == len(passthrough)
        row_of_record = retained_rows.find_rows(microdata.keys)
        retained_rows.keys.clear()
        classes = staging.classes_by_number(partition)
        encoded_classes = _encode_classes(classes, class_columns, columns)
        if encoded_classes is None:
            # The server then converts the staged values of the classes.
            staging.stage_classes(partition, columns)
        self._use_stored_encoding(enabled=True)
        if encoded_classes is None:
            encoded_classes = self._fetch_class_bytes(class_columns, partition.n_classes)
        class_bytes, class_ends = encoded_classes
        # Each written row consists of a head, the fields of its class, and a tail, its retained
        # fields. ``class_ends`` and ``retained_rows.ends`` are the offsets at which they end.
        row_join = kernels.RowJoin(
            len(class_columns) + retained_rows.n_columns,
            class_bytes,
            class_ends,
            np.frombuffer(retained_rows.values, np.uint8),
            np.concatenate(retained_rows.ends) if retained_rows.ends else np.empty(0, np.int64),
        )
        retained_rows.ends.clear()
        names = quote_list([*(name for name, _, _ in class_columns), *passthrough])
        # FREEZE is possible since this transaction has created the table.
        copy = f"COPY {table.quoted} ({names}) FROM STDIN (FORMAT binary, FREEZE)"
        try:
            self._connection.copy_bytes(
                copy, _encode_rows(row_join, partition, classes, row_of_record)
            )
        except DatabaseFailure as error:
            if not str(error.detail).startswith(_CHECK_VIOLATIONS):
                raise
            raise DatabaseFailure(
                "A kept column has a value that violates a check of its type, which is applied"
                " when values are written back.",
                detail=error.detail,
                hint="Leave out `kept_columns`, so that its values stay in the database.",
            ) from None
        self._use_stored_encoding(enabled=False)

    def _fetch_class_bytes(
        self, class_columns: Sequence[tuple[str, str, str]], n_classes: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Read the released fields of each class, in the order of class numbers.

        Returns the bytes of all fields, uint8 (m,), and the end offset of each class in them, int64
        (n_classes,). The server converts the values just as for an INSERT from staging
        tables.

        Parameters
        ----------
        class_columns : name, SQL type and SQL of the value of each released column.
        """
        values = ", ".join(f"({value})::{sql_type}" for _, sql_type, value in class_columns)
        query = (
            f"COPY (SELECT {values} FROM {quote(statements.CLASSES)} AS c ORDER BY c.class)"
            " TO STDOUT (FORMAT binary)"
        )
        fields = bytearray()
        ends: list[NDArray[np.int64]] = []
        for buffer in self._connection.copy_chunks(query, _ROWS_PER_WRITE):
            # No field has a known width ([]): the bytes of all fields are copied as they are.
            _, chunk_fields, chunk_ends = kernels.split_rows(buffer, [], len(class_columns))
            ends.append(chunk_ends + len(fields))
            fields += chunk_fields.data
        all_ends = np.concatenate(ends) if ends else np.empty(0, np.int64)
        if len(all_ends) != n_classes:
            raise RecountFailed(
                f"The server returned {len(all_ends)} of {n_classes} classes; nothing was"
                " published.",
                hint="This is an error in dbanon: please report it.",
            )
        return np.frombuffer(fields, np.uint8), all_ends


def _encode_classes(
    classes: NDArray[np.int64],
    class_columns: Sequence[tuple[str, str, str]],
    columns: Sequence[ReleasedColumn],
) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    """Encode the released fields of each class without the server.

    Returns the same as ``PostgresqlPassthrough._fetch_class_bytes``; None if the server must
    convert a type.

    Parameters
    ----------
    classes : the class of each class number, int64 (n_classes,).
    class_columns : name, SQL type and SQL of the value of each released column.
    columns : the released values of each class.
    """
    columns_by_name = {column.attribute.name: column for column in columns}
    fields: list[tuple[str, str]] = []
    encoded_columns = []
    # The heads of the rows are in the order of class numbers.
    for index, (name, sql_type, _) in enumerate(class_columns):
        column = columns_by_name[name]
        if column.upper is not None or column.missing is not None:
            # Let the server encode ranges and NULLs.
            return None
        encoded = _encode_column(column.values[classes], column.attribute.kind, sql_type)
        if encoded is None:
            return None
        encoded_columns.append(encoded)
        fields += [(f"length{index}", ">i4"), (f"value{index}", encoded.dtype.str)]
    records = np.empty(len(classes), np.dtype(fields))
    for index, encoded in enumerate(encoded_columns):
        records[f"length{index}"] = encoded.dtype.itemsize
        records[f"value{index}"] = encoded
    ends = np.arange(1, len(records) + 1) * records.dtype.itemsize
    return records.view(np.uint8), ends


def _encode_column(values: AnyArray, kind: Kind, sql_type: str) -> AnyArray | None:
    """Encode values for COPY; None if the server must convert them to the type."""
    if sql_type not in _COPY_DTYPES or kind not in _ENCODABLE_KINDS:
        return None
    value_dtype, copy_dtype = _COPY_DTYPES[sql_type]
    if values.dtype != value_dtype:
        return None
    if kind is Kind.FLOAT:
        return values.astype(copy_dtype)
    # Dates are days since 1970 here, and days since 2000 in COPY.
    shifted = values - packed_rows.EPOCH_DAYS if kind is Kind.DATE else values
    limits = np.iinfo(np.dtype(copy_dtype))
    if len(shifted) and (shifted.min() < limits.min or shifted.max() > limits.max):
        return None
    return shifted.astype(copy_dtype)


def _encode_rows(
    row_join: kernels.RowJoin,
    partition: Partition,
    classes: NDArray[np.int64],
    row_of_record: NDArray[np.int64] | None,
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a COPY of the released rows.

    Classes are in random order, and rows in random order within a class.

    Parameters
    ----------
    classes : int64 (n_classes,), the class with each random class number.
    row_of_record : the result of ``Passthrough.find_rows``.
    """
    yield packed_rows.COPY_HEADER
    for class_numbers, records in shuffled_classes(partition, classes):
        rows = records if row_of_record is None else row_of_record[records]
        for start in range(0, len(records), _ROWS_PER_WRITE):
            stop = min(start + _ROWS_PER_WRITE, len(records))
            # The head and the tail of each row, for this part of the batch.
            yield row_join.join(class_numbers, rows, start, stop).data
    yield packed_rows.COPY_TRAILER
