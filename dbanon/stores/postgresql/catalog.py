"""What PostgreSQL's catalog says of relations, columns and rights, in dbanon's terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.errors import SchemaNotFound, TableNotFound, nearest_names
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores.postgresql.foreign import FOREIGN

RELATION = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.reltuples::bigint, c.relhassubclass,
       row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ?::oid"""

# The first type that a value of such a column has, or has in it, and that does not travel as bytes
# which the server takes back: one without functions for that, or a domain inside of another type,
# whose check would run where nobody looked whose code it is.
NOT_CARRIED = """
WITH RECURSIVE parts(name, oid, inside) AS (
    SELECT a.attname, a.atttypid, false FROM pg_attribute AS a
    WHERE a.attrelid = ?::oid AND a.attname = ANY(?::text[]) AND a.attnum > 0
        AND NOT a.attisdropped
    UNION
    SELECT s.name, n.oid, s.inside OR t.typtype <> 'd' FROM parts AS s
    JOIN pg_type AS t ON t.oid = s.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typelem <> 0
        UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngtypid FROM pg_range AS r WHERE r.rngmultitypid = t.oid
        UNION ALL SELECT a.atttypid FROM pg_attribute AS a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS n
)
SELECT s.name, format_type(t.oid, NULL), t.typtype = 'd' AND s.inside
FROM parts AS s JOIN pg_type AS t ON t.oid = s.oid
WHERE t.typsend = 0::oid OR t.typreceive = 0::oid OR t.typtype = 'd' AND s.inside
ORDER BY 1, 2 LIMIT 1"""

LONE_KEYS = """
SELECT a.attname FROM pg_index AS i JOIN pg_attribute AS a
    ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = ?::oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
    AND i.indpred IS NULL"""

RELATIONS_NEAR = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""

# A domain is looked through to the type under it, and everything that this is made of is looked at:
# whose it is decides what a column is read and released as.
COLUMNS = f"""
WITH RECURSIVE chain(attnum, oid, typmod, depth) AS (
    SELECT a.attnum, a.atttypid, a.atttypmod, 0 FROM pg_attribute AS a
    WHERE a.attrelid = ?::oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT c.attnum, t.typbasetype, CASE WHEN c.typmod < 0 THEN t.typtypmod ELSE c.typmod END,
           c.depth + 1
    FROM chain AS c JOIN pg_type AS t ON t.oid = c.oid WHERE t.typtype = 'd'
),
parts(attnum, oid) AS (
    SELECT c.attnum, c.oid FROM chain AS c JOIN pg_type AS t ON t.oid = c.oid
    WHERE t.typtype <> 'd'
    UNION
    SELECT s.attnum, n.oid FROM parts AS s
    JOIN pg_type AS t ON t.oid = s.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typelem <> 0
        UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngtypid FROM pg_range AS r WHERE r.rngmultitypid = t.oid
        UNION ALL SELECT a.atttypid FROM pg_attribute AS a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS n
)
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(b.oid, base.typmod),
       CASE WHEN b.typnamespace = 'pg_catalog'::regnamespace THEN b.typname END,
       b.typtype::text, base.typmod, a.attnotnull AND c.relkind IN ('r', 'm', 'p'),
       CASE WHEN a.attcollation <> CASE WHEN d.another THEN b.typcollation ELSE t.typcollation END
            THEN (SELECT quote_ident(n.nspname) || '.' || quote_ident(l.collname)
                  FROM pg_collation AS l JOIN pg_namespace AS n ON n.oid = l.collnamespace
                  JOIN pg_roles AS o ON o.oid = l.collowner
                  WHERE l.oid = a.attcollation AND NOT {FOREIGN}) END,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum AS e
        WHERE e.enumtypid = b.oid),
       d.another,
       (SELECT min(format('type %s of role %s', format_type(s.oid, NULL), o.rolname))
        FROM parts AS s JOIN pg_type AS y ON y.oid = s.oid JOIN pg_roles AS o ON o.oid = y.typowner
        WHERE s.attnum = a.attnum AND {FOREIGN})
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_type AS t ON t.oid = a.atttypid
JOIN chain AS base ON base.attnum = a.attnum
JOIN pg_type AS b ON b.oid = base.oid AND b.typtype <> 'd'
-- A domain is another's as soon as one in the chain, or a function of its checks, is.
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM chain AS h
        JOIN pg_type AS y ON y.oid = h.oid AND y.typtype = 'd'
        LEFT JOIN pg_constraint AS k ON k.contypid = y.oid
        LEFT JOIN pg_depend AS g ON g.classid = 'pg_constraint'::regclass AND g.objid = k.oid
        LEFT JOIN pg_operator AS x
            ON g.refclassid = 'pg_operator'::regclass AND x.oid = g.refobjid
        LEFT JOIN pg_proc AS p ON p.oid = x.oprcode
            OR g.refclassid = 'pg_proc'::regclass AND p.oid = g.refobjid
        JOIN pg_roles AS o ON o.oid IN (y.typowner, p.proowner)
        WHERE h.attnum = a.attnum AND {FOREIGN}
    ) AS another
) AS d
WHERE a.attrelid = ?::oid
ORDER BY a.attnum"""

