"""What PostgreSQL's catalog says of relations, columns and rights, in dbanon's terms."""

from __future__ import annotations

from typing import Any

from dbanon.schema import Attribute, Kind, Schema

RELATION = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.reltuples::bigint, c.relhassubclass,
       row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ?::oid"""

RELATIONS_NEAR = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""

COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(b.typname, t.typname),
       coalesce(b.typtype, t.typtype)::text,
       CASE WHEN b.oid IS NULL THEN a.atttypmod ELSE t.typtypmod END,
       a.attnotnull AND c.relkind IN ('r', 'm', 'p'),
       CASE WHEN a.attcollation <> t.typcollation
            THEN quote_ident(ln.nspname) || '.' || quote_ident(l.collname) END,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e
        WHERE e.enumtypid = coalesce(b.oid, t.oid))
FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
LEFT JOIN pg_collation l ON l.oid = a.attcollation
LEFT JOIN pg_namespace ln ON ln.oid = l.collnamespace
WHERE a.attrelid = ?::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""

PRIMARY_KEY = """
SELECT a.attname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, position)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = ?::oid AND i.indisprimary AND i.indisvalid AND k.position <= i.indnkeyatts
ORDER BY k.position"""

UNREADABLE = """
SELECT name FROM unnest(?::text[]) AS name
WHERE NOT has_table_privilege(?::oid, 'SELECT')
  AND NOT has_column_privilege(?::oid, name, 'SELECT')"""

SCHEMA_RIGHTS = """
SELECT has_schema_privilege(oid, 'CREATE'), has_schema_privilege(oid, 'USAGE')
FROM pg_namespace WHERE nspname = ?"""

DATABASE_RIGHTS = """
SELECT has_database_privilege(current_database(), 'CREATE'),
       has_database_privilege(current_database(), 'TEMPORARY')"""

EXISTING = """
SELECT CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE 'relation' END,
       obj_description(c.oid, 'pg_class'), c.oid::bigint, pg_get_userbyid(c.relowner)::text
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relname = ?"""

# Whether this role owns a relation that no view and no foreign key depends on.
MAY_DROP = """
SELECT pg_has_role(c.relowner, 'USAGE') AND NOT EXISTS (
    SELECT FROM pg_depend AS d
    LEFT JOIN pg_rewrite AS w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype = 'n'
      AND w.ev_class IS DISTINCT FROM c.oid)
FROM pg_class AS c WHERE c.oid = ?::oid"""

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


def schema_of(rows: list[tuple[Any, ...]]) -> Schema:
    """The schema that the rows of ``COLUMNS`` describe."""
    return Schema(tuple(_attribute(*row) for row in rows))


def _attribute(
    name: str,
    sql_type: str,
    base: str,
    type_type: str,
    typmod: int,
    not_null: bool,
    collation: str | None,
    labels: list[str] | None,
) -> Attribute:
    kind, extra = _kind(base, type_type, typmod)
    if collation is not None:
        sql_type += f" COLLATE {collation}"
    order = tuple(labels or ())
    return Attribute(name, kind, sql_type=sql_type, nullable=not not_null, order=order, **extra)


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
