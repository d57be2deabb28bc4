"""Rules in the ledger of the database that their table is in: read, written, forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.data.words import json_text
from dbanon.errors import SourceChanged
from dbanon.job.rules import Rules, require_one_entity
from dbanon.ledger import entries
from dbanon.ledger.tables import LONG_TEXT, as_text
from dbanon.release.words import now
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

CURRENT, NO_RULE, NO_COLUMN = "current", "no rule", "no column"
ANOTHER_TABLE, NO_TABLE, NOT_TRUSTED = "another table", "no table", "not trusted"


@dataclass(frozen=True)
class Kept:
    """A rule as the ledger has it, and what became of its table and its author.

    Parameters
    ----------
    source : the name of its table when it was declared, or last written.
    relation_oid, owner_oid : of the table and its owner then, on PostgreSQL; else 0.
    table : the name of the table that it belongs to now; as ``source`` where there is none.
    is_trusted : whether it counts: a role declared it that may do so today.
    is_replaceable : whether the table's owner of today may change or remove it.
    rank : 1 is the rule of its column that counts before the others.
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


def rules_kept(session: Session, source: RelationName | None = None) -> list[Kept]:
    """The rules of a table, or of all, by name; of each column the one that counts first."""
    return [rule for rule in _all_rules(session, source) if rule.rank == 1 or source is None]


def _all_rules(session: Session, source: RelationName | None) -> list[Kept]:
    if not _there(session):
        return []
    judged = session.judged_rules(source)
    if judged is not None:
        return [
            Kept(
                named, name, entries.parsed(rule), at, by, int(oid), int(owner), table, state,
                bool(trusted), bool(trusted or same), int(rank),
            )
            for named, name, rule, at, by, oid, owner, table, state, trusted, same, rank in judged
        ]  # fmt: skip
    where, parameters = ("", ()) if source is None else (" WHERE source = ?", (str(source),))
    rows = session.rows(
        f"SELECT source, name, CAST(rule AS {LONG_TEXT}), {as_text('rule', ('declared_at',))},"
        f" declared_by FROM {session.ledger_name('rule').quoted}{where}"
        " ORDER BY source, name",
        parameters,
    )
    columns = {table: _columns_of(session, table) for table in dict.fromkeys(r[0] for r in rows)}
    return [
        Kept(table, name, entries.parsed(rule), at, by, 0, 0, table, _state(columns[table], name))
        for table, name, rule, at, by in rows
    ]


def _columns_of(session: Session, source: str) -> frozenset[str] | None:
    """The columns of a rule's table; None where it is gone."""
    name = parse_relation(source)
    if session.find_existing(name) is None:
        return None
    return frozenset(column for column, _ in session.columns_of(name))


def _state(columns: frozenset[str] | None, name: str) -> str:
    """What became of a rule's table and column, where there are no roles."""
    if columns is None:
        return NO_TABLE
    return CURRENT if name in columns else NO_COLUMN


def followed_table(session: Session, source: RelationName) -> str | None:
    """The table that had this name when its rules were declared, and has another name now."""
    tables = (rule.table for rule in rules_kept(session) if rule.source == str(source))
    return next((table for table in tables if table != str(source)), None)


def require_digest(session: Session, source: RelationName, digest: str) -> None:
    """Check that the rules of a table that count are those that a job was made by.

    Raises
    ------
    SourceChanged : they, or the table, are others now.
    """
    if Rules(_trusted_rules(session, source)).digest != digest:
        raise SourceChanged(
            f"{source} or its rules changed meanwhile; nothing was published.", hint="Try again."
        )


def _trusted_rules(session: Session, source: RelationName) -> dict[str, Mapping[str, Any]]:
    return {entry.name: entry.rule for entry in rules_kept(session, source) if entry.is_trusted}


def declare(session: Session, source: RelationName, rules: Rules) -> None:
    """Write rules of a table; columns that they do not name keep theirs.

    Raises
    ------
    InsufficientRights : the table is another role's, or the ledger is.
    InvalidParameter : two columns would say whose a row is.
    """
    _prepare(session, source)
    if session.have_rules_written(source, {"set": dict(rules.by_column)}):
        return
    require_one_entity(Rules({**_trusted_rules(session, source), **rules.by_column}))
    _delete(session, source, list(rules.by_column))
    session.tie_rules(source)
    author = session.rule_author(source)
    moment = session.timestamp(now())
    columns = ("source", "name", "rule", "declared_at", *author)
    rows = [
        (str(source), name, json_text(rule), moment, *author.values())
        for name, rule in rules.by_column.items()
    ]
    session.insert_rows(session.ledger_name("rule"), columns, rows)


def undeclare(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    """Forget rules of a table: of these columns, or all; raises as ``declare``."""
    _prepare(session, source)
    removed = None if columns is None else list(columns)
    if not session.have_rules_written(source, {"remove": removed}):
        _delete(session, source, removed)
        session.tie_rules(source)


def _prepare(session: Session, source: RelationName) -> None:
    session.require_trusted_ledger()
    session.ensure_ledger()
    session.require_trusted_ledger()
    session.require_owner(source)


def _delete(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    """Remove what the owner of a table may: rules that count, and all of this very table."""
    relation = session.ledger_name("rule").quoted
    for rule in _all_rules(session, source):
        if rule.is_replaceable and (columns is None or rule.name in columns):
            session.run(
                f"DELETE FROM {relation} WHERE source = ? AND name = ?"
                " AND coalesce(owner_oid, 0) = ? AND coalesce(relation_oid, 0) = ?",
                (rule.source, rule.name, rule.owner_oid, rule.relation_oid),
            )


def _there(session: Session) -> bool:
    """True where there is a ledger that has rules."""
    if not entries.trusted(session):
        return False
    return session.find_existing(session.ledger_name("rule")) is not None
