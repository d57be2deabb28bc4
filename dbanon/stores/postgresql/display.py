"""What readers of a PostgreSQL column see: SQL that tells values apart as they are shown.

The catalog says it, for the client and for the SQL functions alike. A column is grouped as it is
where its type writes equal values alike. Text goes by its bytes, whatever its collation; a float by
what its type sends, since 0 and -0 are equal; all others (numeric without a scale, interval, jsonb,
citext, arrays, ranges of numeric) by the text that their output function writes, never by a cast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

# Parameters: the number of a relation, and names of columns. One row each: the name, and SQL of
# what is shown of the column, which stands as {} in it.
DISPLAY_KEYS = """
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


def display_keys(
    look_up: Callable[..., Sequence[Sequence[Any]]], oid: int, columns: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """SQL of what tells the values of columns apart as readers see them.

    Parameters
    ----------
    oid : the relation that has columns of these types.
    columns : SQL of each column, by the name that the relation has for it.
    """
    key_of = {str(name): str(sql) for name, sql in look_up(DISPLAY_KEYS, (oid, list(columns)))}
    return [(key_of[name].replace("{}", column),) for name, column in columns.items()]
