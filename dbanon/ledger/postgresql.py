"""Ownership of the ledger on PostgreSQL, and the functions that write it.

If dbanon's SQL functions are installed in the database (``dbanon install``), the ledger belongs to
a role without login, and functions of that role write it. Otherwise it belongs to the role that
made the first release. Code on the ledger's tables, such as triggers, would run with the rights of
the caller. So dbanon uses a ledger only if it belongs to that role without login, to the caller or
to a superuser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from dbanon.data.types import JsonMapping, JsonObject
from dbanon.data.words import escape_control_characters
from dbanon.errors import InvalidName
from dbanon.ledger.tables import CHECKS, RELEASE_COLUMNS, TABLES
from dbanon.sessions.names import literal

# The SQL type of each abstract type of ``dbanon.ledger.tables``.
LEDGER_TYPES: Mapping[str, str] = {
    "uuid": "uuid",
    "timestamp": "timestamp with time zone",
    "text": "text",
    "json": "jsonb",
    "integer": "integer",
    "bigint": "bigint",
    "double": "double precision",
    "bytes": "bytea",
    "amount": "numeric",
}

# The owner of an installed ledger. It cannot log in, and only superusers may be members.
LEDGER_OWNER = "dbanon_ledger"

# The queries below whose names begin with FIND return the oid of a function that writes the ledger;
# they return no row if dbanon's functions are not installed. They avoid to_regprocedure, which
# fails for roles without rights on the schema.

# The function that records a release.
FIND_RELEASE_WRITER = """
    SELECT p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'dbanon' AND p.proname = '_record_release'
      AND oidvectortypes(p.proargtypes) = 'jsonb, jsonb, jsonb'"""

# The function that records the persons of a release.
FIND_PERSONS_WRITER = """
    SELECT p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'dbanon' AND p.proname = '_record_persons'
      AND oidvectortypes(p.proargtypes) = 'uuid, bytea[]'"""

# Revoke all rights to the table of persons from other roles. Run it after creating the table, since
# default privileges may grant rights on new tables. PUBLIC (0) is left out: a separate statement
# revokes its rights.
REVOKE_PERSONS = """
DO $$
DECLARE
    reader text;
BEGIN
    FOR reader IN
        SELECT DISTINCT pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee))
        FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS g
        WHERE c.oid = 'dbanon.release_person'::pg_catalog.regclass
          AND g.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE 'REVOKE ALL ON dbanon.release_person FROM ' || reader;
    END LOOP;
END
$$"""

# The function that spends from a budget.
FIND_SPENDER = """
    SELECT p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'dbanon' AND p.proname = '_spend'
      AND oidvectortypes(p.proargtypes) = 'text, numeric, uuid'"""

# The function that writes rules for columns.
FIND_RULES_WRITER = """
    SELECT p.oid FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'dbanon' AND p.proname = '_write_rules'
      AND oidvectortypes(p.proargtypes) = 'jsonb'"""

# Publishers read the exact figures of their own releases (loss, evaluation and certificate) through
# this view of an installed ledger. The view has its owner's rights, and filters by the current
# role.
INTERNAL_VIEW = "internal_of_publisher"

# Revoke all rights to exact figures from everyone but the ledger's owner: default privileges may
# have granted some when the table was created.
REVOKE_INTERNAL = """DO $internal$
DECLARE
    reader text;
BEGIN
    REVOKE ALL ON dbanon.release_internal FROM PUBLIC;
    FOR reader IN
        SELECT DISTINCT CASE g.grantee WHEN 0 THEN 'PUBLIC'
            ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END
        FROM pg_catalog.pg_class AS c
        CROSS JOIN LATERAL (
            SELECT c.relacl AS acl
            UNION ALL
            SELECT a.attacl FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid
        ) AS acls
        CROSS JOIN LATERAL pg_catalog.aclexplode(acls.acl) AS g
        WHERE c.oid = 'dbanon.release_internal'::pg_catalog.regclass AND g.grantee <> c.relowner
    LOOP
        EXECUTE 'REVOKE ALL ON dbanon.release_internal FROM ' || reader || ' CASCADE';
    END LOOP;
