"""Which entry of the ledger a relation is.

On PostgreSQL the ledger's own record decides (``ledger.postgresql_releases``). Other databases have
no roles and no lasting numbers of relations: there it is the mark, the name and the kind.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dbanon.ledger import postgresql_releases as by_number
from dbanon.sessions.base import MARK, SUMMARY_SUFFIX, ExistingRelation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session


def trusted(session: Session) -> bool:
    """True where there is a ledger; raises LedgerNotTrusted where reading it is not safe."""
    if not session.has_ledger():
        return False
    session.require_trusted_ledger()
    return True


def newer(session: Session, column: str, table: str = "release") -> str:
    """SQL of a column of a table, by default of releases, that version 0.1.0 did not have.

    A ledger is brought up to date when a release is written into it; until then it is read as it
    is.
    """
    types = dict(session.columns_of(session.ledger_name(table)))
    return quote(column) if column in types else "NULL"


def entry_of(session: Session, name: RelationName, existing: ExistingRelation | None) -> str | None:
    """The id of the release that a relation is, or None.

    In older ledgers, and on other databases, its mark names the entry, and the entry names it: a
    mark that was copied names another. On PostgreSQL that is by oid then, and where the entry has
    none yet, by the owner.
    """
    if existing is None or not trusted(session):
        return None
    if by_number.has_numbers(session):
        return by_number.release_id_of(session, existing)
    entry = _entry(session, existing.mark)
    if entry is None or not session.same_name(entry.output, name) or entry.kind != existing.kind:
        return None
    if existing.oid is None:
        return entry.release_id
    if entry.output_oid is None:
        return entry.release_id if entry.published_by == existing.owner else None
    return entry.release_id if entry.output_oid == existing.oid else None


def published_by_us(session: Session, alias: str = "") -> tuple[str, tuple[Any, ...]]:
    """SQL of whether this role published an entry of releases, and its parameters.

    By the number of the role, which it keeps under another name, where the entry has a number of
    this database. Nobody has a name where there are no roles.

    Parameters
    ----------
    alias : of the table of releases, with its dot.
    """
    by_name = f"coalesce({alias}published_by, '') = ?"
    user, number = session.current_user() or "", session.role_number()
    ledger = session.find_existing(session.ledger_name("release"))
    if number is None or ledger is None or not by_number.has_numbers(session):
        return by_name, (user,)
    by_oid = f"coalesce({alias}publisher_oid, 0) = ?"
    return (
        f"CASE WHEN coalesce({alias}ledger_oid, 0) = ? THEN {by_oid} ELSE {by_name} END",
        (ledger.oid, number, user),
    )


def names_entry(session: Session, existing: ExistingRelation) -> bool:
    """Whether the mark of a relation names an entry, which may be another relation's."""
    return _entry(session, existing.mark) is not None


def summary_name(output: RelationName) -> RelationName:
    """The name that an output's summary has, if there is one."""
    return output.sibling(output.name + SUMMARY_SUFFIX)


def summary_of(
    session: Session, output: RelationName, of_output: ExistingRelation | None
) -> ExistingRelation | None:
    """The summary of an output, or None.

    PostgreSQL would cut a name that is too long, here to that of the output itself.
    """
    name = summary_name(output)
    limit = session.name_limit
    if limit is not None and len(name.name.encode()) > limit:
        return None
    existing = session.find_existing(name)
    if existing is None or not is_summary_of(session, output, existing, of_output):
        return None
    return existing


def is_summary_of(
    session: Session,
    output: RelationName,
    existing: ExistingRelation,
    of_output: ExistingRelation | None,
) -> bool:
    """True when a relation is the summary of a release of this output.

    Its columns and owner say so, or its mark and owner, as summaries of earlier versions have other
    columns.
    """
    if not trusted(session):
        return False
    if by_number.has_numbers(session) and by_number.is_summary(
        session, output, existing, of_output
    ):
        return True
    entry = _entry(session, existing.mark)
    if entry is None or existing.kind != "table" or not session.same_name(entry.output, output):
        return False
    owners = {entry.published_by, of_output.owner if of_output else entry.published_by}
    return existing.owner in owners


class _Entry(NamedTuple):
    """What the ledger has of a release that tells which relation it is."""

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
        f" {newer(session, 'output_oid')}, published_by"
        f" FROM {session.ledger_name('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (mark.removeprefix(MARK),),
    )
    if not rows:
        return None
    release_id, schema, output, *rest = rows[0]
    return _Entry(str(release_id), RelationName(schema, output), *rest)
