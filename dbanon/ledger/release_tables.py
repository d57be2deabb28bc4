"""Find the tables of releases, behind the views that readers use.

On PostgreSQL the ledger identifies a table by its oid. On other databases the *mark* of a table, a
comment that dbanon writes on it, names the release.
"""

from __future__ import annotations

import re

from dbanon.data.frozen import dataclass
from dbanon.errors import ReleaseNotFound, TableNotFound
from dbanon.ledger import entries, postgresql_releases
from dbanon.ledger.recorded_report import ledger_time, rows_of_release
from dbanon.ledger.relation_entries import own_entries_condition
from dbanon.ledger.tables import LedgerEntry, LedgerRow
from dbanon.sessions.base import MARK
from dbanon.sessions.names import RelationName, parse_relation
from dbanon.sessions.session import Session

RELEASE_ID_PATTERN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)

_ROWS_MISSING_HINT = (
    "Its rows are in no relation of this database. `dbanon verify FILE --ledger URL` compares an"
    " exported file of it with the ledger."
)


@dataclass(frozen=True)
class ReleaseRelation:
    """A release and the relation that holds its rows.

    Parameters
    ----------
    relation : the output of the release or, if it is superseded, its table.
    superseded_at : when it was superseded; None if it is current.
    """

    entry: LedgerEntry
    relation: RelationName
    superseded_at: str | None = None


def find_release_relation(session: Session, release: RelationName | str) -> ReleaseRelation:
    """Find a release by id, by output, or by the table behind a view, current or superseded.

    Raises
    ------
    ReleaseNotFound : the ledger has no such entry, or the relation is not the recorded one.
    TableNotFound : its relation no longer exists.
    LedgerNotTrusted : the ledger belongs to another role.
    LedgerEntryBroken : the entry is malformed.
    InsufficientRights : this role may not read the ledger.
    """
    if isinstance(release, str) and RELEASE_ID_PATTERN.fullmatch(release):
        return _find_by_id(session, release.lower())
    name = parse_relation(release) if isinstance(release, str) else release
    try:
        entry = entries.find_release(session, name)
    except (ReleaseNotFound, TableNotFound):
        release_of_table = _find_by_table(session, session.catalog.resolve_output(name))
        if release_of_table is None:
            raise
        return release_of_table
    return ReleaseRelation(entry, entry.name)


def _find_by_id(session: Session, release_id: str) -> ReleaseRelation:
    """Find a release by id.

    Raises
    ------
    ReleaseNotFound : the ledger has no such entry, or the relation is not the recorded one.
    TableNotFound : its relation no longer exists.
    """
    rows = (
        rows_of_release(session, "release", release_id)
        if entries.has_trusted_ledger(session)
        else []
    )
    if not rows:
        raise ReleaseNotFound(
            f"The ledger of this database has no release {release_id}.",
            hint="dbanon releases lists all releases with their current state.",
        )
    [row] = rows
    output = RelationName(row["output_schema"], row["output_name"])
    if postgresql_releases.records_oids(session):
        # The output may have been renamed since. ``find_states`` has pairs of the state of a
        # release and the present name of its output.
        _, output = postgresql_releases.find_states(session).get(release_id, (None, output))
    if entries.release_id_of(session, output, session.catalog.find_existing(output)) == release_id:
        return ReleaseRelation(entries.read_release(session, release_id, output), output)
    table = find_release_table(session, output, row)
    if table is not None:
        return _release_relation(session, row, output, table)
    if row["superseded_at"] is None:
        # This raises the error that explains the mismatch.
        entries.find_release(session, output)
    recorded_table = output.sibling(row["relation_name"])
    if row["output_kind"] == "view" and session.catalog.find_existing(recorded_table) is not None:
        raise ReleaseNotFound(
            f"{recorded_table} has the name of a release's table, but is not the table that the"
            " ledger recorded.",
            hint=entries.REPAIR_HINT,
        )
    raise _table_dropped_error(row, recorded_table)


