"""The digest of rows on PostgreSQL: which statement computes it, asked of the catalog.

The hash of a row is a chain: each value is hashed under the hash of those before it as its seed. (A
hash of the whole record would not do: PostgreSQL combines those of columns by adding, so that two
values that change places between rows leave the sum over rows as it was.) NULLs are hashed as a
value of the type, and a mask tells them.

What is hashed is exact, and no code of a type's owner runs: text by its bytes, whatever its
collation; numbers with their scale, instants and the like by what their own type sends; enums,
composites, arrays, json and all others by the text that their output function writes, never by a
cast. Domains are what they stand for. Floats by value; the mask tells 0, -0 and NULL apart, as the
hash of 0 is the seed itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dbanon.data.schema import Attribute
from dbanon.data.words import json_text
from dbanon.ledger import postgresql as ledger
from dbanon.sessions.base import Relation, random_salt
from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import (
    INNER,
    MISSING,
    OUTER,
    PRESENT,
    SHUFFLE,
    TAGGED,
    KeyedSession,
    staged_block,
)

DIGEST_WAY = "pg1"
_FIXED = re.compile(r"(character|char|bpchar)\b(?! varying)", re.I)

# What a relation's rows hash to, as SQL text over the alias s. Each mask has the states of 15
# columns, two bits a column. A chain has 210 columns at most, as the server's parser does not nest
# without limit.
_HASH = """
WITH RECURSIVE given AS (
    SELECT c.oid, n.nspname, c.relname, ?::text AS salt
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ? AND c.relname = ?
), typed AS (
    SELECT a.attnum, format('s.%I', a.attname) AS x, t.oid, t.typtype, t.typbasetype
    FROM given g
    JOIN pg_attribute a ON a.attrelid = g.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    UNION ALL
    SELECT d.attnum, d.x, t.oid, t.typtype, t.typbasetype
    FROM typed d JOIN pg_type t ON t.oid = d.typbasetype
    WHERE d.typtype = 'd'
), plain AS (
    SELECT d.x, row_number() OVER (ORDER BY d.attnum) - 1 AS place,
           CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b'
                THEN t.typname::text ELSE '' END AS base, t.typsend::regproc::text AS sent
    FROM typed d JOIN pg_type t ON t.oid = d.oid
    WHERE d.typtype <> 'd'
), linked AS (
    SELECT place, place / 210 AS part, (4 ^ (place % 15))::integer AS bit, x, base,
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
            THEN format('hash_record_extended(ROW(coalesce(%s(%s), ''''::bytea)), ', sent, x)
            ELSE format('hashtextextended(format(''%%s'', %s) COLLATE "C", ', x)
        END AS before,
        CASE WHEN base = 'int8' THEN '))' ELSE ')' END AS after
    FROM plain
), masked AS (
    SELECT place / 15 AS mask, min(part) AS part, string_agg(
        CASE WHEN base IN ('float4', 'float8')
            THEN format('CASE WHEN %1$s = 0 THEN CASE WHEN get_byte(float8send(%1$s), 0) > 127'
                ' THEN %3$s ELSE %4$s END WHEN %1$s IS NULL THEN %2$s ELSE 0 END',
                x, bit, 2 * bit::bigint, 3 * bit::bigint)
            WHEN base <> '' THEN format('CASE WHEN %s IS NULL THEN %s ELSE 0 END', x, bit)
            -- Of a composite, IS NULL would ask its fields.
            ELSE format('num_nulls(%s) * %s', x, bit)
        END, ' + ' ORDER BY place) AS sum
    FROM linked GROUP BY 1
), chains AS (
    SELECT l.part,
        string_agg(l.before, '' ORDER BY l.place DESC)
        || (SELECT string_agg(format('hashint4extended(%s, ', m.sum), '' ORDER BY m.mask)
                   || (SELECT format('%L::bigint', salt) FROM given)
                   || string_agg(')', '') FROM masked m WHERE m.part = l.part)
        || string_agg(l.after, '' ORDER BY l.place) AS hash
    FROM linked l GROUP BY l.part
), whole AS (
    SELECT CASE WHEN count(*) = 1 THEN min(hash)
        ELSE format('hashint4extended(1, hash_record_extended(ROW(%s), 1))',
                    string_agg(format('int8send(%s)', hash), ', ' ORDER BY part)) END AS hash
    FROM chains
)
"""
# Parameters: salt, schema and name of a relation. One row: the statement, which gives the number
# of rows and the sum of their hashes.
STATEMENT = (
    _HASH
    + """SELECT format('SELECT count(*) AS rows, coalesce(sum(%s), 0) AS total FROM %I.%I AS s',
              hash, nspname, relname)
FROM whole, given"""
)
# Parameters: the same, and the names of columns. One row: the hash of these columns alone.
OF_COLUMNS = (
    _HASH.replace("NOT a.attisdropped", "NOT a.attisdropped AND a.attname = ANY (?::text[])")
    + "SELECT hash FROM whole"
)

# Parameters: schema and name of a relation. Its columns in order, each with its type in words.
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

# The same with names that are handed over: the text is one for all relations, and so is its plan.
_STATEMENT_OF, COLUMNS_OF = (one.replace("= ?", "= ?::name") for one in (STATEMENT, COLUMNS))

# Values of every kind that is hashed in a way of its own, and how the database stores letters.
PROBE = """
SELECT hashtextextended(getdatabaseencoding(), hashfloat8extended(1.5, hashint4extended(7,
       hashint8extended(123456789012345, uuid_hash_extended(
       '12345678-9abc-def0-1234-56789abcdef0', hash_record_extended(ROW(numeric_send(1.50)),
       hash_record_extended(ROW(timestamp_send('2001-02-03 04:05:06')), 42)))))))"""

# Secrets that the rows of a chain's release are ordered by.
_SECRETS = 4096
# Of the number that they are ordered by, what is a row's own; the rest is of its values. Two of a
# million rows of equal values have one number in every second release.
_OWN_BITS, _SHARED = 40, "dbanon_shared"

Rows = Callable[..., Sequence[Sequence[Any]]]


def of_relation(look_up: Rows, run: Rows, relation: RelationName, salt: int) -> tuple[int, int]:
    """The number of rows, and the sum of their hashes; ``run`` gives the rows of a statement."""
    [(statement,)] = look_up(_STATEMENT_OF, (str(salt), relation.schema, relation.name))
    [(rows, total)] = run(statement)
    return int(rows), int(total)


def of_columns(run: Rows, relation: Relation, names: Sequence[str], salt: int) -> tuple[int, int]:
    """The same of these columns of the rows that are read of a relation."""
    parameters = (str(salt), relation.name.schema, relation.name.name, list(names))
    [(hashed,)] = run(OF_COLUMNS, parameters)
    [(rows, total)] = run(
        f"SELECT count(*) AS rows, coalesce(sum({hashed}), 0) AS total"
        f" FROM {relation.relation.quoted} AS s"
    )
    return int(rows), int(total)


# Whether = of a column is that of its bytes: of its type, and of its collation.
_DETERMINISTIC = """
SELECT a.atttypid <> 'bpchar'::regtype AND coalesce(c.collisdeterministic, true)
FROM pg_attribute AS a JOIN pg_class AS r ON r.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = r.relnamespace
LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE n.nspname = ? AND r.relname = ? AND a.attname = ? AND a.attnum > 0 AND NOT a.attisdropped"""


# The columns of a table of cells that their values stand in.
_NAMES = """
SELECT a.attname::text FROM pg_attribute AS a JOIN pg_class AS r ON r.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = r.relnamespace
WHERE n.nspname = ? AND r.relname = ? AND a.attname <> 'cell' AND a.attnum > 0
AND NOT a.attisdropped"""


class PostgresqlKeyed(KeyedSession):
    """The part of a session that chains ask for."""

    bytes_type = "bytea"
    computed_once = " OFFSET 0"

    def keyed_tag(self, text: str) -> str:
        hashed = f"sha256({staged_block(INNER)} || convert_to({text}, 'UTF8'))"
        if self._hashes_twice:
            hashed = f"sha256({staged_block(OUTER)} || {hashed})"
        return f"substring({hashed} FROM 1 FOR 16)"

    def pseudonym_of(self, text: str) -> str:
        return f"encode({self.keyed_tag(text)}, 'hex')"

    def pads(self, attribute: Attribute) -> bool:
        # Of character(n), which is read in full length, and loses its spaces where it is made text.
        return bool(_FIXED.match(attribute.sql_type))

    def shuffled(self, alias: str) -> str:
        # From the server's strong random source, which setseed does not steer.
        return "gen_random_uuid()"

    @contextmanager
    def tagging(self) -> Iterator[None]:
        # Its planner takes two hashes a row for nothing beside what it costs to hand on the row.
        self.run("SET LOCAL parallel_tuple_cost = 0.005")
        yield
        self.run("SET LOCAL parallel_tuple_cost TO DEFAULT")

    @contextmanager
    def sorting(self) -> Iterator[None]:
        # A hash table looks up at random what merging reads in order: of a million rows, in twice
        # the time.
        settings = {"hashjoin": "off", "hashagg": "off", "mergejoin": "on", "sort": "on"}
        for option, value in settings.items():
            self.run(f"SET LOCAL enable_{option} = {value}")
        # What several processes sort is merged once more, for half as much again.
        self.run("SET LOCAL max_parallel_workers_per_gather = 0")
        yield
        self.run("SET LOCAL max_parallel_workers_per_gather TO DEFAULT")
        for option in settings:
            self.run(f"SET LOCAL enable_{option} TO DEFAULT")

    @contextmanager
    def seeking(self) -> Iterator[None]:
        # Its planner takes each row that is looked up to be on a disk far away, and reads all
        # others, too: but the whole table was read a moment ago.
        self.run("SET LOCAL random_page_cost = 0.2")
        yield
        self.run("SET LOCAL random_page_cost TO DEFAULT")

    def tagged(
        self, persons: str, columns: Sequence[str], members: str
    ) -> list[tuple[str, str, str]]:
        # One join gives both: it is most of the time.
        more = "".join(f", t.{name}" for name in columns)
        tagged = f"FROM {quote(TAGGED)} WHERE here"
        return [
            ("TABLE", TAGGED,
             "SELECT t.person, coalesce(t.tag, m.tag) AS tag, t.here IS NOT NULL AS here, m.cell,"
             f" m.left_at{more} FROM (SELECT *, 1 AS here FROM ({persons}) AS s) AS t"
             f" FULL JOIN ({members}) AS m ON m.tag = t.tag"),
            ("VIEW", PRESENT, f"SELECT * {tagged}"),
            ("TABLE", MISSING, f"SELECT tag {tagged} IS FALSE AND left_at IS NULL"),
        ]  # fmt: skip

    def sizes_of_pairs(self, first: str, second: str, second_name: str, rows: str) -> str:
        # One number is sorted in half the time of two; 0 stands for NULL, and 1 for 0.
        pair = f"{first}::bigint << 32 | coalesce({second} + 1::bigint, 0)"
        return (
            f"SELECT (p.pair >> 32)::integer AS {first},"
            f" (nullif(p.pair & 4294967295, 0) - 1)::integer AS {second_name}, p.size"
            f" FROM (SELECT {pair} AS pair, count(*)::integer AS size"
            f" FROM {rows} GROUP BY 1) AS p"
        )

    def shuffled_by_cell(self, rows: str, values: RelationName) -> tuple[str, str]:
        # A secret of 122 bits for one cell in so many, hashed for each of its rows: one for each
        # row costs as much as the join.
        secrets = f"SELECT array_agg({self.shuffled('s')}) FROM generate_series(1, {_SECRETS}) AS s"
        secret = f"(({secrets}))[1 + r.cell % {_SECRETS}]"
        row_part = f"uuid_hash_extended({secret}, hashtidextended(r.ctid, 0))"
        # Before them a hash of the values: whoever groups by these, as the recount does, finds
        # equal ones side by side. In one number, which is sorted faster than two.
        shared = [name for (name,) in self.rows(_NAMES, (values.schema, values.name))]
        hashed = f"({self.row_hash(values, shared)}) & {-1 << _OWN_BITS}" if shared else "0"
        valued = f"SELECT s.*, {hashed} AS {_SHARED} FROM {values.quoted} AS s OFFSET 0"
        joined = f"{rows} AS r JOIN ({valued}) AS v ON v.cell = r.cell"
        return joined, f"v.{_SHARED} | ({row_part} & {(1 << _OWN_BITS) - 1})"

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        salt = str(random_salt())
        parameters = (salt, relation.schema, relation.name, list(names))
        [(hashed,)] = self.rows(OF_COLUMNS, parameters)
        return str(hashed)

    def secret_code(self, hashed: str) -> str:
        # No process but the server's sees the secret.
        self.run(
            f"CREATE TEMPORARY TABLE {quote(SHUFFLE)} ON COMMIT DROP"
            f" AS SELECT {self.shuffled('s')} AS secret"
        )
        return f"uuid_hash_extended((SELECT secret FROM {quote(SHUFFLE)}), {hashed})"

    def keys_as_read(self, source: Relation) -> list[str]:
        locator = source.located
        return [
            {
                "tid": f"(({e}::text::point)[0]::bigint << 16) | ({e}::text::point)[1]::bigint",
                "oid": f"{e}::bigint",
            }.get(kind, f"({e})::bigint")
            for e, kind in zip(locator.expressions, locator.types, strict=True)
        ]

    def tells_all_apart(self, source: Relation, attribute: Attribute) -> bool:
        parameters = (source.name.schema, source.name.name, attribute.name)
        return bool(self.rows(_DETERMINISTIC, parameters)[0][0])


class PostgresqlPrivate(SessionInterface):
    """The part of a session that differential privacy asks for."""

    def texts(self, values: Sequence[str]) -> tuple[str, Any]:
        return "SELECT jsonb_array_elements_text(CAST(? AS jsonb))", json_text(values)

    def have_spent(self, budget: str, epsilon: str, spending_id: str) -> bool | None:
        if not self.rows(ledger.SPENDER):
            return None
        call = "SELECT dbanon._spend(?, CAST(? AS numeric), CAST(? AS uuid))::text"
        [(spent,)] = self.rows(call, (budget, epsilon, spending_id))
        return spent is not None

    def writes_own_ledger(self) -> bool:
        return not self.rows(ledger.WRITER)