END
$internal$"""

# Names of tables that belong to a single chain.
_CHAIN_TABLE_PATTERN = "^chain_(row|value)_[0-9a-f]{12}$"
_TABLE_NAMES = ", ".join(f"'{name}'" for name in (*TABLES, "alembic_version"))

# SQL rows of dbanon's check constraints: table, name and definition. The definition is that of the
# catalog without spaces, brackets, casts of numbers, and the quotes that `quote_all_identifiers`
# adds.
_OWN_CHECKS = ", ".join(
    f"({literal(table)}, {literal(name)}, {literal('CHECK' + ''.join(condition.split()))})"
    for table, checks in CHECKS.items()
    for name, condition in checks.items()
)

# Query for the untrusted objects of the ledger, with owner and kind. On the ledger's tables, dbanon
# creates no triggers, rules, policies, defaults, references, child tables or expressions, so any of
# them is untrusted. Check constraints must have the text of dbanon's own, and only use built-in
# operators, which pg_depend does not record. The right to create such objects later is untrusted,
# too. Kinds: 'owner', the owner of the object is not trusted; 'code', the object is or has code
# that dbanon did not write; 'grant', an untrusted role has a right to add code.
UNTRUSTED_OBJECTS = f"""
WITH trusted AS (
    SELECT r.oid FROM pg_catalog.pg_roles AS r
    WHERE r.rolname = current_user
       OR r.rolname <> '{LEDGER_OWNER}' AND r.rolsuper
       OR r.rolname = '{LEDGER_OWNER}' AND NOT r.rolsuper AND NOT r.rolcanlogin AND NOT EXISTS (
            -- Since version 16 a membership may give neither the role's rights nor SET ROLE.
            SELECT FROM pg_catalog.pg_auth_members AS m
            JOIN pg_catalog.pg_roles AS member ON member.oid = m.member
            WHERE m.roleid = r.oid AND NOT member.rolsuper
              AND (coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
                   OR coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)))
), ledger_table AS (
    SELECT c.oid, format('%I.%I', n.nspname, c.relname) AS name, c.relkind, c.relowner AS owner,
           c.relacl, c.relrowsecurity
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'dbanon' AND (
        c.relname IN ({_TABLE_NAMES}) OR c.relname ~ '{_CHAIN_TABLE_PATTERN}')
), untrusted AS (
    SELECT 'schema dbanon' AS object, nspowner AS owner, 'owner' AS kind
    FROM pg_catalog.pg_namespace
    WHERE nspname = 'dbanon' AND nspowner NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'table ' || name, owner, 'owner' FROM ledger_table
    WHERE owner NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'view dbanon.{INTERNAL_VIEW}', c.relowner, 'owner'
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'dbanon' AND c.relname = '{INTERNAL_VIEW}'
      AND c.relowner NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure, p.proowner, 'owner'
    FROM pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'dbanon'
      AND p.proname IN ('_record_release', '_record_run', '_spend', '_hold_job', '_require_room',
                        '_write_rules', '_name_of', '_record_persons', '_joint_histories')
      AND p.proowner NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT name || ', which is no table', owner, 'code' FROM ledger_table WHERE relkind <> 'r'
    UNION ALL
    SELECT 'row-level security of ' || name, owner, 'code' FROM ledger_table WHERE relrowsecurity
    UNION ALL
    SELECT format('trigger %I on %s', t.tgname, h.name), p.proowner, 'code'
    FROM ledger_table AS h
    JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = h.oid AND NOT t.tgisinternal
    JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
    UNION ALL
    SELECT format('rule %I on %s', r.rulename, h.name), h.owner, 'code'
    FROM ledger_table AS h
    JOIN pg_catalog.pg_rewrite AS r ON r.ev_class = h.oid WHERE h.relkind = 'r'
    UNION ALL
    SELECT format('policy %I on %s', p.polname, h.name), h.owner, 'code'
    FROM ledger_table AS h JOIN pg_catalog.pg_policy AS p ON p.polrelid = h.oid
    UNION ALL
    SELECT format('default of column %I of %s', a.attname, h.name), h.owner, 'code'
    FROM ledger_table AS h JOIN pg_catalog.pg_attribute AS a ON a.attrelid = h.oid AND a.atthasdef
    UNION ALL
    SELECT format('type of column %I of %s', a.attname, h.name), t.typowner, 'code'
    FROM ledger_table AS h
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = h.oid AND a.attnum > 0
    JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
    -- Tables of chains have columns of their source's types, which are checked separately.
    WHERE t.typnamespace <> 'pg_catalog'::regnamespace AND h.name !~ '^dbanon[.]chain_(row|value)_'
    UNION ALL
    SELECT format('constraint %I of %s', k.conname, k.conrelid::regclass), c.relowner, 'code'
    FROM ledger_table AS h JOIN pg_catalog.pg_constraint AS k
        ON k.conrelid = h.oid AND k.contype NOT IN ('p', 'u', 'n') OR k.confrelid = h.oid
    JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid
    WHERE NOT (
        k.contype = 'c' AND k.conrelid = h.oid AND EXISTS (
            SELECT FROM (VALUES {_OWN_CHECKS}) AS own(relname, conname, definition)
            WHERE own.relname = c.relname AND own.conname = k.conname
              AND own.definition = regexp_replace(pg_get_constraintdef(k.oid),
                                            '[()" ]|::numeric', '', 'g'))
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_depend AS d
            WHERE d.classid = 'pg_constraint'::regclass AND d.objid = k.oid
              AND d.refclassid <> 'pg_class'::regclass))
    UNION ALL
    SELECT format('child or parent %s of %s', c.oid::regclass, h.name), c.relowner, 'code'
    FROM ledger_table AS h JOIN pg_catalog.pg_inherits AS i ON h.oid IN (i.inhparent, i.inhrelid)
    JOIN pg_catalog.pg_class AS c
        ON c.oid = CASE h.oid WHEN i.inhparent THEN i.inhrelid ELSE i.inhparent END
    UNION ALL
    SELECT format('index %s on %s', i.indexrelid::regclass, h.name), h.owner, 'code'
    FROM ledger_table AS h JOIN pg_catalog.pg_index AS i ON i.indrelid = h.oid
    WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL
    UNION ALL
    SELECT format('statistics %I on %s', s.stxname, h.name), h.owner, 'code'
    FROM ledger_table AS h JOIN pg_catalog.pg_statistic_ext AS s ON s.stxrelid = h.oid
    WHERE to_jsonb(s) ->> 'stxexprs' IS NOT NULL
    UNION ALL
    SELECT format('the right %s on %s', lower(g.privilege_type), h.name), g.grantee, 'grant'
    FROM ledger_table AS h CROSS JOIN LATERAL aclexplode(h.relacl) AS g
    WHERE g.privilege_type IN ('TRIGGER', 'REFERENCES')
      AND g.grantee NOT IN (SELECT oid FROM trusted)
    UNION ALL
    SELECT 'the right create on schema dbanon', g.grantee, 'grant'
    FROM pg_catalog.pg_namespace AS n CROSS JOIN LATERAL aclexplode(n.nspacl) AS g
    WHERE n.nspname = 'dbanon' AND g.privilege_type = 'CREATE'
      AND g.grantee NOT IN (SELECT oid FROM trusted)
)
SELECT DISTINCT u.object, CASE u.owner WHEN 0 THEN 'PUBLIC'
    ELSE pg_get_userbyid(u.owner)::text END AS owner, u.kind
