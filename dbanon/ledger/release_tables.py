"""The tables that releases of the ledger are, behind the views that readers use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.errors import ReleaseNotFound, TableNotFound
from dbanon.ledger import entries
from dbanon.ledger import postgresql_releases as by_number
from dbanon.ledger.entry_of import published_by_us
from dbanon.ledger.recorded import rows_of_release
from dbanon.sessions.base import MARK
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session


def table_of(
    session: Session, output: RelationName, entry: Mapping[str, Any]
) -> RelationName | None:
    """The table of a view's release, where it is the one that the entry recorded."""
    if by_number.has_numbers(session):
        tables = by_number.tables_of(session, str(entry["release_id"]))
        return tables[0].name if tables else None
    name = output.sibling(entry["relation_name"])
    table = session.find_existing(name)
    if table is None or table.kind != "table" or table.mark != MARK + str(entry["release_id"]):
        return None
    recorded = entry.get("relation_oid")
    # A mark can be copied.
    if recorded is None or table.oid is None:
        return name if table.owner in (None, entry["published_by"]) else None
    return name if table.oid == recorded else None


def tables_of_releases(
    session: Session, output: RelationName
) -> dict[str, tuple[RelationName, str]]:
    """The table that each release of an output by this role was written to, and its mark, by id."""
    if not entries.trusted(session):
        return {}
    wanted = session.resolve_output(output)
    is_ours, parameters = published_by_us(session)
    found = session.rows(
        "SELECT output_schema, output_name, relation_name, CAST(release_id AS VARCHAR(36))"
        f" FROM {session.ledger_name('release').quoted} WHERE {is_ours}",
        parameters,
    )
    return {
        str(release_id): (RelationName(schema, relation), MARK + str(release_id))
        for schema, name, relation, release_id in found
        if session.same_name(wanted, RelationName(schema, name))
    }


def is_there(session: Session, table: RelationName, mark: str) -> bool:
    """Whether a table still bears the mark of its release."""
    existing = session.find_existing(table)
    return existing is not None and existing.mark == mark


def superseded_tables(
    session: Session, keep_last: int, of: RelationName | None = None
) -> list[RelationName]:
    """Released tables that a view no longer shows, but for the newest ``keep_last``.

    ``of`` is the one output that is looked at. What is not ours to drop, by entry and rights, is
    passed over.
    """
    if not entries.trusted(session):
        return []
    wanted = None if of is None else session.resolve_output(of)
    if by_number.has_numbers(session):
        return _superseded(session, keep_last, wanted)
    entries_of_views = session.rows(
        "SELECT output_schema, output_name, relation_name, CAST(release_id AS VARCHAR(36)),"
        f" {entries.newer(session, 'relation_oid')}, published_by"
        f" FROM {session.ledger_name('release').quoted}"
        " WHERE output_kind = 'view' AND superseded_at IS NOT NULL"
        " ORDER BY superseded_at DESC, created_at DESC"
    )
    seen: dict[tuple[str | None, str], int] = {}
    tables = []
    for schema, output, relation, release_id, oid, publisher in entries_of_views:
        if wanted is not None and not session.same_name(wanted, RelationName(schema, output)):
            continue
        seen[schema, output] = seen.get((schema, output), 0) + 1
        if seen[schema, output] <= keep_last:
            continue
        mark = MARK + release_id
        name = RelationName(schema, relation)
        existing = session.find_existing(name)
        if existing is None or existing.mark != mark or existing.kind != "table":
            continue
        tied = existing.owner == publisher if oid is None else existing.oid in (oid, None)
        # The view shows it still, whatever the ledger says.
        view = session.find_existing(RelationName(schema, output))
        is_shown = view is not None and view.mark == mark
        if tied and not is_shown and session.may_drop(existing):
            tables.append(name)
    return tables


def _superseded(
    session: Session, keep_last: int, output: RelationName | None
) -> list[RelationName]:
    """The same by the oids of the ledger."""
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name"
        f" FROM {session.ledger_name('release').quoted}"
        " WHERE output_kind = 'view' AND superseded_at IS NOT NULL"
        " ORDER BY superseded_at DESC, created_at DESC, release_id"
    )
    places: dict[RelationName, int] = {}
    old: set[str] = set()
    for release_id, schema, name in rows:
        output_name = RelationName(schema, name)
        places[output_name] = places.get(output_name, 0) + 1
        if places[output_name] > keep_last and output in (None, output_name):
            old.add(release_id)
    tables = []
    for table in by_number.tables_of(session):
        if table.release_id in old and not table.is_shown:
            existing = session.find_existing(table.name)
            if existing is not None and session.may_drop(existing):
                tables.append(table.name)
    return tables


def shown_table(session: Session, output: RelationName) -> list[RelationName]:
    """The table that a view of ours shows now; none where the ledger has no such release."""
    try:
        entry = entries.find_release(session, output)
    except (ReleaseNotFound, TableNotFound):
        return []
    [row] = rows_of_release(session, "release", entry.release_id)
    table = table_of(session, entry.name, row) if row["output_kind"] == "view" else None
    return [] if table is None else [table]
