"""What databases that are files have in common: no roles, and one owner who may do all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session


class FileSession(Session):
    """One transaction on a database that is a file."""

    # Where temporary tables are.
    temporary: ClassVar[str] = "temp"

    def drop_staging(self) -> None:
        """Drop what links rows to classes: a connection that the caller keeps would keep it."""
        for name in self.staging_tables:
            self.run(f"DROP TABLE IF EXISTS {self.temporary}.{quote(name)}")

    def same_name(self, one: RelationName, other: RelationName) -> bool:
        return str(one).lower() == str(other).lower()

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
