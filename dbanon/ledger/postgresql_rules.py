"""Build SQL that matches rules with tables on PostgreSQL, and decides whether they apply.

A rule belongs to the table that it was declared for, which is identified by oid. Once that table is
dropped, the rule belongs to the next one with its name. It applies while both the table's owner at
the time and the declaring role could still declare it. Oids identify these roles, but only in the
database that wrote the rule, where ``ledger_oid`` is the oid of ``dbanon.rule``. After a dump is
restored, names identify them.
"""

from __future__ import annotations

# Kinds of relations that can have rules.
_RELKINDS = "('r', 'p', 'v', 'm', 'f')"

# SQL of the full name of table ``c`` in schema ``n``, as ``str(RelationName)`` writes it.
_FULL_NAME = " || '.' || ".join(
    f"""CASE WHEN {part} ~ '[."]' THEN '"' || replace({part}, '"', '""') || '"' ELSE {part} END"""
    for part in ("n.nspname::text", "c.relname::text")
)


def _recorded_role(oid: str, name: str) -> str:
    """Return SQL of the present oid of a role that a rule ``k`` recorded by oid and name.

    A role keeps its oid when it is renamed. If another role has the recorded name now, the oid may
    be of another database, so the result is NULL.

    Parameters
    ----------
    oid, name : the columns of the rule for the oid and the name.
    """
    return f"""CASE
            WHEN k.has_valid_oids THEN (
                SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.oid = k.{oid}::oid
                  AND (r.rolname = k.{name} OR NOT EXISTS (
                    SELECT FROM pg_catalog.pg_roles AS o WHERE o.rolname = k.{name})))
            ELSE (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = k.{name}) END"""


def may_act_as(role: str, owner: str) -> str:
    """Return an SQL condition: a role has another role's rights, or may take them with SET ROLE.

    Membership alone is no proof: since PostgreSQL 16 a membership may grant neither.

    Parameters
    ----------
    role, owner : SQL of the oids of the two roles.
    """
    return (
        f"(pg_catalog.pg_has_role({role}, {owner}, 'USAGE') OR pg_catalog.pg_has_role({role},"
        f" {owner}, CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000"
        " THEN 'SET' ELSE 'MEMBER' END))"
    )


