"""Code of other roles that a statement on a relation would run as the caller.

Reading a table runs more than is written in the statement: a view's text, and what the planner
evaluates beforehand of indexes, statistics and partition keys. All of it runs with the rights of
whoever reads. So relations are looked at in the catalog first, and refused where a role that is
neither the caller nor a superuser could have put code there.

Types are another matter: their code is not refused but left out, by ``text`` and by the types that
``catalog`` releases columns under.
"""

from __future__ import annotations

from typing import Any

from dbanon.errors import ForeignCode

# Neither the caller nor a superuser; o is the owner.
FOREIGN = "(NOT o.rolsuper AND o.rolname <> current_user)"

# Functions of PostgreSQL's own by which somebody else's view could do more than compute: they run
# SQL or an input function that their arguments name, read the server's files and state, or keep
# state. Functions of extensions that are not IMMUTABLE may do the same.
_REACHES_OUT = (
    "(p.provolatile = 'v' AND p.proname <> ALL (ARRAY['random', 'clock_timestamp', 'timeofday',"
    " 'gen_random_uuid']) OR p.provolatile = 's' AND p.pronamespace <> 'pg_catalog'::regnamespace"
    " OR p.proname ~ '^(pg_|query_to_|table_to_|schema_to_|database_to_|cursor_to_)'"
    " OR 'cstring'::regtype = ANY (p.proargtypes))"
)

# They look for casts of their arguments' types to json when they run, or fill records.
_LOOKS_FOR_CASTS = (
    "p.proname ~ '^(to_jsonb?|row_to_json|array_to_json|jsonb?_build_|jsonb?_agg"
    "|jsonb?_object_agg|jsonb?_populate_record|jsonb?_to_record)'"
)

