"""What a run puts on a disk, where its job names a directory for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dbanon.data.disk import Disk
from dbanon.job.job import Job
from dbanon.sessions.store import Store
from dbanon.stores.scratch import scratch_in


@contextmanager
def spilled(job: Job, *stores: Store | None) -> Iterator[Disk | None]:
    """The place where values wait, for the block; None where the job names no directory.

    Databases that are opened for the run keep to half of the memory limit, and put the rest there.

    Raises
    ------
    InvalidParameter, InsufficientRights, JobRunning : the directory is not ours alone.
    """
    if job.spill is None:
        yield None
        return
    with scratch_in(job.spill) as scratch:
        known = [store for store in stores if store is not None]
        for store in known:
            store.spill(scratch.path, job.memory_limit and job.memory_limit // 2)
        try:
            yield scratch
        finally:
            for store in known:
                store.spill(None, None)
