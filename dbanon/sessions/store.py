"""The interface of databases that jobs use."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from dbanon.sessions.session import Session


class Store(Protocol):
    """A database that opens sessions."""

    @property
    def url(self) -> str:
        """The database's URL without secrets."""

    @property
    def is_persistent(self) -> bool:
        """False if the database holds copies of rows for one run, and is discarded after it."""

    def session(self, *, write: bool, create: bool = False) -> AbstractContextManager[Session]:
        """Open a transaction that commits at the end of the block and rolls back on an exception.

        Parameters
        ----------
        write : whether the transaction may change anything.
        create : for a database that is a file, whether to create it if it is missing; on an
            exception it is removed again.
        """

    def planning(self, *, staging: bool, create: bool = False) -> AbstractContextManager[Session]:
        """Open a session that changes nothing, but makes the same checks as one that writes.

        Parameters
        ----------
        staging : whether temporary tables may be created, which reading needs.
        create : whether a later run would create a missing database file, which then counts as an
            empty database.
        """

    @property
    def shares_memory(self) -> bool:
        """Whether the database runs in this process, and a job's memory limit applies to it.

        False for a server, for a caller's connection, and for SQLite, which uses little memory.
        """

    def spill(self, directory: Path | None, memory_bytes: int | None) -> None:
        """Limit the memory of later sessions, and spill what exceeds it to a directory.

        Does nothing if the server or the caller manages memory.

        Parameters
        ----------
        directory : where to spill; None for the default, or for nowhere in a database in memory.
        memory_bytes : the memory limit; None for the default.
        """

    def is_same_database(self, other: Store) -> bool:
        """Return True if both are the same database, so that one transaction can read and write."""


class ClientStore(Store, Protocol):
    """A database opened by a client, where jobs run one at a time."""

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """Lock a job's name in this database for the block.

        Raises
        ------
        JobRunning : another process or thread holds the lock.
        """
