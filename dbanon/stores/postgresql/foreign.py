"""Refuse relations whose reading would run code of other roles with the caller's rights.

Reading a relation can run code that is not in the statement: the query of a view, and expressions
of indexes, statistics and partition keys, which the planner evaluates. All of it runs with the
reader's rights. So the catalog is checked first, and a relation is refused if it has foreign code:
code that a role other than the caller or a superuser could have written.

Types of other roles are not refused here: ``dialect.as_text`` and the released types in ``catalog``
avoid running their code.

An object of a relation that the planner evaluates, such as an expression index, is code *attached*
to the relation.
"""

from __future__ import annotations

from dbanon.data.types import SqlRow
from dbanon.errors import ForeignCode

# SQL condition on ``pg_roles AS o``: this owner is neither the caller nor a superuser.
OWNER_IS_UNTRUSTED = "(NOT o.rolsuper AND o.rolname <> current_user)"

# SQL condition on ``pg_proc AS p``: a function can do more than compute a value, so it is dangerous
# in another role's expression. Some built-in functions run SQL or an input function named in their
# arguments, evaluate a partition key or a function's text, read files or the server's state, or
# store state. Functions of extensions may do so if they are not IMMUTABLE.
_REACHES_OUT = (
    "(p.provolatile = 'v' AND p.proname <> ALL (ARRAY['random', 'clock_timestamp', 'timeofday',"
    " 'gen_random_uuid']) OR p.provolatile = 's' AND p.pronamespace <> 'pg_catalog'::regnamespace"
    " OR p.proname ~ '^(pg_|query_to_|table_to_|schema_to_|database_to_|cursor_to_|fmgr_"
    "|satisfies_hash_partition$)'"
    " OR 'cstring'::regtype = ANY (p.proargtypes))"
)

# SQL condition: a function looks up casts for the types of its arguments at run time: functions
# that convert to json, functions written in SQL that convert to text, such as ``quote_literal`` and
# ``||``, and functions that fill records. Polymorphic functions that are not built in may do so,
# too. 14 is the oid of the language SQL.
_LOOKS_FOR_CASTS = (
    "(p.proname ~ '^(to_jsonb?|row_to_json|array_to_json|jsonb?_build_|jsonb?_agg"
    "|jsonb?_object_agg|jsonb?_populate_record|jsonb?_to_record)'"
    " OR (p.pronamespace <> 'pg_catalog'::regnamespace OR p.prolang = 14) AND EXISTS ("
    "SELECT FROM unnest(p.proargtypes) AS g JOIN pg_type AS y ON y.oid = g"
    " WHERE y.typtype = 'p'))"
)

# SQL condition: the text of an SQL function is IMMUTABLE and uses only built-in functions and
# types, so if the planner inlines it, only the server's code runs. Unicode escapes are excluded,
# since they could hide any name. Objects that are not built in have oids from 16384 on.
_PLAIN_SQL = (
    "(p.provolatile = 'i' AND p.prosrc !~* '[.]|u&|satisfies_hash_partition'"
    " AND coalesce(strpos(p.prosqlbody::text, format(':funcid %s ',"
    " 'satisfies_hash_partition'::regproc::oid)), 0) = 0"
    " AND NOT EXISTS (SELECT FROM pg_type AS y WHERE (y.oid >= 16384 OR y.typtype = 'p')"
    " AND y.oid = ANY (p.proargtypes::oid[] || p.prorettype))"
    " AND NOT EXISTS (SELECT FROM pg_depend AS d"
    " WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid"
    " AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)))"
)

# Pattern for a call in an expression tree, in the server's notation, whose arguments are all
# columns, possibly relabelled with another type. Calls written in any other way, for instance by
# future versions, do not match, so foreign names in them are refused.
_VAR = "[{]VAR(?: :[a-z]+ (?:-?[0-9]+|[(]b[)]))+[}]"
_COLUMN = f"(?:{_VAR}|[{{]RELABELTYPE :arg {_VAR}(?: :[a-z]+ -?[0-9]+)+[}}])"
_CALL_OF_COLUMNS = (
    "[{](?:FUNCEXPR :funcid ([0-9]+)|OPEXPR :opno ([0-9]+))(?: :[a-z]+ (?:[0-9]+|true|false))*"
    f" :args [(]({_COLUMN}(?: {_COLUMN})*)[)](?: :location -?[0-9]+)?[}}]"
)