def rules_with_state(condition: str = "true") -> str:
    """Return SQL of all rules with their state and, if it exists, their table.

    The states are ``current``; ``another table``, if the rule was declared for another owner's
    table of the same name, or before a dump was restored; ``not trusted``, if a role could not
    declare the rule now; ``no column``; and ``no table``. Only rules of the first two states can
    apply, and for each column only the one of rank 1.

    A superuser may act as any owner. Nevertheless, the rules of a superuser's dropped table do not
    apply to another owner's table of the same name.

    Rules of earlier versions have no owner, and ``has_valid_oids`` is NULL. They apply if the
    present owner declared them, or if the table is the same and a member of the owning role
    declared them.

    ``is_same`` says whether the table is the one that the rule was declared for. ``acting_owner``
    is the present oid of the role that owned the table then. Aliases: k is the rule, s its table by
    oid, t its table by name; p, a and j are the rule with what has been found out so far.

    Parameters
    ----------
    condition : SQL that limits the tables, whose row of ``pg_class`` is ``c``.
    """
    return f"""
WITH relations AS (
    SELECT c.oid, c.relowner AS owner, {_FULL_NAME} AS full_name
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN {_RELKINDS} AND c.relpersistence <> 't' AND {condition}
), recorded AS (
    SELECT k.source, k.name, k.rule, k.declared_at, k.declared_by,
           coalesce(k.relation_oid, 0) AS relation_oid,
           -- Ledgers of earlier versions lack these columns, so read them from JSON.
           coalesce((j.o ->> 'owner_oid')::bigint, 0) AS owner_oid, j.o ->> 'owner' AS owner,
           (j.o ->> 'declarer_oid')::bigint AS declarer_oid,
           (j.o ->> 'ledger_oid')::bigint = k.tableoid::bigint AS has_valid_oids
    FROM dbanon.rule AS k
    CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(k) - 'rule' AS o) AS j
), identified AS (
    SELECT k.*, {_recorded_role("owner_oid", "owner")} AS recorded_owner,
           {_recorded_role("declarer_oid", "declared_by")} AS declarer,
           CASE WHEN k.has_valid_oids THEN (
               SELECT c.oid FROM pg_catalog.pg_class AS c
               WHERE c.oid = k.relation_oid::oid AND c.relkind IN {_RELKINDS}) END AS existing_oid
    FROM recorded AS k
), with_table AS (
    SELECT k.*, coalesce(s.oid, t.oid) AS table_oid,
           coalesce(s.full_name, t.full_name) AS table_name,
           coalesce(s.owner, t.owner) AS table_owner,
           coalesce(s.oid IS NOT NULL OR k.has_valid_oids IS NULL
                    AND k.relation_oid = t.oid::bigint,
                    false) AS is_same
    FROM identified AS k
    LEFT JOIN relations AS s ON s.oid = k.existing_oid
    LEFT JOIN relations AS t ON t.full_name = CASE WHEN k.existing_oid IS NULL THEN k.source END
), with_owner AS (
    SELECT p.*, CASE
               WHEN p.has_valid_oids IS NOT NULL THEN p.recorded_owner
               WHEN p.declarer = p.table_owner OR p.is_same AND
                    {may_act_as("p.declarer", "p.table_owner")} THEN p.table_owner
           END AS acting_owner
    FROM with_table AS p
), with_trust AS (
    SELECT a.*, coalesce(
               (a.acting_owner = a.table_owner OR {may_act_as("a.acting_owner", "a.table_owner")}
                    AND (a.is_same OR NOT r.rolsuper))
               AND (a.declarer = a.table_owner
                    OR {may_act_as("a.declarer", "a.table_owner")}), false) AS is_trusted
    FROM with_owner AS a LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.acting_owner
)
SELECT j.source, j.name, j.rule, j.declared_at, j.declared_by, j.owner, j.relation_oid, j.owner_oid,
       j.table_oid, coalesce(j.table_name, j.source) AS table_name, j.acting_owner, j.declarer,
       j.is_same, j.is_trusted, coalesce(j.has_valid_oids, false) AS has_valid_oids, c.attnum,
       CASE WHEN j.table_oid IS NULL THEN 'no table'
            WHEN NOT j.is_trusted THEN 'not trusted'
            WHEN c.attnum IS NULL THEN 'no column'
            WHEN j.is_same OR j.has_valid_oids AND j.acting_owner = j.table_owner THEN 'current'
            ELSE 'another table' END AS state,
       -- The rule of rank 1 applies to its column.
       pg_catalog.row_number() OVER (
           PARTITION BY j.table_oid, j.name
           ORDER BY j.is_trusted DESC, j.is_same DESC,
                    j.acting_owner = j.table_owner DESC NULLS LAST,
                    j.declared_at DESC, j.source, j.owner_oid, j.relation_oid) AS rank
FROM with_trust AS j
LEFT JOIN pg_catalog.pg_attribute AS c
    ON c.attrelid = j.table_oid AND c.attname = j.name AND c.attnum > 0 AND NOT c.attisdropped"""


def build_rule_oids_update(condition: str = "true") -> str:
    """Return SQL that updates oids and names in the rules that apply.

    Rules follow a table that was renamed, recreated by the owner, or restored from a dump, and use
    new oids from then on. Rules that another role declared for a dropped table have no effect
    until the owner declares them.
    """
    return f"""
UPDATE dbanon.rule AS k
SET source = j.table_name, relation_oid = j.table_oid::bigint,
    owner_oid = j.acting_owner::bigint, owner = pg_catalog.pg_get_userbyid(j.acting_owner)::text,
    declarer_oid = j.declarer::bigint, declared_by = pg_catalog.pg_get_userbyid(j.declarer)::text,
    ledger_oid = k.tableoid::bigint
FROM ({rules_with_state(condition)}
) AS j
WHERE k.source = j.source AND k.name = j.name AND k.owner_oid = j.owner_oid
  AND k.relation_oid = j.relation_oid AND j.is_trusted AND j.rank = 1
  AND NOT (j.is_same AND j.has_valid_oids AND j.source = j.table_name)
  AND (j.state <> 'another table' OR NOT j.has_valid_oids)
  AND NOT EXISTS (
    SELECT FROM dbanon.rule AS o
    WHERE o.source = j.table_name AND o.name = j.name AND o.owner_oid = j.acting_owner::bigint
      AND o.relation_oid = j.table_oid::bigint
      AND (o.source, o.owner_oid, o.relation_oid) <> (k.source, k.owner_oid, k.relation_oid))"""