# One row for each piece of foreign code: relation, what it is, its owner. ``{relation}`` is SQL of
# the relation's oid. Nothing here runs what it finds: definitions are read as text.
_QUERY = """
WITH RECURSIVE tree(oid, owner, kind) AS (
    SELECT c.oid, c.relowner, c.relkind FROM pg_class AS c WHERE c.oid = {relation}
    UNION
    SELECT c.oid, c.relowner, c.relkind
    FROM tree AS t
    CROSS JOIN LATERAL (
        SELECT i.inhrelid AS next FROM pg_inherits AS i WHERE i.inhparent = t.oid
        UNION ALL
        SELECT d.refobjid FROM pg_rewrite AS w
        JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
            AND d.refclassid = 'pg_class'::regclass
        WHERE w.ev_class = t.oid AND t.kind = 'v'
    ) AS n
    JOIN pg_class AS c ON c.oid = n.next
),
rules AS (
    SELECT w.oid, t.oid AS relation, {foreign} AS foreign_text, w.ev_action::text AS body
    FROM tree AS t
    JOIN pg_rewrite AS w ON w.ev_class = t.oid AND w.ev_type = '1'
    JOIN pg_roles AS o ON o.oid = t.owner
    WHERE t.kind = 'v'
),
-- What views name, and what that is made of: operators and aggregates of functions, domains of
-- checks, types of types, functions written in the SQL standard's way of others.
named(relation, class, object) AS (
    SELECT r.relation, d.refclassid, d.refobjid
    FROM rules AS r
    JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    UNION
    SELECT r.relation, 'pg_type'::regclass, f[1]::oid
    FROM rules AS r,
         regexp_matches(r.body, ':(?:resulttype|typid|row_typeid|consttype) (\\d{{5,}})', 'g') AS f
    UNION
    SELECT m.relation, n.class, n.object
    FROM named AS m
    CROSS JOIN LATERAL (
        SELECT d.refclassid AS class, d.refobjid AS object FROM pg_depend AS d
        WHERE d.classid = m.class AND d.objid = m.object
        UNION ALL
        SELECT d.refclassid, d.refobjid FROM pg_constraint AS k
        JOIN pg_depend AS d ON d.classid = 'pg_constraint'::regclass AND d.objid = k.oid
        WHERE m.class = 'pg_type'::regclass AND k.contypid = m.object
        UNION ALL
        SELECT 'pg_type'::regclass, a.atttypid FROM pg_type AS t
        JOIN pg_attribute AS a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE m.class = 'pg_type'::regclass AND t.oid = m.object
    ) AS n
    WHERE m.class IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)
),
called AS (
    SELECT r.relation, r.foreign_text, f[1]::oid AS function
    FROM rules AS r, regexp_matches(r.body, ':(?:funcid|aggfnoid|winfnoid) (\\d+)', 'g') AS f
),
-- Expressions that the planner simplifies whenever it looks at the table.
planned AS (
    SELECT t.oid AS relation, x.body, row_number() OVER () AS number
    FROM tree AS t
    CROSS JOIN LATERAL (
        SELECT i.indexprs::text AS body FROM pg_index AS i WHERE i.indrelid = t.oid
        UNION ALL
        SELECT i.indpred::text FROM pg_index AS i WHERE i.indrelid = t.oid
        UNION ALL
        SELECT s.stxexprs::text FROM pg_statistic_ext AS s WHERE s.stxrelid = t.oid
        UNION ALL
        SELECT p.partexprs::text FROM pg_partitioned_table AS p WHERE p.partrelid = t.oid
    ) AS x
    WHERE x.body ~ ':(funcid|opno) \\d{{5}}'
),
nodes AS (
    SELECT n.relation, n.number, n.place, n.token,
           sum(CASE WHEN n.token[1] = '}}' THEN -1 ELSE 1 END)
               OVER (PARTITION BY n.number ORDER BY n.place) AS depth
    FROM (
        SELECT p.relation, p.number, f.place, f.token
        FROM planned AS p, regexp_matches(
            p.body, '(?<!\\\\)(\\{{[A-Z]+|\\}})(?: :(?:funcid|opno) (\\d+))?', 'g'
        ) WITH ORDINALITY AS f(token, place)
    ) AS n
),
-- A call without a column in it is evaluated by the planner; a function in SQL is looked into.
evaluated AS (
    SELECT a.relation, p.oid AS function
    FROM nodes AS a
    LEFT JOIN pg_operator AS x ON a.token[1] <> '{{FUNCEXPR' AND x.oid = a.token[2]::oid
    JOIN pg_proc AS p ON p.oid = coalesce(x.oprcode, a.token[2]::oid)
    JOIN pg_language AS l ON l.oid = p.prolang
    WHERE a.token[2] IS NOT NULL AND (
        l.lanname = 'sql' AND (strpos(p.prosrc, '.') > 0 OR EXISTS (
            SELECT FROM pg_depend AS d
            WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
              AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)))
        OR NOT EXISTS (
            SELECT FROM nodes AS v
            WHERE v.number = a.number AND v.token[1] = '{{VAR' AND v.place > a.place
              AND v.place < coalesce((
                  SELECT min(e.place) FROM nodes AS e
                  WHERE e.number = a.number AND e.place > a.place AND e.depth < a.depth
              ), 2147483647)))
),
-- Types of other roles among the columns that the views show or read.
parts(oid) AS (
    SELECT a.atttypid FROM tree AS t
    JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE EXISTS (SELECT FROM rules)
    UNION
    SELECT n.oid FROM parts AS s
    JOIN pg_type AS t ON t.oid = s.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typelem <> 0
        UNION ALL SELECT a.atttypid FROM pg_attribute AS a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS n
),
found AS (
    SELECT m.relation, 'function ' || p.oid::regprocedure AS what, p.proowner AS owner
    FROM named AS m JOIN pg_proc AS p ON m.class = 'pg_proc'::regclass AND p.oid = m.object
    UNION ALL
    SELECT m.relation, 'function ' || p.oid::regprocedure, p.proowner
    FROM named AS m
    JOIN pg_operator AS x ON m.class = 'pg_operator'::regclass AND x.oid = m.object
    JOIN pg_proc AS p ON p.oid = x.oprcode
    UNION ALL
    SELECT m.relation, 'domain ' || format_type(t.oid, NULL), t.typowner
    FROM named AS m JOIN pg_type AS t ON m.class = 'pg_type'::regclass AND t.oid = m.object
    WHERE t.typtype = 'd'
    UNION ALL
    -- What it reads there, and as whom, is for the owners of table and server to say.
    SELECT t.oid, 'what ' || t.oid::regclass || ', a foreign table, names', w.owner
    FROM tree AS t
    JOIN pg_foreign_table AS f ON f.ftrelid = t.oid
    JOIN pg_foreign_server AS s ON s.oid = f.ftserver
    CROSS JOIN LATERAL (VALUES (t.owner), (s.srvowner)) AS w(owner)
    UNION ALL
    SELECT e.relation, 'function ' || p.oid::regprocedure, p.proowner
    FROM evaluated AS e JOIN pg_proc AS p ON p.oid = e.function
)
SELECT f.relation::regclass::text, f.what, o.rolname::text
FROM found AS f JOIN pg_roles AS o ON o.oid = f.owner
WHERE {foreign}
UNION
SELECT c.relation::regclass::text, 'function ' || p.oid::regprocedure || ' in a view',
       o.rolname::text
FROM called AS c
JOIN pg_proc AS p ON p.oid = c.function
JOIN pg_class AS v ON v.oid = c.relation
JOIN pg_roles AS o ON o.oid = v.relowner
WHERE c.foreign_text AND {reaches_out}
   OR {looks_for_casts} AND EXISTS (
       SELECT FROM parts AS s JOIN pg_type AS t ON t.oid = s.oid
       JOIN pg_roles AS o ON o.oid = t.typowner WHERE {foreign})
ORDER BY 1, 2, 3"""


