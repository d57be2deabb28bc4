"""What the tables of the ledger have of one release."""

from __future__ import annotations

from typing import Any

from dbanon.errors import InvalidParameter
from dbanon.ledger import entries
from dbanon.ledger.tables import TABLES, LedgerEntry
from dbanon.sessions.names import quote
from dbanon.sessions.session import Session

# As text: not every client has a type for them.
_CAST = {"uuid": "VARCHAR(36)", "timestamp": "VARCHAR(40)", "amount": "DOUBLE PRECISION"}


def rows_of_release(session: Session, table: str, release_id: str) -> list[dict[str, Any]]:
    """The rows of a table of the ledger that belong to a release, as plain values, in order.

    A ledger of version 0.1.0 has neither all of the columns nor all of the tables.
    """
    relation = session.ledger_name(table)
    if session.find_existing(relation) is None:
        return []
    there = {name for name, _ in session.columns_of(relation)}
    known = [(name, kind) for name, kind, _ in TABLES[table][0] if name in there]
    wanted = ", ".join(
        f"CAST({quote(name)} AS {_CAST[kind]})" if kind in _CAST else quote(name)
        for name, kind in known
    )
    order = " ORDER BY position" if "position" in there else ""
    rows = session.rows(
        f"SELECT {wanted} FROM {relation.quoted} WHERE CAST(release_id AS VARCHAR(36)) = ?{order}",
        (release_id,),
    )
    return [
        {
            name: entries.parsed(value) if kind == "json" else value
            for (name, kind), value in zip(known, row, strict=True)
        }
        for row in rows
    ]


def require_classes(entry: LedgerEntry) -> None:
    """Check that a release has classes.

    Raises
    ------
    InvalidParameter : it has none: its rows are synthetic.
    """
    if entry.epsilon is not None:
        raise InvalidParameter(
            f"The rows of {entry.name} are synthetic: they stand for nobody, and have no classes.",
            hint="dbanon verify counts what can be counted of them.",
        )


def released_columns(session: Session, release_id: str) -> list[tuple[str, str]]:
    """Names and types of a release's columns as recorded, in order where there is a digest."""
    return [
        (name, sql_type)
        for name, sql_type in session.rows(
            f"SELECT name, sql_type FROM {session.ledger_name('release_column').quoted}"
            " WHERE CAST(release_id AS VARCHAR(36)) = ? AND role <> ? ORDER BY position",
            (release_id, entries.NOT_COPIED),
        )
    ]


def recorded_digest(session: Session, release_id: str) -> str | None:
    """The digest of a release's rows; None for releases of version 0.1.0."""
    [(found,)] = session.rows(
        f"SELECT {entries.newer(session, 'digest')} FROM {session.ledger_name('release').quoted}"
        " WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )
    return None if found is None else str(found)
