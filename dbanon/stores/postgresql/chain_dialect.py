"""What chains need of PostgreSQL: rows in random order, tuned statements, and binary transfers.

Only clients make releases of chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, random_salt
from dbanon.sessions.chain_arrays import ChainArrays, ColumnArray
from dbanon.sessions.chain_dialect import ChainDialect
from dbanon.sessions.chain_staging import ABSENT_MEMBERS, PRESENT_PERSONS, SHUFFLE, TAGGED_PERSONS
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.stores.postgresql import packed_rows
from dbanon.stores.postgresql.client_connection import PsycopgConnection
from dbanon.stores.postgresql.digest import COLUMNS_HASH
from dbanon.stores.postgresql.session import PostgresqlSession

# SQL of a random value for each row. It is from the server's cryptographic random source, which
# setseed does not affect.
_RANDOM_VALUE = "gen_random_uuid()"
# Number of rows per read of a COPY.
_ROWS_PER_READ = 65_536
# Number of random secrets that determine the order of rows in a chain's release.
_N_SECRETS = 4096
# Rows are sorted by a number. This many of its low bits depend on the row; the other bits are a
# hash of the row's values. If a million rows have equal values, two of them get the same number in
# every second release, on average.
_ROW_BITS = 40
# Name of the column with the hash of a row's values.
_VALUE_HASH = "dbanon_shared"

# Parameters: schema and name of a relation, and a column. Returns whether the column's type and
# collation compare values by their bytes, so that different texts are never equal.
_COMPARES_BYTES = """
SELECT a.atttypid <> 'bpchar'::regtype AND coalesce(c.collisdeterministic, true)
FROM pg_attribute AS a JOIN pg_class AS r ON r.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = r.relnamespace
LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE n.nspname = ? AND r.relname = ? AND a.attname = ? AND a.attnum > 0 AND NOT a.attisdropped"""

# Parameters: schema and name of a chain's table of cells (its groups of persons). Returns the
# columns of released values.
_VALUE_COLUMNS = """
SELECT a.attname::text FROM pg_attribute AS a JOIN pg_class AS r ON r.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = r.relnamespace
WHERE n.nspname = ? AND r.relname = ? AND a.attname <> 'cell' AND a.attnum > 0
AND NOT a.attisdropped"""


class PostgresqlChainDialect(ChainDialect):
    """The SQL and the settings with which PostgreSQL makes releases of chains."""

    # The planner does not merge a subquery with OFFSET into the outer query.
    compute_once_clause = " OFFSET 0"

    _connection: PsycopgConnection

    def random_order_key(self, alias: str) -> str:
        # The value differs between rows, whatever their alias.
        return _RANDOM_VALUE

    @contextmanager
    def tune_for_tagging(self) -> Iterator[None]:
        # Encourage parallel workers: the planner ignores the cost of hashing, and overestimates
        # that of passing rows between processes.
        self._connection.run("SET LOCAL parallel_tuple_cost = 0.005")
        yield
        self._connection.run("SET LOCAL parallel_tuple_cost TO DEFAULT")

    @contextmanager
    def tune_for_sorting(self) -> Iterator[None]:
        # Sort and merge instead of hashing, which accesses memory at random: with a million rows
        # this takes half the time.
        settings = {"hashjoin": "off", "hashagg": "off", "mergejoin": "on", "sort": "on"}
        for option, value in settings.items():
            self._connection.run(f"SET LOCAL enable_{option} = {value}")
        # Parallel workers would take 1.5 times as long, because their sorted rows must be merged.
        self._connection.run("SET LOCAL max_parallel_workers_per_gather = 0")
        yield
        self._connection.run("SET LOCAL max_parallel_workers_per_gather TO DEFAULT")
        for option in settings:
            self._connection.run(f"SET LOCAL enable_{option} TO DEFAULT")

    @contextmanager
    def tune_for_lookup(self) -> Iterator[None]:
        # The table was just read into memory. The planner does not know that, and would prefer a
        # full scan to lookups.
        self._connection.run("SET LOCAL random_page_cost = 0.2")
        yield
        self._connection.run("SET LOCAL random_page_cost TO DEFAULT")

    def build_person_queries(
        self, persons: str, columns: Sequence[str], members: str
    ) -> list[tuple[str, str, str]]:
        # Join the persons of the source with the members of the chain only once, in TAGGED_PERSONS,
        # since that takes most of the time. PRESENT_PERSONS and ABSENT_MEMBERS select from this
        # join.
        column_list = "".join(f", t.{name}" for name in columns)
        tagged_persons = quote(TAGGED_PERSONS)
        return [
            (
                "TABLE",
                TAGGED_PERSONS,
                "SELECT t.person, coalesce(t.tag, m.tag) AS tag, t.is_present IS NOT NULL"
                f" AS is_present, m.cell, m.left_at{column_list}"
                f" FROM (SELECT *, true AS is_present FROM ({persons}) AS s) AS t"
                f" FULL JOIN ({members}) AS m ON m.tag = t.tag",
            ),
            ("VIEW", PRESENT_PERSONS, f"SELECT * FROM {tagged_persons} WHERE is_present"),
            (
                "TABLE",
                ABSENT_MEMBERS,
                f"SELECT tag FROM {tagged_persons} WHERE NOT is_present AND left_at IS NULL",
            ),
        ]

    def count_pairs_sql(self, first: str, second: str, second_name: str, rows: str) -> str:
        # Counts the rows for each pair of two integers, such as a cell and a release. ``first`` is
        # a column, so the result has it under its own name; ``second`` is SQL of any integer or
        # NULL. Both numbers are packed into one, which is sorted in half the time of two. The low
        # half is 0 for NULL, and otherwise the second number plus 1.
        pair = f"{first}::bigint << 32 | coalesce({second} + 1::bigint, 0)"
        return (
            f"SELECT (p.pair >> 32)::integer AS {first},"
            f" (nullif(p.pair & 4294967295, 0) - 1)::integer AS {second_name}, p.size"
            f" FROM (SELECT {pair} AS pair, count(*)::integer AS size"
            f" FROM {rows} GROUP BY 1) AS p"
        )

    def shuffled_join_sql(self, rows: str, values: RelationName) -> tuple[str, str]:
        # ``rows`` have a cell each, and ``values`` has the released values of each cell. The order
        # of the joined rows depends on random secrets of 122 bits, hashed with each row. Several
        # cells share a secret: one per row would take as long as the join.
        random_key = self.random_order_key("s")
        secrets = f"SELECT array_agg({random_key}) FROM generate_series(1, {_N_SECRETS}) AS s"
        secret = f"(({secrets}))[1 + r.cell % {_N_SECRETS}]"
        row_part = f"uuid_hash_extended({secret}, hashtidextended(r.ctid, 0))"
        # The leading bits are a hash of the values, so rows with equal values are adjacent. That
        # speeds up the recount, which groups them.
        columns = [
            name for (name,) in self._connection.rows(_VALUE_COLUMNS, (values.schema, values.name))
        ]
        value_hash = f"({self.row_hash(values, columns)}) & {-1 << _ROW_BITS}" if columns else "0"
        hashed_values = (
            f"SELECT s.*, {value_hash} AS {_VALUE_HASH} FROM {values.quoted} AS s OFFSET 0"
        )
        from_clause = f"{rows} AS r JOIN ({hashed_values}) AS v ON v.cell = r.cell"
        sort_key = f"v.{_VALUE_HASH} | ({row_part} & {(1 << _ROW_BITS) - 1})"
        return from_clause, sort_key

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        salt = str(random_salt())
        parameters = (salt, relation.schema, relation.name, list(names))
        [(row_hash,)] = self._connection.rows(COLUMNS_HASH, parameters)
        return str(row_hash)

    def distinguishes_all_texts(self, source: Relation, attribute: Attribute) -> bool:
        parameters = (source.name.schema, source.name.name, attribute.name)
        return bool(self._connection.rows(_COMPARES_BYTES, parameters)[0][0])

    def read_keys_in_order(
        self, source: Relation, joins: str, integer: str, sort_key: str
    ) -> NDArray[np.int64]:
        # ``integer`` is SQL of a number that is read with each key. Binary values are read in a
        # third of the time that texts take.
        key_types = (*source.required_locator.types, "bigint")
        from_clause = f"{source.from_clause} {joins}{source.where_clause} ORDER BY {sort_key}"
        keys = (*source.required_locator.expressions, integer)
        query = packed_rows.build_copy_query(keys, key_types, [], [], from_clause)
        chunks = [np.empty((0, len(key_types)), np.int64)]
        for buffer in self._connection.copy_chunks(query, _ROWS_PER_READ):
            chunk, _, _ = packed_rows.unpack_copy_rows(buffer, key_types, [], n_passthrough=0)
            chunks.append(chunk.keys)
        return np.concatenate(chunks)


class PostgresqlChainArrays(ChainArrays):
    """The arrays that a chain exchanges with PostgreSQL through COPY.

    Runs of a chain join persons on the client. It is several times as fast to transfer their tags,
    which are keyed hashes, both ways as to join them on the server. COPY takes less than half the
    time of INSERT.

    Parameters
    ----------
    connection : copies columns to the server and back.
    release_arrays : the session, which writes the rows of new cells from arrays.
    """

    no_person_tag = "decode('00000000000000000000000000000000', 'hex')"

    def __init__(self, connection: PsycopgConnection, release_arrays: PostgresqlSession) -> None:
        self._connection, self._release_arrays = connection, release_arrays

    def fetch(self, columns: Sequence[tuple[str, str]], rows: str) -> list[ColumnArray]:
        sql_types = [sql_type for _, sql_type in columns]
        # The casts ensure that values have the declared number of bytes.
        values = ", ".join(f"({sql})::{sql_type}" for sql, sql_type in columns)
        # Empty arrays give the results their types, even if there are no rows.
        empty_arrays = packed_rows.decode_copy(np.empty(0, np.uint8), sql_types)
        column_chunks: list[list[ColumnArray]] = [[empty_array] for empty_array in empty_arrays]
        query = f"COPY (SELECT {values} FROM {rows}) TO STDOUT (FORMAT binary)"
        for buffer in self._connection.copy_chunks(query, _ROWS_PER_READ):
            decoded_columns = packed_rows.decode_copy(buffer, sql_types)
            for chunks, column_chunk in zip(column_chunks, decoded_columns, strict=True):
                chunks.append(column_chunk)
        return [np.concatenate(chunks) for chunks in column_chunks]

    def load(self, table: str, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        column_types = [(name, sql_type) for name, sql_type, _ in columns]
        self._connection.run(
            statements.create_staging(table, column_types, self._connection.dialect.staging_suffix)
        )
        self.append(RelationName(None, table), columns)
        self._connection.run(f"ANALYZE {quote(table)}")

    def append(self, table: RelationName, columns: Sequence[tuple[str, str, ColumnArray]]) -> None:
        names = quote_list(name for name, _, _ in columns)
        copy = f"COPY {table.quoted} ({names}) FROM STDIN (FORMAT binary)"
        self._connection.copy_bytes(copy, packed_rows.encode_copy(columns))

    def hash_with_secret(self, row_hash: str) -> str:
        # The server generates the secret, and it never leaves the server.
        self._connection.run(
            f"CREATE TEMPORARY TABLE {quote(SHUFFLE)} ON COMMIT DROP"
            f" AS SELECT {_RANDOM_VALUE} AS secret"
        )
        return f"uuid_hash_extended((SELECT secret FROM {quote(SHUFFLE)}), {row_hash})"

    def load_cells(self, source: Relation, microdata: Microdata, partition: Partition) -> bool:
        # No columns: a chain keeps the released values in its table of cells.
        return self._release_arrays.load_class_arrays(source, microdata, partition, [])

    def insert_cells(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation,
        source_columns: Sequence[str],
    ) -> bool:
        return self._release_arrays.insert_from_arrays(table, values, source, source_columns)
