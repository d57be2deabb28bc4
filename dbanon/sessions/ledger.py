"""The ledger of a database: its tables, the rights to them, and who writes them.

What the tables record is in ``dbanon.ledger``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

from dbanon.sessions.base import ExistingRelation
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName


class Ledger(ABC):
    """The ledger of one database, as one session sees it.

    Parameters
    ----------
    connection : executes statements in the session's transaction.
    find_existing : returns the relation that has a name, or None.
    """

    # This database's SQL types for ledger columns, by the ledger's name of the type.
    column_types: ClassVar[Mapping[str, str]]

    def __init__(
        self,
        connection: Connection,
        find_existing: Callable[[RelationName], ExistingRelation | None],
    ) -> None:
        self._connection = connection
        self._find_existing = find_existing

    @abstractmethod
    def table(self, name: str) -> RelationName:
        """Return this database's name of a ledger table."""

    @property
    def schema(self) -> str | None:
        """The schema of the ledger's tables; None on databases without schemas."""
        return self.table("").schema

    def has_table(self, name: str) -> bool:
        """Return True if the ledger has a table, which ledgers of earlier versions may lack."""
        return self._find_existing(self.table(name)) is not None

    def exists(self) -> bool:
        """Return True if this database has a ledger."""
        return self.has_table("release")

    @abstractmethod
    def ensure_current(self) -> None:
        """Create the ledger, or migrate it to this version."""

    @abstractmethod
    def update_oids(self) -> None:
        """Update the object IDs in the ledger, which change if the database is dumped and restored.

        Does nothing on databases without object IDs.
        """

    @abstractmethod
    def require_rights(self) -> None:
        """Check that the release can be recorded in the ledger.

        Raises
        ------
        InsufficientRights : the role lacks a right; the hint says which one to grant.
        """

    @abstractmethod
    def require_trusted(self) -> None:
        """Check that reading or writing the ledger cannot run another role's code.

        Raises
        ------
        LedgerNotTrusted : it could, for example because the ledger's tables have triggers.
        """

    def must_write_directly(self) -> bool:
        """Return True unless the database has functions that write the ledger as its owner."""
        return True

    def record_release_as_owner(
        self,
        row: Mapping[str, object],
        columns: Sequence[Mapping[str, object]],
        run: Mapping[str, object],
    ) -> str | None:
        """Record a release with the ledger owner's rights, and return its timestamp.

        Returns None if the session must record it with its own rights, as on databases without
        roles.

        Parameters
        ----------
        row : by ledger column, the values of the release's entry; JSON as text, times in ISO
            format.
        columns : the same for each column of the release.
        run : by ledger column, the values of the run's entry, such as its duration in seconds.
        """
        return None

    def record_run_as_owner(self, run: Mapping[str, object]) -> bool:
        """Record a run that wrote no release, with the ledger owner's rights.

        Returns False if the session must record it with its own rights.

        Parameters
        ----------
        run : by ledger column, the values of the run's entry.
        """
        return False

    def spend_budget_as_owner(self, budget: str, epsilon: str, spending_id: str) -> bool | None:
        """Spend epsilon of a privacy budget with the ledger owner's rights.

        Returns False if too little is left, and None if the session must record the spending with
        its own rights, as on databases without roles.

        Parameters
        ----------
        budget : the name of the budget.
        epsilon : the amount, as a decimal text, which is exact.
        spending_id : the UUID of the spending.
        """
        return None

    def to_timestamp(self, text: str) -> datetime | str:
        """Convert an ISO time to a value for a ledger column."""
        return datetime.fromisoformat(text)
