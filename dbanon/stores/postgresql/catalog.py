"""Read relations, columns and rights from PostgreSQL's catalog.

A *foreign* type or domain belongs to a role that is neither the caller nor a superuser, so its code
is not trusted. A foreign table, in contrast, is PostgreSQL's term for a table on another server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.data.types import SqlRow
from dbanon.errors import SchemaNotFound, TableNotFound, nearest_names
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName
from dbanon.stores.postgresql.foreign import OWNER_IS_UNTRUSTED

# Parameter: oid. Returns oid, schema, name, kind, estimated rows, whether other tables inherit, and
# whether row-level security applies.
RELATION = """
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.reltuples::bigint, c.relhassubclass,
       row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ?::oid"""

# Passthrough sends a column's values to the client as bytes, and back. Two kinds of types prevent
# it, as the type of the column or as one that this type is made of:
# - types without binary functions;
# - domains inside another type, because their checks could be another role's code.
# Parameters: oid and column names. Returns the first column with such a type, the type, and whether
# it is a domain inside another type.
TYPES_WITHOUT_PASSTHROUGH = """
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

# Parameters: oid, names of columns. Returns the mean width of each column's values in bytes, by
# its type or by the statistics; 0 without either.
COLUMN_WIDTHS = """
SELECT CASE WHEN a.attlen > 0 THEN a.attlen ELSE coalesce((
    SELECT max(s.avg_width) FROM pg_stats AS s
    WHERE s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
), 0) END FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE a.attrelid = ?::oid AND a.attname = ANY(?::text[]) AND a.attnum > 0
    AND NOT a.attisdropped"""

# Parameter: oid. Returns the columns that have a single-column unique index.
UNIQUE_COLUMNS = """
SELECT a.attname FROM pg_index AS i JOIN pg_attribute AS a
    ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = ?::oid AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
    AND i.indpred IS NULL"""

# Parameter: schema. Returns the names of its relations, of the kinds in ``RELATION_KINDS``.
RELATION_NAMES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""

# Parameter: oid, twice. Returns the arguments of ``_build_attribute`` for each column. Domains are
# followed to their base type, and types to the types that they are made of: the owners of all of
# these decide how a column can be read and released. The alias o, which OWNER_IS_UNTRUSTED tests,
# is the role of an owner. A collation is only returned if it is not that of the type, and if its
# owner is trusted. NOT NULL counts only for tables and materialized views: elsewhere it is not
# enforced.
# Further aliases: a is the column, t its type, base and b the row and the type at the end of its
# domains, s the type b or one that it is made of, and d whether one of the domains is foreign. In
# d, y is a domain, k a check of it, and x and p the operators and functions in this check.
COLUMNS = f"""
WITH RECURSIVE unwrapped_types(attnum, oid, typmod, depth) AS (
    SELECT a.attnum, a.atttypid, a.atttypmod, 0 FROM pg_attribute AS a
    WHERE a.attrelid = ?::oid AND a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT c.attnum, t.typbasetype, CASE WHEN c.typmod < 0 THEN t.typtypmod ELSE c.typmod END,
           c.depth + 1
    FROM unwrapped_types AS c JOIN pg_type AS t ON t.oid = c.oid WHERE t.typtype = 'd'
),
parts(attnum, oid) AS (
    SELECT c.attnum, c.oid FROM unwrapped_types AS c JOIN pg_type AS t ON t.oid = c.oid
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
       CASE WHEN a.attcollation <>
                CASE WHEN d.is_foreign THEN b.typcollation ELSE t.typcollation END
            THEN (SELECT quote_ident(n.nspname) || '.' || quote_ident(l.collname)
                  FROM pg_collation AS l JOIN pg_namespace AS n ON n.oid = l.collnamespace
                  JOIN pg_roles AS o ON o.oid = l.collowner
                  WHERE l.oid = a.attcollation AND NOT {OWNER_IS_UNTRUSTED}) END,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum AS e
        WHERE e.enumtypid = b.oid),
       d.is_foreign,
       (SELECT min(format('type %s of role %s', format_type(s.oid, NULL), o.rolname))
        FROM parts AS s JOIN pg_type AS y ON y.oid = s.oid JOIN pg_roles AS o ON o.oid = y.typowner
        WHERE s.attnum = a.attnum AND {OWNER_IS_UNTRUSTED})
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_type AS t ON t.oid = a.atttypid
JOIN unwrapped_types AS base ON base.attnum = a.attnum
JOIN pg_type AS b ON b.oid = base.oid AND b.typtype <> 'd'
-- A domain is foreign if it, a domain that it is based on, or a function in a check of any of them
-- is.
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM unwrapped_types AS h
        JOIN pg_type AS y ON y.oid = h.oid AND y.typtype = 'd'
        LEFT JOIN pg_constraint AS k ON k.contypid = y.oid
        LEFT JOIN pg_depend AS g ON g.classid = 'pg_constraint'::regclass AND g.objid = k.oid
        LEFT JOIN pg_operator AS x
            ON g.refclassid = 'pg_operator'::regclass AND x.oid = g.refobjid
        LEFT JOIN pg_proc AS p ON p.oid = x.oprcode
            OR g.refclassid = 'pg_proc'::regclass AND p.oid = g.refobjid
        JOIN pg_roles AS o ON o.oid IN (y.typowner, p.proowner)
        WHERE h.attnum = a.attnum AND {OWNER_IS_UNTRUSTED}
    ) AS is_foreign
) AS d
WHERE a.attrelid = ?::oid
ORDER BY a.attnum"""

