"""Read the source on MariaDB, stage labels and classes, and join them.

The session copies the source to a temporary table first, so that all statements read the same rows
(``MariadbSession.pin``). A column of the copy identifies its rows: by the source's key if that is
an integer, or else by numbers.

Rows are sent to the server in packets: the bytes of many rows as one value. The server unpacks a
packet by a join with a table of row indexes. Public methods without a docstring override documented
ones of ``sessions.session.Session``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute
from dbanon.errors import DatabaseFailure, EngineUnsuitable
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.extensions.mariadb.connection import MariadbConnection
from dbanon.extensions.mariadb.errors import translate_errors
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, ReleasedBatch, prepend_class_and_position
from dbanon.sessions.names import RelationName, quote, quote_list, unused_name
from dbanon.sessions.session import Session
from dbanon.sessions.storable_rows import storable_rows

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

# The name of the column with the number of each row's class, in the join that writes a release. The
# column ``mariadb_dialect.ROW_NUMBER`` of the join has the position of each row.
_CLASS = "dbanon_class"
# Rows per batch.
_BATCH_ROWS = 20_000
# An INSERT is sent once it has this many characters, which take at most four bytes each.
_STATEMENT_CHARACTERS = 500_000
# Staging table of the numbers from 0, the indexes of the rows of a packet.
_ROW_INDEXES = "dbanon_row_indexes"
# Staging table of the key that encrypts labels and other values that logs must not contain. The
# server generates the key and the client reads it, so no log contains the key.
_ENCRYPTION_KEY = "dbanon_secret"
# A new random key is generated each time values are sent.
_CREATE_ENCRYPTION_KEY = (
    f"CREATE OR REPLACE TEMPORARY TABLE {_ENCRYPTION_KEY} {mariadb_dialect.STAGING_OPTIONS} AS"
    " SELECT random_bytes(16) AS secret"
)
# SQL that reads three numbers from the 16 bytes of a row in a decrypted packet: the row key, the
# class, and the random position that orders the released rows of a class.
_UNPACKED_LABELS = ", ".join(
    f"CONV(hex(substr(packet, 16 * row_index + {start}, {n_bytes})), 16, -10)"
    for start, n_bytes in ((1, 8), (9, 4), (13, 4))
)
# The largest number of bytes to read at a time. Any server accepts this, whatever its
# max_allowed_packet.
_PACKET_BYTES = 800_000
# Batches of rows; each batch is a list of columns, and each column a list of values.
_ColumnBatches = Iterable[Sequence[Sequence[object]]]


class MariadbStaging(Session):
    """Session methods that use temporary tables."""

    connection: MariadbConnection

    # Rows in the staging table of row indexes; 0 until it is created.
    _n_row_indexes = 0
    # Number of reads so far, which makes the names of the variables of each read unique.
    _n_reads = 0

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        [key] = source.required_locator.expressions
        n_packet_rows = _PACKET_BYTES // mariadb_dialect.bytes_per_packed_row(attributes)
        n_chunk_rows = max(min(chunk_rows, n_packet_rows), 1)
        # The query for the last key of a chunk; a clause and a parenthesis complete it below.
        select_last = f"SELECT max(k) FROM (SELECT {key} AS k FROM {source.from_clause}"
        # Hash joins look up texts faster here. They would slow down the joins that write a release,
        # so the setting applies to this statement only.
        query = (
            "SET STATEMENT join_cache_level = 4 FOR"
            f" SELECT group_concat({mariadb_dialect.pack_row(key, attributes)} SEPARATOR '')"
            f" FROM {source.from_clause}{self.dialect.value_joins(attributes)} WHERE "
        )
        self.connection.report(f"{query}TRUE{source.and_not_null_condition}")
        # The first and last key of a chunk stay on the server, in variables: keys may identify
        # persons, so statements, which appear in logs, must not contain them.
        self._n_reads += 1
        # Names of the variables with the last key of this chunk and of the previous one.
        last, previous = (f"@dbanon_{word}_{self._n_reads}" for word in ("last", "previous"))
        condition = "TRUE"
        # Fetch the rows of a chunk as a single packed value; row by row would take ten times as
        # long.
        with closing(self.connection.driver.cursor()) as cursor:
            while True:
                chunk_clause = f"WHERE {condition} ORDER BY {key} LIMIT {n_chunk_rows}"
                self._execute(cursor, f"SET {last} = ({select_last} {chunk_clause}) AS chunk)")
                if self._fetch_value(cursor, f"SELECT {last} IS NULL"):
                    return
                where = f"{condition} AND {key} <= {last}{source.and_not_null_condition}"
                packet = self._fetch_value(cursor, query + where)
                self._execute(cursor, f"SET {previous} = {last}")
                condition = f"{key} > {previous}"
                if packet is not None:
                    yield mariadb_dialect.unpack_rows(packet, attributes)

    def _fetch_value(self, cursor: Cursor, sql: str) -> Any:
        """Return the single value of a query, without reporting the SQL.

        Raises
        ------
        DatabaseFailure : the server truncated the value.
        """
        self._execute(cursor, sql)
        [(value,)] = cursor.fetchall()
        if cursor.warning_count:
            raise DatabaseFailure("The server truncated a result.")
        return value

    def _execute(self, cursor: Cursor, sql: str) -> None:
        """Run a statement without reporting it: it may contain values or keys."""
        with translate_errors():
            cursor.execute(mariadb_dialect.to_mariadb(sql, has_parameters=False))

    def _load(
        self, table: str, columns: Sequence[tuple[str, str]], batches: _ColumnBatches
    ) -> None:
        """Create and fill a staging table; literals are ten times as fast as bind parameters.

        Parameters
        ----------
        columns : pairs of name and SQL type.
        batches : batches of rows, each as a list of values for each column.
        """
        self.run(statements.create_staging(table, columns, mariadb_dialect.STAGING_OPTIONS))
        insert = f"INSERT INTO {quote(table)} VALUES "
        self.connection.report(f"{insert}…")
        with translate_errors(), closing(self.connection.driver.cursor()) as cursor:
            for batch in batches:
                literals = [
                    mariadb_dialect.literals(column, self.connection.driver.escape)
                    for column in batch
                ]
                row_format = "({})".format(",".join(value_format for value_format, _ in literals))
                row_texts, n_characters = [], 0
                for row in zip(*(values for _, values in literals), strict=True):
                    row_text = row_format % row
                    row_texts.append(row_text)
                    n_characters += len(row_text)
                    if n_characters > _STATEMENT_CHARACTERS:
                        cursor.execute(insert + ",".join(row_texts))
                        row_texts, n_characters = [], 0
                if row_texts:
                    cursor.execute(insert + ",".join(row_texts))

    def _stage_row_indexes(self) -> None:
        """Create the staging table of row indexes, and check how the server stores doubles.

        Raises
        ------
        DatabaseFailure : the server stores doubles in a format that dbanon does not know.
        """
        if not self._n_row_indexes:
            self._load(_ROW_INDEXES, [("row_index", "INT")], [[list(range(_BATCH_ROWS))]])
            self._n_row_indexes = _BATCH_ROWS
            if self.rows(mariadb_dialect.DOUBLE_FORMAT_PROBE) != [(1,)]:
                raise DatabaseFailure(mariadb_dialect.UNKNOWN_DOUBLE_FORMAT)

    def _load_numbers(
        self, table: str, columns: Sequence[tuple[str, str]], arrays: Sequence[AnyArray]
    ) -> None:
        """Create a staging table and fill it with numbers, sent as bytes instead of text.

        Parameters
        ----------
        columns : pairs of name and SQL type.
        arrays : for each column int64 or float64 (n,), its values.
        """
        self._stage_row_indexes()
        self.run(statements.create_staging(table, columns, mariadb_dialect.STAGING_OPTIONS))
        values = ", ".join(
            mariadb_dialect.unpack_value(i, array.dtype, len(arrays))
            for i, array in enumerate(arrays)
        )
        insert = f"INSERT INTO {quote(table)} SELECT {values} FROM {_ROW_INDEXES}, (SELECT x'"
        self.connection.report(f"{insert}…")
        packed = mariadb_dialect.pack_arrays(arrays)
        # A packed byte takes two characters of one byte each. So a statement has at most as many
        # bytes as one of ``_STATEMENT_CHARACTERS`` with four bytes each.
        n_packet_rows = max(
            min(self._n_row_indexes, 2 * _STATEMENT_CHARACTERS // packed.shape[1]), 1
        )
        with translate_errors(), closing(self.connection.driver.cursor()) as cursor:
            for start in range(0, len(packed), n_packet_rows):
                packet = packed[start : start + n_packet_rows]
                where = f"' AS packet) AS p WHERE row_index < {len(packet)}"
                cursor.execute(f"{insert}{packet.tobytes().hex()}{where}")

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        """Stage the class of each row.

        The values are sent encrypted: statements appear in the server's general log and process
        list, whose readers must not learn which row is in which class.

        Raises
        ------
        EngineUnsuitable : the binary log records statements, which a replica would run with another
            random key.
        """
        [(logs_statements,)] = self.rows(
            "SELECT @@log_bin AND @@sql_log_bin AND @@binlog_format = 'STATEMENT'"
        )
        if logs_statements == 1:
            raise EngineUnsuitable(
                "The server's binary log has the format STATEMENT: it would show which row is in"
                " which class, and replicas would not get the same release.",
                hint="Let an administrator run: SET GLOBAL binlog_format = 'MIXED'",
            )
        # ``types`` has no effect, since keys are always BIGINT here. The labels need no index: the
        # join scans them, and looks up rows of the copy by its primary key.
        columns = [("key0", "BIGINT NOT NULL"), ("class", "INT"), ("position", "INT")]
        self.run(
            statements.create_staging(statements.LABELS, columns, mariadb_dialect.STAGING_OPTIONS)
        )
        self._stage_row_indexes()
        self.run(_CREATE_ENCRYPTION_KEY)
        insert = (
            f"INSERT INTO {quote(statements.LABELS)}"
            f" SELECT {_UNPACKED_LABELS} FROM {_ROW_INDEXES}, (SELECT"
        )
        self.connection.report(f"{insert} …")
        order = np.argsort(keys[:, 0])
        labels = np.empty(
            len(order), np.dtype([("key", ">i8"), ("class", ">i4"), ("position", ">i4")])
        )
        labels["key"], labels["class"] = keys[order, 0], classes[order]
        labels["position"] = positions[order]
        with closing(self.connection.driver.cursor()) as cursor:
            secret = self._fetch_value(cursor, f"SELECT secret FROM {_ENCRYPTION_KEY}")
            for start in range(0, len(labels), _BATCH_ROWS):
                batch = labels[start : start + _BATCH_ROWS]
                # Each row is one cipher block, and no two blocks are equal, since row keys are
                # unique. So ECB mode reveals nothing.
                packet = _encrypt(batch.tobytes(), secret)
                # LIMIT makes the server decrypt the packet once instead of once per row.
                decrypted = (
                    f"AES_DECRYPT(x'{packet}', secret) AS packet FROM {_ENCRYPTION_KEY} LIMIT 1"
                )
                self._execute(cursor, f"{insert} {decrypted}) AS p WHERE row_index < {len(batch)}")

    def insert_encrypted(self, relation: RelationName, key: str, text: str) -> None:
        """Insert a key (a UUID) and a text; the text is sent encrypted, so it appears in no log."""
        self.run(_CREATE_ENCRYPTION_KEY)
        insert = f"INSERT INTO {relation.quoted} SELECT '{uuid.UUID(key)}', CONVERT(AES_DECRYPT(x'"
        self.connection.report(f"{insert}…")
        with closing(self.connection.driver.cursor()) as cursor:
            secret = self._fetch_value(cursor, f"SELECT secret FROM {_ENCRYPTION_KEY}")
            packet = _encrypt(text.encode(), secret)
            self._execute(
                cursor, f"{insert}{packet}', secret) USING utf8mb4) FROM {_ENCRYPTION_KEY}"
            )

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        column_types = [("class", "INT PRIMARY KEY")]
        column_values: list[Sequence[object] | AnyArray] = [np.arange(n_classes, dtype=np.int64)]
        for position, column in enumerate(columns):
            sql_type, values = mariadb_dialect.staged_values(column)
            column_types.append((statements.value_column(position), sql_type))
            column_values.append(values)
        arrays = [values for values in column_values if isinstance(values, np.ndarray)]
        if len(arrays) == len(column_values):
            self._load_numbers(statements.CLASSES, column_types, arrays)
        else:
            batch = [list(values) for values in column_values]
            self._load(statements.CLASSES, column_types, [batch])

    def load_rows(self, attributes: Sequence[Attribute], batches: Iterable[ReleasedBatch]) -> None:
        columns = [("class", "INT"), ("position", "INT")]
        for index, attribute in enumerate(attributes):
            columns.append(
                (
                    statements.retained_column_name(index),
                    self.dialect.declared_type(self.dialect.type_of(attribute)),
                )
            )
        rows = storable_rows(
            attributes, prepend_class_and_position(batches), mariadb_dialect.to_storable
        )
        # Sort rows by class and position, as in the release: the order of INSERT statements in the
        # general log must not reveal which source row became which released row.
        by_class_and_position = itemgetter(0, 1)
        # ``iter`` calls the function until it returns an empty batch.
        sorted_batches = iter(
            lambda: sorted(islice(rows, _BATCH_ROWS), key=by_class_and_position), []
        )
        column_batches = (list(zip(*batch, strict=True)) for batch in sorted_batches)
        self._load(statements.ROWS, columns, column_batches)

    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        source_columns: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        if source is None:
            super().insert(table, values, source, source_columns, joins)
            return
        # First join in key order, then sort by output position: a join in output order would read
        # the rows of the copy in random order. LIMIT keeps the server from merging the two steps,
        # and STRAIGHT_JOIN from reading the tables in another order.
        [key] = source.required_locator.expressions
        read_columns = "".join(f", s.{quote(name)}" for name in source_columns)
        class_column, position_column = (
            unused_name(name, source_columns) for name in (_CLASS, mariadb_dialect.ROW_NUMBER)
        )
        # Expressions of shifted dates read the position of a row.
        expressions = [
            value.replace(statements.ROW_POSITION, f"s.{position_column}")
            for value in values.values()
        ]
        self.run(
            f"INSERT INTO {table.quoted} ({quote_list(list(values))})"
            f" SELECT STRAIGHT_JOIN {', '.join(expressions)} FROM"
            f" (SELECT STRAIGHT_JOIN l.class AS {class_column}, l.position AS {position_column}"
            f"{read_columns}"
            f" FROM {quote(statements.LABELS)} AS l JOIN {source.from_clause}"
            f" ON {key} = l.key0 LIMIT {2**63 - 1}) AS s"
            f" JOIN {quote(statements.CLASSES)} AS c ON c.class = s.{class_column}{joins}"
            f" ORDER BY s.{class_column}, s.{position_column}"
        )


def _encrypt(content: bytes, key: bytes) -> str:
    """Encrypt bytes for the server's AES_DECRYPT, and return them as hexadecimal digits."""
    padder, encryptor = PKCS7(128).padder(), Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    padded = padder.update(content) + padder.finalize()
    return (encryptor.update(padded) + encryptor.finalize()).hex()
