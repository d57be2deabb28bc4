"""Garbage collection: drop released tables, runs and files that nothing refers to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone

from dbanon.errors import InvalidParameter
from dbanon.ledger import release_tables, releases
from dbanon.release.words import time_text
from dbanon.sessions.names import RelationName
from dbanon.sessions.store import Store
from dbanon.stores import scratch
from dbanon.stores.exports import places
from dbanon.stores.scratch import clear_staged_in

_MOST_DAYS = 36_500


def collect_garbage(
    store: Store, keep_last: int = 1, output: RelationName | None = None
) -> list[str]:
    """Drop released tables that a view no longer shows, except the newest ``keep_last``.

    ``output`` restricts this to the tables of one view. None means all views, and also tables that
    workers of a cluster wrote more than a day ago before their driver was lost. Drops only tables
    with dbanon's mark and, for releases, with an entry in the ledger.
    """
    if keep_last < 0:
        raise InvalidParameter("keep_last must be 0 or more.")
    with store.session(write=True) as session:
        tables = release_tables.superseded_tables(session, keep_last, output)
        tables += session.dead_pieces() if output is None else []
        for table in tables:
            session.drop_table(table)
    return [str(table) for table in tables]


def releases_without_data(store: Store, output: RelationName, ids: Sequence[str]) -> set[str]:
    """The ids of this role's releases of an output that have neither a table nor a file left.

    Parameters
    ----------
    ids : of releases, in lower case.
    """
    with store.session(write=False) as session:
        tables = release_tables.own_tables_by_release(session, output)
        files = releases.list_exports(session, str(output))
        without_data = {
            release_id
            for release_id in ids
            if release_id in tables and not release_tables.has_mark(session, *tables[release_id])
        }
    for release_id, _, entry in files:
        # A path without an id is of the newest release.
        has_own_file = release_id in without_data and "{release}" in entry["template"]
        if (
            has_own_file
            and places.status_of(places.resolve_destination(entry["path"], "")) is not None
        ):
            without_data.discard(release_id)
    return without_data


def clear_runs(store: Store, days: float) -> int:
    """Delete failed runs that began more than ``days`` ago from the ledger; return their number.

    Raises
    ------
    InvalidParameter : it is no number of days.
    InsufficientRights : the ledger belongs to another role, which did not let this one in.
    """
    if not 0 <= days <= _MOST_DAYS:
        raise InvalidParameter("runs_older_than must be a number of days, 0 or more.")
    before = time_text(datetime.now(timezone.utc) - timedelta(days=days))
    with store.session(write=True) as session:
        return releases.clear_runs(session, before)


def clear_spilled(directories: Sequence[str]) -> list[str]:
    """Delete and list files that killed runs left in their spill directories.

    Raises
    ------
    InvalidParameter, InsufficientRights : one is not a spill directory, or others can access it.
    JobRunning : a run is using one.
    """
    return [left for directory in directories for left in scratch.clear_leftovers(directory)]


def clear_staged(directories: Sequence[str]) -> list[str]:
    """Delete and list files that drivers of clusters left where they wrote releases as files.

    Raises
    ------
    InvalidParameter, InsufficientRights : one is no directory that may be looked into.
    """
    return [left for directory in directories for left in clear_staged_in(directory)]


def clear_killed(directories: Sequence[str]) -> list[str]:
    """Delete and list files that killed drivers left on disks of this machine.

    Parameters
    ----------
    directories : Spark's scratch directories, as in ``spark.local.dir``.

    Raises
    ------
    InvalidParameter, InsufficientRights : one is no directory that may be looked into.
    """
    return [left for directory in directories for left in scratch.clear_killed(directory)]
