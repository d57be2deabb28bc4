"""Read, write and remove the rules of tables in the ledger of the same database."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping, SqlRow
from dbanon.data.words import json_text
from dbanon.errors import SourceChanged
from dbanon.job.rules import TableRules, require_one_entity, require_one_weight
from dbanon.ledger import entries
from dbanon.ledger.tables import LONG_TEXT, as_text
from dbanon.release.words import now
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

# The states of rules, and of columns without a rule. The rule applies to its column; the column has
# no rule; the rule's column was dropped or renamed.
CURRENT, NO_RULE, NO_COLUMN = "current", "no rule", "no column"
# The rule was declared for another owner's table of this name, or before a dump was restored; the
# rule's table was dropped; the role that declared the rule could not declare it now.
ANOTHER_TABLE, NO_TABLE, NOT_TRUSTED = "another table", "no table", "not trusted"


@dataclass(frozen=True)
class StoredRule:
    """A recorded rule for a column, with its present state.

    Parameters
    ----------
    source : the name of its table when the rule was last written.
    name : the column.
    relation_oid, owner_oid : oids of the table and its owner at that time, on PostgreSQL; else 0.
    table : the present name of its table; equals ``source`` if the table does not exist.
    state : one of the states above, such as ``CURRENT``.
    is_trusted : whether the role that declared it could still declare it; if not, the rule does not
        apply.
    is_replaceable : whether the present owner of the table may change or remove it.
    rank : its precedence among the rules of its column; of these only the one of rank 1 can apply.
    """

    source: str
    name: str
    rule: JsonMapping
    declared_at: str
    declared_by: str | None
    relation_oid: int
    owner_oid: int
    table: str
    state: str
    is_trusted: bool = True
    is_replaceable: bool = True
    rank: int = 1


def list_rules(session: Session, source: RelationName | None = None) -> list[StoredRule]:
    """List the rules of all tables, or for each column of one table the rule of rank 1."""
    return [rule for rule in _all_rules(session, source) if rule.rank == 1 or source is None]


def _all_rules(session: Session, source: RelationName | None) -> list[StoredRule]:
    """List the rules of all tables or of one, including those that do not apply."""
    if not _has_rules(session):
        return []
    # None if the database has no roles, so that only names identify tables.
    rows_with_state = session.rules.list_with_state(source)
    if rows_with_state is not None:
        return [_stored_rule(row) for row in rows_with_state]
    where, parameters = ("", ()) if source is None else (" WHERE source = ?", (str(source),))
    rows = session.rows(
        f"SELECT source, name, CAST(rule AS {LONG_TEXT}), {as_text('rule', ('declared_at',))},"
        f" declared_by FROM {session.ledger.table('rule').quoted}{where}"
        " ORDER BY source, name",
        parameters,
    )
    columns = {
        table: _columns_of(session, table) for table in dict.fromkeys(table for table, *_ in rows)
    }
    return [
        StoredRule(
            source=table,
            name=name,
            rule=entries.parse_json(rule),
            declared_at=declared_at,
            declared_by=declared_by,
            relation_oid=0,
            owner_oid=0,
            table=table,
            state=_find_state(columns[table], name),
        )
        for table, name, rule, declared_at, declared_by in rows
    ]


def _stored_rule(row: SqlRow) -> StoredRule:
    """Build a rule from a row of ``rules_with_state``."""
    (
        source,
        name,
        rule,
        declared_at,
        declared_by,
        relation_oid,
        owner_oid,
        table,
        state,
        is_trusted,
        is_same_table,
        rank,
    ) = row
    return StoredRule(
        source=source,
        name=name,
        rule=entries.parse_json(rule),
        declared_at=declared_at,
        declared_by=declared_by,
        relation_oid=int(relation_oid),
        owner_oid=int(owner_oid),
        table=table,
        state=state,
        is_trusted=bool(is_trusted),
        is_replaceable=bool(is_trusted or is_same_table),
        rank=int(rank),
    )


def _columns_of(session: Session, source: str) -> frozenset[str] | None:
    """Return the columns of a rule's table; None if it does not exist."""
    name = parse_relation(source)
    if session.catalog.find_existing(name) is None:
        return None
    return frozenset(column for column, _ in session.catalog.list_columns(name))


