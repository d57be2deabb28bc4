"""Locks of jobs on databases that are files: a file beside each, held for as long as a job runs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dbanon.errors import DatabaseNotFound, InsufficientRights
from dbanon.stores.base import job_running


@contextmanager
def job_lock(database: Path | None, job: str) -> Iterator[None]:
    """Hold the lock of a job; the system lets go of it when the process ends, however it ends.

    Parameters
    ----------
    database : the file; None for a database in memory, which nobody else has.

    Raises
    ------
    JobRunning : it is held.
    DatabaseNotFound, InsufficientRights : no file can be made beside the database.
    """
    if database is None:
        yield
        return
    place = database.resolve()
    path = place.with_name(f".{place.name}.{job}.lock")
    held = _take(path, job)
    try:
        yield
    finally:
        # Whoever opened it meanwhile finds that it is not the one that stands there.
        path.unlink(missing_ok=True)
        os.close(held)


def _take(path: Path, job: str) -> int:
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            raise DatabaseNotFound(f"There is no directory {path.parent}.") from None
        except OSError:
            raise InsufficientRights(
                f"The lock of the job, {path}, cannot be made or opened.",
                hint="Whoever runs jobs needs to write to the directory of the database.",
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(path.lstat(), os.fstat(file)):
                return file
        except FileNotFoundError:
            # Who held it took it away; the next round makes another one.
            os.close(file)
        except BlockingIOError:
            os.close(file)
            raise job_running(job) from None
        else:
            os.close(file)
