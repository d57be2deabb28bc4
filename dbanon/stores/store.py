"""What a database has to be for a job to run on it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from dbanon.stores.sql import Session


class Store(Protocol):
    """A database that sessions can be opened on."""

    @property
    def url(self) -> str:
        """Where it is, without secrets."""

    def session(self, *, write: bool, create: bool = False) -> AbstractContextManager[Session]:
        """One transaction: committed at the end of the block, rolled back when it raises.

        A database that is a file is made when ``create`` is True, and removed when it raises.
        """

    def same_database(self, other: Store) -> bool:
        """True when both are the same database, so that one transaction can do all."""
