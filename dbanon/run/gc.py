"""Clearing away what is no longer shown."""

from __future__ import annotations

from dbanon.errors import InvalidParameter
from dbanon.stores import ledger
from dbanon.stores.store import Store


def collect_garbage(store: Store, keep_last: int = 1) -> list[str]:
    """Drop released tables that a view no longer shows, but for the newest ``keep_last``.

    Only tables are dropped that the ledger knows and that bear their release's mark.
    """
    if keep_last < 0:
        raise InvalidParameter("keep_last must be 0 or more.")
    with store.session(write=True) as session:
        tables = ledger.superseded_tables(session, keep_last)
        for table in tables:
            session.drop_table(table)
    return [str(table) for table in tables]
