"""Find the ledger entry of a relation.

On PostgreSQL the oids in the ledger decide (``ledger.postgresql_releases``). Other databases have
neither roles nor stable relation ids. There the name and kind of the relation decide, and the mark
that dbanon writes in its comment.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dbanon.ledger import postgresql_releases
from dbanon.sessions.base import MARK, SUMMARY_SUFFIX, ExistingRelation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session


def trusted(session: Session) -> bool:
    """Return True if there is a ledger; raises LedgerNotTrusted if reading it is unsafe."""
    if not session.has_ledger():
        return False
    session.require_trusted_ledger()
    return True


def optional_column(session: Session, column: str, table: str = "release") -> str:
    """SQL of a column that older ledgers lack; NULL if it is missing.

    Only writing a release migrates a ledger; until then its old tables are read.
    """
    types = dict(session.columns_of(session.ledger_name(table)))
    return quote(column) if column in types else "NULL"


def entry_of(session: Session, name: RelationName, existing: ExistingRelation | None) -> str | None:
    """Return the id of the release that a relation holds, or None.

    In older ledgers and on other databases the mark names the entry, and the entry must name the
    relation, since marks can be copied. On PostgreSQL the entry must also have the relation's oid
    or, if it records none, its owner.
    """
    if existing is None or not trusted(session):
        return None
    if postgresql_releases.has_oids(session):
        return postgresql_releases.release_id_of(session, existing)
    entry = _entry(session, existing.mark)
    if entry is None or not session.is_same_name(entry.output, name) or entry.kind != existing.kind:
        return None
    if existing.oid is None:
        return entry.release_id
    if entry.output_oid is None:
        return entry.release_id if entry.published_by == existing.owner else None
    return entry.release_id if entry.output_oid == existing.oid else None


def published_by_role(session: Session, alias: str = "") -> tuple[str, tuple[Any, ...]]:
    """SQL condition for entries that this role published, and its parameters.

    It compares the role's oid, which survives a rename, if the entry has an oid of this database;
    otherwise the name. Without roles all names are empty.

    Parameters
    ----------
    alias : the alias of the table of releases, with its dot.
    """
    by_name = f"coalesce({alias}published_by, '') = ?"
    user, role_oid = session.current_user() or "", session.role_id()
    ledger = session.find_existing(session.ledger_name("release"))
    if role_oid is None or ledger is None or not postgresql_releases.has_oids(session):
        return by_name, (user,)
    by_oid = f"coalesce({alias}publisher_oid, 0) = ?"
    return (
        f"CASE WHEN coalesce({alias}ledger_oid, 0) = ? THEN {by_oid} ELSE {by_name} END",
        (ledger.oid, role_oid, user),
    )


def names_entry(session: Session, existing: ExistingRelation) -> bool:
    """Return True if the mark of a relation names an entry, perhaps that of another relation."""
    return _entry(session, existing.mark) is not None


def summary_name(output: RelationName) -> RelationName:
    """Return the name of an output's summary, whether or not it exists."""
    return output.sibling(output.name + SUMMARY_SUFFIX)


def summary_of(
    session: Session, output: RelationName, existing_output: ExistingRelation | None
) -> ExistingRelation | None:
    """Return the summary of an output, or None.

    A name over the limit has no summary: PostgreSQL would truncate it to that of the output.
    """
    name = summary_name(output)
    limit = session.name_limit
    if limit is not None and len(name.name.encode()) > limit:
        return None
    existing = session.find_existing(name)
    if existing is None or not is_summary_of(session, output, existing, existing_output):
        return None
    return existing


def is_summary_of(
    session: Session,
    output: RelationName,
    existing: ExistingRelation,
    existing_output: ExistingRelation | None,
) -> bool:
    """Return True if a relation is the summary of a release of this output.

    It must have the owner and either the columns or, for summaries of earlier versions, the mark.
    """
    if not trusted(session):
        return False
    if postgresql_releases.has_oids(session) and postgresql_releases.is_summary(
        session, output, existing, existing_output
    ):
        return True
    entry = _entry(session, existing.mark)
    if entry is None or existing.kind != "table" or not session.is_same_name(entry.output, output):
        return False
    owners = {entry.published_by, existing_output.owner if existing_output else entry.published_by}
    return existing.owner in owners


class _Entry(NamedTuple):
    """The ledger columns that identify the relation of a release."""

    release_id: str
    output: RelationName
    kind: str
    output_oid: int | None
    published_by: str | None


def _entry(session: Session, mark: str | None) -> _Entry | None:
    if mark is None or not mark.startswith(MARK):
        return None
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, output_kind,"
        f" {optional_column(session, 'output_oid')}, published_by"
        f" FROM {session.ledger_name('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (mark.removeprefix(MARK),),
    )
    if not rows:
        return None
    release_id, schema, name, kind, output_oid, publisher = rows[0]
    return _Entry(str(release_id), RelationName(schema, name), kind, output_oid, publisher)
