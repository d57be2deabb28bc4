"""Read the copied source on MariaDB, stage labels and classes, and join them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute
from dbanon.errors import DatabaseFailure, EngineUnsuitable
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, prepend_class_and_position
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.storable_rows import storable_rows
from dbanon.stores.mariadb import dialect as types
from dbanon.stores.mariadb.catalog import MariadbCatalog
from dbanon.stores.mariadb.errors import translate_errors

ROW, _CLASS = "dbanon_row", "dbanon_class"
SUFFIX = f" ENGINE=Aria TRANSACTIONAL=0 {types.TEXT}"
# Rows per batch, and characters per INSERT, each of at most four bytes.
_ROWS, _CHARACTERS = 20_000, 500_000
_PLACES = "dbanon_places"
# The key that encrypts labels. The server draws it and the client reads it, so no log contains it.
_SECRET = "dbanon_secret"
# A new key is drawn each time labels are staged.
_DRAW_SECRET = (
    f"CREATE OR REPLACE TEMPORARY TABLE {_SECRET} {SUFFIX} AS SELECT random_bytes(16) AS secret"
)
_LABELS = ", ".join(
    f"CONV(hex(substr(packet, 16 * place + {start}, {width})), 16, -10)"
    for start, width in ((1, 8), (9, 4), (13, 4))
)
# Bytes per read; every server allows packets of this size.
_PACKET = 800_000
# Parts of a table, each as a list of columns.
_Columns = Iterable[Sequence[Sequence[Any]]]


class MariadbStaging(MariadbCatalog):
    """The part of a session that uses temporary tables."""

    # Rows in the table of numbers that index the rows of a packet.
    _n_places = 0
    # Makes the variable names of each read unique.
    _n_readings = 0

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        [key] = source.required_locator.expressions
        rows = max(min(chunk_rows, _PACKET // types.bytes_per_packed_row(attributes)), 1)
        border = f"SELECT max(place) FROM (SELECT {key} AS place FROM {source.from_clause}"
        # Hash joins suit the lookup of texts here, but would slow down the joins that write.
        query = (
            "SET STATEMENT join_cache_level = 4 FOR"
            f" SELECT group_concat({types.pack_row(key, attributes)} SEPARATOR '')"
            f" FROM {source.from_clause}{self.value_joins(attributes)} WHERE "
        )
        self.report_sql(f"{query}TRUE{source.and_condition}")
        # Bounds are server variables, since no statement may show keys of persons.
        self._n_readings += 1
        last, before = (f"@dbanon_{word}_{self._n_readings}" for word in ("last", "before"))
        begin = "TRUE"
        # Fetching single rows would take the driver ten times as long.
        with closing(self.connection.cursor()) as cursor:
            while True:
                last_place = f"{border} WHERE {begin} ORDER BY {key} LIMIT {rows}) AS piece"
                self._execute(cursor, f"SET {last} = ({last_place})")
                if self._single_value(cursor, f"SELECT {last} IS NULL"):
                    return
                piece = f"{begin} AND {key} <= {last}{source.and_condition}"
                packets = self._single_value(cursor, query + piece)
                self._execute(cursor, f"SET {before} = {last}")
                begin = f"{key} > {before}"
                if packets is not None:
                    yield types.chunk(packets, attributes)

    def _single_value(self, cursor: Any, sql: str) -> Any:
        """Return the only value of a query without logging it; raises if it was truncated."""
        self._execute(cursor, sql)
        [(value,)] = cursor.fetchall()
        if cursor.warning_count:
            raise DatabaseFailure("The server truncated an answer.")
        return value

    def _execute(self, cursor: Any, sql: str) -> None:
        """Run a statement without logging it."""
        with translate_errors():
            cursor.execute(types.to_mariadb(sql, bound=False))

    def _load(self, table: str, columns: Sequence[tuple[str, str]], rows: _Columns) -> None:
        """Stage columns in batches, since binding values takes the driver ten times as long."""
        self.run(statements.create_staging(table, columns, SUFFIX))
        insert = f"INSERT INTO {quote(table)} VALUES "
        self.report_sql(f"{insert}…")
        with translate_errors(), closing(self.connection.cursor()) as cursor:
            for part in rows:
                written = [types.literals(column, self.connection.escape) for column in part]
                row = "({})".format(",".join(mark for mark, _ in written)).__mod__
                row_texts, length = [], 0
                for row_text in map(row, zip(*(values for _, values in written), strict=True)):
                    row_texts.append(row_text)
                    length += len(row_text)
                    if length > _CHARACTERS:
                        cursor.execute(insert + ",".join(row_texts))
                        row_texts, length = [], 0
                if row_texts:
                    cursor.execute(insert + ",".join(row_texts))

    def _stage_places(self) -> None:
        """Stage the numbers that index the rows of a packet.

        Raises
        ------
        DatabaseFailure : the server stores doubles in an unknown format.
        """
        if not self._n_places:
            self._load(_PLACES, [("place", "INT")], [[list(range(_ROWS))]])
            self._n_places = _ROWS
            if self.rows(types.POINT_PROBE) != [(1,)]:
                raise DatabaseFailure(types.UNKNOWN_POINTS)

    def _load_numbers(
        self, table: str, columns: Sequence[tuple[str, str]], arrays: Sequence[NDArray[Any]]
    ) -> None:
        """Stage columns of int64 and float64 as bytes, which avoids formatting and parsing text."""
        self._stage_places()
        self.run(statements.create_staging(table, columns, SUFFIX))
        values = ", ".join(
            types.unpack_value(i, a.dtype, len(arrays)) for i, a in enumerate(arrays)
        )
        insert = f"INSERT INTO {quote(table)} SELECT {values} FROM {_PLACES}, (SELECT x'"
        self.report_sql(f"{insert}…")
        packets = types.pack_arrays(arrays)
        rows = max(min(self._n_places, 2 * _CHARACTERS // packets.shape[1]), 1)
        with translate_errors(), closing(self.connection.cursor()) as cursor:
            for start in range(0, len(packets), rows):
                part = packets[start : start + rows]
                some = f"' AS packet) AS p WHERE place < {len(part)}"
                cursor.execute(f"{insert}{part.tobytes().hex()}{some}")

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        """Stage the class of each row, encrypted.

        Statements appear in the server's general log and process list, where readers must not learn
        which row is in which class.

        Raises
        ------
        EngineUnsuitable : the binary log replays statements, so a replica would draw another key.
        """
        if self.rows("SELECT @@log_bin AND @@sql_log_bin AND @@binlog_format = 'STATEMENT'") == [
            (1,)
        ]:
            raise EngineUnsuitable(
                "The server's binary log has the format STATEMENT: it would show which row is in"
                " which class, and replicas would not get the same release.",
                hint="Let an administrator run: SET GLOBAL binlog_format = 'MIXED'",
            )
        # No index: the join looks up rows of the copy by key, in key order.
        columns = [("key0", "BIGINT NOT NULL"), ("class", "INT"), ("position", "INT")]
        self.run(statements.create_staging(statements.LABELS, columns, SUFFIX))
        self._stage_places()
        self.run(_DRAW_SECRET)
        insert = f"INSERT INTO {quote(statements.LABELS)} SELECT {_LABELS} FROM {_PLACES}, (SELECT"
        self.report_sql(f"{insert} …")
        order = np.argsort(keys[:, 0])
        rows = np.empty(len(order), np.dtype([("key", ">i8"), ("class", ">i4"), ("place", ">i4")]))
        rows["key"], rows["class"], rows["place"] = keys[order, 0], classes[order], positions[order]
        with closing(self.connection.cursor()) as cursor:
            key = self._single_value(cursor, f"SELECT secret FROM {_SECRET}")
            for start in range(0, len(rows), _ROWS):
                part = rows[start : start + _ROWS]
                # A row is one block, and keys make all blocks distinct: no chaining is needed.
                packet = _encrypted(part.tobytes(), key)
                # LIMIT makes the server decrypt once instead of for each row.
                decrypted = f"AES_DECRYPT(x'{packet}', secret) AS packet FROM {_SECRET} LIMIT 1"
                self._execute(cursor, f"{insert} {decrypted}) AS p WHERE place < {len(part)}")

    def insert_encrypted(self, relation: RelationName, key: str, text: str) -> None:
        """Insert a key and a text that must not appear in any log."""
        self.run(_DRAW_SECRET)
        insert = f"INSERT INTO {relation.quoted} SELECT '{uuid.UUID(key)}', CONVERT(AES_DECRYPT(x'"
        self.report_sql(f"{insert}…")
        with closing(self.connection.cursor()) as cursor:
            secret = self._single_value(cursor, f"SELECT secret FROM {_SECRET}")
            packet = _encrypted(text.encode(), secret)
            self._execute(cursor, f"{insert}{packet}', secret) USING utf8mb4) FROM {_SECRET}")

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        named = [("class", "INT PRIMARY KEY")]
        lists: list[Any] = [np.arange(n_classes, dtype=np.int64)]
        for position, column in enumerate(columns):
            kind, values = types.staged_values(column)
            named.append((statements.value_column(position), kind))
            lists.append(values)
        if all(isinstance(values, np.ndarray) for values in lists):
            self._load_numbers(statements.CLASSES, named, lists)
        else:
            self._load(statements.CLASSES, named, [[list(values) for values in lists]])

    def load_rows(self, attributes: Sequence[Attribute], pieces: Iterable[tuple[Any, ...]]) -> None:
        columns = [("class", "INT"), ("position", "INT")]
        for index, attribute in enumerate(attributes):
            columns.append(
                (statements.kept_column(index), self.declared_type(self.type_of(attribute)))
            )
        rows = storable_rows(attributes, prepend_class_and_position(pieces), types.storable)
        # Sorted in the order of the release, so that the general log reveals no origin of a row.
        sorted_rows = iter(lambda: sorted(islice(rows, _ROWS), key=itemgetter(0, 1)), [])
        parts = (list(zip(*part, strict=True)) for part in sorted_rows)
        self._load(statements.ROWS, columns, parts)

    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        reads: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        if source is None:
            super().insert(table, values, source, reads, joins)
            return
        # Join in key order, then sort: in output order every lookup in the copy would be random.
        # LIMIT separates the two steps.
        [key] = source.required_locator.expressions
        read_columns = "".join(f", s.{quote(name)}" for name in reads)
        # Names for the columns of labels that no other column has.
        label, position = (unused(name, reads) for name in (_CLASS, ROW))
        self.run(
            f"INSERT INTO {table.quoted} ({quote_list(list(values))})"
            f" SELECT STRAIGHT_JOIN {', '.join(values.values())} FROM"
            f" (SELECT STRAIGHT_JOIN l.class AS {label}, l.position AS {position}{read_columns}"
            f" FROM {quote(statements.LABELS)} AS l JOIN {source.from_clause}"
            f" ON {key} = l.key0 LIMIT {2**63 - 1}) AS s"
            f" JOIN {quote(statements.CLASSES)} AS c ON c.class = s.{label}{joins}"
            f" ORDER BY s.{label}, s.{position}"
        )


def unused(name: str, others: Sequence[str]) -> str:
    """Append underscores to a name until no other name equals it, ignoring case."""
    lower_names = {other.lower() for other in others}
    while name in lower_names:
        name += "_"
    return name


def _encrypted(plain: bytes, key: bytes) -> str:
    """Encrypt bytes for the server's AES_DECRYPT, as hexadecimal digits; the key is used once."""
    padder, encryptor = PKCS7(128).padder(), Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    padded = padder.update(plain) + padder.finalize()
    return (encryptor.update(padded) + encryptor.finalize()).hex()