# True of a relation where ``_QUERY`` cannot find anything: a table that nothing hangs on which it
# looks at. To ask that first saves a third of the time of a small release.
_PLAIN = """
SELECT c.relkind IN ('r', 'm')
    AND NOT EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid)
    AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid
                    AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
    AND NOT EXISTS (SELECT FROM pg_statistic_ext AS s WHERE s.stxrelid = c.oid
                    AND s.stxexprs IS NOT NULL)
FROM pg_class AS c WHERE c.oid = {relation}"""


def nothing_to_find(relation: str) -> str:
    """The query that is true where ``foreign_code`` of the relation has no rows."""
    return _PLAIN.format(relation=relation)


def foreign_code(relation: str) -> str:
    """The query for code of other roles that reading a relation would run.

    Rows are the relation, what it calls, and the role that could change that. ``relation`` is SQL
    of an oid.
    """
    return _QUERY.format(
        relation=relation,
        foreign=FOREIGN,
        reaches_out=_REACHES_OUT,
        looks_for_casts=_LOOKS_FOR_CASTS,
    )


def refusal(name: object, what: str, owner: str) -> ForeignCode:
    """The error for code of another role that reading a relation would run."""
    return ForeignCode(
        f"Reading {name} would run {what} of role {owner} with this role's rights.",
        hint=HINT,
    )


HINT = (
    "Let the owner release it, or release a copy: a table of your own that the owner, or a role"
    " with no more rights than needed, fills."
)


def type_refusal(name: object, column: str, foreign: str) -> ForeignCode:
    """The error for a column whose type is made of another role's."""
    return ForeignCode(
        f'Column "{column}" of {name} is of {foreign}, whose code would run with this role\'s'
        " rights.",
        hint="Cast the column to a type of PostgreSQL's own in a copy of your own, or let the owner"
        " release it.",
    )


def first(rows: list[tuple[Any, ...]]) -> ForeignCode | None:
    """The error for the first row of ``foreign_code``; None where there is none."""
    return refusal(*rows[0]) if rows else None