# Returns a row for each object with foreign code: relation, description of the object, owner.
# ``{relation}`` is the SQL of the relation's oid. Definitions are only read as text, never run.
# ``tree`` has the relation, its children, and the relations that views among these read.
# ``rules`` has the queries of views (r), and ``expressions`` (e) whatever the planner evaluates.
# ``referenced`` (m) has the objects that they use, and ``calls`` the functions that they call.
# ``foreign_text`` says whether an untrusted role owns the relation, and so may have written the
# expression.
# The flag is false for functions of operators (opfuncid): those that are built in only compute
# values, and others are checked by their owner, as all referenced objects are.
_FOREIGN_CODE_QUERY = """
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
    SELECT w.oid, t.oid AS relation, {owner_is_untrusted} AS foreign_text, w.ev_action::text AS body
    FROM tree AS t
    JOIN pg_rewrite AS w ON w.ev_class = t.oid AND w.ev_type = '1'
    JOIN pg_roles AS o ON o.oid = t.owner
    WHERE t.kind = 'v'
),
-- Objects that views refer to, and those that these depend on: functions of operators and
-- aggregates, checks of domains, components of types, whatever bodies of SQL functions refer to.
referenced(relation, class, object) AS (
    SELECT r.relation, d.refclassid, d.refobjid
    FROM rules AS r
    JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    UNION
    SELECT r.relation, 'pg_type'::regclass, f[1]::oid
    FROM rules AS r,
         regexp_matches(r.body, ':(?:resulttype|typid|row_typeid|consttype) ([0-9]{{5,}})',
                        'g') AS f
    UNION
    SELECT r.relation, 'pg_type'::regclass, x[1]::oid
    FROM rules AS r, regexp_matches(r.body, ':coltypes [(]o ([0-9 ]+)[)]', 'g') AS f,
         regexp_matches(f[1], '[0-9]+', 'g') AS x
    UNION
    SELECT e.relation, e.class, e.object FROM evaluated_objects AS e
    UNION
    SELECT m.relation, n.class, n.object
    FROM referenced AS m
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
calls AS (
    SELECT r.relation, r.foreign_text AND f[1] <> 'opfuncid' AS foreign_text, f[2]::oid AS function,
           'a view' AS location
    FROM rules AS r,
         regexp_matches(r.body, ':(funcid|opfuncid|aggfnoid|winfnoid) ([0-9]+)', 'g') AS f
    UNION
    SELECT e.relation, e.foreign_text AND f[1] <> 'opfuncid', f[2]::oid,
           'an index, statistics or a partition key'
    FROM expressions AS e, regexp_matches(e.tree, ':(funcid|opfuncid) ([0-9]+)', 'g') AS f
),
-- Expressions that the planner evaluates for each statement: those of indexes and statistics of
-- all tables that are read, and of partition keys of these tables and their parents.
parents(oid, part) AS (
    SELECT t.oid, t.oid FROM tree AS t
    UNION
    SELECT i.inhparent, a.part FROM parents AS a JOIN pg_inherits AS i ON i.inhrelid = a.oid
),
expressions AS (
    SELECT t.oid AS relation, {owner_is_untrusted} AS foreign_text, x.tree
    FROM tree AS t
    JOIN pg_roles AS o ON o.oid = t.owner
    CROSS JOIN LATERAL (
        SELECT i.indexprs::text AS tree FROM pg_index AS i WHERE i.indrelid = t.oid
        UNION ALL
        SELECT i.indpred::text FROM pg_index AS i WHERE i.indrelid = t.oid
        UNION ALL
        SELECT s.stxexprs::text FROM pg_statistic_ext AS s WHERE s.stxrelid = t.oid
    ) AS x
    WHERE x.tree IS NOT NULL
    UNION ALL
    SELECT a.part, {owner_is_untrusted}, p.partexprs::text
    FROM parents AS a
    JOIN pg_partitioned_table AS p ON p.partrelid = a.oid
    JOIN pg_class AS c ON c.oid = a.oid
    JOIN pg_roles AS o ON o.oid = c.relowner
    WHERE p.partexprs IS NOT NULL
),
-- Calls whose arguments are all columns: the planner cannot compute their values.
calls_of_columns AS (
    SELECT e.relation, f[1]::oid AS function, f[2]::oid AS operator,
           (SELECT count(*) FROM regexp_matches(f[3], '{{VAR ', 'g')) AS arguments
    FROM expressions AS e, regexp_matches(e.tree, '{call_of_columns}', 'g') AS f
),
-- The expression trees without these calls. Any object of another role that they still mention
-- is refused, whatever it is used for. Strings cannot look like calls: spaces and braces in them
-- are escaped.
other_code AS (
    SELECT e.relation,
           regexp_replace(regexp_replace(e.tree, '{call_of_columns}', '', 'g'),
                          ':location [0-9]+', '', 'g') AS tree
    FROM expressions AS e
),
evaluated_objects(relation, class, object) AS (
    SELECT l.relation, c.class, f[1]::oid
    FROM other_code AS l
    CROSS JOIN LATERAL regexp_matches(l.tree, '[[:<:]][0-9]{{5,10}}[[:>:]]', 'g') AS f
    CROSS JOIN (VALUES ('pg_proc'::regclass), ('pg_operator'::regclass)) AS c(class)
    WHERE f[1]::bigint BETWEEN 16384 AND 4294967295
    UNION
    SELECT l.relation, 'pg_type'::regclass, f[1]::oid
    FROM other_code AS l, regexp_matches(l.tree, ':resulttype ([0-9]{{5,}})', 'g') AS f
    WHERE l.tree ~ '{{(COERCETODOMAIN|COERCEVIAIO|ARRAYCOERCEEXPR) '
    UNION
    -- Calls that the planner may inline or simplify, or for which it computes default arguments.
    SELECT c.relation, 'pg_proc'::regclass, p.oid
    FROM calls_of_columns AS c
    LEFT JOIN pg_operator AS x ON x.oid = c.operator
    JOIN pg_proc AS p ON p.oid = coalesce(x.oprcode, c.function)
    JOIN pg_language AS l ON l.oid = p.prolang
    WHERE c.arguments <> p.pronargs OR p.prosupport <> 0
       OR l.lanname = 'sql' AND NOT {plain_sql}
),
-- Types that expressions mention, and types of columns that views return or read.
used_types(oid) AS (
    SELECT DISTINCT CASE WHEN f[1]::bigint BETWEEN 16384 AND 4294967295 THEN f[1]::bigint::oid END
    FROM (SELECT r.body FROM rules AS r UNION ALL SELECT e.tree FROM expressions AS e) AS b(tree)
    CROSS JOIN LATERAL regexp_matches(
        regexp_replace(b.tree, ':(location|stmt_location|stmt_len) [0-9]+', '', 'g'),
        '[[:<:]][0-9]{{5,10}}[[:>:]]', 'g') AS f
    UNION
    SELECT a.atttypid FROM tree AS t
    JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE EXISTS (SELECT FROM rules)
    UNION
    SELECT n.oid FROM used_types AS s
    JOIN pg_type AS t ON t.oid = s.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
        UNION ALL SELECT t.typelem WHERE t.typelem <> 0
        UNION ALL SELECT r.rngsubtype FROM pg_range AS r WHERE r.rngtypid = t.oid
        UNION ALL SELECT r.rngtypid FROM pg_range AS r WHERE r.rngmultitypid = t.oid
        UNION ALL SELECT a.atttypid FROM pg_attribute AS a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS n
),
foreign_objects AS (
    SELECT m.relation, 'function ' || p.oid::regprocedure AS description, p.proowner AS owner
    FROM referenced AS m JOIN pg_proc AS p ON m.class = 'pg_proc'::regclass AND p.oid = m.object
    UNION ALL
    SELECT m.relation, 'function ' || p.oid::regprocedure, p.proowner
    FROM referenced AS m
    JOIN pg_operator AS x ON m.class = 'pg_operator'::regclass AND x.oid = m.object
    JOIN pg_proc AS p ON p.oid = x.oprcode
    UNION ALL
    -- The function of an operator may belong to another role, and may run SQL.
    SELECT m.relation, 'operator ' || x.oid::regoperator, x.oprowner
    FROM referenced AS m
    JOIN pg_operator AS x ON m.class = 'pg_operator'::regclass AND x.oid = m.object
    UNION ALL
    -- To estimate conditions on ranges, the planner calls these with values from statistics.
    SELECT {relation}, 'function ' || p.oid::regprocedure, p.proowner
    FROM used_types AS s
    JOIN pg_range AS r ON r.rngtypid = s.oid
    JOIN pg_proc AS p ON p.oid IN (r.rngsubdiff, r.rngcanonical)
    UNION ALL
    SELECT m.relation, 'domain ' || format_type(t.oid, NULL), t.typowner
    FROM referenced AS m JOIN pg_type AS t ON m.class = 'pg_type'::regclass AND t.oid = m.object
    WHERE t.typtype = 'd'
    UNION ALL
    -- The owners of a foreign table and its server decide what is read, and as which user.
    SELECT t.oid, 'the query of the foreign table ' || t.oid::regclass, w.owner
    FROM tree AS t
    JOIN pg_foreign_table AS f ON f.ftrelid = t.oid
    JOIN pg_foreign_server AS s ON s.oid = f.ftserver
    CROSS JOIN LATERAL (VALUES (t.owner), (s.srvowner)) AS w(owner)
)
SELECT f.relation::regclass::text, f.description, o.rolname::text
FROM foreign_objects AS f JOIN pg_roles AS o ON o.oid = f.owner
WHERE {owner_is_untrusted}
UNION
SELECT c.relation::regclass::text, 'function ' || p.oid::regprocedure || ' in ' || c.location,
       o.rolname::text
FROM calls AS c
JOIN pg_proc AS p ON p.oid = c.function
JOIN pg_class AS v ON v.oid = c.relation
JOIN pg_roles AS o ON o.oid = v.relowner
WHERE c.foreign_text AND {reaches_out}
   OR {looks_for_casts} AND EXISTS (
       SELECT FROM used_types AS s JOIN pg_type AS t ON t.oid = s.oid
       JOIN pg_roles AS o ON o.oid = t.typowner
       WHERE {owner_is_untrusted}
         -- Built-in SQL functions use the output function if a type has no cast.
         AND (p.prolang <> 14 OR p.pronamespace <> 'pg_catalog'::regnamespace
              OR EXISTS (SELECT FROM pg_cast AS k WHERE t.oid IN (k.castsource, k.casttarget))))
ORDER BY 1, 2, 3"""