def _find_state(columns: frozenset[str] | None, name: str) -> str:
    """Return the state of a rule in a database without roles."""
    if columns is None:
        return NO_TABLE
    return CURRENT if name in columns else NO_COLUMN


def renamed_table(session: Session, source: RelationName) -> str | None:
    """Return the present name of a table that was renamed since its rules were declared.

    Returns None if it still has its name, or no rules.

    Parameters
    ----------
    source : the name of the table when its rules were declared.
    """
    tables = (rule.table for rule in list_rules(session) if rule.source == str(source))
    return next((table for table in tables if table != str(source)), None)


def require_unchanged_rules(session: Session, source: RelationName, digest: str) -> None:
    """Check that the rules of a table still have the digest that a job was built from.

    Raises
    ------
    SourceChanged : the rules or the table changed.
    """
    if TableRules(_trusted_rules_by_column(session, source)).digest != digest:
        raise SourceChanged(
            f"{source} or its rules changed in the meantime; nothing was published.",
            hint="Try again.",
        )


def _trusted_rules_by_column(session: Session, source: RelationName) -> dict[str, JsonMapping]:
    return {stored.name: stored.rule for stored in list_rules(session, source) if stored.is_trusted}


def write_rules(session: Session, source: RelationName, rules: TableRules) -> None:
    """Write rules for columns of a table; other columns keep theirs.

    Raises
    ------
    InsufficientRights : the table or the ledger belongs to another role.
    InvalidParameter : two columns would be person identifiers.
    """
    _prepare_ledger(session, source)
    # False if the database has no function that writes with the ledger owner's rights.
    if session.rules.write_as_owner(source, {"set": dict(rules.by_column)}):
        return
    all_rules = TableRules({**_trusted_rules_by_column(session, source), **rules.by_column})
    require_one_entity(all_rules)
    require_one_weight(all_rules)
    _delete(session, source, list(rules.by_column))
    # The rules of other columns follow the table, which may have been renamed or recreated.
    session.rules.update_oids(source)
    # The columns of the ledger that identify the table, its owner and the declaring role.
    identity_columns = session.rules.identity_columns(source)
    declared_at = session.ledger.to_timestamp(now())
    columns = ("source", "name", "rule", "declared_at", *identity_columns)
    rows = [
        (str(source), name, json_text(rule), declared_at, *identity_columns.values())
        for name, rule in rules.by_column.items()
    ]
    session.connection.insert_rows(session.ledger.table("rule"), columns, rows)


def remove_rules(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    """Remove rules for columns of a table.

    Parameters
    ----------
    columns : the columns whose rules are removed; None for those of all columns.

    Raises
    ------
    InsufficientRights : the table or the ledger belongs to another role.
    """
    _prepare_ledger(session, source)
    removed_columns = None if columns is None else list(columns)
    if not session.rules.write_as_owner(source, {"remove": removed_columns}):
        _delete(session, source, removed_columns)
        # The other rules follow the table, which may have been renamed or recreated.
        session.rules.update_oids(source)


def _prepare_ledger(session: Session, source: RelationName) -> None:
    """Create the ledger if needed, and check that this role owns the table."""
    # Migrating a ledger could run code on its tables, so check it first. Check again afterwards:
    # the ledger may be new, or another session's.
    session.ledger.require_trusted()
    session.ledger.ensure_current()
    session.ledger.require_trusted()
    session.rules.require_owner(source)


def _delete(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    """Delete the rules of these columns that the owner of the table may remove; None for all."""
    relation = session.ledger.table("rule").quoted
    for rule in _all_rules(session, source):
        if rule.is_replaceable and (columns is None or rule.name in columns):
            session.run(
                f"DELETE FROM {relation} WHERE source = ? AND name = ?"
                " AND coalesce(owner_oid, 0) = ? AND coalesce(relation_oid, 0) = ?",
                (rule.source, rule.name, rule.owner_oid, rule.relation_oid),
            )


def _has_rules(session: Session) -> bool:
    """Return True if there is a ledger with a table of rules."""
    if not entries.has_trusted_ledger(session):
        return False
    return session.ledger.has_table("rule")
