"""What a database has to be for a job to run on it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from dbanon.sessions.session import Session


class Store(Protocol):
    """A database that sessions can be opened on."""

    @property
    def url(self) -> str:
        """Where it is, without secrets."""

    @property
    def lasting(self) -> bool:
        """False where what is written into it is gone with the run: its rows were drawn."""

    def session(self, *, write: bool, create: bool = False) -> AbstractContextManager[Session]:
        """One transaction: committed at the end of the block, rolled back when it raises.

        A database that is a file is made when ``create`` is True, and removed when it raises.
        """

    def planning(self, *, staging: bool, create: bool = False) -> AbstractContextManager[Session]:
        """A session that changes nothing, after the checks that one which writes would make.

        Parameters
        ----------
        staging : temporary tables are made, as reading needs them.
        create : a file that is missing may be made: it is planned on an empty database.
        """

    def spill(self, directory: Path | None, memory: int | None) -> None:
        """Keep to so many bytes from the next session on, and put the rest into a directory.

        None for what is usual. Nothing to do where memory is a server's, or the caller's.
        """

    def same_database(self, other: Store) -> bool:
        """True when both are the same database, so that one transaction can do all."""


class ClientStore(Store, Protocol):
    """A database as a client opens it, where jobs run one at a time."""

    def job_lock(self, job: str) -> AbstractContextManager[None]:
        """A lock of a job's name in this database, for the block: at most one holds it.

        Raises
        ------
        JobRunning : another process, or thread, holds it.
        """