def _find_by_table(session: Session, name: RelationName) -> ReleaseRelation | None:
    """Find the release that was written to a table; None if the ledger has none.

    Raises
    ------
    TableNotFound : the table was dropped.
    """
    if not entries.has_trusted_ledger(session):
        return None
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name"
        f" FROM {session.ledger.table('release').quoted}"
        " WHERE relation_name = ? OR CAST(release_id AS VARCHAR(36)) = ? ORDER BY created_at DESC",
        (name.name, _marked_release_id(session, name)),
    )
    # The oids decide on PostgreSQL; elsewhere the name or the mark suggests entries to check.
    if postgresql_releases.records_oids(session):
        release_ids = [
            table.release_id
            for table in postgresql_releases.find_tables(session)
            if table.name == name
        ]
    else:
        release_ids = [str(release_id) for release_id, _, _ in rows]
    outputs = {
        str(release_id): RelationName(schema, output_name)
        for release_id, schema, output_name in rows
    }
    for release_id in release_ids:
        [row] = rows_of_release(session, "release", release_id)
        output = RelationName(row["output_schema"], row["output_name"])
        if find_release_table(session, output, row) == name:
            return _release_relation(session, row, output, name)
    if session.catalog.find_existing(name) is None:
        for release_id, output in outputs.items():
            [row] = rows_of_release(session, "release", release_id)
            if not session.catalog.is_same_name(output.sibling(row["relation_name"]), name):
                continue
            if row["superseded_at"] is None:
                # For a current release the error about its output is more helpful.
                return None
            raise _table_dropped_error(row, name)
    return None


def _marked_release_id(session: Session, name: RelationName) -> str:
    """Return the release id in the mark of a relation; an empty string if it has none."""
    existing = session.catalog.find_existing(name)
    return "" if existing is None or existing.mark is None else existing.mark.removeprefix(MARK)


def _release_relation(
    session: Session, row: LedgerRow, output: RelationName, table: RelationName
) -> ReleaseRelation:
    """Build the result for a release whose rows are in this table, from its ledger row."""
    entry = entries.read_release(session, str(row["release_id"]), output)
    return ReleaseRelation(entry, table, ledger_time(row["superseded_at"]))


def _table_dropped_error(row: LedgerRow, table: RelationName) -> TableNotFound:
    """Build the error for a release whose table no longer exists."""
    output = RelationName(row["output_schema"], row["output_name"])
    superseded_at = ledger_time(row["superseded_at"])
    time_phrase = "" if superseded_at is None else f", superseded at {superseded_at},"
    fate = "was dropped" if row["output_kind"] == "view" else "was replaced or dropped"
    return TableNotFound(
        f"The table {table} of release {row['release_id']} of {output}{time_phrase} {fate}.",
        hint=_ROWS_MISSING_HINT,
    )


def find_release_table(
    session: Session, output: RelationName, entry: LedgerRow
) -> RelationName | None:
    """Return the table of a release if it exists and is the recorded one, else None.

    Parameters
    ----------
    output : the name of the release.
    entry : its ledger row, by column name.
    """
    if postgresql_releases.records_oids(session):
        tables = postgresql_releases.find_tables(session, str(entry["release_id"]))
        return tables[0].name if tables else None
    name = output.sibling(entry["relation_name"])
    table = session.catalog.find_existing(name)
    if table is None or table.kind != "table" or table.mark != MARK + str(entry["release_id"]):
        return None
    recorded_oid = entry.get("relation_oid")
    # The mark alone proves nothing: it can be copied.
    if recorded_oid is None or table.oid is None:
        return name if table.owner in (None, entry["published_by"]) else None
    return name if table.oid == recorded_oid else None


def own_tables_by_release(
    session: Session, output: RelationName
) -> dict[str, tuple[RelationName, str]]:
    """Return the table and its mark for each release of an output by this role, by release id.

    The mark is the comment that dbanon writes on a released table.
    """
    if not entries.has_trusted_ledger(session):
        return {}
    resolved = session.catalog.resolve_output(output)
    own_entries, parameters = own_entries_condition(session)
    rows = session.rows(
        "SELECT output_schema, output_name, relation_name, CAST(release_id AS VARCHAR(36))"
        f" FROM {session.ledger.table('release').quoted} WHERE {own_entries}",
        parameters,
    )
    return {
        str(release_id): (RelationName(schema, relation), MARK + str(release_id))
        for schema, name, relation, release_id in rows
        if session.catalog.is_same_name(resolved, RelationName(schema, name))
    }