# The same rows, and whether they are: where a column has a base type that is made of no other, is
# not another role's, and whose collation is the column's, too. Most tables have no others, and the
# query above takes twenty times as long to plan.
PLAIN_COLUMNS = f"""
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(t.oid, a.atttypmod),
       CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname END,
       t.typtype::text, a.atttypmod, a.attnotnull AND c.relkind IN ('r', 'm', 'p'),
       NULL::text, NULL::text[], false, NULL::text,
       t.typtype = 'b' AND t.typelem = 0::oid AND a.attcollation = t.typcollation AND NOT {FOREIGN}
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_roles AS o ON o.oid = t.typowner
WHERE a.attrelid = ?::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""

COLUMN_TYPES = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped"""

PRIMARY_KEY = """
SELECT a.attname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, position)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = ?::oid AND i.indisprimary AND i.indisvalid AND k.position <= i.indnkeyatts
ORDER BY k.position"""

# The address of a row of a foreign table is what its server makes of it: often the same for all.
FOREIGN_CHILDREN = """
WITH RECURSIVE below(oid) AS (
    SELECT ?::oid
    UNION SELECT i.inhrelid FROM below AS b JOIN pg_inherits AS i ON i.inhparent = b.oid
)
SELECT EXISTS (SELECT FROM below AS b JOIN pg_class AS c USING (oid) WHERE c.relkind = 'f')"""

UNREADABLE = """
SELECT name FROM unnest(?::text[]) AS name
WHERE NOT has_table_privilege(?::oid, 'SELECT')
  AND NOT has_column_privilege(?::oid, name, 'SELECT')"""

# Whoever may not use a schema may look at the catalog all the same.
FIRST_OF_SCHEMAS = """
SELECT c.oid, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN unnest(?::text[]) WITH ORDINALITY AS s(name, place) ON s.name = n.nspname
WHERE c.relname = ? ORDER BY s.place LIMIT 1"""

NAMES = """
SELECT attname FROM pg_attribute WHERE attrelid = ?::oid AND attnum > 0 AND NOT attisdropped"""

SCHEMA_RIGHTS = """
SELECT has_schema_privilege(oid, 'CREATE'), has_schema_privilege(oid, 'USAGE')
FROM pg_namespace WHERE nspname = ?"""

DATABASE_RIGHTS = """
SELECT has_database_privilege(current_database(), 'CREATE'),
       has_database_privilege(current_database(), 'TEMPORARY')"""

EXISTING = """
SELECT CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE 'relation' END,
       obj_description(c.oid, 'pg_class'), c.oid::bigint, pg_get_userbyid(c.relowner)::text,
       c.relowner::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ?::name AND c.relname = ?::name"""

# Whether this role owns a relation that no view and no foreign key depends on.
MAY_DROP = """
SELECT pg_has_role(c.relowner, 'USAGE') AND NOT EXISTS (
    SELECT FROM pg_depend AS d
    LEFT JOIN pg_rewrite AS w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype = 'n'
      AND w.ev_class IS DISTINCT FROM c.oid)
FROM pg_class AS c WHERE c.oid = ?::oid"""

