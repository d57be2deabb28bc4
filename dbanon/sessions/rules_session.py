"""What a session does for rules: whose a table is, what comments on its columns say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName


class RuledSession(SessionInterface):
    """The part of a session that rules of tables ask for."""

    def require_owner(self, source: RelationName) -> None:
        """Check that this role owns a table, or is a member of the role that does.

        Nothing to check where there are no roles.

        Raises
        ------
        InsufficientRights : it is another role's.
        """

    def require_owner_reads(self, source: RelationName, table: RelationName) -> None:
        """Check that a table's owner may read another one, whose values its rules would release.

        Nothing to check where there are no roles.

        Raises
        ------
        InsufficientRights : that role may not.
        """

    def have_rules_written(self, source: RelationName, change: Mapping[str, Any]) -> bool:
        """Have the ledger's owner change the rules of a table; False where nobody does.

        Parameters
        ----------
        change : ``set``, rules by column, or ``remove``, a list of columns, or None for all.
        """
        return False

    def state_of(self, source: RelationName) -> dict[str, Any]:
        """What tells, without reading it, whether a table is the same and was written to.

        ``oid``, its number; ``writes``, rows inserted, updated and deleted, where they are counted,
        ``since`` when; ``file``, which changes when the table is emptied or rewritten. Nothing
        where the database counts nothing.
        """
        return {}

    def comments_on(self, source: RelationName) -> dict[str, str]:
        """The comments on a table's columns, by column; none where there are no comments."""
        return {}
