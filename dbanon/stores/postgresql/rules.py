"""Read and write declared rules, which say how a table's columns may be released, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.types import SqlRow
from dbanon.data.words import json_text
from dbanon.errors import InsufficientRights
from dbanon.ledger import postgresql as ledger
from dbanon.ledger.postgresql_rules import build_rule_oids_update, rules_with_state
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.rule_catalog import RuleCatalog
from dbanon.stores.postgresql.connection import PostgresqlConnection

# Parameters: schema and name of a relation. Returns its oid, its owner, and whether the caller has
# the owner's rights.
_OWNER = """
SELECT c.oid::bigint, pg_get_userbyid(c.relowner)::text, pg_has_role(c.relowner, 'USAGE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = ?::name AND c.relname = ?::name"""

# JSON is cast to text, since SQL functions would otherwise get its values in another form.
# ``is_trusted`` says whether the role that declared the rule could do so now, and ``is_same``
# whether the table is the one that the rule was declared for, not another one of the same name.
_SELECT_RULES = """
SELECT j.source, j.name, j.rule::text, j.declared_at::text, j.declared_by, j.relation_oid,
       j.owner_oid, j.table_name, j.state, j.is_trusted, j.is_same, j.rank
FROM ({rules}
) AS j
WHERE {condition} ORDER BY j.table_name, j.attnum, j.name, j.rank"""
# Condition for the rules of all tables. Rules of dropped tables are included. Of the rules of a
# column, only the first in precedence (rank 1) is listed. If this one is untrusted and its column
# no longer exists, it is left out.
_ALL_TABLES = "j.table_oid IS NULL OR j.rank = 1 AND (j.is_trusted OR j.attnum IS NOT NULL)"

# Parameters: schema and name of a table. Returns what the ledger records with a new rule: the table
# and its owner, the declaring role, which is the current one, and the oid of the ledger's table of
# rules. Whether this role may declare rules has been checked before.
_AUTHOR = """
SELECT c.oid::bigint, c.relowner::bigint, pg_get_userbyid(c.relowner)::text, r.oid::bigint,
       r.rolname::text, 'dbanon.rule'::regclass::oid::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_roles AS r ON r.rolname = current_user
WHERE n.nspname = ?::name AND c.relname = ?::name"""
_AUTHOR_COLUMNS = (
    "relation_oid",
    "owner_oid",
    "owner",
    "declarer_oid",
    "declared_by",
    "ledger_oid",
)

# Parameters: schema and name of a relation, and those of a table. Returns whether the relation's
# owner may read the table.
_OWNER_READS = """
SELECT has_table_privilege(c.relowner, t.oid, 'SELECT')
       AND has_schema_privilege(c.relowner, t.relnamespace, 'USAGE')
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN pg_class AS t JOIN pg_namespace AS m ON m.oid = t.relnamespace
WHERE n.nspname = ?::name AND c.relname = ?::name AND m.nspname = ?::name
  AND t.relname = ?::name"""


class PostgresqlRuleCatalog(RuleCatalog):
    """The declared rules of a PostgreSQL database."""

    _connection: PostgresqlConnection

    def require_owner(self, source: RelationName) -> None:
        rows = self._connection.rows(_OWNER, (source.schema, source.name))
        if not rows:
            # The relation does not exist, so it has no owner.
            return
        [(_, owner, has_owner_rights)] = rows
        if not has_owner_rights:
            raise InsufficientRights(
                f"Rules of {source} can only be declared by its owner.",
                hint=f'Run it as role "{owner}", or as a member of it.',
            )

    def require_owner_reads(self, source: RelationName, table: RelationName) -> None:
        names = (source.schema, source.name, table.schema, table.name)
        rows = self._connection.rows(_OWNER_READS, names)
        if rows != [(True,)]:
            [(_, owner, _)] = self._connection.rows(_OWNER, (source.schema, source.name))
            raise InsufficientRights(
                f"A rule of {source} would release labels of {table}, which the owner of {source}"
                " may not read.",
                hint=f"Its owner runs: GRANT USAGE ON SCHEMA {quote(str(table.schema))} TO"
                f" {quote(owner)}; GRANT SELECT ON {table.quoted} TO {quote(owner)}; Or name"
                " `quasi_identifiers`, `hierarchies` and all other roles in the call.",
            )

    def write_as_owner(self, source: RelationName, change: Mapping[str, object]) -> bool:
        # Without dbanon's functions, nothing can be written with the rights of the ledger's owner.
        oid = self._lookup_oid(source)
        if oid is None or not self._connection.rows(ledger.FIND_RULES_WRITER):
            return False
        self._connection.call("dbanon._declare", [json_text({"source": oid, **change})])
        return True

    def list_with_state(self, source: RelationName | None) -> list[SqlRow]:
        if source is None:
            query = _SELECT_RULES.format(rules=rules_with_state(), condition=_ALL_TABLES)
        else:
            rules = rules_with_state(self._table_condition(source))
            query = _SELECT_RULES.format(rules=rules, condition="j.table_oid IS NOT NULL")
        return self._connection.rows(query)

    def identity_columns(self, source: RelationName) -> dict[str, object]:
        [author] = self._connection.rows(_AUTHOR, (source.schema, source.name))
        return dict(zip(_AUTHOR_COLUMNS, author, strict=True))

    def update_oids(self, source: RelationName) -> None:
        self._connection.run(build_rule_oids_update(self._table_condition(source)))

    def _table_condition(self, source: RelationName) -> str:
        """SQL condition: the row ``c`` of pg_class is this table."""
        oid = self._lookup_oid(source)
        return "false" if oid is None else f"c.oid = {oid}::oid"

    def _lookup_oid(self, name: RelationName) -> int | None:
        rows = self._connection.rows(_OWNER, (name.schema, name.name))
        return int(rows[0][0]) if rows else None