MARKS = """
SELECT count(*) FROM pg_description AS d
JOIN pg_class AS c ON c.oid = d.objoid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE d.classoid = 'pg_class'::regclass AND d.objsubid = 0 AND n.nspname = ? AND c.relname = ?"""

# Kinds whose rows go by their address.
ADDRESSED = ("r", "m")
RELATION_KINDS = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
}

_INTEGERS = {"int2": 16, "int4": 32, "int8": 64}
_FLOATS = {"float4": 32, "float8": 64}
_TEXTS = {"text", "varchar", "bpchar", "name", "char", "uuid"}

# A numeric without a declared scale: it is read from the values.
UNKNOWN_SCALE = -1


def schema_of(look_up: Callable[..., list[tuple[Any, ...]]], oid: int) -> Schema:
    """The schema of a relation."""
    rows = look_up(PLAIN_COLUMNS, (oid,))
    if all(row[-1] is True for row in rows):
        return Schema(tuple(_attribute(*row[:-1]) for row in rows))
    return Schema(tuple(_attribute(*row) for row in look_up(COLUMNS, (oid, oid))))


def _attribute(
    name: str,
    sql_type: str,
    base_type: str,
    base: str | None,
    type_type: str,
    typmod: int,
    not_null: bool,
    collation: str | None,
    labels: list[str] | None,
    domain_of_another: bool,
    of_another: str | None,
) -> Attribute:
    """The attribute, under the type that it has in a release.

    No released column has a type of another role: who owns a type could later run code over the
    column by it, or drop it with the type. A domain gives way to the type under it, an enum to
    text; what is made of such types cannot be released.
    """
    kind, extra = _kind(base or "", type_type, typmod)
    enumerated = type_type == "e"
    if enumerated and of_another is not None:
        sql_type, of_another = "text", None
    elif domain_of_another:
        sql_type = base_type
    if collation is not None:
        sql_type += f" COLLATE {collation}"
    return Attribute(
        name,
        kind,
        sql_type=sql_type,
        nullable=not not_null,
        order=tuple(labels or ()),
        enum_type=base_type if enumerated and sql_type != "text" else "",
        # A cast to text takes the blanks from the end that bpchar without a length shows.
        by_output=base is None or (base == "bpchar" and typmod < 0),
        of_another=of_another or "",
        **extra,
    )


def _kind(base: str, type_type: str, typmod: int) -> tuple[Kind, dict[str, Any]]:
    if base in _INTEGERS:
        return Kind.INTEGER, {"bits": _INTEGERS[base]}
    if base in _FLOATS:
        return Kind.FLOAT, {"bits": _FLOATS[base]}
    if base == "numeric":
        if typmod < 0:
            return Kind.DECIMAL, {"scale": UNKNOWN_SCALE}
        # The scale is an 11-bit signed number; digits before the point cannot be released finer.
        scale = (typmod - 4) & 0x7FF
        scale = max((scale ^ 1024) - 1024, 0)
        return Kind.DECIMAL, {"precision": ((typmod - 4) >> 16) & 0xFFFF, "scale": scale}
    if base == "date":
        return Kind.DATE, {}
    if base in ("timestamp", "timestamptz"):
        digits = 6 if typmod < 0 else typmod
        return Kind.TIMESTAMP, {"scale": digits, "zoned": base == "timestamptz"}
    if base == "bool":
        return Kind.BOOLEAN, {}
    if base in _TEXTS or type_type == "e":
        return Kind.CATEGORY, {}
    return Kind.OTHER, {}


def missing_relation(
    session: Session, name: RelationName, schemas: Sequence[str]
) -> TableNotFound | SchemaNotFound:
    """The error for a relation that these schemas do not have, with the names nearest to its."""
    existing_schemas = [schema for (schema,) in session.rows("SELECT nspname FROM pg_namespace")]
    if name.schema is not None and name.schema not in existing_schemas:
        return SchemaNotFound(
            f'There is no schema "{name.schema}".',
            hint=nearest_names(name.schema, existing_schemas),
        )
    near = [
        relation for schema in schemas for (relation,) in session.rows(RELATIONS_NEAR, (schema,))
    ]
    return TableNotFound(
        f"There is no table {name}.",
        hint=nearest_names(name.name, near)
        or (None if name.schema else "Name its schema, as in app.people."),
    )
