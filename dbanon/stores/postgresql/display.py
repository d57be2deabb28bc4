"""Build SQL that compares the values of PostgreSQL columns as they are displayed.

The SQL comes from a query of the catalog, for both the client and the SQL functions. The recount
groups the rows of a release by this SQL. A column is grouped directly if equal values of its type
always look the same. Text is grouped by its bytes, whatever its collation; floats by their binary
form, since 0 and -0 are equal. All other types (numeric without a scale, interval, jsonb, citext,
arrays, ranges of numeric) are grouped by the text of their output function, never of a cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dbanon.data.types import SqlRow

# Parameters: oid of a relation, and column names. Returns each name with an SQL template for its
# displayed value, in which {} stands for the column.
DISPLAY_TEMPLATES = """
WITH RECURSIVE typed AS (
    SELECT a.attname, t.oid, t.typtype, t.typbasetype, a.atttypmod AS typmod
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.oid = ?::oid AND a.attname = ANY (?::text[])
    UNION ALL
    SELECT d.attname, t.oid, t.typtype, t.typbasetype,
           CASE WHEN d.typmod < 0 THEN b.typtypmod ELSE d.typmod END
    FROM typed d JOIN pg_type b ON b.oid = d.oid JOIN pg_type t ON t.oid = d.typbasetype
    WHERE d.typtype = 'd'
)
SELECT d.attname::text AS name, CASE
    WHEN d.typtype = 'e' THEN '{}'
    WHEN t.typnamespace <> 'pg_catalog'::regnamespace OR d.typtype NOT IN ('b', 'r')
    THEN 'CASE WHEN {} IS DISTINCT FROM NULL THEN format(''%s'', {}) END COLLATE "C"'
    WHEN t.typname IN ('int2', 'int4', 'int8', 'oid', 'bool', 'date', 'time', 'timetz', 'timestamp',
                       'timestamptz', 'uuid', 'bytea', 'money', 'bit', 'varbit', 'macaddr',
                       'macaddr8', 'inet', 'cidr', 'int4range', 'int8range', 'daterange', 'tsrange',
                       'tstzrange')
        OR t.typname = 'numeric' AND d.typmod >= 0
    THEN '{}'
    WHEN t.typname IN ('float4', 'float8') THEN 'float8send({}::float8)'
    WHEN t.typname IN ('text', 'varchar', 'name') THEN '{}::text COLLATE "C"'
    WHEN t.typname = 'bpchar' THEN 'textin(bpcharout({})) COLLATE "C"'
    ELSE 'CASE WHEN {} IS DISTINCT FROM NULL THEN format(''%s'', {}) END COLLATE "C"'
    END AS shown
FROM typed d JOIN pg_type t ON t.oid = d.oid
WHERE d.typtype <> 'd'"""


def expressions_as_displayed(
    look_up: Callable[[str, Sequence[object]], list[SqlRow]], oid: int, columns: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Return SQL that distinguishes a column's values as displayed, as a 1-tuple for each column.

    (Some other databases need several expressions per column, so the interface returns tuples.)

    Parameters
    ----------
    look_up : executes a query of the catalog with parameters, and returns its rows.
    oid : oid of the relation that has the columns.
    columns : SQL of each column's values, by column name.
    """
    rows = look_up(DISPLAY_TEMPLATES, (oid, list(columns)))
    templates = {str(name): str(template) for name, template in rows}
    return [(templates[name].replace("{}", column),) for name, column in columns.items()]