# True if ``_FOREIGN_CODE_QUERY`` certainly returns no rows, because the relation is a table without
# any of the objects that it examines. This check saves a third of the time of a small release.
_NO_ATTACHED_CODE = """
SELECT c.relkind IN ('r', 'm') AND NOT c.relispartition
    AND NOT EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid)
    AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid
                    AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
    AND NOT EXISTS (SELECT FROM pg_statistic_ext AS s WHERE s.stxrelid = c.oid
                    AND s.stxexprs IS NOT NULL)
FROM pg_class AS c WHERE c.oid = {relation}"""


def other_owner_query(relation: str) -> str:
    """Return a query that is true if another role owns a relation, and so could add code to it.

    Parameters
    ----------
    relation : SQL of an oid.
    """
    return (
        f"SELECT {OWNER_IS_UNTRUSTED} FROM pg_class AS c JOIN pg_roles AS o ON o.oid = c.relowner"
        f" WHERE c.oid = {relation}"
    )


def no_attached_code_query(relation: str) -> str:
    """Return a query that is true if a relation certainly has no attached code.

    Then the query from ``foreign_code_query`` returns no rows.

    Parameters
    ----------
    relation : SQL of an oid.
    """
    return _NO_ATTACHED_CODE.format(relation=relation)


def foreign_code_query(relation: str) -> str:
    """Return a query for the code of other roles that reading a relation would run.

    Its rows have three columns: the relation, the code, and the role that could change the code.

    Parameters
    ----------
    relation : SQL of an oid.
    """
    return _FOREIGN_CODE_QUERY.format(
        relation=relation,
        owner_is_untrusted=OWNER_IS_UNTRUSTED,
        reaches_out=_REACHES_OUT,
        looks_for_casts=_LOOKS_FOR_CASTS,
        call_of_columns=_CALL_OF_COLUMNS,
        plain_sql=_PLAIN_SQL,
    )


