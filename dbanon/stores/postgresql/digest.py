"""Hash rows on PostgreSQL: for digests, and for the random order of rows in a chain's releases.

The SQL of a row's hash is built from the catalog.

To hash a row, its values are hashed one after the other, each with the previous hash as its seed.
(PostgreSQL's hash of a record cannot be used: it adds the hashes of columns, so swapping values
between rows would not change the sum over rows.) A NULL is hashed as a default value and marked in
a mask.

Different values have different hash inputs, and hashing runs no code of a type's owner. Text is
hashed by its bytes, whatever its collation; numbers with their scale, timestamps and similar types
in binary form; enums, composites, arrays, json and all other types as the text of their output
function, never of a cast. Domains are hashed as their base type. Floats are hashed by value; the
hash of 0 is the seed itself, so the mask distinguishes 0, -0 and NULL.

The module also has the methods of sessions for chains and for differential privacy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation, random_salt
from dbanon.sessions.digests import Digests
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import (
    ABSENT_MEMBERS,
    INNER_BLOCK,
    OUTER_BLOCK,
    PRESENT_PERSONS,
    SHUFFLE,
    TAGGED_PERSONS,
    PseudonymSession,
    staged_block,
)
from dbanon.stores.postgresql.connection import PostgresqlConnection

# Name of this method to hash rows, which is recorded with each digest.
DIGEST_METHOD = "pg1"
_FIXED_LENGTH_TYPE = re.compile(r"(character|char|bpchar)\b(?! varying)", re.I)

# Parameters: salt, schema and name of a relation. Builds the SQL of a row's hash; the relation has
# the alias s. A mask has two bits for each of 15 columns: 1 for NULL, and for floats 2 for -0 and 3
# for 0. Up to 210 columns, a *part*, are hashed by nested calls, since the server's parser limits
# nesting. The subquery ``chains`` has the nested calls of each part. ``x`` is the SQL of a column;
# ``before`` and ``after`` enclose the seed in the call that hashes the column.
_ROW_HASH = """
WITH RECURSIVE target AS (
    SELECT c.oid, n.nspname, c.relname, ?::text AS salt
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ? AND c.relname = ?
), column_types AS (
    SELECT a.attnum, format('s.%I', a.attname) AS x, t.oid, t.typtype, t.typbasetype
    FROM target g
    JOIN pg_attribute a ON a.attrelid = g.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    UNION ALL
    SELECT d.attnum, d.x, t.oid, t.typtype, t.typbasetype
    FROM column_types d JOIN pg_type t ON t.oid = d.typbasetype
    WHERE d.typtype = 'd'
), base_columns AS (
    SELECT d.x, row_number() OVER (ORDER BY d.attnum) - 1 AS column_position,
           CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b'
                THEN t.typname::text ELSE '' END AS base, t.typsend::regproc::text AS send_function
    FROM column_types d JOIN pg_type t ON t.oid = d.oid
    WHERE d.typtype <> 'd'
), column_hashes AS (
    SELECT column_position, column_position / 210 AS part, x, base,
        (4 ^ (column_position % 15))::integer AS bit,
        CASE
            WHEN base IN ('bool', 'int2', 'int4')
            THEN format('hashint4extended(coalesce(%s::integer, 0), ', x)
            WHEN base = 'int8' THEN format('hashint8extended(coalesce(%1$s, 0),'
                ' hashint4extended((coalesce(%1$s, 0) >> 32)::integer, ', x)
            WHEN base IN ('float4', 'float8')
            THEN format('hashfloat8extended(coalesce(%s::float8, 0), ', x)
            WHEN base IN ('text', 'varchar', 'name')
            THEN format('hashtextextended(coalesce(%s::text, '''') COLLATE "C", ', x)
            WHEN base = 'bpchar'
            THEN format('hashtextextended(coalesce(textin(bpcharout(%s)), '''') COLLATE "C", ', x)
            WHEN base = 'uuid' THEN format('uuid_hash_extended(coalesce(%s, %L::uuid), ', x,
                '00000000-0000-0000-0000-000000000000')
            WHEN base = 'bytea'
            THEN format('hash_record_extended(ROW(coalesce(%s, ''''::bytea)), ', x)
            WHEN base IN ('numeric', 'money', 'date', 'time', 'timetz', 'timestamp', 'timestamptz',
                          'interval', 'inet', 'cidr', 'macaddr', 'macaddr8', 'bit', 'varbit')
            THEN format('hash_record_extended(ROW(coalesce(%s(%s), ''''::bytea)), ',
                        send_function, x)
            ELSE format('hashtextextended(format(''%%s'', %s) COLLATE "C", ', x)
        END AS before,
        CASE WHEN base = 'int8' THEN '))' ELSE ')' END AS after
    FROM base_columns
), null_masks AS (
    SELECT column_position / 15 AS mask, min(part) AS part, string_agg(
        CASE WHEN base IN ('float4', 'float8')
            THEN format('CASE WHEN %1$s = 0 THEN CASE WHEN get_byte(float8send(%1$s), 0) > 127'
                ' THEN %3$s ELSE %4$s END WHEN %1$s IS NULL THEN %2$s ELSE 0 END',
                x, bit, 2 * bit::bigint, 3 * bit::bigint)
            WHEN base <> '' THEN format('CASE WHEN %s IS NULL THEN %s ELSE 0 END', x, bit)
            -- Not IS NULL, which for a composite would test its fields.
            ELSE format('num_nulls(%s) * %s', x, bit)
        END, ' + ' ORDER BY column_position) AS sum
    FROM column_hashes GROUP BY 1
), chains AS (
    SELECT l.part,
        string_agg(l.before, '' ORDER BY l.column_position DESC)
        || (SELECT string_agg(format('hashint4extended(%s, ', m.sum), '' ORDER BY m.mask)
                   || (SELECT format('%L::bigint', salt) FROM target)
                   || string_agg(')', '') FROM null_masks m WHERE m.part = l.part)
        || string_agg(l.after, '' ORDER BY l.column_position) AS hash
    FROM column_hashes l GROUP BY l.part
), row_hash AS (
    SELECT CASE WHEN count(*) = 1 THEN min(hash)
        ELSE format('hashint4extended(1, hash_record_extended(ROW(%s), 1))',
                    string_agg(format('int8send(%s)', hash), ', ' ORDER BY part)) END AS hash
    FROM chains
)
"""
# Parameters: salt, schema and name of a relation. Returns the statement that computes the number of
# rows and the sum of their hashes.
DIGEST_STATEMENT_QUERY = (
    _ROW_HASH
    + """SELECT format('SELECT count(*) AS rows, coalesce(sum(%s), 0) AS total FROM %I.%I AS s',
              hash, nspname, relname)
