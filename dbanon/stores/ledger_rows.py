"""What the tables of the ledger have of one release."""

from __future__ import annotations

from typing import Any

from dbanon.stores import ledger
from dbanon.stores.ledger_tables import TABLES
from dbanon.stores.names import quote
from dbanon.stores.sql import Session

# As text: not every client has a type for them.
_CAST = {"uuid": "VARCHAR(36)", "timestamp": "VARCHAR(40)"}


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
            name: ledger.parsed(value) if kind == "json" else value
            for (name, kind), value in zip(known, row, strict=True)
        }
        for row in rows
    ]
