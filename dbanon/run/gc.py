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
from dbanon.stores.exports import destinations
from dbanon.stores.scratch import clear_staged_directories

# A century. A time that is millennia ago would leave the range of ``datetime``.
_MAX_DAYS = 36_500


def collect_garbage(
    store: Store, keep_last: int = 1, output: RelationName | None = None
) -> list[str]:
    """Drop superseded tables of each view, except the newest ``keep_last``; return their names.

    A table is dropped only if dbanon has marked it as its own and, if it holds a release, if the
    ledger lists that release.

    Parameters
    ----------
    keep_last : number of superseded tables of each view to keep.
    output : the view whose tables to drop; None for all views. With None, tables are also dropped
        that Spark workers wrote more than a day ago for a driver that has died.
    """
    if keep_last < 0:
        raise InvalidParameter("keep_last must be 0 or more.")
    with store.session(write=True) as session:
        tables = release_tables.superseded_tables(session, keep_last, output)
        tables += session.catalog.find_orphaned_tables() if output is None else []
        for table in tables:
            session.publication.drop_table(table)
    return [str(table) for table in tables]


def find_releases_without_data(store: Store, output: RelationName, ids: Sequence[str]) -> set[str]:
    """Find this role's releases of an output whose table and files have all been deleted.

    Parameters
    ----------
    ids : the ids of the releases to check, in lower case.
    """
    with store.session(write=False) as session:
        tables = release_tables.own_tables_by_release(session, output)
        files = releases.list_exports(session, str(output))
        # The values of ``tables`` are pairs of a table and its mark, a comment that dbanon writes
        # on the table. The mark distinguishes a release's table from a later one of the same name.
        without_data = {
            release_id
            for release_id in ids
            if release_id in tables and not release_tables.has_mark(session, *tables[release_id])
        }
    for release_id, _, entry in files:
        # Later releases replace a file whose path has no id, so it counts for none of these.
        has_own_file = release_id in without_data and "{release}" in entry["template"]
        if (
            has_own_file
            and destinations.status_of(
                destinations.resolve_destination(entry["path"], release_id="")
            )
            is not None
        ):
            without_data.discard(release_id)
    return without_data


def clear_runs(store: Store, days: float) -> int:
    """Delete failed runs that began more than ``days`` ago from the ledger; return their number.

    Raises
    ------
    InvalidParameter : ``days`` is negative or too large.
    InsufficientRights : the ledger belongs to another role and this one has no rights on it.
    """
    if not 0 <= days <= _MAX_DAYS:
        raise InvalidParameter("runs_older_than must be a number of days, 0 or more.")
    cutoff_time = time_text(datetime.now(timezone.utc) - timedelta(days=days))
    with store.session(write=True) as session:
        return releases.clear_runs(session, cutoff_time)


def clear_spill_directories(directories: Sequence[str]) -> list[str]:
    """Delete files that killed runs left in their spill directories; return their paths.

    Raises
    ------
    InvalidParameter, InsufficientRights : an entry is not a spill directory, or others have access.
    JobRunning : a run is using one of the directories.
    """
    return [path for directory in directories for path in scratch.clear_leftovers(directory)]


def clear_staging_directories(directories: Sequence[str]) -> list[str]:
    """Delete staged files that Spark drivers left next to exported releases; return their paths.

    Raises
    ------
    InvalidParameter, InsufficientRights : an entry is not a directory, or cannot be read.
    """
    return [path for directory in directories for path in clear_staged_directories(directory)]


def clear_abandoned_directories(directories: Sequence[str]) -> list[str]:
    """Delete files that killed drivers left on local disks; return their paths.

    Parameters
    ----------
    directories : Spark's scratch directories, as in ``spark.local.dir``.

    Raises
    ------
    InvalidParameter, InsufficientRights : an entry is not a directory, or cannot be read.
    """
    return [
        path for directory in directories for path in scratch.clear_abandoned_directories(directory)
    ]
