"""What databases that are files have in common: how they are opened and locked, and no roles."""

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
from dbanon.sessions.base import Holder, Relation, job_running
from dbanon.sessions.names import RelationName, quote, schema_created, schema_not_found
from dbanon.sessions.session import Session
from dbanon.stores.files import file_for, will_be_made
from dbanon.stores.interrupts import held_once_committed

# What a lock says of its holder, who made the file: nobody else can write it.
_HOLDER_LINE = re.compile(r"(\d{1,10}) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC)\n")


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
    resolved = database.resolve()
    path = resolved.with_name(f".{resolved.name}.{job}.lock")
    descriptor = _acquire(path, job)
    try:
        yield
    finally:
        # Whoever opened it meanwhile finds that it is not the one that stands there.
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
                hint=(
                    "The account that runs jobs must be able to write to the directory of the"
                    " database."
                ),
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
    line = _HOLDER_LINE.fullmatch(os.pread(file, 100, 0).decode("ascii", "replace"))
    return Holder(int(line[1]), role, line[2]) if line else Holder(None, role)


class FileDatabase(ABC):
    """A database that is a file, or a connection that the caller keeps."""

    kind: ClassVar[str]
    lasting = True
    # What hints say in place of "in a view"; None where views have types.
    instead_of_view: ClassVar[str | None] = None

    @property
    @abstractmethod
    def _path(self) -> Path | None:
        """The file; None for a database that is none, and for a connection: it is open."""

    @abstractmethod
    def _session(
        self, write: bool, hold: Callable[[], None] = lambda: None
    ) -> AbstractContextManager[Session]:
        """One transaction; ``hold`` is called before it is committed."""

    @abstractmethod
    def _empty(self) -> AbstractContextManager[Session]:
        """A session on an empty database that is gone with it."""

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[Session]:
        """One transaction; a file is made for it where it is missing and ``create`` is True."""
        with (
            # Around the file, too: one that was made goes when what follows raises.
            held_once_committed() as hold,
            file_for(self._path, self.kind, write=write, create=create),
            self._session(write, hold) as session,
            hints_without_views(self.instead_of_view),
        ):
            yield session

    @contextmanager
    def planning(self, *, staging: bool, create: bool = False) -> Iterator[Session]:
        """A transaction that changes nothing; for a file that is to be made, on an empty database.

        A file is opened read-only, which takes temporary tables.
        """
        if create and will_be_made(self._path, self.kind):
            with self._empty() as session:
                yield session
            return
        with (
            file_for(self._path, self.kind, write=True, create=False),
            self._session(False) as session,
            hints_without_views(self.instead_of_view),
        ):
            yield session

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """A lock file beside the database; none where that is no file."""
        return job_lock(self._path, job)


class FileSession(Session):
    """One transaction on a database that is a file."""

    # Where temporary tables are.
    temporary: ClassVar[str] = "temp"

    # False where temporary tables go with the connection, which is closed behind the transaction.
    stays_open = True

    # SQL of whether nothing can be written through this connection; empty where none tells it.
    read_only_query: ClassVar[str] = ""

    # Whether the store knows that a run could only read.
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
        # It is asked for each entry, and nobody drops it within this transaction.
        if not self._ledger_was_there:
            self._ledger_was_there = super().has_ledger()
        return self._ledger_was_there

    def has_schema(self, name: RelationName) -> bool:
        """Whether the schema of a relation is there; always where a database has none."""
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
        # A file that dbanon opens itself is opened to write, or only read where this is a plan.
        asks = self.stays_open and self.read_only_query
        if self.may_only_read or (asks and self.rows(self.read_only_query)[0][0]):
            raise InsufficientRights(
                "The database may not be written: it is opened to be read only.",
                hint="Open it so that it can be written, or write to another database.",
            )

    def make_schema(self, name: RelationName) -> None:
        missing = not self.has_schema(name)
        self.create_schema(name)
        if missing and name.schema != self.ledger_name("").schema:
            warn_caller(schema_created(str(name.schema)))

    def drop_staging(self) -> None:
        """Drop what links rows to classes: a connection that the caller keeps would keep it."""
        for name in self.staging_tables:
            self.run(f"DROP TABLE IF EXISTS {self.temporary}.{quote(name)}")

    def same_name(self, name: RelationName, other_name: RelationName) -> bool:
        return str(name).lower() == str(other_name).lower()

    def analyze(self, relation: RelationName) -> None:
        """Statistics are kept by themselves, or are the owner's to collect."""

    def current_user(self) -> str | None:
        return None

    # Who may open the file may read and write all of it.

    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        """There are no roles."""

    def require_ledger_rights(self) -> None:
        """There are no roles."""

    def require_trusted_ledger(self) -> None:
        """There are no roles whose code it could run."""

    def tie_releases(self) -> None:
        """Relations have no numbers that an entry could be tied to."""
