"""Locks of jobs on databases that are files: a file beside each, held for as long as a job runs."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from dbanon.errors import DatabaseNotFound, InsufficientRights
from dbanon.sessions.base import Holder, job_running

# What a lock says of its holder, who made the file: nobody else can write it.
_TOLD = re.compile(r"(\d{1,10}) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)\n")


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
                now = datetime.now(timezone.utc)
                os.ftruncate(file, 0)
                os.pwrite(file, f"{os.getpid()} {now:%Y-%m-%d %H:%M:%S} UTC\n".encode(), 0)
                return file
        except FileNotFoundError:
            # Who held it took it away; the next round makes another one.
            os.close(file)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise job_running(job, holder) from None
        else:
            os.close(file)


def _holder(file: int) -> Holder:
    """Whose the lock is, as its file says."""
    account = os.fstat(file).st_uid
    try:
        role = pwd.getpwuid(account).pw_name
    except KeyError:
        role = str(account)
    told = _TOLD.fullmatch(os.pread(file, 100, 0).decode("ascii", "replace"))
    return Holder(int(told[1]), role, told[2]) if told else Holder(None, role)