# Parameter: oid. Returns the same rows as COLUMNS by a query that is planned in a twentieth of the
# time, and a flag that is true if the row is valid: the column's type is a base type of a trusted
# role, and has the column's collation. Most tables only have such columns.
PLAIN_COLUMNS = f"""
SELECT a.attname, format_type(a.atttypid, a.atttypmod), format_type(t.oid, a.atttypmod),
       CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace THEN t.typname END,
       t.typtype::text, a.atttypmod, a.attnotnull AND c.relkind IN ('r', 'm', 'p'),
       NULL::text, NULL::text[], false, NULL::text,
       t.typtype = 'b' AND t.typelem = 0::oid AND a.attcollation = t.typcollation
           AND NOT {OWNER_IS_UNTRUSTED}
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
JOIN pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_roles AS o ON o.oid = t.typowner
WHERE a.attrelid = ?::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""

# Parameter: quoted name of a relation. Returns name and type of each column.
COLUMN_TYPES = """
SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped"""

# Parameter: oid. Returns the columns of the primary key, in its order.
PRIMARY_KEY = """
SELECT a.attname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(attnum, position)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = ?::oid AND i.indisprimary AND i.indisvalid AND k.position <= i.indnkeyatts
ORDER BY k.position"""

# Parameter: oid. Returns whether a foreign table is among the descendants of a relation: foreign
# tables often give all rows the same ctid.
HAS_FOREIGN_TABLES = """
WITH RECURSIVE below(oid) AS (
    SELECT ?::oid
    UNION SELECT i.inhrelid FROM below AS b JOIN pg_inherits AS i ON i.inhparent = b.oid
)
SELECT EXISTS (SELECT FROM below AS b JOIN pg_class AS c USING (oid) WHERE c.relkind = 'f')"""

# Parameters: column names, and twice the oid. Returns the columns that this role may not read.
UNREADABLE_COLUMNS = """
SELECT name FROM unnest(?::text[]) AS name
WHERE NOT has_table_privilege(?::oid, 'SELECT')
  AND NOT has_column_privilege(?::oid, name, 'SELECT')"""

# Returns the name of this role.
CURRENT_USER = "SELECT current_user::text"

# Parameters: schemas and the name of a table. Returns oid and schema of the first such table. The
# catalog is readable even without rights on the schema.
FIRST_RELATION_IN_SCHEMAS = """
SELECT c.oid, n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN unnest(?::text[]) WITH ORDINALITY AS s(name, place) ON s.name = n.nspname
WHERE c.relname = ? ORDER BY s.place LIMIT 1"""

# Parameter: oid. Returns the names of all columns.
COLUMN_NAMES = """
SELECT attname FROM pg_attribute WHERE attrelid = ?::oid AND attnum > 0 AND NOT attisdropped"""

# Parameter: schema. Returns whether this role may create relations in it, and may use it.
SCHEMA_RIGHTS = """
SELECT has_schema_privilege(oid, 'CREATE'), has_schema_privilege(oid, 'USAGE')
FROM pg_namespace WHERE nspname = ?"""

# Returns whether this role may create schemas and temporary tables in this database.
DATABASE_RIGHTS = """
SELECT has_database_privilege(current_database(), 'CREATE'),
       has_database_privilege(current_database(), 'TEMPORARY')"""

# Parameters: schema and name. Returns kind, comment, oid, owner and the owner's oid of a relation.
RELATION_BY_NAME = """
SELECT CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' ELSE 'relation' END,
       obj_description(c.oid, 'pg_class'), c.oid::bigint, pg_get_userbyid(c.relowner)::text,
       c.relowner::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ?::name AND c.relname = ?::name"""

# Parameter: oid. Returns true if this role owns a relation, and no view or foreign key depends on
# it. Dependencies of the type n are those that would make DROP fail; a view's own rule depends on
# the view and does not count.
MAY_DROP = """
SELECT pg_has_role(c.relowner, 'USAGE') AND NOT EXISTS (
    SELECT FROM pg_depend AS d
    LEFT JOIN pg_rewrite AS w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid
    WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype = 'n'
      AND w.ev_class IS DISTINCT FROM c.oid)
