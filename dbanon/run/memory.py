"""Share the memory limit of a job among the databases that run in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbanon.data.memory import database_share
from dbanon.job.job import Job
from dbanon.sessions.store import Store


def count_databases(source: Store, target: Store | None) -> int:
    """Count the databases of a job that share its memory limit with the records.

    Parameters
    ----------
    target : the store to release into; None for the store of the source.
    """
    stores = [source]
    if target is not None and not target.is_same_database(source):
        stores.append(target)
    return sum(store.shares_memory for store in stores)


@contextmanager
def share_memory(
    job: Job, source: Store, target: Store | None, directory: Path | None = None
) -> Iterator[None]:
    """During the block, give each database of a job its share of the memory limit.

    Parameters
    ----------
    target : the store to release into; None for the store of the source.
    directory : where databases spill; None for their defaults.
    """
    stores = [store for store in (source, target) if store is not None]
    share = database_share(job.memory_limit, count_databases(source, target))
    if job.spill is not None and directory is None:
        # A plan spills no rows of files, but also holds no records.
        share = job.memory_limit
    for store in stores:
        store.spill(directory, share)
    try:
        yield
    finally:
        # Restore the defaults.
        for store in stores:
            store.spill(None, None)
