"""Base classes for DuckDB and SQLite: databases in files, which have no roles."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

from dbanon.errors import (
    DatabaseNotFound,
    InsufficientRights,
    hints_without_views,
)
from dbanon.sessions.base import LockHolder, job_running_error
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.files import ensure_database_file, will_be_created
from dbanon.stores.interrupts import interruptible_until_commit

# The content of a lock file: process ID and time. Only the account that created the file can write
# it, so both can be trusted.
_HOLDER_LINE = re.compile(r"(\d{1,10}) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)\n")


@contextmanager
def job_lock(database: Path | None, job: str) -> Iterator[None]:
    """Hold the lock of a job; the system releases it when the process ends, even after a crash.

    Parameters
    ----------
    database : the path of the database file; None for a database in memory, which needs no lock.
    job : the name of the job, which becomes a part of the lock file's name.

    Raises
    ------
    JobRunning : another process holds the lock.
    DatabaseNotFound, InsufficientRights : the lock file cannot be created next to the database.
    """
    if database is None:
        yield
        return
    resolved_path = database.resolve()
    path = resolved_path.with_name(f".{resolved_path.name}.{job}.lock")
    descriptor = _acquire_lock(path, job)
    try:
        yield
    finally:
        # If another process has just opened the file, its ``_acquire_lock`` notices that the file
        # is no longer at this path, and tries again.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire_lock(path: Path, job: str) -> int:
    """Create and lock a lock file, and return its file descriptor.

    Raises
    ------
    JobRunning, DatabaseNotFound, InsufficientRights : see ``job_lock``.
    """
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            raise DatabaseNotFound(f"There is no directory {path.parent}.") from None
        except OSError:
            raise InsufficientRights(
                f"The lock file of the job, {path}, cannot be created or opened.",
                hint=f"Let the account that runs jobs write to {path.parent}, and remove the file"
                " if it is a link or belongs to another account.",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and locking, the former holder may have removed the file. Then the
            # lock is worthless, because other processes would lock a new file at this path.
            if os.path.samestat(path.lstat(), os.fstat(descriptor)):
                acquired_at = datetime.now(timezone.utc)
                os.ftruncate(descriptor, 0)
                os.pwrite(
                    descriptor, f"{os.getpid()} {acquired_at:%Y-%m-%d %H:%M:%S} UTC\n".encode(), 0
                )
                return descriptor
        except FileNotFoundError:
            # The holder has removed the file; try again with a new one.
            os.close(descriptor)
        except BlockingIOError:
            holder = _read_holder(descriptor)
            os.close(descriptor)
            raise job_running_error(job, holder) from None
        else:
            os.close(descriptor)


def _read_holder(descriptor: int) -> LockHolder:
    """Read the holder of a lock from the lock file."""
    account_id = os.fstat(descriptor).st_uid
    try:
        account_name = pwd.getpwuid(account_id).pw_name
    except KeyError:
        account_name = str(account_id)
    match = _HOLDER_LINE.fullmatch(os.pread(descriptor, 100, 0).decode("ascii", "replace"))
    return (
        LockHolder(int(match[1]), account_name, match[2])
        if match
        else LockHolder(None, account_name)
    )


class FileDatabase(ABC):
    """A database in a file or in memory, or an open connection that belongs to the caller."""

    # ``duckdb`` or ``sqlite``.
    kind: ClassVar[str]
    # False in subclasses whose database only holds copies of rows for one run.
    is_persistent = True
    # Replaces "in a view" in hints such as "Cast it to text in a view", if views would not help;
    # None if they do.
    where_to_cast: ClassVar[str | None] = None

    @property
    @abstractmethod
    def _path(self) -> Path | None:
        """The path of the file; None for a database in memory or a caller's connection."""

    @abstractmethod
    def _session(
        self, write: bool, before_commit: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Session]:
        """Run one transaction; ``before_commit`` is called just before the commit."""

    @abstractmethod
    def _empty_session(self) -> AbstractContextManager[Session]:
        """Open a session on an empty temporary database."""

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """Run one transaction; with ``create``, a missing file is created first."""
        with (
            # Enter this first, so that an interrupt still removes a new file.
            interruptible_until_commit() as before_commit,
            ensure_database_file(self._path, self.kind, write=write, create=create),
            self._session(write, before_commit) as session,
            hints_without_views(self.where_to_cast),
        ):
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        """Run a transaction that changes nothing, on an empty database if the file is missing.

        An existing file is opened read-only.

        Parameters
        ----------
        staging : whether temporary tables will be needed; ignored, as they are always possible.
        create : whether a later run would create a missing file.
        """
        if create and will_be_created(self._path, self.kind):
            with self._empty_session() as session:
                yield session
            return
        with (
            # A later run will write the file, so refuse a file that may not be written.
            ensure_database_file(self._path, self.kind, write=True, create=False),
            self._session(write=False) as session,
            hints_without_views(self.where_to_cast),
        ):
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """Lock a file next to the database; no lock if the database is not a file."""
        return job_lock(self._path, job)


def read_only_error() -> InsufficientRights:
    """Build the error for a release into a database that cannot be written."""
    return InsufficientRights(
        "The database is open read-only, so it cannot be written.",
        hint="Open it for writing, or name another database as the target.",
    )


class FileSession(Session):
    """One transaction on a file database."""

    # The schema of temporary tables, as SQL.
    temporary_schema: ClassVar[str] = "temp"

    def drop_staging(self) -> None:
        """Drop all staging tables, because a caller's connection stays open.

        Staging tables show which row is in which class.
        """
        for name in self.staging_tables:
            self.run(f"DROP TABLE IF EXISTS {self.temporary_schema}.{quote(name)}")

    def analyze(self, relation: RelationName) -> None:
        """Do nothing: the database updates statistics itself, or leaves them to its owner."""
