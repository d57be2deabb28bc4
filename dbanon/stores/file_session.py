"""What file databases have in common: they are opened and locked as files, and have no roles."""

from __future__ import annotations

import fcntl
import os
import pwd
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

from dbanon.data.schema import Attribute
from dbanon.errors import (
    DatabaseNotFound,
    InsufficientRights,
    hints_without_views,
    warn_caller,
)
from dbanon.sessions.base import LockHolder, Relation, job_running
from dbanon.sessions.names import RelationName, quote, schema_created, schema_not_found
from dbanon.sessions.session import Session
from dbanon.stores.files import file_for, will_be_created
from dbanon.stores.interrupts import interruptible_until_commit

# The holder's line in a lock file; only the account that created the file can write it.
_HOLDER_LINE = re.compile(r"(\d{1,10}) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)\n")


@contextmanager
def job_lock(database: Path | None, job: str) -> Iterator[None]:
    """Hold the lock of a job; the system releases it when the process ends, even after a crash.

    Parameters
    ----------
    database : the file; None for a database in memory, which needs no lock.

    Raises
    ------
    JobRunning : another process holds the lock.
    DatabaseNotFound, InsufficientRights : the lock file cannot be created next to the database.
    """
    if database is None:
        yield
        return
    resolved = database.resolve()
    path = resolved.with_name(f".{resolved.name}.{job}.lock")
    descriptor = _acquire(path, job)
    try:
        yield
    finally:
        # A process that opened the file meanwhile sees that the path no longer leads to it.
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _acquire(path: Path, job: str) -> int:
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            raise DatabaseNotFound(f"There is no directory {path.parent}.") from None
        except OSError:
            raise InsufficientRights(
                f"The lock of the job, {path}, cannot be made or opened.",
                hint=f"Let the account that runs jobs write to {path.parent}, and remove the file"
                " if it is a link or belongs to another account.",
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(path.lstat(), os.fstat(file)):
                now = datetime.now(timezone.utc)
                os.ftruncate(file, 0)
                os.pwrite(file, f"{os.getpid()} {now:%Y-%m-%d %H:%M:%S} UTC\n".encode(), 0)
                return file
        except FileNotFoundError:
            # The holder removed the file; the next round creates a new one.
            os.close(file)
        except BlockingIOError:
            holder = _holder(file)
            os.close(file)
            raise job_running(job, holder) from None
        else:
            os.close(file)


def _holder(file: int) -> LockHolder:
    """Read the holder of a lock from its file."""
    account = os.fstat(file).st_uid
    try:
        role = pwd.getpwuid(account).pw_name
    except KeyError:
        role = str(account)
    line = _HOLDER_LINE.fullmatch(os.pread(file, 100, 0).decode("ascii", "replace"))
    return LockHolder(int(line[1]), role, line[2]) if line else LockHolder(None, role)


class FileDatabase(ABC):
    """A database in a file, or a connection that belongs to the caller."""

    kind: ClassVar[str]
    is_persistent = True
    # What hints say in place of "in a view"; None where views have types.
    view_replacement: ClassVar[str | None] = None

    @property
    @abstractmethod
    def _path(self) -> Path | None:
        """The file; None for a database in memory and for an open connection."""

    @abstractmethod
    def _session(
        self, write: bool, hold: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Session]:
        """One transaction; ``hold`` is called before it is committed."""

    @abstractmethod
    def _empty(self) -> AbstractContextManager[Session]:
        """A session on an empty temporary database."""

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """Run one transaction; with ``create``, a missing file is created first."""
        with (
            # Entered before the file, so that a new file is removed if the block fails.
            interruptible_until_commit() as hold,
            file_for(self._path, self.kind, write=write, create=create),
            self._session(write, hold) as session,
            hints_without_views(self.view_replacement),
        ):
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        """Run a transaction that changes nothing; on an empty database if the file is missing.

        An existing file is opened read-only, which still allows temporary tables.
        """
        if create and will_be_created(self._path, self.kind):
            with self._empty() as session:
                yield session
            return
        with (
            file_for(self._path, self.kind, write=True, create=False),
            self._session(False) as session,
            hints_without_views(self.view_replacement),
        ):
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """Lock a file next to the database; no lock if the database is not a file."""
        return job_lock(self._path, job)


class FileSession(Session):
    """One transaction on a file database."""

    # The schema of temporary tables.
    temporary: ClassVar[str] = "temp"

    # False if the connection is closed after the transaction, which drops temporary tables.
    stays_open = True

    # A query that is true for a read-only connection; empty if the database has none.
    read_only_query: ClassVar[str] = ""

    # Whether the store knows that the file is read-only.
    may_only_read = False

    _ledger_was_there = False

    @abstractmethod
    def digest(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        """The number of rows, and the sum of the hashes of these columns under a salt."""

    def digest_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        return self.digest(relation, self.find_source(relation).schema.attributes, salt)

    def digest_columns(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[int, int]:
        return self.digest(relation.relation, [relation.attribute(name) for name in names], salt)

    def has_ledger(self) -> bool:
        # Asked for each entry; the ledger cannot be dropped within this transaction.
        if not self._ledger_was_there:
            self._ledger_was_there = super().has_ledger()
        return self._ledger_was_there

    def has_schema(self, name: RelationName) -> bool:
        """Whether the schema of a relation exists; True for databases without schemas."""
        return True

    def create_schema(self, name: RelationName) -> None:
        """Create the schema of a relation, if it is missing."""

    def require_schema(self, name: RelationName, *, strict: bool = False) -> bool:
        if self.has_schema(name):
            return False
        if strict:
            schema = str(name.schema)
            raise schema_not_found(schema, f"CREATE SCHEMA {quote(schema)}")
        return True

    def lock_output(self, name: RelationName) -> None:
        # dbanon opens its own files for writing, or read-only for a plan; ask only for others.
        asks = self.stays_open and self.read_only_query
        if self.may_only_read or (asks and self.rows(self.read_only_query)[0][0]):
            raise InsufficientRights(
                "The database is open read-only, so it cannot be written.",
                hint="Open it for writing, or name another database as the target.",
            )

    def make_schema(self, name: RelationName) -> None:
        missing = not self.has_schema(name)
        self.create_schema(name)
        if missing and name.schema != self.ledger_name("").schema:
            warn_caller(schema_created(str(name.schema)))

    def drop_staging(self) -> None:
        """Drop the tables that link rows to classes; the caller's connection would keep them."""
        for name in self.staging_tables:
            self.run(f"DROP TABLE IF EXISTS {self.temporary}.{quote(name)}")

    def same_name(self, name: RelationName, other_name: RelationName) -> bool:
        return str(name).lower() == str(other_name).lower()

    def analyze(self, relation: RelationName) -> None:
        """Do nothing: statistics are automatic, or the owner's task."""

    def current_user(self) -> str | None:
        return None

    # Anyone who can open the file can read and write all of it.

    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        """There are no roles."""

    def require_ledger_rights(self) -> None:
        """There are no roles."""

    def require_trusted_ledger(self) -> None:
        """There are no roles whose code could run."""

    def tie_releases(self) -> None:
        """Do nothing: tables have no identifiers that an entry could be tied to."""