FROM pg_class AS c WHERE c.oid = ?::oid"""

# Parameters: schema and name. Returns the number of comments on relations of this name. It is two
# if another session has replaced the relation since this transaction's snapshot: the snapshot then
# shows the former relation beside the one that this transaction has created.
COUNT_COMMENTS = """
SELECT count(*) FROM pg_description AS d
JOIN pg_class AS c ON c.oid = d.objoid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE d.classoid = 'pg_class'::regclass AND d.objsubid = 0 AND n.nspname = ? AND c.relname = ?"""

# Values of ``pg_class.relkind`` for relations whose rows are identified by their ctid: tables and
# materialized views.
KINDS_WITH_CTID = ("r", "m")
# Descriptions of the relations that can be read, by ``pg_class.relkind``.
RELATION_KINDS = {
    "r": "table",
    "p": "partitioned table",
    "v": "view",
    "m": "materialized view",
    "f": "foreign table",
}

_INTEGER_BITS = {"int2": 16, "int4": 32, "int8": 64}
_FLOAT_BITS = {"float4": 32, "float8": 64}
_TEXT_TYPES = {"text", "varchar", "bpchar", "name", "char", "uuid"}

# Scale of a numeric column that declares none; it is then determined from the values.
UNKNOWN_SCALE = -1


def read_schema(look_up: Callable[[str, Sequence[object]], list[SqlRow]], oid: int) -> Schema:
    """Read the schema of a relation from the catalog.

    Parameters
    ----------
    look_up : executes a query with parameters, and returns its rows.
    """
    rows = look_up(PLAIN_COLUMNS, (oid,))
    if all(is_plain is True for *_, is_plain in rows):
        return Schema(tuple(_build_attribute(*arguments) for *arguments, _ in rows))
    return Schema(tuple(_build_attribute(*row) for row in look_up(COLUMNS, (oid, oid))))


def _build_attribute(
    name: str,
    sql_type: str,
    base_type: str,
    builtin_type: str | None,
    type_category: str,
    typmod: int,
    not_null: bool,
    collation: str | None,
    enum_labels: list[str] | None,
    has_foreign_domain: bool,
    foreign_type: str | None,
) -> Attribute:
    """Build the attribute with the type it will have in a release.

    No released column has a type of another role, since that role could run code on the values, or
    drop the type together with the column. So another role's domain is replaced by its
    base type, and an enum by text. Columns of any other foreign type cannot be released.

    Parameters
    ----------
    builtin_type : name of the base type if it is built in.
    type_category : ``pg_type.typtype`` of the base type, such as ``e`` for an enum.
    typmod : modifier of the base type, such as the digits of a numeric; -1 for none.
    has_foreign_domain : whether a domain of the type, or its check, belongs to another role.
    foreign_type : another role's type that the column's type is made of, with its owner.
    """
    kind, details = _classify_type(builtin_type or "", type_category, typmod)
    is_enum = type_category == "e"
    if is_enum and foreign_type is not None:
        sql_type, foreign_type = "text", None
    elif has_foreign_domain:
        sql_type = base_type
    if collation is not None:
        sql_type += f" COLLATE {collation}"
    return Attribute(
        name,
        kind,
        sql_type=sql_type,
        nullable=not not_null,
        order=tuple(enum_labels or ()),
        enum_type=base_type if is_enum and sql_type != "text" else "",
        # A cast of a type that is not built in could run another role's code. A cast of bpchar
        # without a length would strip trailing blanks, which the type displays.
        uses_output_function=builtin_type is None or (builtin_type == "bpchar" and typmod < 0),
        type_of_other_role=foreign_type or "",
        **details,
    )


class _TypeDetails(TypedDict, total=False):
    """The fields of ``Attribute`` that follow from a type and its modifier."""

    bits: int
    precision: int
    scale: int
    has_time_zone: bool


def _classify_type(builtin_type: str, type_category: str, typmod: int) -> tuple[Kind, _TypeDetails]:
    """Return the kind of a type, and the fields of ``Attribute`` that follow from its modifier."""
    if builtin_type in _INTEGER_BITS:
        return Kind.INTEGER, {"bits": _INTEGER_BITS[builtin_type]}
    if builtin_type in _FLOAT_BITS:
        return Kind.FLOAT, {"bits": _FLOAT_BITS[builtin_type]}
    if builtin_type == "numeric":
        if typmod < 0:
            return Kind.DECIMAL, {"scale": UNKNOWN_SCALE}
        # The modifier is 4 plus the precision in the high 16 bits and the scale in the low ones,
        # an 11-bit signed integer. Negative scales are treated as 0.
        scale = (typmod - 4) & 0x7FF
        scale = max((scale ^ 1024) - 1024, 0)
        return Kind.DECIMAL, {"precision": ((typmod - 4) >> 16) & 0xFFFF, "scale": scale}
    if builtin_type == "date":
        return Kind.DATE, {}
    if builtin_type in ("timestamp", "timestamptz"):
        digits = 6 if typmod < 0 else typmod
        return Kind.TIMESTAMP, {"scale": digits, "has_time_zone": builtin_type == "timestamptz"}
    if builtin_type == "bool":
        return Kind.BOOLEAN, {}
    if builtin_type in _TEXT_TYPES or type_category == "e":
        return Kind.CATEGORY, {}
    return Kind.OTHER, {}


def missing_relation_error(
    connection: Connection, name: RelationName, schemas: Sequence[str]
) -> TableNotFound | SchemaNotFound:
    """Build the error for a relation that none of these schemas has.

    The hint lists similar names.
    """
    existing_schemas = [schema for (schema,) in connection.rows("SELECT nspname FROM pg_namespace")]
    if name.schema is not None and name.schema not in existing_schemas:
        return SchemaNotFound(
            f'There is no schema "{name.schema}".',
            hint=nearest_names(name.schema, existing_schemas),
        )
    relation_names = [
        relation for schema in schemas for (relation,) in connection.rows(RELATION_NAMES, (schema,))
    ]
    return TableNotFound(
        f"There is no table {name}.",
        hint=nearest_names(name.name, relation_names)
        or (None if name.schema else "Name its schema, as in app.people."),
    )


# Parameters: schema and name of a relation. Returns the columns that have a comment, with it.
COLUMN_COMMENTS = """
SELECT a.attname::text, col_description(c.oid, a.attnum)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE n.nspname = ?::name AND c.relname = ?::name AND col_description(c.oid, a.attnum) IS NOT NULL
ORDER BY a.attnum"""

# The server's counters for a relation and its children, as JSON; no rows are read. ``{oid}`` is
# SQL of the relation's oid. Views and foreign tables have no counters. Counters lag by some
# seconds, and are lost in a crash. ``file`` changes if a table is rewritten or truncated; ``since``
# changes if the counters are reset.
STATE = """
WITH RECURSIVE parts(oid) AS (
    SELECT ({oid})
    UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN parts AS p ON p.oid = i.inhparent
)
SELECT jsonb_strip_nulls(jsonb_build_object(
    'oid', ({oid})::bigint,
    'writes', CASE WHEN bool_and(c.relkind IN ('r', 'p', 'm')) THEN
        sum(pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid)
            + pg_stat_get_tuples_deleted(c.oid)) END,
    'file', md5(string_agg(pg_relation_filenode(c.oid)::text, ',' ORDER BY c.oid)),
    'since', (SELECT pg_stat_get_db_stat_reset_time(d.oid)::text FROM pg_database AS d
              WHERE d.datname = current_database())))
FROM parts AS p JOIN pg_class AS c ON c.oid = p.oid"""
STATE_BY_NAME = STATE.format(
    oid="SELECT s.oid FROM pg_class AS s JOIN pg_namespace AS n ON n.oid = s.relnamespace"
    " WHERE n.nspname = ?::name AND s.relname = ?::name"
)
