"""Pass retained columns through the client: read them with the quasi-identifiers, write them back.

One COPY reads keys, quasi-identifiers and retained columns; another one writes the finished rows in
random order. So the server neither looks up nor sorts rows. Values of retained columns are opaque
bytes here and return unchanged. The server encodes the values of each class once, in the types of
the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.chunks import Chunk, bytes_per_record
from dbanon.data.microdata import Microdata, find_records
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DatabaseFailure, MemoryLimit, RecountFailed, UnsupportedType
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, shuffled_classes
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.stores.postgresql import catalog, packed_rows
from dbanon.stores.postgresql import dialect as types
from dbanon.stores.postgresql.session import PostgresqlSession

# Rows per write.
_PIECE = 32_768
# Bytes per row for the end offset of its values and its key.
_BYTES_BESIDE = 16
# Types that need no conversion, with the dtype of their values here and in COPY.
_PLAIN = {
    "double precision": (np.float64, ">f8"),
    "bigint": (np.int64, ">i8"),
    "integer": (np.int64, ">i4"),
    "smallint": (np.int64, ">i2"),
    "date": (np.int64, ">i4"),
}
_KINDS = (Kind.FLOAT, Kind.INTEGER, Kind.DATE)
# A domain may refuse existing values if its check was added or changed later.
_CHECKED = ("SQLSTATE 23502", "SQLSTATE 23514")


@dataclass(eq=False)
class Passthrough:
    """Values of retained columns in the order they were read.

    Parameters
    ----------
    columns : number of retained columns.
    values : the fields of all rows, with their lengths.
    ends : int64 (c,) per chunk, the end offset of each row in ``values``.
    keys : int64 (c, m) per chunk; empty if rows were read in the order of records.
    """

    columns: int
    values: bytearray = field(default_factory=bytearray, repr=False)
    ends: list[NDArray[np.int64]] = field(default_factory=list, repr=False)
    keys: list[NDArray[np.int64]] = field(default_factory=list, repr=False)
    rows: int = 0

    def add(
        self, keys: NDArray[np.int64], tails: NDArray[np.uint8], ends: NDArray[np.int64]
    ) -> None:
        """Append the fields of a chunk of rows."""
        self.ends.append(ends + len(self.values))
        self.keys.append(keys)
        self.values += tails.data
        self.rows += len(keys)

    def settle(self) -> None:
        """Drop the keys to save memory if rows were read in the order of records."""
        if not self.keys or self.keys[0].shape[1] != 1:
            return
        keys = np.concatenate(self.keys)[:, 0]
        if bool((keys[1:] > keys[:-1]).all()):
            self.keys.clear()

    def require_memory(self, limit: int | None, n_columns: int, coded: int) -> None:
        """Check that values and records fit a memory limit; raises MemoryLimit.

        Parameters
        ----------
        limit : bytes, or None for no limit.
        n_columns, coded : columns of the records, and how many of them are not numbers.
        """
        overhead = self.rows * (_BYTES_BESIDE + bytes_per_record(n_columns, coded))
        if limit is not None and len(self.values) + overhead > limit:
            raise MemoryLimit.exceeded(
                "With kept columns in the client's memory the job needs",
                limit,
                detail=f"{self.rows} records were read so far, with {len(self.values)} bytes of"
                " kept columns.",
                hint="Raise the limit (`memory_limit`), or leave out `kept_columns`, so that they"
                " stay in the database.",
            )

    def places(self, keys: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the stored row of each record, int64 (n,); None if the orders are equal.

        Parameters
        ----------
        keys : int64 (n, m), the keys of the records.

        Raises
        ------
        SourceChanged, RecountFailed : the records are not those that were read.
        """
        if self.rows != len(keys):
            raise RecountFailed(
                f"{self.rows} rows were read, and {len(keys)} are to be written; nothing was"
                " published.",
                hint="This is an error in dbanon: please report it.",
            )
        if not self.keys:
            return None
        places = np.empty(len(keys), np.int64)
        places[find_records(keys, np.concatenate(self.keys))] = np.arange(len(keys))
        return places


