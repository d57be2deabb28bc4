"""The part of a session that rules need: a table's owner and the comments on its columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName


class RulesSession(SessionInterface):
    """The part of a session that rules of tables need."""

    def require_owner(self, source: RelationName) -> None:
        """Check that this role owns a table, or is a member of the owning role.

        Does nothing on databases without roles.

        Raises
        ------
        InsufficientRights : the table belongs to another role.
        """

    def require_owner_reads(self, source: RelationName, table: RelationName) -> None:
        """Check that a table's owner may read another table, whose values its rules would release.

        Does nothing on databases without roles.

        Raises
        ------
        InsufficientRights : the owner may not read it.
        """

    def write_rules_as_owner(self, source: RelationName, change: Mapping[str, Any]) -> bool:
        """Change a table's rules with the ledger owner's rights; False if not supported.

        Parameters
        ----------
        change : either ``set``, rules by column, or ``remove``, a list of columns or None for all.
        """
        return False

    def rules_with_state(self, source: RelationName | None) -> list[tuple[Any, ...]] | None:
        """Return the rules of a table, or of all, and whether they apply; None without roles.

        Each row has the table and column of the declaration, the rule as JSON, its time and author,
        the oids of table and owner, then the current name of that table, the rule's state, whether
        it applies, whether it was declared for this table, and its rank among the column's rules.
        """
        return None

    def describe_rule_author(self, source: RelationName) -> dict[str, Any]:
        """Return what the ledger records about a table and the role that declares a rule for it."""
        return {"relation_oid": 0, "owner_oid": 0, "declared_by": self.current_user()}

    def tie_rules(self, source: RelationName) -> None:
        """Update a table's rules to its current oids, on databases with oids."""

    def summarize_table_state(self, source: RelationName) -> dict[str, Any]:
        """Summarize a table, without reading it, so that replacements and writes can be detected.

        The keys are ``oid``; ``writes``, the numbers of rows inserted, updated and deleted, and
        ``since``, when counting started; ``file``, which changes when the table is emptied or
        rewritten. Empty if the database counts nothing.
        """
        return {}

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        """Return the comments on a table's columns, by column; empty if there are none."""
        return {}
