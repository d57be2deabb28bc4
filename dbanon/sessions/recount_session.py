"""The part of a session that counts the classes of a written relation as readers see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dbanon.data.counts import Recount
from dbanon.data.schema import Attribute
from dbanon.sessions import recount_statements as statements
from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.names import RelationName, quote


class RecountSession(SessionInterface):
    """The part of a session that counts classes.

    Values that compare equal may be displayed differently: 7.5 and 7.50, texts under a
    case-insensitive collation, intervals. Readers can distinguish them, so all counts do.
    """

    def display_key(self, attribute: Attribute, column: str) -> tuple[str, ...]:
        """SQL expressions that distinguish a column's values as readers see them.

        The first expression is NULL if the value is. Just the column if equal values look the same.

        Parameters
        ----------
        attribute : the column's type.
        column : SQL of the column.
        """
        return (column,)

    def display_keys_of(
        self, relation: RelationName, columns: Mapping[str, str]
    ) -> list[tuple[str, ...]]:
        """``display_key`` of expressions with the types of a relation's columns.

        Parameters
        ----------
        columns : SQL of each expression, by the name of the relation's column.
        """
        source = self.find_source(relation)
        return [
            self.display_key(source.attribute(name), column) for name, column in columns.items()
        ]

    def display_keys(self, relation: RelationName, names: Sequence[str]) -> list[tuple[str, ...]]:
        """``display_key`` of columns of a relation, over the alias s."""
        return self.display_keys_of(relation, {name: f"s.{quote(name)}" for name in names})

    def recount(self, relation: RelationName, quasi_identifiers: Sequence[str]) -> Recount:
        """Count the classes of a relation with GROUP BY over its quasi-identifiers."""
        keys = self.display_keys(relation, quasi_identifiers)
        return Recount.of_sizes(self.rows(statements.recount(relation, keys)))
