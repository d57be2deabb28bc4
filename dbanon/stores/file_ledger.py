"""The ledger of a database in a file, which has no roles."""

from __future__ import annotations

from dbanon.sessions.ledger import Ledger


class FileLedger(Ledger):
    """The ledger of a file database: anyone who can open the file can read and write all of it."""

    # Whether ``exists`` has returned True before.
    _has_been_seen = False

    def exists(self) -> bool:
        # Cache a positive result: no one can drop the ledger in this transaction.
        if not self._has_been_seen:
            self._has_been_seen = super().exists()
        return self._has_been_seen

    def require_rights(self) -> None:
        """Do nothing: there are no roles."""

    def require_trusted(self) -> None:
        """Do nothing: there are no other roles whose code a ledger could run."""

    def update_oids(self) -> None:
        """Do nothing: tables have no persistent identifiers to record in ledger entries."""
