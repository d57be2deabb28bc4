"""The declared rules of a database, and who may declare them.

A rule declares how releases treat a column of a table, for example as a quasi-identifier. Only the
owner of the table may declare rules.
"""

from __future__ import annotations

from collections.abc import Mapping

from dbanon.data.types import SqlRow
from dbanon.sessions.catalog import Catalog
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName


class RuleCatalog:
    """The declared rules of a database without roles; PostgreSQL has a subclass.

    Parameters
    ----------
    connection : reads and writes the rules.
    catalog : names the current user.
    """

    def __init__(self, connection: Connection, catalog: Catalog) -> None:
        self._connection, self._catalog = connection, catalog

    def require_owner(self, source: RelationName) -> None:
        """Check that this role owns a table, or is a member of the owning role.

        Does nothing on databases without roles.

        Raises
        ------
        InsufficientRights : the table belongs to another role.
        """

    def require_owner_reads(self, source: RelationName, table: RelationName) -> None:
        """Check that the owner of ``source`` may read ``table``, which rules of ``source`` name.

        A column's rule can name a table with the column's hierarchy, whose labels are released.
        Does nothing on databases without roles.

        Raises
        ------
        InsufficientRights : the owner may not read it, so rules must not release its values.
        """

    def write_as_owner(self, source: RelationName, change: Mapping[str, object]) -> bool:
        """Change a table's rules with the rights of the ledger's owner, not the table's owner.

        Returns False if this is not supported.

        Parameters
        ----------
        change : one key and its value: ``set``, with rules by column; or ``remove``, with a list of
            columns, or None for all columns.
        """
        return False

    def list_with_state(self, source: RelationName | None) -> list[SqlRow] | None:
        """Return the rules of a table, or of all tables, with their states.

        Each row has these items:

        - as declared: the name of the table, the column, the rule as JSON, the time, the author,
          and the oids of the table and of its owner;
        - now: the name of the rule's table, the rule's state (``current``, ``another table``,
          ``not trusted``, ``no column`` or ``no table``), whether the rule is trusted, whether it
          was declared for this table, and its rank among the rules of the column. Only a rule that
          is ``current``, or declared for ``another table``, can apply, and of these that of rank 1.

        A rule is trusted if its author, and the owner of the table at the time, could declare it
        now.

        Returns None on databases without roles, where the caller queries the ledger itself.
        """
        return None

    def identity_columns(self, source: RelationName) -> dict[str, object]:
        """Return ledger columns of a new rule: the oids of the table and its owner, and the author.

        On databases without oids, the oids are 0. The author is the role that declares the rule.
        """
        return {
            "relation_oid": 0,
            "owner_oid": 0,
            "declared_by": self._catalog.find_current_user(),
        }

    def update_oids(self, source: RelationName) -> None:
        """Update the oids in a table's rules to the current ones, if the database has oids."""
