"""What a session counts of a written relation: its classes, as readers see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbanon.data.counts import Recount
from dbanon.data.schema import Attribute
from dbanon.sessions import recount_statements as statements
from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName, quote


class RecountSession(SessionInterface):
    """The part of a session that counts classes.

    Values that the database takes for equal may be shown differently: 7.5 and 7.50, texts under a
    collation that ignores case, intervals. Readers tell them apart, so every count does.
    """

    def display_key(self, attribute: Attribute, column: str) -> tuple[str, ...]:
        """SQL of what tells the values of a column apart as readers see them.

        The first expression is NULL where the value is. The column itself where equal values are
        shown alike.

        Parameters
        ----------
        attribute : the column's type.
        column : SQL of the column.
        """
        return (column,)

    def display_keys_of(
        self, relation: RelationName, columns: Mapping[str, str]
    ) -> list[tuple[str, ...]]:
        """``display_key`` of columns that have the types of those of a relation.

        Parameters
        ----------
        columns : SQL of each column, by the name that ``relation`` has for it.
        """
        source = self.find_source(relation)
        return [
            self.display_key(source.attribute(name), column) for name, column in columns.items()
        ]

    def display_keys(self, relation: RelationName, names: Sequence[str]) -> list[tuple[str, ...]]:
        """``display_key`` of columns of a relation, of the alias s."""
        return self.display_keys_of(relation, {name: f"s.{quote(name)}" for name in names})

    def recount(self, relation: RelationName, quasi_identifiers: Sequence[str]) -> Recount:
        """Count the classes of a relation by GROUP BY over its quasi-identifiers."""
        keys = self.display_keys(relation, quasi_identifiers)
        return Recount.of_sizes(self.rows(statements.recount(relation, keys)))