FROM row_hash, target"""
)
# Parameters: salt, schema and name of a relation, and column names. Returns the SQL of the hash of
# these columns.
COLUMNS_HASH = (
    _ROW_HASH.replace("NOT a.attisdropped", "NOT a.attisdropped AND a.attname = ANY (?::text[])")
    + "SELECT hash FROM row_hash"
)

# Parameters: schema and name of a relation. Returns names and types of its columns in order.
COLUMNS = """
SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod)
       || CASE WHEN a.attcollation <> t.typcollation
               THEN format(' COLLATE %I.%I', ln.nspname, l.collname) ELSE '' END AS sql_type
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_namespace ln ON ln.oid = l.collnamespace
WHERE n.nspname = ? AND c.relname = ?
ORDER BY a.attnum"""

# Two of these queries for ``look_up``: the casts make names parameters instead of literals, so that
# one cached plan serves all relations.
_STATEMENT_FOR_NAMES, COLUMNS_FOR_NAMES = (
    query.replace("= ?", "= ?::name") for query in (DIGEST_STATEMENT_QUERY, COLUMNS)
)

# Hashes the database encoding and a value for each hash function. The result changes if the
# server's hash functions do, and then digests are not comparable.
PROBE = """
SELECT hashtextextended(getdatabaseencoding(), hashfloat8extended(1.5, hashint4extended(7,
       hashint8extended(123456789012345, uuid_hash_extended(
       '12345678-9abc-def0-1234-56789abcdef0', hash_record_extended(ROW(numeric_send(1.50)),
       hash_record_extended(ROW(timestamp_send('2001-02-03 04:05:06')), 42)))))))"""

# Number of random secrets that determine the order of rows in a chain's release.
_N_SECRETS = 4096
# Rows are sorted by a number. This many of its low bits depend on the row; the other bits are a
# hash of the row's values. If a million rows have equal values, two of them get the same number in
# every second release, on average.
_ROW_BITS = 40
# Name of the column with the hash of a row's values.
_VALUE_HASH = "dbanon_shared"


class PostgresqlDigests(Digests):
    """Computes digests of rows on the server.

    Parameters
    ----------
    connection : executes the queries.
    """

    method = DIGEST_METHOD

    def __init__(self, connection: PostgresqlConnection) -> None:
        self._connection = connection

    def of_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        parameters = (str(salt), relation.schema, relation.name)
        [(statement,)] = self._connection.look_up(_STATEMENT_FOR_NAMES, parameters)
        [(n_rows, hash_sum)] = self._connection.rows(statement)
        return int(n_rows), int(hash_sum)

    def of_columns(self, relation: Relation, names: Sequence[str], salt: int) -> tuple[int, int]:
        parameters = (str(salt), relation.name.schema, relation.name.name, list(names))
        [(row_hash,)] = self._connection.rows(COLUMNS_HASH, parameters)
        [(n_rows, hash_sum)] = self._connection.rows(
            f"SELECT count(*) AS rows, coalesce(sum({row_hash}), 0) AS total"
            f" FROM {relation.relation_to_read.quoted} AS s"
        )
        return int(n_rows), int(hash_sum)

    def probe(self) -> str:
        return str(self._connection.rows(PROBE)[0][0])


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


class PostgresqlKeyedSession(PseudonymSession):
    """Session methods for chains: tags of persons (keyed hashes), and rows in random order."""

    bytes_type = "bytea"
    # The planner does not merge a subquery with OFFSET into the outer query.
    compute_once_clause = " OFFSET 0"

    def keyed_tag(self, text: str) -> str:
        # With a key, this is an HMAC: each of its two hashes begins with a block that is derived
        # from the staged key. With a salt in place of a key, there is no outer block, and one hash
        # is enough.
        digest = f"sha256({staged_block(INNER_BLOCK)} || convert_to({text}, 'UTF8'))"
        if self._hashes_twice:
            digest = f"sha256({staged_block(OUTER_BLOCK)} || {digest})"
        return f"substring({digest} FROM 1 FOR 16)"

    def pseudonym_of(self, text: str) -> str:
        return f"encode({self.keyed_tag(text)}, 'hex')"

    def has_padding(self, attribute: Attribute) -> bool:
        # True for character(n): its values are padded with spaces, which a cast to text removes.
        return bool(_FIXED_LENGTH_TYPE.match(attribute.sql_type))

    def random_order_key(self, alias: str) -> str:
        # A random value for each row, whatever its alias. It is from the server's cryptographic
        # random source, which setseed does not affect.
        return "gen_random_uuid()"

    @contextmanager
    def tune_for_tagging(self) -> Iterator[None]:
        # Encourage parallel workers: the planner ignores the cost of hashing, and overestimates
        # that of passing rows between processes.
        self.run("SET LOCAL parallel_tuple_cost = 0.005")
        yield
        self.run("SET LOCAL parallel_tuple_cost TO DEFAULT")

    @contextmanager
    def tune_for_sorting(self) -> Iterator[None]:
        # Sort and merge instead of hashing, which accesses memory at random: with a million rows
        # this takes half the time.
        settings = {"hashjoin": "off", "hashagg": "off", "mergejoin": "on", "sort": "on"}
        for option, value in settings.items():
            self.run(f"SET LOCAL enable_{option} = {value}")
        # Parallel workers would take 1.5 times as long, because their sorted rows must be merged.
        self.run("SET LOCAL max_parallel_workers_per_gather = 0")
        yield
        self.run("SET LOCAL max_parallel_workers_per_gather TO DEFAULT")
        for option in settings:
            self.run(f"SET LOCAL enable_{option} TO DEFAULT")

    @contextmanager
    def tune_for_lookup(self) -> Iterator[None]:
        # The table was just read into memory. The planner does not know that, and would prefer a
        # full scan to lookups.
        self.run("SET LOCAL random_page_cost = 0.2")
        yield
        self.run("SET LOCAL random_page_cost TO DEFAULT")

    def person_staging_queries(
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
        columns = [name for (name,) in self.rows(_VALUE_COLUMNS, (values.schema, values.name))]
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
        [(row_hash,)] = self.rows(COLUMNS_HASH, parameters)
        return str(row_hash)

    def hash_with_secret(self, row_hash: str) -> str:
        # The server generates the secret, and it never leaves the server.
        self.run(
            f"CREATE TEMPORARY TABLE {quote(SHUFFLE)} ON COMMIT DROP"
            f" AS SELECT {self.random_order_key('s')} AS secret"
        )
        return f"uuid_hash_extended((SELECT secret FROM {quote(SHUFFLE)}), {row_hash})"

    def locator_keys_as_integers(self, source: Relation) -> list[str]:
        locator = source.required_locator
        return [
            {
                "tid": f"(({key}::text::point)[0]::bigint << 16) | ({key}::text::point)[1]::bigint",
                "oid": f"{key}::bigint",
            }.get(key_type, f"({key})::bigint")
            for key, key_type in zip(locator.expressions, locator.types, strict=True)
        ]

    def distinguishes_all_texts(self, source: Relation, attribute: Attribute) -> bool:
        parameters = (source.name.schema, source.name.name, attribute.name)
        return bool(self.rows(_COMPARES_BYTES, parameters)[0][0])
