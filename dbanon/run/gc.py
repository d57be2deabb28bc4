"""Clearing away what is no longer shown."""

from __future__ import annotations

from dbanon.errors import InvalidParameter
from dbanon.stores import releases
from dbanon.stores.names import RelationName
from dbanon.stores.store import Store


def collect_garbage(
    store: Store, keep_last: int = 1, output: RelationName | None = None
) -> list[str]:
    """Drop released tables that a view no longer shows, but for the newest ``keep_last``.

    ``output`` is the one view whose tables are looked at; None for all. Only tables are dropped
    that the ledger knows and that bear their release's mark.
    """
    if keep_last < 0:
        raise InvalidParameter("keep_last must be 0 or more.")
    with store.session(write=True) as session:
        tables = releases.superseded_tables(session, keep_last, output)
        for table in tables:
            session.drop_table(table)
    return [str(table) for table in tables]
