"""Rules in the ledger of the database that their table is in: read, written, forgotten."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dbanon.data.frozen import dataclass
from dbanon.job.rules import Rules, require_one_entity
from dbanon.ledger import entries
from dbanon.ledger.tables import as_text
from dbanon.release.words import now
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session

CURRENT, NO_RULE, NO_COLUMN = "current", "no rule", "no column"
ANOTHER_TABLE, NO_TABLE = "another table", "no table"


@dataclass(frozen=True)
class Kept:
    """A rule as the ledger has it.

    Parameters
    ----------
    source : the table's name.
    relation_oid : PostgreSQL's number of the table that it was declared of.
    """

    source: str
    name: str
    rule: Mapping[str, Any]
    declared_at: str
    declared_by: str | None
    relation_oid: int | None


def rules_kept(session: Session, source: RelationName | None = None) -> list[Kept]:
    """The rules of a table, or of all, by name."""
    if not _there(session):
        return []
    where, given = ("", ()) if source is None else (" WHERE source = ?", (str(source),))
    # As text: inside a backend rows travel as JSON, of which the keys are not kept.
    others = as_text("rule", ("declared_at", "declared_by", "relation_oid"))
    found = session.rows(
        f"SELECT source, name, CAST(rule AS VARCHAR), {others}"
        f" FROM {session.ledger_name('rule').quoted}{where}"
        " ORDER BY source, name",
        given,
    )
    return [
        Kept(table, name, entries.parsed(rule), at, by, None if oid is None else int(oid))
        for table, name, rule, at, by, oid in found
    ]


def earlier_name(session: Session, oid: int | None) -> str | None:
    """The name that rules were declared of a relation under, which has another one now."""
    if oid is None or not _there(session):
        return None
    relation = session.ledger_name("rule").quoted
    found = session.rows(f"SELECT min(source) FROM {relation} WHERE relation_oid = ?", (oid,))
    return None if found[0][0] is None else str(found[0][0])


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
    before = {one.name: one.rule for one in rules_kept(session, source)}
    require_one_entity(Rules({**before, **rules.by_column}))
    _delete(session, source, list(rules.by_column))
    existing = session.find_existing(source)
    moment, by = session.timestamp(now()), session.current_user()
    oid = None if existing is None else existing.oid
    columns = ("source", "name", "rule", "declared_at", "declared_by", "relation_oid")
    rows = [
        (str(source), name, json.dumps(rule, ensure_ascii=False), moment, by, oid)
        for name, rule in rules.by_column.items()
    ]
    session.insert_rows(session.ledger_name("rule"), columns, rows)


def undeclare(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    """Forget rules of a table: of these columns, or all; raises as ``declare``."""
    _prepare(session, source)
    removed = None if columns is None else list(columns)
    if not session.have_rules_written(source, {"remove": removed}):
        _delete(session, source, removed)


def _prepare(session: Session, source: RelationName) -> None:
    session.require_trusted_ledger()
    session.ensure_ledger()
    session.require_trusted_ledger()
    session.require_owner(source)


def _delete(session: Session, source: RelationName, columns: Sequence[str] | None) -> None:
    relation = session.ledger_name("rule").quoted
    if columns is None:
        session.run(f"DELETE FROM {relation} WHERE source = ?", (str(source),))
        return
    for name in columns:
        session.run(f"DELETE FROM {relation} WHERE source = ? AND name = ?", (str(source), name))


def _there(session: Session) -> bool:
    """True where there is a ledger that has rules."""
    if not entries.trusted(session):
        return False
    return session.find_existing(session.ledger_name("rule")) is not None