def has_mark(session: Session, table: RelationName, mark: str) -> bool:
    """Return True if a table exists and has this mark."""
    existing = session.catalog.find_existing(table)
    return existing is not None and existing.mark == mark


def superseded_tables(
    session: Session, keep_last: int, output: RelationName | None = None
) -> list[RelationName]:
    """List the released tables that no view shows any more and that this role may drop.

    Tables that are not the recorded ones, or that another role published, are left out.

    Parameters
    ----------
    keep_last : the number of superseded releases of each output whose tables are not listed, from
        the newest.
    output : the output whose tables are listed; None for all outputs.
    """
    if not entries.has_trusted_ledger(session):
        return []
    resolved = None if output is None else session.catalog.resolve_output(output)
    if postgresql_releases.records_oids(session):
        return _superseded_tables_by_oid(session, keep_last, resolved)
    superseded_entries = session.rows(
        "SELECT output_schema, output_name, relation_name, CAST(release_id AS VARCHAR(36)),"
        f" {entries.optional_column(session, 'relation_oid')}, published_by"
        f" FROM {session.ledger.table('release').quoted}"
        " WHERE output_kind = 'view' AND superseded_at IS NOT NULL"
        " ORDER BY superseded_at DESC, created_at DESC"
    )
    superseded_counts: dict[RelationName, int] = {}
    tables = []
    for schema, view_name, relation, release_id, oid, publisher in superseded_entries:
        view = RelationName(schema, view_name)
        if resolved is not None and not session.catalog.is_same_name(resolved, view):
            continue
        superseded_counts[view] = superseded_counts.get(view, 0) + 1
        if superseded_counts[view] <= keep_last:
            continue
        mark = MARK + release_id
        name = RelationName(schema, relation)
        existing = session.catalog.find_existing(name)
        if existing is None or existing.mark != mark or existing.kind != "table":
            continue
        # Without an oid in the entry the owner decides; other databases have neither (None).
        is_recorded = existing.owner == publisher if oid is None else existing.oid in (oid, None)
        # The view may still show the table, whatever the ledger says.
        existing_view = session.catalog.find_existing(view)
        is_shown = existing_view is not None and existing_view.mark == mark
        if is_recorded and not is_shown and session.catalog.may_drop(existing):
            tables.append(name)
    return tables


def _superseded_tables_by_oid(
    session: Session, keep_last: int, output: RelationName | None
) -> list[RelationName]:
    """List the tables that ``superseded_tables`` returns, by the oids in the ledger.

    Parameters
    ----------
    keep_last : the number of superseded releases of each output whose tables are not listed.
    output : the resolved name of the output whose tables are listed; None for all outputs.
    """
    rows = session.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), output_schema, output_name"
        f" FROM {session.ledger.table('release').quoted}"
        " WHERE output_kind = 'view' AND superseded_at IS NOT NULL"
        " ORDER BY superseded_at DESC, created_at DESC, release_id"
    )
    ranks: dict[RelationName, int] = {}
    surplus_ids: set[str] = set()
    for release_id, schema, name in rows:
        output_name = RelationName(schema, name)
        ranks[output_name] = ranks.get(output_name, 0) + 1
        if ranks[output_name] > keep_last and output in (None, output_name):
            surplus_ids.add(release_id)
    tables = []
    for table in postgresql_releases.find_tables(session):
        if table.release_id in surplus_ids and not table.is_shown:
            existing = session.catalog.find_existing(table.name)
            if existing is not None and session.catalog.may_drop(existing):
                tables.append(table.name)
    return tables


def tables_shown_by(session: Session, output: RelationName) -> list[RelationName]:
    """Return a list of the table that a released view shows; empty if there is no such table."""
    try:
        entry = entries.find_release(session, output)
    except (ReleaseNotFound, TableNotFound):
        return []
    [row] = rows_of_release(session, "release", entry.release_id)
    table = find_release_table(session, entry.name, row) if row["output_kind"] == "view" else None
    return [] if table is None else [table]
