"""SQL that matches rules with tables on PostgreSQL, and decides whether they apply.

A rule belongs to the table that it was declared for, which is identified by oid. Once that table is
dropped, the rule belongs to the next one with its name. It applies while both the table's owner at
the time and the declaring role could still declare it. Oids identify these roles, but only in the
database that wrote the rule, where ``ledger_oid`` is the oid of ``dbanon.rule``. After a dump is
restored, names identify them.
"""

from __future__ import annotations

# Kinds of relations that can have rules.
_KINDS = "('r', 'p', 'v', 'm', 'f')"

# Writes a name as ``str(RelationName)`` does.
_NAME = " || '.' || ".join(
    f"""CASE WHEN {part} ~ '[."]' THEN '"' || replace({part}, '"', '""') || '"' ELSE {part} END"""
    for part in ("n.nspname::text", "c.relname::text")
)


def _role(oid: str, name: str) -> str:
    """SQL of the present oid of a role that a rule recorded by oid and name.

    A role keeps its oid when it is renamed. If another role has the recorded name now, the oid may
    be of another database, so the result is NULL.
    """
    return f"""CASE
            WHEN k.is_numbered THEN (
                SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.oid = k.{oid}::oid
                  AND (r.rolname = k.{name} OR NOT EXISTS (
                    SELECT FROM pg_catalog.pg_roles AS o WHERE o.rolname = k.{name})))
            ELSE (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname = k.{name}) END"""


def may_act_as(role: str, owner: str) -> str:
    """SQL condition: a role has another role's rights, or may take them with SET ROLE.

    Since version 16 a membership may grant neither.
    """
    return (
        f"(pg_catalog.pg_has_role({role}, {owner}, 'USAGE') OR pg_catalog.pg_has_role({role},"
        f" {owner}, CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000"
        " THEN 'SET' ELSE 'MEMBER' END))"
    )


def rules_with_state(condition: str = "true") -> str:
    """SQL of all rules with their state and, if it exists, their table.

    A superuser may act as any owner, yet rules of a superuser's dropped table do not apply to
    another owner's table of the same name.

    Rules of earlier versions have no owner. They apply if the present owner declared them, or if
    the table is the same and a member of the owning role declared them.

    Parameters
    ----------
    condition : SQL that limits the tables, whose row of ``pg_class`` is ``c``.
    """
    return f"""
WITH relations AS (
    SELECT c.oid, c.relowner AS owner, {_NAME} AS named
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.relkind IN {_KINDS} AND c.relpersistence <> 't' AND {condition}
), recorded AS (
    SELECT k.source, k.name, k.rule, k.declared_at, k.declared_by,
           coalesce(k.relation_oid, 0) AS relation_oid,
           -- A ledger of an earlier version is read as it is.
           coalesce((j.o ->> 'owner_oid')::bigint, 0) AS owner_oid, j.o ->> 'owner' AS owner,
           (j.o ->> 'declarer_oid')::bigint AS declarer_oid,
           (j.o ->> 'ledger_oid')::bigint = k.tableoid::bigint AS is_numbered
    FROM dbanon.rule AS k
    CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(k) - 'rule' AS o) AS j
), identified AS (
    SELECT k.*, {_role("owner_oid", "owner")} AS author,
           {_role("declarer_oid", "declared_by")} AS declarer,
           CASE WHEN k.is_numbered THEN (
               SELECT c.oid FROM pg_catalog.pg_class AS c
               WHERE c.oid = k.relation_oid::oid AND c.relkind IN {_KINDS}) END AS living
    FROM recorded AS k
), placed AS (
    SELECT k.*, coalesce(s.oid, t.oid) AS table_oid, coalesce(s.named, t.named) AS table_name,
           coalesce(s.owner, t.owner) AS table_owner,
           coalesce(s.oid IS NOT NULL OR k.is_numbered IS NULL AND k.relation_oid = t.oid::bigint,
                    false) AS is_same
    FROM identified AS k
    LEFT JOIN relations AS s ON s.oid = k.living
    LEFT JOIN relations AS t ON t.named = CASE WHEN k.living IS NULL THEN k.source END
), authored AS (
    SELECT p.*, CASE
               WHEN p.is_numbered IS NOT NULL THEN p.author
               WHEN p.declarer = p.table_owner OR p.is_same AND
                    {may_act_as("p.declarer", "p.table_owner")} THEN p.table_owner
           END AS by_role
    FROM placed AS p
), judged AS (
    SELECT a.*, coalesce(
               (a.by_role = a.table_owner OR {may_act_as("a.by_role", "a.table_owner")}
                    AND (a.is_same OR NOT r.rolsuper))
               AND (a.declarer = a.table_owner
                    OR {may_act_as("a.declarer", "a.table_owner")}), false) AS is_trusted
    FROM authored AS a LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = a.by_role
)
SELECT j.source, j.name, j.rule, j.declared_at, j.declared_by, j.owner, j.relation_oid, j.owner_oid,
       j.table_oid, coalesce(j.table_name, j.source) AS table_name, j.by_role, j.declarer,
       j.is_same, j.is_trusted, coalesce(j.is_numbered, false) AS is_numbered, c.attnum,
       CASE WHEN j.table_oid IS NULL THEN 'no table'
            WHEN NOT j.is_trusted THEN 'not trusted'
            WHEN c.attnum IS NULL THEN 'no column'
            WHEN j.is_same OR j.is_numbered AND j.by_role = j.table_owner THEN 'current'
            ELSE 'another table' END AS state,
       -- Of several rules of a column the first counts.
       pg_catalog.row_number() OVER (
           PARTITION BY j.table_oid, j.name
           ORDER BY j.is_trusted DESC, j.is_same DESC, j.by_role = j.table_owner DESC NULLS LAST,
                    j.declared_at DESC, j.source, j.owner_oid, j.relation_oid) AS rank
FROM judged AS j
LEFT JOIN pg_catalog.pg_attribute AS c
    ON c.attrelid = j.table_oid AND c.attname = j.name AND c.attnum > 0 AND NOT c.attisdropped"""


def tie_rules(condition: str = "true") -> str:
    """SQL that updates oids and names in the rules that apply.

    Rules follow a table that was renamed, recreated by the owner, or restored from a dump, and use
    new oids from then on. Rules that another role declared for a dropped table have no effect
    until the owner declares them.
    """
    return f"""
UPDATE dbanon.rule AS k
SET source = j.table_name, relation_oid = j.table_oid::bigint,
    owner_oid = j.by_role::bigint, owner = pg_catalog.pg_get_userbyid(j.by_role)::text,
    declarer_oid = j.declarer::bigint, declared_by = pg_catalog.pg_get_userbyid(j.declarer)::text,
    ledger_oid = k.tableoid::bigint
FROM ({rules_with_state(condition)}
) AS j
WHERE k.source = j.source AND k.name = j.name AND k.owner_oid = j.owner_oid
  AND k.relation_oid = j.relation_oid AND j.is_trusted AND j.rank = 1
  AND NOT (j.is_same AND j.is_numbered AND j.source = j.table_name)
  AND (j.state <> 'another table' OR NOT j.is_numbered)
  AND NOT EXISTS (
    SELECT FROM dbanon.rule AS o
    WHERE o.source = j.table_name AND o.name = j.name AND o.owner_oid = j.by_role::bigint
      AND o.relation_oid = j.table_oid::bigint
      AND (o.source, o.owner_oid, o.relation_oid) <> (k.source, k.owner_oid, k.relation_oid))"""
