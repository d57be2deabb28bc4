"""What PostgreSQL does for chains."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dbanon.data.schema import Attribute
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import (
    INNER,
    MISSING,
    OUTER,
    PRESENT,
    TAGGED,
    KeyedSession,
    staged_block,
)
from dbanon.stores.postgresql import digest

# Whether = of a column is that of its bytes: of its type, and of its collation.
_DETERMINISTIC = """
SELECT a.atttypid <> 'bpchar'::regtype AND coalesce(c.collisdeterministic, true)
FROM pg_attribute AS a JOIN pg_class AS r ON r.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = r.relnamespace
LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
WHERE n.nspname = ? AND r.relname = ? AND a.attname = ? AND a.attnum > 0 AND NOT a.attisdropped"""


class PostgresqlKeyed(KeyedSession):
    """The part of a session that chains ask for."""

    bytes_type = "bytea"
    computed_once = " OFFSET 0"

    def keyed_tag(self, text: str) -> str:
        inside = f"sha256({staged_block(INNER)} || convert_to({text}, 'UTF8'))"
        return f"substring(sha256({staged_block(OUTER)} || {inside}) FROM 1 FOR 16)"

    def shuffled(self, alias: str) -> str:
        # From the server's strong random source, which setseed does not steer.
        return "gen_random_uuid()"

    @contextmanager
    def tagging(self) -> Iterator[None]:
        # Its planner takes two hashes a row for nothing beside what it costs to hand on the row.
        self.run("SET LOCAL parallel_tuple_cost = 0.005")
        yield
        self.run("SET LOCAL parallel_tuple_cost TO DEFAULT")

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
            ("VIEW", MISSING, f"SELECT tag {tagged} IS FALSE AND left_at IS NULL"),
        ]  # fmt: skip

    def shuffled_by_cell(self, rows: str, values: str) -> tuple[str, str]:
        # A secret of 122 bits for each cell, hashed for each of its rows: one for each row costs
        # as much as the join.
        own = f"(SELECT s.*, {self.shuffled('s')} AS secret FROM {values} AS s)"
        joined = f"{rows} AS r JOIN {own} AS v ON v.cell = r.cell"
        return joined, "uuid_hash_extended(v.secret, hashtidextended(r.ctid, 0))"

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        salt = str(secrets.randbits(62) + 1)
        given = (salt, relation.schema, relation.name, list(names))
        [(hashed,)] = self.rows(digest.OF_COLUMNS, given)
        return str(hashed)

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
        given = (source.name.schema, source.name.name, attribute.name)
        return bool(self.rows(_DETERMINISTIC, given)[0][0])
