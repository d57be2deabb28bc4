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

    def judged_rules(self, source: RelationName | None) -> list[tuple[Any, ...]] | None:
        """The rules of a table, or of all, with what became of each; None where there are no roles.

        Of each: table and column that it was declared of, the rule as JSON, when and by whom, the
        oids of table and owner, then the name of the table that it belongs to now, its state,
        whether it counts, whether this table was declared, and its rank among rules of the column.
        """
        return None

    def rule_author(self, source: RelationName) -> dict[str, Any]:
        """What the ledger records of a table and of the roles that declare a rule of it."""
        return {"relation_oid": 0, "owner_oid": 0, "declared_by": self.current_user()}

    def tie_rules(self, source: RelationName) -> None:
        """Have rules of a table go by its oids of today; nothing where there are none."""

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