class PassthroughSession(PostgresqlSession):
    """The part of a client's session that reads retained columns and writes finished rows."""

    _passthrough: Passthrough | None = None

    def copy_chunks(self, query: str, rows: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the rows of a COPY … TO STDOUT as bytes, ``rows`` at a time, without header."""
        raise NotImplementedError

    def copy_bytes(self, copy: str, pieces: Iterable[bytes | memoryview]) -> None:
        """Execute a COPY … FROM STDIN (FORMAT binary) of these bytes."""
        raise NotImplementedError

    def require_passthrough(self, source: Relation, columns: Sequence[Attribute]) -> None:
        oid = self._relations[source.name].oid
        # Types that are converted by their output function travel as text.
        names = [a.name for a in columns if types.retained_column(a) == f"s.{quote(a.name)}"]
        for name, sql_type, is_domain in self.rows(catalog.NOT_CARRIED, (oid, names)):
            why = "is a domain within another type" if is_domain else "has no binary form"
            raise UnsupportedType(
                f'Column "{name}" cannot pass through the client: {sql_type} {why}.',
                hint="Leave out `kept_columns`, so that its values stay in the database.",
            )

    def read_passthrough(
        self,
        source: Relation,
        attributes: Sequence[Attribute],
        passthrough: Sequence[Attribute],
        chunk_rows: int,
        memory_limit: int | None,
    ) -> Iterator[Chunk]:
        located = source.required_locator
        rows = f"{source.from_clause}{self.value_joins(attributes)}{source.where}"
        values = [types.retained_column(a) for a in passthrough]
        query = packed_rows.passthrough_records(
            located.expressions, located.types, attributes, values, rows
        )
        stored = self._passthrough = Passthrough(len(passthrough))
        self._use_stored_encoding(True)
        for buffer in self.copy_chunks(query, chunk_rows):
            chunk, tails, ends = packed_rows.unpack_passthrough(
                buffer, located.types, attributes, len(passthrough)
            )
            stored.add(chunk.keys, tails, ends)
            coded = sum(attribute.kind.is_coded for attribute in attributes)
            stored.require_memory(memory_limit, len(attributes), coded)
            yield chunk
        stored.settle()
        self._use_stored_encoding(False)

    def _use_stored_encoding(self, enabled: bool) -> None:
        """Switch the client encoding to that of the database, or back to UTF-8.

        Texts then return unchanged, even if they are not valid UTF-8.
        """
        [(encoding,)] = self.rows("SELECT current_setting('server_encoding')")
        if encoding != "UTF8":
            self.run(f"SET LOCAL client_encoding = '{encoding if enabled else 'UTF8'}'")

    def insert_passthrough(
        self,
        table: RelationName,
        released: Sequence[tuple[str, str, str]],
        columns: Sequence[ReleasedColumn],
        passthrough: Sequence[str],
        microdata: Microdata,
        partition: Partition,
    ) -> None:
        stored, self._passthrough = self._passthrough, None
        assert stored is not None
        assert stored.columns == len(passthrough)
        places = stored.places(microdata.keys)
        stored.keys.clear()
        heads_and_ends = self._encode_classes(partition, released, columns)
        if heads_and_ends is None:
            self.stage_classes(partition, columns)
        self._use_stored_encoding(True)
        heads, head_ends = heads_and_ends or self._fetch_class_bytes(released, partition.n_classes)
        join = kernels.RowJoin(
            len(released) + stored.columns,
            heads,
            head_ends,
            np.frombuffer(stored.values, np.uint8),
            np.concatenate(stored.ends) if stored.ends else np.empty(0, np.int64),
        )
        stored.ends.clear()
        names = quote_list([*(name for name, _, _ in released), *passthrough])
        # The table is new in this transaction, so its rows can be written frozen.
        copy = f"COPY {table.quoted} ({names}) FROM STDIN (FORMAT binary, FREEZE)"
        try:
            rows = _rows(join, partition, self.classes_by_number(partition), places)
            self.copy_bytes(copy, rows)
        except DatabaseFailure as error:
            if not str(error.detail).startswith(_CHECKED):
                raise
            raise DatabaseFailure(
                "A kept column has a value that violates a check of its type, which is applied"
                " when values are written back.",
                detail=error.detail,
                hint="Leave out `kept_columns`, so that its values stay in the database.",
            ) from None
        self._use_stored_encoding(False)

    def _encode_classes(
        self,
        partition: Partition,
        released: Sequence[tuple[str, str, str]],
        columns: Sequence[ReleasedColumn],
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
        """Do the same without the server; None if a type needs a conversion there."""
        by_name = {column.attribute.name: column for column in columns}
        fields: list[tuple[str, str]] = []
        values = []
        order = self.classes_by_number(partition)
        for index, (name, sql_type, _) in enumerate(released):
            column = by_name[name]
            if column.upper is not None or column.missing is not None:
                return None
            encoded = _encode_plain(column.values[order], column.attribute.kind, sql_type)
            if encoded is None:
                return None
            values.append(encoded)
            fields += [(f"length{index}", ">i4"), (f"value{index}", encoded.dtype.str)]
        records = np.empty(partition.n_classes, np.dtype(fields))
        for index, encoded in enumerate(values):
            records[f"length{index}"] = encoded.dtype.itemsize
            records[f"value{index}"] = encoded
        ends = np.arange(1, len(records) + 1) * records.dtype.itemsize
        return records.view(np.uint8), ends

    def _fetch_class_bytes(
        self, released: Sequence[tuple[str, str, str]], n_classes: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Read the fields of each class as bytes, by class number, and their end offsets.

        The values equal those that an INSERT from staging would write.
        """
        values = ", ".join(f"({value})::{sql_type}" for _, sql_type, value in released)
        query = (
            f"COPY (SELECT {values} FROM {quote(statements.CLASSES)} AS c ORDER BY c.class)"
            " TO STDOUT (FORMAT binary)"
        )
        fields = bytearray()
        ends: list[NDArray[np.int64]] = []
        for buffer in self.copy_chunks(query, _PIECE):
            split = kernels.split_rows(buffer, [], len(released))
            ends.append(split[2] + len(fields))
            fields += split[1].data
        all_ends = np.concatenate(ends) if ends else np.empty(0, np.int64)
        if len(all_ends) != n_classes:
            raise RecountFailed(
                f"{len(all_ends)} classes came back, and there are {n_classes}; nothing was"
                " published.",
                hint="This is an error in dbanon: please report it.",
            )
        return np.frombuffer(fields, np.uint8), all_ends


def _encode_plain(values: NDArray[Any], kind: Kind, sql_type: str) -> NDArray[Any] | None:
    """Encode values for COPY; None if the type needs a conversion by the server."""
    if sql_type not in _PLAIN or values.dtype != _PLAIN[sql_type][0] or kind not in _KINDS:
        return None
    if kind is Kind.FLOAT:
        return values.astype(_PLAIN[sql_type][1])
    shifted = values - packed_rows.EPOCH_DAYS if kind is Kind.DATE else values
    limits = np.iinfo(np.dtype(_PLAIN[sql_type][1]))
    if len(shifted) and (shifted.min() < limits.min or shifted.max() > limits.max):
        return None
    return shifted.astype(_PLAIN[sql_type][1])


def _rows(
    join: kernels.RowJoin,
    partition: Partition,
    order: NDArray[np.int64],
    places: NDArray[np.int64] | None,
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a COPY of the released rows, while the server consumes earlier ones.

    Classes are in random order, and rows in random order within a class.

    Parameters
    ----------
    order : int64 (n_classes,), the class of each number.
    places : from ``Passthrough.places``.
    """
    yield packed_rows.HEAD
    for numbers, records in shuffled_classes(partition, order):
        tails = records if places is None else places[records]
        for start in range(0, len(records), _PIECE):
            yield join.join(numbers, tails, start, min(start + _PIECE, len(records))).data
    yield packed_rows.END
