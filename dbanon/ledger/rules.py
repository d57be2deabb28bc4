"""Read, declare and remove the rules of tables in the ledger of the same database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.data.words import json_text
from dbanon.errors import SourceChanged
from dbanon.job.rules import TableRules, require_one_entity
from dbanon.ledger import entries
from dbanon.ledger.tables import LONG_TEXT, as_text
from dbanon.release.words import now
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

CURRENT, NO_RULE, NO_COLUMN = "current", "no rule", "no column"
ANOTHER_TABLE, NO_TABLE, NOT_TRUSTED = "another table", "no table", "not trusted"


@dataclass(frozen=True)
class StoredRule:
    """A recorded rule, and the state of its table and author.

    Parameters
    ----------
    source : the name of its table when the rule was last written.
    relation_oid, owner_oid : oids of the table and its owner then, on PostgreSQL; else 0.
    table : the name of its present table; equals ``source`` if there is none.
    is_trusted : whether it applies: the role that declared it could still do so.
    is_replaceable : whether the present owner of the table may change or remove it.
    rank : its precedence among the rules of its column; 1 applies.
    """

    source: str
    name: str
    rule: Mapping[str, Any]
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
    """List the rules of a table, or of all tables, by name; for one table only those that apply."""
    return [rule for rule in _all_rules(session, source) if rule.rank == 1 or source is None]


def _all_rules(session: Session, source: RelationName | None) -> list[StoredRule]:
    if not _has_rules(session):
        return []
    rows_with_state = session.rules_with_state(source)
    if rows_with_state is not None:
        return [_stored_rule(row) for row in rows_with_state]
    where, parameters = ("", ()) if source is None else (" WHERE source = ?", (str(source),))
    rows = session.rows(
        f"SELECT source, name, CAST(rule AS {LONG_TEXT}), {as_text('rule', ('declared_at',))},"
        f" declared_by FROM {session.ledger_name('rule').quoted}{where}"
        " ORDER BY source, name",
        parameters,
    )
    columns = {table: _columns_of(session, table) for table in dict.fromkeys(r[0] for r in rows)}
    return [
        StoredRule(
            table, name, entries.parse_json(rule), at, by, 0, 0, table, _state(columns[table], name)
        )
        for table, name, rule, at, by in rows
    ]


def _stored_rule(row: tuple[Any, ...]) -> StoredRule:
    """Build a rule from a row of ``rules_with_state``."""
    source, name, rule, at, by, oid, owner, table, state, trusted, is_same_table, rank = row
    return StoredRule(
        source,
        name,
        entries.parse_json(rule),
        at,
        by,
        int(oid),
        int(owner),
        table,
        state,
        bool(trusted),
        bool(trusted or is_same_table),
        int(rank),
    )


def _columns_of(session: Session, source: str) -> frozenset[str] | None:
    """Return the columns of a rule's table; None if it does not exist."""
    name = parse_relation(source)
    if session.find_existing(name) is None:
        return None
    return frozenset(column for column, _ in session.columns_of(name))


def _state(columns: frozenset[str] | None, name: str) -> str:
    """Return the state of a rule in a database without roles."""
    if columns is None:
        return NO_TABLE
    return CURRENT if name in columns else NO_COLUMN


def followed_table(session: Session, source: RelationName) -> str | None:
    """Return the present name of the table that had this name when its rules were declared."""
    tables = (rule.table for rule in list_rules(session) if rule.source == str(source))
    return next((table for table in tables if table != str(source)), None)


def require_digest(session: Session, source: RelationName, digest: str) -> None:
    """Check that the rules of a table are still those that a job was built from.

    Raises
    ------
    SourceChanged : the rules or the table changed.
    """
    if TableRules(_trusted_rules(session, source)).digest != digest:
        raise SourceChanged(
            f"{source} or its rules changed meanwhile; nothing was published.", hint="Try again."
        )


def _trusted_rules(session: Session, source: RelationName) -> dict[str, Mapping[str, Any]]:
    return {entry.name: entry.rule for entry in list_rules(session, source) if entry.is_trusted}


def declare(session: Session, source: RelationName, rules: TableRules) -> None:
    """Declare rules for columns of a table; other columns keep theirs.

    Raises
    ------
    InsufficientRights : the table or the ledger belongs to another role.
    InvalidParameter : two columns would be person identifiers.
    """
    _prepare(session, source)
    if session.write_rules_as_owner(source, {"set": dict(rules.by_column)}):
        return
    require_one_entity(TableRules({**_trusted_rules(session, source), **rules.by_column}))
    _delete(session, source, list(rules.by_column))
    session.update_rule_oids(source)
    author = session.describe_rule_author(source)
    moment = session.timestamp(now())
    columns = ("source", "name", "rule", "declared_at", *author)
    rows = [
        (str(source), name, json_text(rule), moment, *author.values())
        for name, rule in rules.by_column.items()
    ]
    session.insert_rows(session.ledger_name("rule"), columns, rows)


def undeclare(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    """Remove the rules of these columns of a table, or all; raises as ``declare``."""
    _prepare(session, source)
    removed = None if columns is None else list(columns)
    if not session.write_rules_as_owner(source, {"remove": removed}):
        _delete(session, source, removed)
        session.update_rule_oids(source)


def _prepare(session: Session, source: RelationName) -> None:
    session.require_trusted_ledger()
    session.ensure_ledger()
    session.require_trusted_ledger()
    session.require_owner(source)


def _delete(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    """Delete the rules that the owner may remove: those that apply or are for this very table."""
    relation = session.ledger_name("rule").quoted
    for rule in _all_rules(session, source):
        if rule.is_replaceable and (columns is None or rule.name in columns):
            session.run(
                f"DELETE FROM {relation} WHERE source = ? AND name = ?"
                " AND coalesce(owner_oid, 0) = ? AND coalesce(relation_oid, 0) = ?",
                (rule.source, rule.name, rule.owner_oid, rule.relation_oid),
            )


def _has_rules(session: Session) -> bool:
    """Return True if there is a ledger with a table of rules."""
    if not entries.trusted(session):
        return False
    return session.find_existing(session.ledger_name("rule")) is not None