def foreign_code_error(name: object, code: str, owner: str) -> ForeignCode:
    """Build the error for code of another role that reading a relation would run.

    Parameters
    ----------
    code : description of the code, such as ``function f(integer) in a view``.
    owner : the role that could change the code.
    """
    return ForeignCode(
        f"Reading {name} would run {code} of role {owner} with this role's rights.",
        hint=FOREIGN_CODE_HINT,
    )


FOREIGN_CODE_HINT = (
    "Let the owner release it. Or release a copy: a table of your own, filled by the owner or"
    " by a role with no more rights than needed."
)


def foreign_type_error(name: object, column: str, foreign_type: str) -> ForeignCode:
    """Build the error for a column whose type depends on a type of another role.

    Parameters
    ----------
    foreign_type : the other role's type and its owner, as ``type a of role b``.
    """
    return ForeignCode(
        f'Column "{column}" of {name} is of {foreign_type}, whose code would run with this role\'s'
        " rights.",
        hint="Release a copy of your own in which the column is cast to a built-in type, or let the"
        " owner release it.",
    )


def require_no_foreign_code(rows: list[SqlRow]) -> None:
    """Check that ``foreign_code_query`` returned no rows; raises ForeignCode for the first one."""
    if rows:
        raise foreign_code_error(*rows[0])
