"""Find the ledger entry of a relation.

On PostgreSQL the oids in an entry identify the relation (``ledger.postgresql_releases``). Other
databases have neither roles nor stable relation ids. There the relation is identified by its name,
its kind and the *mark*, a text with the release's id that dbanon writes in its comment.

The *summary* of an output is a table beside it with one row that describes the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dbanon.sessions.base import MARK, SUMMARY_SUFFIX, ExistingRelation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session


def has_trusted_ledger(session: Session) -> bool:
    """Return True if there is a ledger; raises LedgerNotTrusted if reading it is unsafe."""
    if not session.ledger.exists():
        return False
    session.ledger.require_trusted()
    return True


def optional_columns(session: Session, columns: Sequence[str], table: str = "release") -> list[str]:
    """Return SQL of columns that older ledgers lack: the name, or NULL if the column is missing.

    Only writing a release migrates a ledger; until then the old tables are read as they are.
    """
    types = dict(session.catalog.list_columns(session.ledger.table(table)))
    return [quote(column) if column in types else "NULL" for column in columns]


def optional_column(session: Session, column: str, table: str = "release") -> str:
    """Return the result of ``optional_columns`` for one column."""
    return optional_columns(session, [column], table)[0]


def release_id_of(
    session: Session, name: RelationName, existing: ExistingRelation | None
) -> str | None:
    """Return the id of the release that a relation holds; None if it holds none.

    PostgreSQL finds the entry by oid. In older ledgers and on other databases the mark names the
    entry, and the entry must name the relation, since marks can be copied. In an older ledger on
    PostgreSQL, the entry must also have the relation's oid or, if it records none, its owner.

    Parameters
    ----------
    name : the name of the relation.
    existing : the relation of this name; None if there is none.
    """
    if existing is None or not has_trusted_ledger(session):
        return None
    from dbanon.ledger import postgresql_releases

    if postgresql_releases.records_oids(session):
        return postgresql_releases.release_id_of(session, existing)
    entry = _marked_entry(session, existing.mark)
    if (
        entry is None
        or not session.catalog.is_same_name(entry.output, name)
        or entry.kind != existing.kind
    ):
        return None
    if existing.oid is None:
        return entry.release_id
    if entry.output_oid is None:
        return entry.release_id if entry.published_by == existing.owner else None
    return entry.release_id if entry.output_oid == existing.oid else None


def own_entries_condition(
    session: Session, alias: str = ""
) -> tuple[str, tuple[str | int | None, ...]]:
    """Return an SQL condition for the entries that this role published, and its parameters.

    Roles are compared by oid, which survives a rename, if the entry was recorded in this database;
    otherwise by name. In databases without roles all names are empty.

    Parameters
    ----------
    alias : the alias of the table of releases, followed by a dot, such as ``r.``; empty for none.
    """
    from dbanon.ledger import postgresql_releases

    name_condition = f"coalesce({alias}published_by, '') = ?"
    user, role_oid = session.catalog.find_current_user() or "", session.catalog.find_role_id()
    release_table = session.catalog.find_existing(session.ledger.table("release"))
    if role_oid is None or release_table is None or not postgresql_releases.records_oids(session):
        return name_condition, (user,)
    oid_condition = f"coalesce({alias}publisher_oid, 0) = ?"
    return (
        f"CASE WHEN coalesce({alias}ledger_oid, 0) = ? THEN {oid_condition}"
        f" ELSE {name_condition} END",
        (release_table.oid, role_oid, user),
    )


def mark_names_entry(session: Session, existing: ExistingRelation) -> bool:
    """Return True if the mark of a relation names an entry, perhaps that of another relation."""
    return _marked_entry(session, existing.mark) is not None


def summary_name(output: RelationName) -> RelationName:
    """Return the name of an output's summary, whether or not it exists."""
    return output.sibling(output.name + SUMMARY_SUFFIX)


def find_summary(
    session: Session, output: RelationName, existing_output: ExistingRelation | None
) -> ExistingRelation | None:
    """Return the summary of an output; None if there is none.

    There is none if its name would exceed the limit of the database: PostgreSQL would truncate it
    to the output's own name.
    """
    name = summary_name(output)
    limit = session.dialect.name_limit
    if limit is not None and len(name.name.encode()) > limit:
        return None
    existing = session.catalog.find_existing(name)
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

    A summary must belong to the owner of the output, and have the columns of a summary. Summaries
    of earlier versions are recognized by a mark instead of these columns.

    Parameters
    ----------
    existing : the relation that may be a summary.
    existing_output : the relation of the output; None if there is none.
    """
    if not has_trusted_ledger(session):
        return False
    from dbanon.ledger import postgresql_releases

    if postgresql_releases.records_oids(session) and postgresql_releases.is_summary(
        session, output, existing, existing_output
    ):
        return True
    entry = _marked_entry(session, existing.mark)
    if (
        entry is None
        or existing.kind != "table"
        or not session.catalog.is_same_name(entry.output, output)
    ):
        return False
    owners = {entry.published_by, existing_output.owner if existing_output else entry.published_by}
    return existing.owner in owners


class _EntryRelation(NamedTuple):
    """The ledger columns that identify the relation of a release."""

    release_id: str
    output: RelationName
    kind: str
    output_oid: int | None
    published_by: str | None


def _marked_entry(session: Session, mark: str | None) -> _EntryRelation | None:
    """Return the entry whose release id is in a mark; None if there is none."""
    if mark is None or not mark.startswith(MARK):
        return None
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name, output_kind,"
        f" {optional_column(session, 'output_oid')}, published_by"
        f" FROM {session.ledger.table('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (mark.removeprefix(MARK),),
    )
    if not rows:
        return None
    release_id, schema, name, kind, output_oid, publisher = rows[0]
    return _EntryRelation(str(release_id), RelationName(schema, name), kind, output_oid, publisher)
