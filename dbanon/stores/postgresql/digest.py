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
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.sessions.base import Relation
from dbanon.sessions.digests import Digests
from dbanon.sessions.names import RelationName
from dbanon.stores.postgresql.connection import PostgresqlConnection

# Name of this method to hash rows, which is recorded with each digest.
DIGEST_METHOD = "pg1"

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