FROM untrusted AS u ORDER BY 1, 2"""

NOT_TRUSTED_HINT = (
    "Its owner's code would run as this role. A ledger that a client made is for the client's role"
    " alone; for several roles an administrator runs once: dbanon install, or dbanon install"
    " --sql-only."
)

# Query for the rights that the current role lacks to use the ledger, or to create it if there is
# none. Rights to write its tables are needed only if no function writes them as their owner.
MISSING_RIGHTS = f"""
WITH writer AS (
{FIND_RELEASE_WRITER}
)
SELECT 'CREATE on the database'
WHERE to_regnamespace('dbanon') IS NULL
  AND NOT has_database_privilege(current_database(), 'CREATE')
UNION ALL
SELECT 'USAGE on schema dbanon' FROM pg_namespace
WHERE nspname = 'dbanon' AND NOT has_schema_privilege(oid, 'USAGE')
UNION ALL
SELECT 'CREATE on schema dbanon' FROM pg_namespace AS n
WHERE nspname = 'dbanon' AND NOT has_schema_privilege(oid, 'CREATE') AND NOT EXISTS
  (SELECT FROM pg_class WHERE relnamespace = n.oid AND relname = 'release')
UNION ALL
SELECT 'EXECUTE on function dbanon._record_release' FROM writer
WHERE oid IS NOT NULL AND NOT has_function_privilege(oid, 'EXECUTE')
UNION ALL
SELECT privilege || ' on dbanon.' || relname
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN (VALUES ('release', 'SELECT'), ('release_column', 'SELECT'), ('alembic_version', 'SELECT'),
             ('release', 'INSERT'), ('release', 'UPDATE'), ('release_column', 'INSERT'),
             ('run', 'INSERT')) AS w(name, privilege) ON w.name = c.relname
WHERE n.nspname = 'dbanon' AND NOT has_table_privilege(c.oid, privilege)
  AND (privilege = 'SELECT' OR (SELECT oid FROM writer) IS NULL)"""

# Columns that the recording function fills from the catalog and the clock.
_COLUMNS_SET_BY_SERVER = (
    "created_at",
    "output_schema",
    "output_name",
    "output_kind",
    "relation_name",
    "published_by",
    "superseded_at",
    "owner_oid",
    "publisher_oid",
    "ledger_oid",
    "source_owner_oid",
)
_JSON_COLUMNS = ("internal", *(name for name, kind, _ in RELEASE_COLUMNS if kind == "json"))


# sql/functions/_record_release.sql refuses the same characters, since terminals act on them.
_CONTROL_CHARACTERS = re.compile("[\x01-\x08\x0a-\x1f\x7f-\x9f]")


def entry_arguments(row: JsonMapping) -> JsonObject:
    """Return the values of a ledger row that the caller passes to the recording function.

    Raises
    ------
    InvalidName : a value contains a control character.
    """
    # The guarantee is a sentence with column names, which may contain control characters.
    row = {**row, "guarantee": escape_control_characters(row["guarantee"])}
    for name, value in row.items():
        if isinstance(value, str) and _CONTROL_CHARACTERS.search(value):
            raise InvalidName(
                f"The {name} of the ledger's entry would contain a control character.",
                hint="Rename the table that has it in its name, or release a view with another"
                " name.",
            )
    return {
        name: json.loads(value) if name in _JSON_COLUMNS and isinstance(value, str) else value
        for name, value in row.items()
        if name not in _COLUMNS_SET_BY_SERVER and value is not None
    }
